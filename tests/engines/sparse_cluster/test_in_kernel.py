"""How a kernel's partition process cuts a map: the moves of the exchange, from equal pieces."""

from __future__ import annotations

import numpy as np
import pytest

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode
from bfpga.engines.skip_array.unit_maps import allowed_moves, possible_joins
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import overlap_add_geometry
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition, layer_partition, unit_values
from bfpga.engines.sparse_cluster.partition.moves import Capacity

CLUSTER = SystolicConfig(lanes=4, cluster_rows=2, cluster_columns=4, cluster_words=64, cluster_threshold=3)


def spotted(seed: int, rows: int, columns: int, channels: int) -> np.ndarray:
    """A map with values in a corner."""
    rng = np.random.default_rng(seed)
    down, across = np.meshgrid(np.arange(rows) / rows, np.arange(columns) / columns, indexing="ij")
    return rng.random((rows, columns, channels)) < (1 - np.maximum(down, across))[..., None] ** 2


@pytest.mark.parametrize("seed", range(8))
def test_moves_are_those_of_the_exchange(seed: int) -> None:
    nonzero = spotted(seed, 16, 24, 8)
    found = kernel_partition(nonzero, CLUSTER, 256)
    settings = PartitionSettings((2, 4), "overlap_add", start="equal", metric="nnz", tau=16 * 24 * 8 * 3 // 800)
    work = work_map(nonzero.transpose(2, 0, 1), "nnz")
    capacity = Capacity(64, (5, 5), (3, 3))
    assert found == balance(work, overlap_add_geometry(16, 24), settings, capacity, 8)
    assert found.moves > 0
    assert max(found.loads) < max(found.start_loads)


@pytest.mark.parametrize("seed", range(4))
def test_joined_pieces_are_those_of_a_smaller_grid(seed: int) -> None:
    nonzero = spotted(seed, 9, 13, 8)
    found = kernel_partition(nonzero, CLUSTER, 256, (1, 2))
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


def layer(groups: int = 1, joined: tuple[int, int] = (1, 1)) -> ArrayNode:
    return ArrayNode("layer", "gemm", ("x",), "y", 4, groups=groups, joined_pieces=joined)


def test_moves_may_be_forbidden() -> None:
    assert kernel_partition(spotted(0, 16, 24, 8), CLUSTER, moves=0).moves == 0
    assert layer_partition(layer(groups=2), spotted(0, 16, 24, 8), CLUSTER).moves == 0


def test_when_limits_may_move() -> None:
    assert allowed_moves(2, 4, layer(), CLUSTER) == CLUSTER.cluster_moves
    assert allowed_moves(1, 4, layer(), CLUSTER) == allowed_moves(2, 3, layer(), CLUSTER) == 0
    assert allowed_moves(2, 4, layer(groups=2), CLUSTER) == 0
    assert allowed_moves(1, 4, layer(joined=(2, 1)), CLUSTER) == CLUSTER.cluster_moves
    assert allowed_moves(8, 8, layer(joined=(2, 4)), CLUSTER) == 0  # one piece
    assert allowed_moves(40, 30, layer(joined=(2, 4)), CLUSTER) == CLUSTER.cluster_moves  # no unit holds its sums


@pytest.mark.parametrize("joined", [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_units_of_a_piece_take_its_cells_in_turn(joined: tuple[int, int]) -> None:
    """SC R21: as the distributor deals them, word of channels by word, in raster order; zeros take no turn."""
    nonzero = spotted(3, 9, 10, 10)
    partition = kernel_partition(nonzero, CLUSTER, 256, joined).partition
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
        assert unit_values(partition, nonzero, blocks, CLUSTER).tolist() == expected


def test_units_of_variant_b_have_pieces_of_their_own() -> None:
    assert possible_joins(CLUSTER) == [(1, 1), (1, 2), (2, 1), (1, 4), (2, 2), (2, 4)]
    assert possible_joins(SystolicConfig(cluster_rows=2, cluster_columns=4, cluster_variant="B")) == [(1, 1)]
