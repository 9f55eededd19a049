"""Stores added to a kernel start, so that tensors that would stay on the chip can be looked at."""

from __future__ import annotations

from collections.abc import Sequence

from bfpga.engines.configuration import SystolicConfig
from bfpga.engines.descriptor import Descriptor, Flag, Operation
from bfpga.network.program import ArrayNode, KernelOperation, Program, TensorSpec, Transfer


def with_trace_stores(program: Program, operations: Sequence[KernelOperation]) -> list[KernelOperation]:
    """The operations with a STORE behind every layer whose whole result lies in memory and is not stored anyway."""
    nodes = {node.name: node for node in program.nodes if isinstance(node, ArrayNode)}
    completes = {node.output: node.name for node in nodes.values()}
    stored = {
        item.transfer.tensor
        for item in operations
        if item.transfer is not None and item.descriptor.operation == Operation.STORE
    }
    origins: dict[str, Descriptor] = {}
    result: list[KernelOperation] = []
    for item in operations:
        result.append(item)
        node = nodes.get(item.layer)
        computes = item.descriptor.operation in (Operation.GEMM, Operation.MAX, Operation.SUM)
        if node is None or not computes or item.descriptor.flags & Flag.MEASURE:
            continue
        origin = origins.setdefault(item.layer, item.descriptor)
        if item.descriptor.flags & Flag.LAST and completes[node.output] == node.name and node.output not in stored:
            spec = program.tensors[node.output]
            descriptor = store_of(origin, spec, node.channel_offset, program.config)
            result.append(KernelOperation(item.layer, descriptor, Transfer(node.output, 0, spec.height)))
    return result


def store_of(origin: Descriptor, spec: TensorSpec, channel_offset: int, config: SystolicConfig) -> Descriptor:
    """STORE of the tensor whose first pixel ``origin`` writes: its output addressing read back as input addressing."""
    mirrored = {
        f"input_{name}": getattr(origin, f"output_{name}")
        for name in ("slot", "pixel_words", "bank", "step_word", "step_bank", "wrap_word", "wrap_bank", "group_word",
                     "group_bank")
    }  # fmt: skip
    return Descriptor(
        operation=Operation.STORE,
        input_word=origin.output_word - channel_offset // config.lanes,
        output_pixels=spec.height * spec.width,
        output_width=spec.width,
        group_rows=config.columns // spec.width,
        group_columns=config.columns % spec.width,
        **mirrored,
    )
