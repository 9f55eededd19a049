"""What the weight streams of all engines beside the array have in common (docs/engines.md, section 4).

Weights come as ``embedded_weights`` gives them: (kernels, kernel_height, kernel_width, input channels). Every part of a
stream is a header and what follows it, for one image or channel word of a group of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.formats.arrays import IntArray

#: Bits of a header: the last part of a group; a group without a weight, which has this part alone.
LAST, EMPTY = 1 << 24, 1 << 25
COUNT_SHIFT = 16


def kernel_groups(weights: IntArray, in_flight: int) -> Iterator[IntArray]:
    """The weights of the kernels that pass over the input together, group by group."""
    return (weights[first : first + in_flight] for first in range(0, len(weights), in_flight))


def empty_group(beat: int) -> bytes:
    """The header of a group without a weight: one beat of so many bytes."""
    return (LAST | EMPTY).to_bytes(4, "little") + bytes(beat - 4)
