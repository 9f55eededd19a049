"""The adder tree of a unit: fully connected layers and 1 x 1 convolutions (SC 3.13, 4.4).

The lanes of a round hold p different weights for p non-zero inputs of one output, their products are summed, and a
reduction accumulator adds the sums of all rounds.
"""

from __future__ import annotations

import numpy as np

from bfpga.engines.sparse_cluster.partition.exchange import balance, fitting_grid
from bfpga.engines.sparse_cluster.partition.geometry import overlap_add_geometry
from bfpga.engines.sparse_cluster.units.configuration import SparseClusterConfig
from bfpga.engines.sparse_cluster.units.cycles import ClockSum, LayerCycles, UnitCounters
from bfpga.engines.sparse_cluster.units.payload import payload_bytes
from bfpga.engines.sparse_cluster.units.queue import units_of_pieces
from bfpga.engines.sparse_cluster.units.weights import SparseLayer
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray


def takes_reduction_path(layer: SparseLayer, config: SparseClusterConfig) -> bool:
    """1 x 1 kernels over all channels, fully connected layers among them, unless the configuration says otherwise."""
    return layer.kernel == (1, 1) and layer.groups == 1 and config.pointwise == "reduction"


def partial_sums(weights: IntArray, inputs: IntArray, lanes: int) -> Int64Array:
    """Sum of the adder tree in each round, (outputs, rounds); their sum is the output (R117, R118).

    weights: (outputs, inputs), inputs: (inputs,). The last round may hold fewer products than lanes.
    """
    places = np.flatnonzero(inputs)
    products = np.asarray(weights, np.int64)[:, places] * np.asarray(inputs, np.int64)[places]
    if not len(places):
        return np.zeros((len(weights), 0), np.int64)
    return np.add.reduceat(products, np.arange(0, len(places), lanes), axis=1)


def seen_cells(layer: SparseLayer, nonzero: BoolArray) -> BoolArray:
    """Non-zeros (channels, output rows, output columns) that the outputs of a 1 x 1 layer see."""
    rows, columns = layer.output_shape(nonzero.shape[1], nonzero.shape[2])
    seen = np.zeros((len(nonzero), rows, columns), np.bool_)
    places = []
    for lines, cells, before, stride in zip(
        (rows, columns), nonzero.shape[1:], (layer.padding.top, layer.padding.left), layer.stride, strict=True
    ):
        place = np.arange(lines) * stride - before
        inside = (place >= 0) & (place < cells)
        places.append((np.flatnonzero(inside), place[inside]))
    (to_rows, from_rows), (to_columns, from_columns) = places
    seen[:, to_rows[:, None], to_columns] = nonzero[:, from_rows[:, None], from_columns]
    return seen


def count_reduction(layer: SparseLayer, config: SparseClusterConfig, nonzero: BoolArray) -> LayerCycles:
    """Counters and clocks of a 1 x 1 layer on one map: rounds = kernels * sum over pixels of ceil(values / p) (R120).

    nonzero: (channels, rows, columns). Pixels are shared out among the units by their rounds; on a map of one pixel
    (R119) the outputs are shared out, and every unit reads all inputs. Pixels that a stride skips are never sent.
    """
    seen = seen_cells(layer, nonzero)
    values = seen.sum(axis=0)
    kernels = len(layer.weights)
    counters = UnitCounters.zeros(config.units)
    in_flight = np.minimum(kernels - np.arange(0, kernels, config.kernels_in_flight), config.kernels_in_flight)
    if values.size == 1:
        return _count_outputs(config, seen, kernels, counters)
    clocks = ClockSum(config, 1, len(in_flight))
    geometry = overlap_add_geometry(*values.shape)
    settings = config.partition.with_grid(fitting_grid(geometry.shape, config.partition))
    # Rounds are shared out; where lanes differ they are not known before, and values per lane are.
    work = values if config.unit_lanes else -(-values // config.lanes)
    lanes = None if config.queue_pieces else config.lanes_of_units[: settings.pieces]
    found = balance(work, geometry, settings, lanes=lanes)
    units = units_of_pieces(found.loads, config.lanes_of_units) if config.queue_pieces else range(settings.pieces)
    for unit, piece in zip(units, found.partition.rectangles(), strict=True):
        part = seen[:, piece.row0 : piece.row1, piece.column0 : piece.column1]
        _add_pixels(unit, config, part, in_flight, counters, clocks)
    return LayerCycles(clocks.cluster, clocks.independent, counters, config.lanes_of_units)


def _add_pixels(
    unit: int,
    config: SparseClusterConfig,
    seen: BoolArray,
    in_flight: Int64Array,
    counters: UnitCounters,
    clocks: ClockSum,
) -> None:
    held = np.count_nonzero(seen, axis=(1, 2))
    lanes = config.lanes_of_units[unit]
    per_kernel = int((-(-seen.sum(axis=0) // lanes)).sum())
    values, kernels = int(held.sum()), int(in_flight.sum())
    load = -(-int(payload_bytes(seen, held, config.payload).sum()) // config.bus_bytes)
    counters.rounds[unit] += per_kernel * kernels
    counters.issued[unit] += values * kernels
    counters.idle[unit] += (per_kernel * lanes - values) * kernels
    counters.load[unit] += load * len(in_flight)
    counters.compute[unit] += per_kernel * kernels
    counters.set_switches[unit] += len(seen) * len(in_flight)
    counters.memory_peak[unit] = max(int(counters.memory_peak[unit]), int(held.max(initial=0)))
    clocks.add(unit, (0, 1), np.full((1, len(in_flight)), load), (per_kernel * in_flight)[None])


def _count_outputs(config: SparseClusterConfig, seen: BoolArray, outputs: int, counters: UnitCounters) -> LayerCycles:
    """A fully connected layer: unit u computes every m-th output (R119)."""
    clocks = ClockSum(config, 1, 1)
    for unit in range(min(config.units, outputs)):
        own = np.array([-(-(outputs - unit) // config.units)])
        _add_pixels(unit, config, seen, own, counters, clocks)
    return LayerCycles(clocks.cluster, clocks.independent, counters, config.lanes_of_units)
