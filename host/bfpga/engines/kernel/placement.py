"""Where an operation of the array finds its operands and leaves its results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bfpga.contract.descriptor import Flag
from bfpga.contract.program import ArrayNode, TensorSpec, Tile, Window
from bfpga.engines.kernel.regions import Region


@dataclass(frozen=True)
class InputWindow:
    """The channel words that the row blocks of a tile read at each tap.

    Block b reads ``channel_words`` words from word ``first_word + b * block_step`` of the input's pixel.
    """

    first_word: int
    block_step: int
    channel_words: int


@dataclass
class Placement:
    """Where an array operation finds its operands and leaves its results.

    kept: where it leaves or finds accumulators as words of the activation memory (flag WIDE).
    """

    node: ArrayNode
    spec: TensorSpec
    inputs: list[Region]
    output: Region
    tile: Tile
    weight_base: int = 0
    parameter_base: int = 0
    stream: bool = False
    flags: Flag = field(default=Flag.NONE)
    kept: Region | None = None


def read_window(node: ArrayNode) -> Window:
    """The window of the operands that a column reads itself."""
    if not node.reuses_taps:
        return node.window
    return replace(node.window, kernel_width=1, pad_left=0)
