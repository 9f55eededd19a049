"""Resources of a skip array. Tables and flip-flops are those of one netlist; `bfpga synthesize` counts a kernel."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.resource_units import Resources, memory_blocks, selection
from bfpga.engines.skip_array.shape import ROOM

#: Look-up tables of two products that share a DSP block, whose accumulator has their sums (half of them count how often
#: the low one wraps, half are what the sums pass on their way out), and of what else a group has.
PAIR_LUT, GROUP_LUT = 20, 57
#: Flip-flops of two such products: their finished sums and the count; of what else a group has.
PAIR_FF, GROUP_FF = 75, 105
#: Buffers of sums: one fills while the other one leaves.
SUM_BUFFERS = 2


def skip_resources(config: KernelConfig) -> Resources:
    """Of the whole array."""
    return _logic(config) + _memories(config)


def _memories(config: KernelConfig) -> Resources:
    """DSP blocks, a copy of the wide words for each group, and the sums of the passes.

    A wide word is a channel of all pixels of a pass or, where activations are skipped, the weights of a channel.
    """
    lanes = config.rows if config.array.computes_runs else config.array.halves * config.columns
    passes = config.array.run_passes(config) if config.array.computes_runs else 1
    window = memory_blocks(ROOM * config.array.chunk_words(config), lanes * config.format.container_bits)
    depth = SUM_BUFFERS * passes * config.array.halves * (1 << (config.rows - 1).bit_length())
    sums = memory_blocks(depth, config.columns * config.accumulator_bits)
    groups, products = config.array.skip_groups(config), config.array.skip_products(config)
    return Resources(dsp=products // 2, bram36=groups * window + sums)


def _logic(config: KernelConfig) -> Resources:
    """Groups, and the selection of the sums that leave among those of all groups."""
    pairs, groups = config.array.skip_products(config) // 2, config.array.skip_groups(config)
    way_out = selection(groups * config.array.halves, config.columns * config.accumulator_bits)
    return Resources(
        lut=round(pairs * PAIR_LUT + groups * GROUP_LUT + way_out), ff=pairs * PAIR_FF + groups * GROUP_FF
    )
