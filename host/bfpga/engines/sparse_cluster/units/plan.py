"""Which unit does what: folds by size, pieces by content, in halo or overlap-add mode (SC 3.3, 3.18, E19)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from bfpga.engines.sparse_cluster.partition.exchange import (
    BalancedPartition,
    Capacity,
    Partition,
    PieceTooLargeError,
    balance_table,
    fitting_grid,
    work_map,
    work_table,
)
from bfpga.engines.sparse_cluster.partition.geometry import CutGeometry, Rectangle, folds
from bfpga.engines.sparse_cluster.units.configuration import LARGEST_PIECE, PACKED, SparseClusterConfig
from bfpga.engines.sparse_cluster.units.queue import units_of_pieces
from bfpga.engines.sparse_cluster.units.weights import SparseLayer, WeightPatterns
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray


@dataclass(frozen=True)
class Piece:
    """Work of one unit in one fold. owned: lines of the map that is cut; stored: input cells, halo included.

    channels: the input channels [first, last) it holds: all of them, or one with the scope ``channel`` (R38).
    """

    unit: int
    fold: int
    owned: Rectangle
    stored: Rectangle
    channels: tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """The pieces of one map in the order in which they are fetched, and how each of its folds was balanced."""

    mode: str
    pieces: tuple[Piece, ...]
    balances: tuple[BalancedPartition, ...]

    @property
    def reached(self) -> bool:
        """Whether every fold met the threshold."""
        return all(each.reached for each in self.balances)

    @property
    def moves(self) -> int:
        return sum(each.moves for each in self.balances)


def plan_layer(
    layer: SparseLayer,
    config: SparseClusterConfig,
    patterns: WeightPatterns,
    nonzero: BoolArray,
    work: IntArray | None = None,
) -> Plan:
    """Pieces for one map; nonzero: (channels, rows, columns); work: what is balanced instead of the metric (R27).

    ``auto`` takes overlap-add where fewer products outweigh its larger results (E19). A map whose pieces exceed
    accumulators, memory or local indices is folded into the fewest equal parts that fit (R55, R148, R155).
    """
    if config.partition.mode != "auto":
        return _plan(layer, config, patterns, nonzero, config.partition.mode, work)
    halo, overlap = (_plan(layer, config, patterns, nonzero, mode, work) for mode in ("halo", "overlap_add"))
    return overlap if _overlap_add_pays(layer, config, patterns, nonzero, halo, overlap) else halo


def _plan(
    layer: SparseLayer,
    config: SparseClusterConfig,
    patterns: WeightPatterns,
    nonzero: BoolArray,
    mode: str,
    chosen: IntArray | None,
) -> Plan:
    geometry = layer.geometry(nonzero.shape[1], nonzero.shape[2], mode)
    channels = len(nonzero)
    if config.partition.scope == "layer":
        groups = [(0, channels)]
    else:
        groups = [(channel, channel + 1) for channel in range(channels)]
    pieces: list[Piece] = []
    balances: list[BalancedPartition] = []
    for group in groups:
        part = nonzero[slice(*group)]
        if chosen is None:
            work = _work(part, layer, config, patterns)
        else:
            work = np.asarray(chosen, np.int64)
            work = work[group[0]] if work.ndim == 3 else work
        for number, fold, result in _folded(geometry, config, work_table(work, geometry), layer.kernel, part):
            balances.append(result)
            pieces += _pieces_of(result.partition, geometry, number, fold, group)
    if config.queue_pieces:
        pieces = _queued(pieces, config, nonzero)
    return Plan(mode, tuple(pieces), tuple(balances))


def _queued(pieces: list[Piece], config: SparseClusterConfig, nonzero: BoolArray) -> list[Piece]:
    """Pieces on the units that are free first, channel after channel where each has a partition of its own."""
    result: list[Piece] = []
    for channels in dict.fromkeys(piece.channels for piece in pieces):
        own = [piece for piece in pieces if piece.channels == channels]
        units = units_of_pieces([_nonzeros(nonzero, piece) for piece in own], config.lanes_of_units)
        result += [replace(piece, unit=unit) for piece, unit in zip(own, units, strict=True)]
    return result


def _pieces_of(
    partition: Partition, geometry: CutGeometry, number: int, fold: Rectangle, channels: tuple[int, int]
) -> Iterator[Piece]:
    for unit, part in enumerate(partition.rectangles()):
        owned = shifted(part, fold)
        yield Piece(unit, number, owned, geometry.stored(owned), channels)


def shifted(part: Rectangle, fold: Rectangle) -> Rectangle:
    """A rectangle of a fold in the lines of the whole map."""
    return Rectangle(
        part.row0 + fold.row0, part.column0 + fold.column0, part.row1 + fold.row0, part.column1 + fold.column0
    )


def _folded(
    geometry: CutGeometry, config: SparseClusterConfig, table: Int64Array, kernel: tuple[int, int], nonzero: BoolArray
) -> list[tuple[int, Rectangle, BalancedPartition]]:
    """The fewest folds, down and across alike, whose pieces fit a unit; each with its partition."""
    rows, columns = geometry.shape
    snap = config.partition.snap
    for parts in count(1):
        limit = (_up(-(-rows // parts), snap[0]), _up(-(-columns // parts), snap[1]))
        smallest = limit[0] <= snap[0] and limit[1] <= snap[1]
        try:
            result = [
                (number, fold, _balanced(geometry.part(fold), config, table, kernel, len(nonzero)))
                for number, fold in enumerate(folds(rows, columns, limit))
            ]
        except PieceTooLargeError:
            if smallest:
                raise
            continue
        largest = [
            geometry.stored(shifted(part, fold)) for _, fold, each in result for part in each.partition.rectangles()
        ]
        if all(_storable(piece, config, nonzero) for piece in largest):
            return result
        if smallest:
            raise PieceTooLargeError(
                f"a piece of {snap[0]} x {snap[1]} lines exceeds {LARGEST_PIECE} rows or columns, or the "
                f"{config.memory_words} words of a unit's memory"
            )
    raise AssertionError("counting does not end")


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _balanced(
    geometry: CutGeometry, config: SparseClusterConfig, table: Int64Array, kernel: tuple[int, int], channels: int
) -> BalancedPartition:
    settings = config.partition.with_grid(fitting_grid(geometry.shape, config.partition))
    capacity = Capacity(config.accumulator_words, kernel, config.accumulator_banks(kernel))
    lanes = None if config.queue_pieces else config.lanes_of_units[: settings.pieces]
    return balance_table(table, geometry, settings, capacity, channels, lanes)


def _storable(piece: Rectangle, config: SparseClusterConfig, nonzero: BoolArray) -> bool:
    if max(piece.rows, piece.columns) > LARGEST_PIECE:
        return False
    if piece.area <= config.memory_words:
        return True
    cells = cut_out(nonzero, piece)
    return int(np.count_nonzero(cells, axis=(1, 2)).max(initial=0)) <= config.memory_words


def cut_out(maps: BoolArray, piece: Rectangle) -> BoolArray:
    """Cells (channels, rows, columns) of a rectangle."""
    return maps[:, piece.row0 : piece.row1, piece.column0 : piece.column1]


def _work(nonzero: BoolArray, layer: SparseLayer, config: SparseClusterConfig, patterns: WeightPatterns) -> Int64Array:
    rounds = None
    if config.partition.metric == "rounds":
        rounds = predicted_rounds(nonzero, layer, config, patterns)
    return work_map(nonzero, config.partition.metric, rounds)


def predicted_rounds(
    nonzero: BoolArray, layer: SparseLayer, config: SparseClusterConfig, patterns: WeightPatterns
) -> Int64Array:
    """Rounds of one mean kernel, for each micro-tile at its first cell (rows, columns); E6 and E7.

    Conflicts and the cap on weights are left out. Exact tiles need limits on multiples of the tile (``snap``). Where
    units have different lanes, pairs are counted, which balancing divides by the lanes.
    """
    if config.variant == "E":
        values_of_cells: Int64Array = nonzero.sum(axis=0, dtype=np.int64)
        return values_of_cells
    tile = config.tile_for(layer.kernel)
    rows, columns = nonzero.shape[1:]
    starts = np.arange(0, rows, tile[0]), np.arange(0, columns, tile[1])
    values = np.add.reduceat(np.add.reduceat(nonzero.astype(np.int64), starts[0], axis=1), starts[1], axis=2)
    uses = patterns.uses.sum(axis=(0, 1))
    weights = max(1, round(float(uses @ patterns.counts) / max(1, int(uses.sum()))))
    lanes = 1 if config.unit_lanes else config.lanes
    rounds = -(-values * weights // lanes) if config.variant in PACKED else weights * -(-values // lanes)
    result = np.zeros((rows, columns), np.int64)
    result[:: tile[0], :: tile[1]] = rounds.sum(axis=0)
    return result


def _overlap_add_pays(
    layer: SparseLayer,
    config: SparseClusterConfig,
    patterns: WeightPatterns,
    nonzero: BoolArray,
    halo: Plan,
    overlap: Plan,
) -> bool:
    """Rule E19: clocks that fewer products save, against clocks that the larger results of a kernel take."""
    rows, columns = layer.output_shape(nonzero.shape[1], nonzero.shape[2])
    full = (layer.kernel[0] - 1, layer.kernel[1] - 1)
    raw = sum((piece.owned.rows + full[0]) * (piece.owned.columns + full[1]) for piece in overlap.pieces)
    uses = patterns.uses.sum(axis=(0, 1))
    rounds = float(uses @ -(-patterns.counts // config.lanes)) / max(1, int(uses.sum()))
    slowest = [max(sum(_nonzeros(nonzero, piece) for piece in plan.pieces if piece.unit == unit)
                   for unit in range(config.units)) for plan in (halo, overlap)]  # fmt: skip
    raw_bytes, bytes_out = raw * config.accumulator_bytes, rows * columns * config.payload.value_bytes
    return (slowest[0] - slowest[1]) * rounds > (raw_bytes - bytes_out) / config.bus_bytes


def _nonzeros(nonzero: BoolArray, piece: Piece) -> int:
    return int(np.count_nonzero(cut_out(nonzero[slice(*piece.channels)], piece.stored)))
