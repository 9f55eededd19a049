"""How units that skip zeros share a layer's input: in pieces of equal size, and in pieces of equal work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.dispatch.engine_clocks import engine_operations
from bfpga.compiler.dispatch.input_zeros import words_read
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode, BlockTensor, LaunchStep, Program, TensorSpec
from bfpga.devices.emulator import Emulator
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.beside.engine import UnitShares
from bfpga.engines.beside.tiles import input_rectangle
from bfpga.engines.registry import depends_on_inputs, operation_engine
from bfpga.engines.skip_array.unit_clocks import cluster_clocks, joined_of, unit_cells
from bfpga.engines.skip_array.unit_maps import APART, joined_pieces
from bfpga.engines.sparse_cluster.partition.exchange import Partition
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition, layer_partition, unit_values
from bfpga.formats.arrays import BoolArray, IntArray
from bfpga.program.layout import encode_tensor
from bfpga.report.unit_shares import layer_input, maps_of

#: Layers whose pieces are shown at most.
MOST_LAYERS = 12


@dataclass(frozen=True)
class LayerPartition:
    """The first strip of a layer on one sample.

    counts: (rows, columns) non-zero elements of all channels; taken: whether the layer's pieces have equal work.
    sharers: units that share each piece of equal work, and take its values in turn.
    """

    layer: str
    counts: npt.NDArray[np.int64]
    equal: UnitShares
    balanced: UnitShares
    taken: bool
    sharers: int = 1


def partitions(program: Program, inputs: Mapping[str, npt.NDArray[np.floating[Any]]]) -> list[LayerPartition]:
    """Layers of ``program`` whose cycles depend on zeros of their input; inputs: samples by name, one is looked at.

    inputs are those of the program: samples that travel side by side are one.
    """
    nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
    if program.config.cuts_maps:
        return _cluster_partitions(program, nodes, {name: values[:1] for name, values in inputs.items()})
    if not any(depends_on_inputs(node.engine) for node in nodes):
        return []
    sample = {name: values[:1] for name, values in inputs.items()}
    traced = Emulator(program).run(sample, trace=True).tensors
    found: dict[str, LayerPartition] = {}
    for operation, node, tile in engine_operations(program.steps, nodes):
        engine = operation_engine(operation)
        if engine is None or engine.by_inputs is None or node.name in found:
            continue
        spec = program.tensors[node.inputs[0]]
        x = _mantissas(node.inputs[0], spec, traced, sample, program)
        if x is None:
            continue
        part = input_rectangle(node.window, spec, tile)
        x = x[:, part.y0 : part.y1, part.x0 : part.x1]
        weights = embedded_weights(node, spec, tile.m0, tile.m1)
        equal, balanced = engine.by_inputs.shares(program.config, operation.descriptor, weights, x)
        counts = np.count_nonzero(x[0], axis=2).astype(np.int64)
        found[node.name] = LayerPartition(node.name, counts, equal, balanced, bool(operation.descriptor.count_step))
        if len(found) == MOST_LAYERS:
            break
    return list(found.values())


def _cluster_partitions(
    program: Program, nodes: Sequence[ArrayNode], sample: Mapping[str, npt.NDArray[np.floating[Any]]]
) -> list[LayerPartition]:
    """Layers of a kernel with a sparse cluster in the place of its array: the first map of each."""
    traced = Emulator(program).run(sample, trace=True).tensors
    found: list[LayerPartition] = []
    for node in nodes:
        x = layer_input(program, node, traced, sample) if node.kind == "gemm" else None
        if x is None or len(found) == MOST_LAYERS:
            continue
        cells = next(maps_of(program, node, x))[0]
        operation = next(item for item, owner in _products(program) if owner == node.name)
        joined = joined_pieces(cells.shape[0], cells.shape[1], node, program.config)
        apart = replace(operation, joined_rows=APART[0], joined_columns=APART[1], most_moves=0)
        equal, balanced = (
            _shares(program, node, partition, cells, measured)
            for partition, measured in (
                (kernel_partition(cells, program.config, 0).partition, apart),
                (layer_partition(node, cells, program.config).partition, operation),
            )
        )
        counts = np.count_nonzero(cells, axis=2).astype(np.int64)
        taken = operation.most_moves > 0 or joined != APART
        found.append(LayerPartition(node.name, counts, equal, balanced, taken, joined[0] * joined[1]))
    return found


def _products(program: Program) -> Iterator[tuple[Descriptor, str]]:
    """Products of a program's starts, with their layers."""
    for step in program.steps:
        for operation in step.operations if isinstance(step, LaunchStep) else ():
            if operation.descriptor.operation == Operation.GEMM and not operation.descriptor.flags & Flag.MEASURE:
                yield operation.descriptor, operation.layer


def _shares(
    program: Program, node: ArrayNode, partition: Partition, cells: BoolArray, operation: Descriptor
) -> UnitShares:
    """What each unit has of a map (rows, columns, channels), and the clocks of the operation with these units."""
    loads = unit_values(partition, cells, words_read(node, program.config), program.config).tolist()
    pieces = [(piece.row0, piece.row1, piece.column0, piece.column1) for piece in partition.rectangles()]
    sharers = len(loads) // len(pieces)
    full = unit_cells(cells.shape[0], cells.shape[1], program.config, joined_of(operation)) * cells.shape[2]
    met = replace(node, input_share=max(loads) / full)
    clocks = cluster_clocks(program.config, met, node.tiles[0].m0, operation)
    return UnitShares([piece for piece in pieces for _ in range(sharers)], loads, clocks)


def _mantissas(
    name: str,
    spec: TensorSpec,
    traced: Mapping[str, BlockTensor],
    sample: Mapping[str, npt.NDArray[np.floating[Any]]],
    program: Program,
) -> IntArray | None:
    """A layer's input, (1, height, width, channels); None for what the host computes between layers."""
    if name in traced:
        return traced[name].mantissa
    if name not in sample:
        return None
    return encode_tensor(sample[name].astype(np.float32), spec, program.config.format).mantissa
