"""Arrays whose passes come in runs, for which the weights of a chunk stay."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode
from bfpga.engines.kernel.cycles import kernel_steps, on_skip_array, skips_zeros
from bfpga.engines.kernel.descriptors import single_blocks
from bfpga.engines.kernel.word_engine import WordEngine
from bfpga.engines.skip_array.activations import order_is_seen
from bfpga.engines.skip_array.passes import runs


class RunEngine(WordEngine):
    """What such arrays share: the order of results, and how often weights are read."""

    def channel_runs(self, node: ArrayNode, config: KernelConfig) -> list[tuple[int, int]]:
        return single_blocks(node, config) if order_is_seen(node, config) else super().channel_runs(node, config)

    def weight_reads(self, config: KernelConfig, descriptor: Descriptor) -> int:
        if not on_skip_array(config, descriptor):
            return super().weight_reads(config, descriptor)
        return runs(config, descriptor) * kernel_steps(config, descriptor) if skips_zeros(config, descriptor) else 0
