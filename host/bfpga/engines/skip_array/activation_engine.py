"""The behaviour of a skip array that multiplies by activations that are not zero, by the words of a systolic array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag
from bfpga.contract.process_stream import ARRAY
from bfpga.contract.program import ArrayNode
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel.cycles import drain_cycles, skips_zeros
from bfpga.engines.kernel.placement import Placement
from bfpga.engines.skip_array.activation_cycles import SparseOperation, first_weights, lanes_apart
from bfpga.engines.skip_array.constraints import activation_findings
from bfpga.engines.skip_array.input_share import channels_at_step
from bfpga.engines.skip_array.passes import shared_passes
from bfpga.engines.skip_array.resources import skip_resources
from bfpga.engines.skip_array.run_engine import RunEngine


class ActivationEngine(RunEngine):
    """Windows come in chunks; ``steps`` follow from the share of the input that is not zero."""

    def findings(self, config: KernelConfig) -> Iterator[Finding]:
        return activation_findings(config)

    def parts(self, config: KernelConfig, dense: Resources) -> Mapping[str, Resources]:
        return {ARRAY: skip_resources(config)}

    def finish(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        if skips_zeros(config, result):
            set_chunks(config, place.node, result)

    def occupied_cycles(self, config: KernelConfig, descriptor: Descriptor) -> int:
        return shared_passes(config, descriptor) * descriptor.steps + first_weights(config, descriptor)


def set_chunks(config: KernelConfig, node: ArrayNode, result: Descriptor) -> None:
    """Chunks of a GEMM on a skip array of activations; ``steps``: cycles of a pass with the zeros of its input."""
    apart = lanes_apart(config, node.window.output_height * node.window.output_width)
    result.flags = result.flags & ~int(Flag.LANES_APART) | (int(Flag.LANES_APART) if apart else 0)
    channels = channels_at_step(node, result.channel_words, config)
    operation = SparseOperation.of(config, result, channels, node.input_share)
    chunks = operation.chunks
    result.chunk_steps, result.chunk_buffers = chunks[0], len(chunks)
    # Every group of pixels leaves through the output stage.
    drained = -(-result.groups * drain_cycles(config, result) // operation.passes)
    result.steps = max(operation.pass_clocks, drained)


ENGINE = ActivationEngine()
