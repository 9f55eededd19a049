"""How the units of a kernel's sparse cluster share what they compute: for every layer, sample and map.

As the kernel reports it for a run (sparse_cluster/records.py), or after the model of it where no kernel has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.dispatch.input_zeros import words_read
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, BlockTensor, Program, Tile
from bfpga.devices.base import LayerResult
from bfpga.devices.emulator import Emulator
from bfpga.engines.kernel.records import MapRecords
from bfpga.engines.sparse_cluster.kernel_parts import kernel_parts
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition, layer_partition, unit_values
from bfpga.engines.sparse_cluster.unit_maps import (
    allowed_moves,
    cells_of_map,
    joined_grid,
    joined_pieces,
    kernel_of,
    map_part,
)
from bfpga.formats.arrays import BoolArray, Int64Array
from bfpga.program.layout import encode_tensor

#: Samples that are looked at.
MOST_SAMPLES = 16
#: Source of how units share a layer.
KERNEL, MODEL = "kernel", "model"


@dataclass(frozen=True)
class LayerShares:
    """Values that are not zero, which the units of a cluster compute of a layer (samples, maps, units).

    equal: with a piece of equal size for each unit; balanced: with those that the kernel cuts, after so many moves
    (samples, maps). counted: whether limits may move; reached: whether the threshold is met then (SC R33). pieces: of
    each map, down and across. source: of all but ``equal``, the kernel or its model; a kernel has a map for each
    operation, and counts values for each block of output channels.
    """

    layer: str
    pieces: tuple[tuple[int, int], ...]
    equal: Int64Array
    balanced: Int64Array
    moves: Int64Array
    counted: BoolArray
    reached: BoolArray
    source: str = MODEL

    @property
    def met(self) -> float | None:
        """Share of the counted maps that met the threshold; None if none was counted."""
        return float(self.reached[self.counted].mean()) if self.counted.any() else None

    @property
    def occupancy(self) -> npt.NDArray[np.float64]:
        """Share of the slowest units' values that each unit has: (units,)."""
        slowest = int(self.balanced.max(axis=2).sum())
        shares: npt.NDArray[np.float64] = self.balanced.sum(axis=(0, 1)) / max(1, slowest)
        return shares

    def content(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "layer": self.layer,
            "source": self.source,
            "pieces": [list(pieces) for pieces in self.pieces],
            "spread_equal": spread(self.equal),
            "spread": spread(self.balanced),
            "occupancy": self.occupancy.tolist(),
            "moves": self.moves.sum(axis=1).tolist(),
            "reached": [bool(met[counted].all()) if counted.any() else None
                        for met, counted in zip(self.reached, self.counted, strict=True)],
            "values_equal": self.equal.sum(axis=1).tolist(),
            "values": self.balanced.sum(axis=1).tolist(),
        }  # fmt: skip


def spread(loads: Int64Array) -> float:
    """Values of the slowest unit over those of the mean one, all maps and samples (samples, maps, units) together."""
    mean = float(loads.mean(axis=2).sum())
    return float(loads.max(axis=2).sum()) / mean if mean else 1.0


def unit_shares(
    program: Program, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], reported: Iterable[LayerResult] = ()
) -> list[LayerShares]:
    """The layers of a program that a cluster computes; inputs: samples by name, the first of them are looked at.

    reported: results of a kernel's run of these samples, by layer.
    """
    records = {layer.name: layer.maps for layer in reported}
    if not program.config.array.cuts_maps:
        return []
    samples = {name: values[:MOST_SAMPLES] for name, values in inputs.items()}
    traced = Emulator(program).run(samples, trace=True).tensors
    found = []
    for node in program.nodes:
        if isinstance(node, ArrayNode) and node.kind == "gemm":
            x = layer_input(program, node, traced, samples)
            if x is not None:
                shares, maps = _layer(program, node, x), records.get(node.name)
                found.append(shares if maps is None else _with_records(shares, maps))
    return found


def _is_counted(node: ArrayNode, cells: BoolArray, config: KernelConfig) -> bool:
    return allowed_moves(cells.shape[0], cells.shape[1], node, config) > 0


def _with_records(model: LayerShares, maps: MapRecords) -> LayerShares:
    """A kernel's records in the place of its model."""
    found = MapRecords(maps.words[: len(model.moves)])
    return replace(
        model, balanced=found.values, moves=found.moves, counted=found.counted, reached=found.reached, source=KERNEL
    )


def layer_input(
    program: Program,
    node: ArrayNode,
    traced: Mapping[str, BlockTensor],
    samples: Mapping[str, npt.NDArray[np.floating[Any]]],
) -> BoolArray | None:
    """Where a layer's input is not zero (samples, height, width, channels); None of what the host computes between."""
    name = node.inputs[0]
    if name in traced:
        mantissa = traced[name].mantissa
    elif name in samples:
        x = samples[name].astype(np.float32)
        mantissa = encode_tensor(x, program.tensors[name], program.config.format).mantissa
    else:
        return None
    nonzero: BoolArray = np.asarray(mantissa) != 0
    return nonzero


def maps_of(program: Program, node: ArrayNode, x: BoolArray) -> Iterator[BoolArray]:
    """The maps (samples, rows, columns, channels) that a layer's operations read, each once; parts are channels."""
    seen = {(tile.y0, tile.y1, tile.x0, tile.x1, tile.step): tile for tile in node.tiles}
    whole = Tile(0, node.window.output_height, 0, node.channels)
    for tile in seen.values() or [whole]:
        part = map_part(node.window, tile, x.shape[1], x.shape[2], program.config)
        yield cells_of_map(part, x, kernel_parts(node.window, program.config), program.config)


def _layer(program: Program, node: ArrayNode, x: BoolArray) -> LayerShares:
    config, blocks, kernel = program.config, words_read(node, program.config), kernel_of(node.window, program.config)
    maps = list(maps_of(program, node, x))
    samples = list(zip(*maps, strict=True))
    cuts = [[layer_partition(node, cells, config) for cells in sample] for sample in samples]
    return LayerShares(
        node.name,
        tuple(joined_grid(joined_pieces(cells.shape[1], cells.shape[2], node, config), config) for cells in maps),
        np.array([[kernel_partition(cells, kernel, config, 0).loads for cells in sample] for sample in samples]),
        np.array(
            [
                [unit_values(cut.partition, cells, blocks, kernel, config) for cut, cells in zip(*each, strict=True)]
                for each in zip(cuts, samples, strict=True)
            ]
        ),
        np.array([[found.moves for found in sample] for sample in cuts]),
        np.array([[_is_counted(node, cells, config) for cells in sample] for sample in samples]),
        np.array([[found.reached for found in sample] for sample in cuts]),
    )
