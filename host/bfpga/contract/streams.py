"""What beats of the streams hold: fields and orders, declared once for packers, C++ headers and the layout.

docs/systolic-array.md section 3 describes the streams. Only the standard library and numpy
are imported: a board loads this module too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class BeatField:
    """Bits of a beat: the lowest one and their number."""

    first: int
    bits: int

    @property
    def octets(self) -> slice:
        """Bytes of a beat that hold the field; for fields of whole bytes."""
        return slice(self.first // 8, (self.first + self.bits) // 8)

    def packed(self, values: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """Signed numbers (count,) as little-endian bytes (count, bytes of the field)."""
        numbers = np.ascontiguousarray(np.asarray(values).astype(f"<i{self.bits // 8}"))
        return numbers.view(np.uint8).reshape(len(numbers), -1)

    def unpacked(self, beats: npt.NDArray[np.uint8]) -> npt.NDArray[np.integer[Any]]:
        """The signed numbers (count,) of beats (count, bytes)."""
        return np.ascontiguousarray(beats[:, self.octets]).view(f"<i{self.bits // 8}").reshape(-1)


#: The beat before a tensor, on the input and on the output stream. choices: on the output of a kernel with count
#: registers, bit n: whether register n had more than its threshold (contract/predicates.py).
TENSOR_HEADER = {"exponent": BeatField(0, 32), "choices": BeatField(32, 16)}
#: The beat of one output channel in front of weight words.
PARAMETER_ROW = {"bias": BeatField(0, 32), "exponent": BeatField(32, 16)}
#: Numbers among the flags of a computing operation: the count register that gets the values other than zero that it
#: stores, and the one that decides whether it runs; 0: none.
FLAG_NUMBERS = {"counted_in": BeatField(17, 4), "runs_by": BeatField(21, 4)}
#: What the output stage sends of a count: whether there is more than the threshold, and the number of the register.
COUNT_WORD = {"more": BeatField(0, 1), "number": BeatField(1, 4)}
#: The first word of the record of a map that a sparse cluster has cut: the moves that limits made, whether they met the
#: threshold, whether the map was counted. Then the largest and the smallest work of a piece if it was, else zeros; then
#: the values other than zero that each unit was given (bfpga/processes/sparse_cluster/map_record.hpp).
MAP_RECORD = {"moves": BeatField(0, 16), "reached": BeatField(16, 1), "counted": BeatField(17, 1)}
#: Words of a record in front of those of the units.
CUT_WORDS = 3
BEATS = {
    "tensor_header": TENSOR_HEADER,
    "parameter_row": PARAMETER_ROW,
    "flag_numbers": FLAG_NUMBERS,
    "count_word": COUNT_WORD,
    "map_record": MAP_RECORD,
}

#: Order of the elements of a tensor's row: groups of pixels, channel words, pixels of the group, lanes of the word.
ACTIVATION_ORDER = ("group", "word", "pixel", "lane")
#: Order of the weights of a layer: row blocks, taps, channel words, then rows and lanes of a weight word.
WEIGHT_ORDER = ("block", "tap", "word", "row", "lane")
#: The same for a sparse cluster, which computes all taps of a word of channels before the next one.
CLUSTER_WEIGHT_ORDER = ("block", "word", "tap", "row", "lane")


def reordered(array: npt.NDArray[Any], axes: Sequence[str], order: Sequence[str]) -> npt.NDArray[Any]:
    """``array``, whose axes are named by ``axes``, with its axes in ``order``."""
    return array.transpose([axes.index(name) for name in order])
