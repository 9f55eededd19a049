"""Lane rounds of packed micro-tiles (variants C and D), all tiles side by side (SC 4.3, R98-R112).

A round takes products that were held back first and fills the other lanes with (value, weight) pairs in weight-major
order. Products that meet in one accumulator word clash: C lets one of them leave, D adds two of them on the way; the
others wait in the merge FIFO for the next round. Counts depend on where values and weights lie, not on what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.engines.sparse_cluster.units.configuration import SparseClusterConfig
from bfpga.engines.sparse_cluster.units.weights import Position
from bfpga.formats.arrays import BoolArray, Int64Array

#: Words of the largest window (16 + 16 - 1 rows and columns) and a number for each idle lane: small numbers are fast.
WORD = np.int16
WordArray = npt.NDArray[np.int16]


@dataclass
class RoundCounts:
    """Counters of each micro-tile (tiles,): rounds, pairs issued, idle lanes, clashes, pairs merged, FIFO's peak."""

    rounds: Int64Array
    issued: Int64Array
    idle: Int64Array
    conflicts: Int64Array
    merged: Int64Array
    fifo_peak: Int64Array

    @staticmethod
    def zeros(tiles: int) -> RoundCounts:
        return RoundCounts(*(np.zeros(tiles, np.int64) for _ in range(6)))


@dataclass(frozen=True)
class _Products:
    """Accumulator word of every product: ``base[tile, value] + offset[weight]`` in the window of a tile."""

    base: WordArray
    values: Int64Array
    offset: WordArray
    window_columns: int


def packed_rounds(
    tiles: BoolArray, kernel: Position, weights: list[Position], config: SparseClusterConfig
) -> RoundCounts:
    """Counters of micro-tiles for one kernel.

    tiles: (tiles, rows, columns), where values are not zero. weights: positions of the issued weights, in order.
    """
    counts = RoundCounts.zeros(len(tiles))
    if not weights or not len(tiles):
        return counts
    products = _products(tiles, kernel, weights, config.data_order)
    total = products.values * len(weights)
    pointer = np.zeros(len(tiles), np.int64)
    fifo = np.zeros((len(tiles), config.lanes), WORD)
    held = np.zeros(len(tiles), np.int64)
    live = np.flatnonzero(total)
    while len(live):
        start, waiting, values = pointer[live], held[live], products.values[live]
        cap = (start // values + config.weight_limit) * values
        taken = np.minimum(np.minimum(config.lanes - waiting, total[live] - start), cap - start)
        words = _lane_words(products, live, start, waiting, taken, fifo[live])
        stays, clashes, merged = _arbitrate(words, waiting + taken, tiles.shape[1:], products.window_columns, config)
        pointer[live] = start + taken
        held[live] = stays.sum(axis=1)
        fifo[live] = np.take_along_axis(words, np.argsort(~stays, axis=1, kind="stable"), axis=1)
        counts.rounds[live] += 1
        counts.issued[live] += taken
        counts.idle[live] += config.lanes - waiting - taken
        counts.conflicts[live] += clashes
        counts.merged[live] += merged
        counts.fifo_peak[live] = np.maximum(counts.fifo_peak[live], held[live])
        live = live[(pointer[live] < total[live]) | (held[live] > 0)]
    return counts


def _products(tiles: BoolArray, kernel: Position, weights: list[Position], order: str) -> _Products:
    rows, columns = tiles.shape[1:]
    window_columns = columns + kernel[1] - 1
    cells = np.arange(rows)[:, None] * window_columns + np.arange(columns)
    if order == "column":
        tiles, cells = tiles.transpose(0, 2, 1), cells.T
    present = tiles.reshape(len(tiles), -1)
    first = np.argsort(~present, axis=1, kind="stable")
    offset = [(kernel[0] - 1 - row) * window_columns + kernel[1] - 1 - column for row, column in weights]
    base = cells.ravel().astype(WORD)[first]
    return _Products(base, present.sum(axis=1, dtype=np.int64), np.array(offset, WORD), window_columns)


def _lane_words(
    products: _Products, live: Int64Array, start: Int64Array, waiting: Int64Array, taken: Int64Array, fifo: WordArray
) -> WordArray:
    """Accumulator word of each lane (tiles, lanes): held products, then new pairs, then numbers that meet nothing."""
    lane = np.arange(fifo.shape[1])
    behind = lane - waiting[:, None]
    pair = np.where((behind >= 0) & (behind < taken[:, None]), start[:, None] + behind, 0)
    weight, value = np.divmod(pair, products.values[live][:, None])
    new = products.base[live[:, None], value] + products.offset[weight]
    words: WordArray = np.where(behind < 0, fifo, new)
    return np.where(behind < taken[:, None], words, (-1 - lane).astype(WORD))


def _arbitrate(
    words: WordArray, used: Int64Array, tile: tuple[int, ...], window_columns: int, config: SparseClusterConfig
) -> tuple[BoolArray, Int64Array, Int64Array]:
    """Which lanes hold their product back (tiles, lanes); clashes and merged pairs of each tile (tiles,)."""
    lanes = words.shape[1]
    valid = np.arange(lanes) < used[:, None]
    first_leaves = config.merge_policy == "defer_later"
    before = np.tri(lanes, k=-1, dtype=np.bool_) if first_leaves else ~np.tri(lanes, dtype=np.bool_)
    same_word = words[:, :, None] == words[:, None, :]
    rank = (same_word & before).sum(axis=2, dtype=np.int8)
    adds = config.variant == "D"
    if config.conflict == "index":
        stays = (rank >= (2 if adds else 1)) & valid
        clashes = ((rank > 0) & valid).sum(axis=1)
        merged = ((rank == 1) & valid).sum(axis=1) if adds else np.zeros(len(words), np.int64)
        return stays, clashes, merged
    bank = words // window_columns % tile[0] * tile[1] + words % window_columns % tile[1]
    same_bank = (np.where(valid, bank, words)[:, :, None] == np.where(valid, bank, words)[:, None, :]) & before
    owns = ~same_bank.any(axis=2)
    partner = (rank == 1) & (same_word & before & owns[:, None, :]).any(axis=2) & adds
    stays = ~(owns | partner) & valid
    return stays, stays.sum(axis=1), (partner & valid).sum(axis=1)
