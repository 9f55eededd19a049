"""How a kernel's partition process cuts a map: the moves of the exchange, from equal pieces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from changed_kernels import changed
from map_words import shared_halo_limits
from unit_words import UnitNumbers

from bfpga.contract.arrays.sparse_cluster import SparseCluster, cluster_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle, overlap_add_geometry
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition, layer_partition, unit_values
from bfpga.engines.sparse_cluster.partition.moves import Capacity
from bfpga.engines.sparse_cluster.unit_maps import allowed_moves, equal_piece, pieces_fit, possible_joins

CLUSTER = KernelConfig(lanes=4, array=SparseCluster(rows=2, columns=4))
MOVES = cluster_array(CLUSTER.array).moves


def spotted(seed: int, rows: int, columns: int, channels: int) -> np.ndarray:
    """A map with values in a corner."""
    rng = np.random.default_rng(seed)
    down, across = np.meshgrid(np.arange(rows) / rows, np.arange(columns) / columns, indexing="ij")
    return rng.random((rows, columns, channels)) < (1 - np.maximum(down, across))[..., None] ** 2


@pytest.mark.parametrize("seed", range(8))
def test_moves_are_those_of_the_exchange(seed: int) -> None:
    nonzero = spotted(seed, 16, 24, 8)
    found = kernel_partition(nonzero, (3, 3), CLUSTER, 256)
    settings = PartitionSettings((2, 4), "overlap_add", start="equal", metric="nnz", tau=16 * 24 * 8 * 3 // 800)
    work = work_map(nonzero.transpose(2, 0, 1), "nnz")
    capacity = Capacity(64, (5, 5), (3, 3))
    assert found == balance(work, overlap_add_geometry(16, 24), settings, capacity, 8)
    assert found.moves > 0
    assert max(found.loads) < max(found.start_loads)


@pytest.mark.parametrize("seed", range(4))
def test_joined_pieces_are_those_of_a_smaller_grid(seed: int) -> None:
    nonzero = spotted(seed, 9, 13, 8)
    found = kernel_partition(nonzero, (3, 3), CLUSTER, 256, (1, 2))
    settings = PartitionSettings((2, 2), "overlap_add", start="equal", metric="nnz", tau=9 * 13 * 8 * 3 // 400)
    work = work_map(nonzero.transpose(2, 0, 1), "nnz")
    expected = balance(work, overlap_add_geometry(9, 13), settings, Capacity(64, (5, 5), (3, 3)), 8)
    assert found.moves > 0
    assert (found.loads, found.moves) == (expected.loads, expected.moves)


def test_a_map_with_fewer_lines_than_pieces_stays_as_it_is() -> None:
    nonzero = np.ones((1, 3, 4), bool)
    found = layer_partition(layer(), nonzero, CLUSTER)
    assert found.moves == 0
    assert found.loads == (0, 0, 0, 0, 0, 4, 4, 4)
    joined = layer_partition(layer(joined=(2, 1)), nonzero, CLUSTER)
    assert joined.loads == (0, 4, 4, 4)


@pytest.mark.parametrize("seed", range(40))
def test_the_owner_of_an_output_has_all_of_its_cells(seed: int) -> None:
    """SC R29, SC R31: whatever kernel, stride and padding, and each line of the full grid has one owner."""
    rng = np.random.default_rng(seed)
    lines, kernel, stride = int(rng.integers(3, 30)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    pad = int(rng.integers(0, kernel))
    limits = [0, *sorted(rng.choice(np.arange(1, lines), 2, replace=False).tolist()), lines]
    pieces = [Rectangle(first, 0, last, 1) for first, last in pairwise(limits)]
    numbers = UnitNumbers(1, (kernel, 1), 4, 256, 4)
    words = shared_halo_limits(pieces, (lines, 1), (kernel, 1), numbers, len(pieces))
    owned = [range(first, end) for first, end in words[:, [8, 10]].tolist()]
    assert [line for each in owned for line in each] == list(range(lines + kernel - 1))
    for output in range((lines - 1 + pad) // stride + 1):
        (owner,) = (word for word, own in zip(words, owned, strict=True) if output * stride + kernel - 1 - pad in own)
        read = np.arange(output * stride - pad, output * stride - pad + kernel).clip(0, lines - 1)
        assert owner[0] <= read.min()
        assert read.max() < owner[2]
    shared = words[:-1, 2] - words[1:, 0]
    assert (shared <= kernel - 1).all()
    assert (shared == kernel - 1).any() or kernel > 3


def test_halo_counts_in_loads_and_capacity() -> None:
    """SC R29, SC R155: pieces of 8 x 6 cells have a line more at each side that is not the map's."""
    halo = changed(CLUSTER, array_form="halo")
    full = np.ones((16, 24, 4), bool)
    found = kernel_partition(full, (3, 3), halo, 0)
    assert found.loads == tuple(4 * 9 * columns for _ in range(2) for columns in (7, 8, 8, 7))
    assert kernel_partition(full, (1, 1), halo, 0).loads == (4 * 8 * 6,) * 8
    assert equal_piece(16, 24, (3, 3), halo) == (9, 8)
    assert equal_piece(1, 3, (3, 3), halo) == (1, 3)
    small = changed(halo, array_words=16)
    assert pieces_fit(16, 32, (1, 1), small)
    assert not pieces_fit(16, 32, (3, 3), small)


def layer(groups: int = 1, joined: tuple[int, int] = (1, 1)) -> ArrayNode:
    return ArrayNode("layer", "gemm", ("x",), "y", 4, groups=groups, joined_pieces=joined)


def test_moves_may_be_forbidden() -> None:
    assert kernel_partition(spotted(0, 16, 24, 8), (3, 3), CLUSTER, moves=0).moves == 0
    assert layer_partition(layer(groups=2), spotted(0, 16, 24, 8), CLUSTER).moves == 0


def test_when_limits_may_move() -> None:
    assert allowed_moves(2, 4, layer(), CLUSTER) == MOVES
    assert allowed_moves(1, 4, layer(), CLUSTER) == allowed_moves(2, 3, layer(), CLUSTER) == 0
    assert allowed_moves(2, 4, layer(groups=2), CLUSTER) == 0
    assert allowed_moves(1, 4, layer(joined=(2, 1)), CLUSTER) == MOVES
    assert allowed_moves(8, 8, layer(joined=(2, 4)), CLUSTER) == 0  # one piece
    assert allowed_moves(40, 30, layer(joined=(2, 4)), CLUSTER) == MOVES  # no unit holds its sums


@pytest.mark.parametrize("joined", [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_units_of_a_piece_take_its_cells_in_turn(joined: tuple[int, int]) -> None:
    """SC R21: as the distributor deals them, word of channels by word, in raster order; zeros take no turn."""
    nonzero = spotted(3, 9, 10, 10)
    partition = kernel_partition(nonzero, (3, 3), CLUSTER, 256, joined).partition
    for blocks in ([range(3)], [range(2), range(1, 3)]):
        expected = []
        for piece in partition.rectangles():
            units = [0] * (joined[0] * joined[1])
            for block in blocks:
                turn = 0
                for word in block:
                    for row in range(piece.row0, piece.row1):
                        for column in range(piece.column0, piece.column1):
                            values = int(nonzero[row, column, 4 * word : 4 * word + 4].sum())
                            units[turn] += values
                            turn = (turn + (values > 0)) % len(units)
            expected += units
        assert unit_values(partition, nonzero, blocks, (3, 3), CLUSTER).tolist() == expected


def test_units_of_variant_b_have_pieces_of_their_own() -> None:
    assert possible_joins(CLUSTER) == [(1, 1), (1, 2), (2, 1), (1, 4), (2, 2), (2, 4)]
    assert possible_joins(KernelConfig(array=SparseCluster(rows=2, columns=4, variant="B"))) == [(1, 1)]
