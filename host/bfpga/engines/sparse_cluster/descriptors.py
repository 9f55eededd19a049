"""Descriptors of SPARSE operations (docs/engines.md, section 3)."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.array.descriptors import Placement
from bfpga.engines.beside.descriptors import tile_descriptor
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers

#: Channel words that are counted to find the partition, if a pixel has as many.
COUNTED_WORDS = 4


def descriptor(config: SystolicConfig, place: Placement) -> Descriptor:
    """SPARSE for one strip of a node, without the limits of its pieces."""
    numbers = config.numbers_of(ClusterNumbers)
    result = tile_descriptor(config, place, Operation.SPARSE, numbers, numbers.kernel)
    result.write_slots = block_slots(config, place.node.window, place.output.pitch)
    result.count_step = count_step(numbers, result.channel_words)
    return result


def block_slots(config: SystolicConfig, window: Window, pitch: int) -> int:
    """Clocks in which the pixels of a block of outputs are written: 1 if all lie in different banks, else a row each.

    Which pixels of a block meet in a bank does not depend on where the block lies.
    """
    kernel = config.numbers_of(ClusterNumbers).kernel
    rows, columns = min(kernel, window.output_height), min(kernel, window.output_width)
    banks = {(row * pitch + column) % config.banks for row in range(rows) for column in range(columns)}
    return 1 if len(banks) == rows * columns else kernel


def write_cycles(node: ArrayNode, config: SystolicConfig, pitch: int | None) -> int:
    """Clocks in which the results of a node leave if rows of its output have this pitch, 0 for None.

    Nothing else depends on a pitch: pixels of one row lie in different banks whatever it is.
    """
    if pitch is None:
        return 0
    kernel, window = config.numbers_of(ClusterNumbers).kernel, node.window
    blocks = -(-window.output_height // kernel) * -(-window.output_width // kernel)
    words = -(-node.channels // config.lanes)
    return blocks * words * max(config.lanes, block_slots(config, window, pitch))


def count_step(numbers: ClusterNumbers, channel_words: int) -> int:
    """Every which channel word is counted to balance the pieces; 0: there is one piece, nothing to balance."""
    return 0 if numbers.units == 1 else -(-channel_words // COUNTED_WORDS)
