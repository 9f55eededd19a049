"""How a kernel's partition process cuts a map: the moves of the exchange, from equal pieces."""

from __future__ import annotations

import numpy as np
import pytest

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import overlap_add_geometry
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition
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
    found = kernel_partition(nonzero, CLUSTER)
    settings = PartitionSettings((2, 4), "overlap_add", start="equal", metric="nnz", tau=16 * 24 * 8 * 3 // 800)
    work = work_map(nonzero.transpose(2, 0, 1), "nnz")
    capacity = Capacity(64, (5, 5), (3, 3))
    assert found == balance(work, overlap_add_geometry(16, 24), settings, capacity, 8)
    assert found.moves > 0
    assert max(found.loads) < max(found.start_loads)


def test_a_map_with_fewer_lines_than_pieces_stays_as_it_is() -> None:
    found = kernel_partition(np.ones((1, 3, 4), bool), CLUSTER)
    assert found.moves == 0
    assert found.loads == (0, 0, 0, 0, 0, 4, 4, 4)


def test_moves_may_be_forbidden() -> None:
    assert kernel_partition(spotted(0, 16, 24, 8), CLUSTER, moves=0).moves == 0
