"""Parts of the weight stream for an engine beside the array: a header, then what it announces (docs/engines.md 4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bfpga.contract.streams import PART_HEADER, packed_word
from bfpga.formats.arrays import IntArray


def kernel_groups(weights: IntArray, in_flight: int) -> Iterator[IntArray]:
    """The weights of the kernels that pass over the input together, group by group."""
    return (weights[first : first + in_flight] for first in range(0, len(weights), in_flight))


def headers(index: IntArray, count: IntArray) -> npt.NDArray[np.uint32]:
    """The first words of the parts of a group."""
    last = np.arange(len(index)) == len(index) - 1
    words: npt.NDArray[np.uint32] = packed_word(PART_HEADER, index=index, count=count, last=last).astype("<u4")
    return words


def empty_group(beat: int) -> bytes:
    """The header of a group without a weight, which is its only part: one beat of so many bytes."""
    word: int = packed_word(PART_HEADER, last=1, empty=1)
    return word.to_bytes(beat, "little")
