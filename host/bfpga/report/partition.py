"""How units that skip zeros share a layer's input: in pieces of equal size, and in pieces of equal work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfpga.compiler.dispatch.input_zeros import channels_read, words_read
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode, LaunchStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.engines.sparse_cluster.partition.exchange import Partition
from bfpga.engines.sparse_cluster.partition.in_kernel import (
    kernel_partition,
    layer_partition,
    piece_cells,
    unit_values,
)
from bfpga.engines.sparse_cluster.unit_clocks import block_clocks, joined_of, map_clocks, unit_cells
from bfpga.engines.sparse_cluster.unit_maps import APART, joined_pieces, kernel_of
from bfpga.formats.arrays import BoolArray
from bfpga.report.unit_shares import layer_input, maps_of

#: Layers whose pieces are shown at most.
MOST_LAYERS = 12


class UnitShares(NamedTuple):
    """How units share the work of one operation on one sample.

    pieces: (first row, row after the last, first column, column after the last) of each unit; loads: elements of each
    that are not zero; cycles: of the operation.
    """

    pieces: list[tuple[int, int, int, int]]
    loads: list[int]
    cycles: int


@dataclass(frozen=True)
class LayerPartition:
    """The first map of a layer on one sample.

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
    """Layers of a kernel with a sparse cluster, the first map of each; inputs: samples by name, one is looked at.

    inputs are those of the program: samples that are processed side by side are one.
    """
    if not program.config.array.cuts_maps:
        return []
    sample = {name: values[:1] for name, values in inputs.items()}
    traced = Emulator(program).run(sample, trace=True).tensors
    found: list[LayerPartition] = []
    for node in (item for item in program.nodes if isinstance(item, ArrayNode)):
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
                (kernel_partition(cells, kernel_of(node.window, program.config), program.config, 0).partition, apart),
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
    kernel, config = kernel_of(node.window, program.config), program.config
    loads = unit_values(partition, cells, words_read(node, config), kernel, config).tolist()
    read = piece_cells(partition, cells.shape, kernel, config)
    pieces = [(piece.row0, piece.row1, piece.column0, piece.column1) for piece in read]
    sharers = len(loads) // len(pieces)
    full = unit_cells(cells.shape[0], cells.shape[1], kernel, config, joined_of(operation))
    full *= channels_read(node, config)
    met = replace(node, input_share=max(loads) / full)
    clocks = map_clocks(config, operation, block_clocks(config, met, node.tiles[0].m0, operation))
    return UnitShares([piece for piece in pieces for _ in range(sharers)], loads, clocks)
