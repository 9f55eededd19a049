"""What layers cost a group of output pixels, and which of them may be computed part after part."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode
from bfpga.engines.array.descriptors import blocks_of, reduction, taps
from bfpga.engines.array.regions import pixel_words
from bfpga.engines.array.streams import block_rows


def group_clocks(config: SystolicConfig, node: ArrayNode, channels: int, reads: int = 1, writes: int = 1) -> int:
    """Clocks of a group of output pixels; channels: of the input; reads, writes: slots of a step and of a word."""
    size = block_rows(node, config)
    words = reduction(node, config, 0, min(size, node.channels), pixel_words(config, channels)).channel_words
    steps = taps(node) * words * reads
    drain = size // config.lanes * max(config.lanes, writes)
    return blocks_of(node, config, node.channels) * max(steps, drain)


def told(node: ArrayNode) -> bool:
    """Whether the parts of a layer may be computed at any time: nothing of its exponent is measured."""
    static = node.policy.inherit or node.policy.policy == Policy.STATIC
    return static and node.on_array and not node.window.spread
