"""Descriptors of ZERO_SKIP operations (docs/engines.md, section 3)."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.program import ArrayNode
from bfpga.engines.array.descriptors import Placement
from bfpga.engines.beside.descriptors import tile_descriptor
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers


def descriptor(config: SystolicConfig, place: Placement) -> Descriptor:
    """ZERO_SKIP for one tile of a node, without its order of entries."""
    return tile_descriptor(config, place, Operation.ZERO_SKIP, config.numbers_of(ZeroSkipNumbers), config.columns)


def write_cycles(node: ArrayNode, config: SystolicConfig, pitch: int | None) -> int:
    """A pitch is of no concern: pixels that leave together lie in one row, in different banks whatever it is."""
    return 0
