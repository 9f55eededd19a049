"""What the weight streams of all engines beside the array have in common (docs/engines.md, section 4).

Weights come as ``embedded_weights`` gives them: (kernels, kernel_height, kernel_width, input channels). Every part of a
stream is a header and what follows it, for one image or channel word of a group of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import IntArray
from bfpga.contract.streams import PART_HEADER, packed_word


def kernel_groups(weights: IntArray, in_flight: int) -> Iterator[IntArray]:
    """The weights of the kernels that pass over the input together, group by group."""
    return (weights[first : first + in_flight] for first in range(0, len(weights), in_flight))


def part_headers(index: IntArray, count: IntArray) -> npt.NDArray[np.uint32]:
    """The first words of the parts of a group."""
    last = np.arange(len(index)) == len(index) - 1
    words: npt.NDArray[np.uint32] = packed_word(PART_HEADER, index=index, count=count, last=last).astype("<u4")
    return words


def empty_group(beat: int) -> bytes:
    """The header of a group without a weight, which is its only part: one beat of so many bytes."""
    word: int = packed_word(PART_HEADER, last=1, empty=1)
    return word.to_bytes(beat, "little")
