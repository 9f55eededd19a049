"""Rounds and clocks of a layer on the sparse cluster, counted from where values and weights lie (SC 6.1, R153).

Every counter of a unit is a sum over products of (micro-tiles of a channel) x (patterns of weights), so variants A, B
and E are counted by multiplying totals, and C and D by simulating each different micro-tile once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from bfpga.engines.sparse_cluster.partition.exchange import relative_imbalance
from bfpga.engines.sparse_cluster.units.configuration import PACKED, SparseClusterConfig
from bfpga.engines.sparse_cluster.units.payload import payload_bytes
from bfpga.engines.sparse_cluster.units.plan import Plan, cut_out
from bfpga.engines.sparse_cluster.units.rounds import RoundCounts, packed_rounds
from bfpga.engines.sparse_cluster.units.weights import SparseLayer, WeightPatterns, unique_patterns, weight_order
from bfpga.formats.arrays import BoolArray, Int64Array

#: Counters that are sums; the peak of the FIFO and of the memory are maxima.
SUMS = (
    "rounds", "iterations", "issued", "idle", "conflicts", "merged", "tiles", "tiles_skipped", "load", "compute",
    "set_switches",
)  # fmt: skip
_PACKED_FIELDS = tuple(each.name for each in fields(RoundCounts))


@dataclass
class UnitCounters:
    """What each unit counted, arrays (units,).

    rounds, iterations (weight passes), issued (pairs), idle (lanes), conflicts, merged, fifo_peak: of the lanes.
    tiles, tiles_skipped: micro-tiles fetched for each group of kernels. load, compute: clocks (E12, E13).
    set_switches: payloads fetched; memory_peak: most values of one payload (R56).
    """

    rounds: Int64Array
    iterations: Int64Array
    issued: Int64Array
    idle: Int64Array
    conflicts: Int64Array
    merged: Int64Array
    fifo_peak: Int64Array
    tiles: Int64Array
    tiles_skipped: Int64Array
    load: Int64Array
    compute: Int64Array
    set_switches: Int64Array
    memory_peak: Int64Array

    @staticmethod
    def zeros(units: int) -> UnitCounters:
        return UnitCounters(*(np.zeros(units, np.int64) for _ in fields(UnitCounters)))

    def total(self, name: str) -> int:
        """A counter over all units: the sum, or the largest for a peak."""
        values: Int64Array = getattr(self, name)
        return int(values.sum() if name in SUMS else values.max())

    def to_dict(self) -> dict[str, list[int]]:
        """The counters for JSON."""
        return {each.name: getattr(self, each.name).tolist() for each in fields(self)}


@dataclass(frozen=True)
class LayerCycles:
    """Clocks of one layer on one map.

    cycles: E15, units wait for each other at every channel and group of kernels, because kernels are broadcast.
    independent_cycles: the same if units never wait, the slowest unit's sum. counters: what each unit counted. lanes:
    those of each unit (units,).
    """

    cycles: int
    independent_cycles: int
    counters: UnitCounters
    lanes: tuple[int, ...]
    plan: Plan | None = field(repr=False, default=None)

    @property
    def rounds(self) -> int:
        """Rounds of the slowest unit."""
        return int(self.counters.rounds.max())

    @property
    def utilization(self) -> float:
        """Share of lanes that held a pair (E16)."""
        offered = int(np.array(self.lanes) @ self.counters.rounds)
        return self.counters.total("issued") / offered if offered else 0.0

    @property
    def imbalance(self) -> float:
        """Rounds of the slowest unit over the mean (E17)."""
        return relative_imbalance(self.counters.rounds)


@dataclass(frozen=True)
class _PieceWork:
    """Counters of one piece by channel and group of kernels: (channels, groups) each.

    tiles: micro-tiles of a channel; occupied: those with values (channels,).
    """

    grouped: dict[str, Int64Array]
    tiles: int
    occupied: Int64Array
    fifo_peak: int = 0


def count_layer(
    layer: SparseLayer, config: SparseClusterConfig, patterns: WeightPatterns, nonzero: BoolArray, plan: Plan
) -> LayerCycles:
    """Counters and clocks of one map; nonzero: (channels, rows, columns)."""
    parts = [cut_out(nonzero[slice(*piece.channels)], piece.stored) for piece in plan.pieces]
    values = [np.count_nonzero(part, axis=(1, 2)) for part in parts]
    works = _piece_works(layer, config, patterns, plan, parts, values)
    clocks = ClockSum(config, nonzero.shape[0], patterns.kernels.shape[1])
    counters = UnitCounters.zeros(config.units)
    transfer = window_transfer(layer.kernel, config)
    for piece, part, held, work in zip(plan.pieces, parts, values, works, strict=True):
        load = -(-payload_bytes(part, held, config.payload) // config.bus_bytes)
        kernels = patterns.kernels[slice(*piece.channels)]
        compute = work.grouped["rounds"]
        if transfer:
            compute = compute + transfer * work.occupied[:, None] * kernels
        clocks.add(piece.unit, piece.channels, load[:, None], compute)
        _add(counters, piece.unit, work, held, load, compute)
    return LayerCycles(clocks.cluster, clocks.independent, counters, config.lanes_of_units, plan)


def _piece_works(
    layer: SparseLayer,
    config: SparseClusterConfig,
    patterns: WeightPatterns,
    plan: Plan,
    parts: list[BoolArray],
    values: list[Int64Array],
) -> list[_PieceWork]:
    """Counters of every piece, those of units with as many lanes together (R65)."""
    works: dict[int, _PieceWork] = {}
    lanes_of_pieces = [config.lanes_of_units[piece.unit] for piece in plan.pieces]
    for lanes in sorted(set(lanes_of_pieces)):
        chosen = [number for number, of_piece in enumerate(lanes_of_pieces) if of_piece == lanes]
        own_config, own_patterns = config.with_lanes(lanes), replace(patterns, lanes=lanes)
        own_plan = replace(plan, pieces=tuple(plan.pieces[number] for number in chosen))
        own_parts, own_values = [parts[number] for number in chosen], [values[number] for number in chosen]
        if config.variant in PACKED:
            found = _packed(layer, own_config, own_patterns, own_plan, own_parts)
        else:
            found = _uniform(layer, own_config, own_patterns, own_plan, own_parts, own_values)
        works.update(zip(chosen, found, strict=True))
    return [works[number] for number in range(len(plan.pieces))]


class ClockSum:
    """Clocks of pieces, summed to those of units and of the cluster (E11, E15)."""

    def __init__(self, config: SparseClusterConfig, channels: int, groups: int) -> None:
        self._config = config
        self._busy = np.zeros((config.units, channels, groups), np.int64)

    def add(self, unit: int, channels: tuple[int, int], load: Int64Array, compute: Int64Array) -> None:
        """A piece: clocks to load and to compute it, (channels, groups of kernels) each."""
        overlap = np.maximum(load, compute) if self._config.memory_sets > 1 else load + compute
        self._busy[unit, slice(*channels)] += self._config.start_cycles + overlap

    @property
    def _passes(self) -> Int64Array:
        busy = self._busy
        return np.where(busy > 0, busy + self._config.flush_cycles, 0)

    @property
    def cluster(self) -> int:
        return int(self._passes.max(axis=0).sum())

    @property
    def independent(self) -> int:
        return int(self._passes.sum(axis=(1, 2)).max())


def _add(
    counters: UnitCounters, unit: int, work: _PieceWork, values: Int64Array, load: Int64Array, compute: Int64Array
) -> None:
    """Add a piece to its unit. values, load: of a channel (channels,); compute: (channels, groups)."""
    groups = compute.shape[1]
    for name, grouped in work.grouped.items():
        getattr(counters, name)[unit] += grouped.sum()
    counters.fifo_peak[unit] = max(counters.fifo_peak[unit], work.fifo_peak)
    counters.tiles[unit] += work.tiles * len(values) * groups
    counters.tiles_skipped[unit] += (work.tiles * len(values) - int(work.occupied.sum())) * groups
    counters.load[unit] += load.sum() * groups
    counters.compute[unit] += compute.sum()
    counters.set_switches[unit] += compute.size
    counters.memory_peak[unit] = max(counters.memory_peak[unit], int(values.max(initial=0)))


def window_transfer(kernel: tuple[int, int], config: SparseClusterConfig) -> int:
    """Clocks that loading and storing the accumulator window adds to an occupied micro-tile (E13)."""
    if config.accumulator == "banked" or config.variant == "E":
        return 0
    tile = config.tile_for(kernel)
    words = (tile[0] + kernel[0] - 1) * (tile[1] + kernel[1] - 1)
    return 2 * -(-words // config.window_ports)


def _uniform(
    layer: SparseLayer,
    config: SparseClusterConfig,
    patterns: WeightPatterns,
    plan: Plan,
    parts: list[BoolArray],
    values: list[Int64Array],
) -> list[_PieceWork]:
    """Variants A and B (one weight a round) and E (one value a round): E6, E8; products of two totals."""
    weights = patterns.weights
    passes = patterns.passes if config.variant == "E" else weights
    works = []
    for piece, part, held in zip(plan.pieces, parts, values, strict=True):
        if config.variant == "E":
            lane_groups, in_lanes, occupied, tiles = held, held, np.minimum(held, 1), int(part[0].size > 0)
        else:
            cells = _tiles(part, config.tile_for(layer.kernel), whole=config.variant == "A" and config.keep_zeros)
            in_tile = cells.sum(axis=2)
            lane_groups, in_lanes = (-(-in_tile // config.lanes)).sum(axis=1), in_tile.sum(axis=1)
            occupied, tiles = np.count_nonzero(in_tile, axis=1), cells.shape[1]
        own = slice(*piece.channels)
        rounds, issued = lane_groups[:, None] * passes[own], in_lanes[:, None] * weights[own]
        idle = rounds * config.lanes - issued
        grouped = {"rounds": rounds, "iterations": occupied[:, None] * weights[own], "issued": issued, "idle": idle}
        works.append(_PieceWork(grouped, tiles, occupied))
    return works


def _packed(
    layer: SparseLayer, config: SparseClusterConfig, patterns: WeightPatterns, plan: Plan, parts: list[BoolArray]
) -> list[_PieceWork]:
    """Variants C and D: every different micro-tile is simulated once for every different kernel."""
    tile = config.tile_for(layer.kernel)
    cut = [_tiles(part, tile) for part in parts]
    flat = np.concatenate([cells.reshape(-1, tile[0] * tile[1]) for cells in cut])
    different, which = unique_patterns(flat)
    order = weight_order(layer.kernel, config.order_of_weights)
    table = np.zeros((len(_PACKED_FIELDS), len(patterns.counts), len(different)), np.int64)
    for index, positions in enumerate(patterns.positions.reshape(-1, *layer.kernel)):
        issued = [place for place in order if positions[place]]
        result = packed_rounds(different.reshape(-1, *tile), layer.kernel, issued, config)
        table[:, index] = [getattr(result, name) for name in _PACKED_FIELDS]
    works, end = [], 0
    for piece, cells in zip(plan.pieces, cut, strict=True):
        start, end = end, end + cells.shape[0] * cells.shape[1]
        uses = patterns.uses[slice(*piece.channels)]
        works.append(_packed_work(table, which[start:end].reshape(cells.shape[:2]), cells, uses, patterns.counts))
    return works


def _packed_work(
    table: Int64Array, which: Int64Array, cells: BoolArray, uses: Int64Array, weights: Int64Array
) -> _PieceWork:
    """Sums of table[counter, pattern, different tile] over the tiles of each channel, for each group of kernels."""
    occupied = np.count_nonzero(cells.any(axis=2), axis=1)
    grouped: dict[str, Int64Array] = {"iterations": occupied[:, None] * (uses @ weights)}
    peak = 0
    for name, values in zip(_PACKED_FIELDS, table, strict=True):
        of_tiles = values[:, which]
        if name == "fifo_peak":
            highest = of_tiles.max(axis=2, initial=0).T
            peak = int(np.where(uses.any(axis=1), highest, 0).max(initial=0))
        else:
            grouped[name] = np.matmul(uses, of_tiles.sum(axis=2).T[:, :, None])[:, :, 0]
    return _PieceWork(grouped, cells.shape[1], occupied, peak)


def _tiles(part: BoolArray, tile: tuple[int, int], *, whole: bool = False) -> BoolArray:
    """Cells (channels, tiles, cells of a tile) of a piece; at the border, tiles are filled up with empty cells.

    whole: cells that exist count as occupied, zeros too.
    """
    channels, rows, columns = part.shape
    down, across = -(-rows // tile[0]), -(-columns // tile[1])
    cells = np.zeros((channels, down * tile[0], across * tile[1]), np.bool_)
    cells[:, :rows, :columns] = True if whole else part
    grid = cells.reshape(channels, down, tile[0], across, tile[1])
    return grid.transpose(0, 1, 3, 2, 4).reshape(channels, down * across, tile[0] * tile[1])
