"""Vectors that are blocks of an image's pixels: a product with each is a convolution with a stride of a block.

The rows of an image before a recurrent operator, patches of one that layers gave: nothing is moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, IndexArray
from bfpga.contract.program import Window


@dataclass(frozen=True)
class Blocks:
    """window: of the convolution, whose kernel is a block. elements: (height, width, channels) of a block, of each the
    element of a vector; vectors: (rows, columns) of blocks, of each the number of its vector."""

    source: ArrayTensor
    window: Window
    elements: IndexArray
    vectors: IndexArray


def blocks_of(source: ArrayTensor, order: IndexArray, length: int) -> Blocks | None:
    """The blocks of a tensor that are vectors of ``length`` elements; order: its positions in the vectors, in memory.

    None if vectors are no blocks, or their elements not in the same places in all of them.
    """
    vector, element = np.divmod(order, length)
    height, width = (_run(line) for line in (vector[:, 0, 0], vector[0, :, 0]))
    if source.height % height or source.width % width:
        return None
    rows, columns = source.height // height, source.width // width
    shape = (rows, height, columns, width, source.channels)
    vectors, elements = (values.reshape(shape).transpose(0, 2, 1, 3, 4) for values in (vector, element))
    one = vectors[:, :, :1, :1, :1]
    if (vectors != one).any() or (elements != elements[:1, :1]).any() or len(np.unique(one)) != rows * columns:
        return None
    window = Window(height, width, height, width, output_height=rows, output_width=columns)
    return Blocks(source, window, np.ascontiguousarray(elements[0, 0]), np.ascontiguousarray(one[:, :, 0, 0, 0]))


def _run(line: IndexArray) -> int:
    """How many are as the first."""
    others = np.flatnonzero(line != line[0])
    return int(others[0]) if others.size else len(line)
