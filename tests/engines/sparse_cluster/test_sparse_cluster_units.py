"""Units that are not alike, and more pieces than units."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, balance
from bfpga.engines.sparse_cluster.partition.geometry import Padding, overlap_add_geometry
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.engines.sparse_cluster.units.queue import units_of_pieces
from bfpga.errors import ConfigurationError


def layer_and_image(kernels: int = 3, side: int = 24, seed: int = 5) -> tuple[SparseLayer, np.ndarray]:
    generator = np.random.default_rng(seed)
    weights = generator.integers(1, 9, (kernels, 3, 3, 2))
    image = np.where(generator.random((side, side, 2)) < 0.4, generator.integers(-9, 10, (side, side, 2)), 0)
    return SparseLayer(weights, Padding(1, 1, 1, 1)), image


def stitched(cluster: SparseCluster, image: np.ndarray) -> np.ndarray:
    plan = cluster.plan(image)
    return cluster.stitch(cluster.piece_results(image, plan), plan, image.shape[:2])


# --- different lanes


@pytest.mark.parametrize("variant", "BCDE")
def test_units_with_more_lanes_get_more_work(variant: Literal["B", "C", "D", "E"]) -> None:
    """SC R65: p = 4 and 8; pieces are as large as the units are fast, rounds are those of each unit's own lanes"""
    layer, image = layer_and_image()
    lanes = (4, 8, 8, 4)
    partition = PartitionSettings((2, 2), "overlap_add", tau=0.1, tau_unit="rel")
    config = SparseClusterConfig(
        units=4, variant=variant, weights_per_round=256 if variant in "CD" else None, unit_lanes=lanes,
        partition=partition, kernels_in_flight=1, accumulator_words=2048,
    )  # fmt: skip
    cluster = SparseCluster(layer, config)
    plan = cluster.plan(image)
    values = np.array([
        np.count_nonzero(image[p.stored.row0 : p.stored.row1, p.stored.column0 : p.stored.column1])
        for p in plan.pieces
    ])  # fmt: skip
    shares = values / np.array(lanes)
    assert plan.reached
    assert shares.max() / shares.mean() <= 1.1
    counted = cluster.cycles(image, plan)
    for unit, each in enumerate(lanes):
        alone = SparseCluster(layer, config.with_lanes(each)).cycles(image, plan).counters
        for name in ("rounds", "issued", "idle", "conflicts", "fifo_peak"):
            assert getattr(counted.counters, name)[unit] == getattr(alone, name)[unit]
    offered = int(np.array(lanes) @ counted.counters.rounds)
    assert counted.utilization == pytest.approx(counted.counters.total("issued") / offered)
    assert (stitched(cluster, image) == cluster.run(image[None])[0]).all()


def test_equal_lanes_are_the_plain_balance() -> None:
    """SC R65: the moves are those of units that are all alike"""
    work = np.random.default_rng(1).integers(0, 3, (20, 20))
    chosen = PartitionSettings((2, 2), tau=0.0)
    geometry = overlap_add_geometry(20, 20)
    assert balance(work, geometry, chosen, lanes=(5, 5, 5, 5)) == balance(work, geometry, chosen)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 20), st.lists(st.integers(1, 9), min_size=6, max_size=6))
def test_work_by_lanes_only_falls(seed: int, lanes: list[int]) -> None:
    """SC R65: the sum of load * load / lanes, which is smallest where load / lanes is the same everywhere"""
    work = np.random.default_rng(seed).integers(0, 4, (12, 15))
    found = balance(work, overlap_add_geometry(12, 15), PartitionSettings((2, 3), tau=0.0, start="equal"), lanes=lanes)
    start, end = (sum(load * load / p for load, p in zip(loads, lanes, strict=True))
                  for loads in (found.start_loads, found.loads))  # fmt: skip
    assert end <= start
    assert sum(found.loads) == int(work.sum())
    shares = [load / p for load, p in zip(found.loads, lanes, strict=True)]
    assert (found.spread == 0) == (max(shares) == min(shares))


@pytest.mark.parametrize("variant", ["reduction", "variant"])
def test_pointwise_layers_on_units_with_different_lanes(variant: Literal["reduction", "variant"]) -> None:
    """SC R65, SC R120: idle and issued lanes are those of each unit"""
    generator = np.random.default_rng(4)
    layer = SparseLayer(generator.integers(1, 9, (5, 1, 1, 7)))
    image = np.where(generator.random((9, 9, 7)) < 0.5, 3, 0)
    config = SparseClusterConfig(
        units=2, unit_lanes=(2, 6), partition=PartitionSettings((1, 2)), pointwise=variant, kernels_in_flight=5
    )
    counters = SparseCluster(layer, config).cycles(image).counters
    assert (counters.issued + counters.idle).tolist() == (counters.rounds * np.array([2, 6])).tolist()
    assert counters.total("issued") == 5 * np.count_nonzero(image)


# --- a queue of pieces


def test_six_pieces_on_four_units() -> None:
    """SC R32, SC R150: every piece once, on the unit that is free first; the same bits"""
    layer, image = layer_and_image()
    image[:8] = 0
    config = SparseClusterConfig(
        units=4, partition=PartitionSettings((2, 3), start="equal", max_moves=0), queue_pieces=True
    )
    cluster = SparseCluster(layer, config)
    plan = cluster.plan(image)
    assert len(plan.pieces) == 6
    assert sum(piece.owned.area for piece in plan.pieces) == 24 * 24
    loads = plan.balances[0].loads
    free = [0, 0, 0, 0]
    for piece, load in zip(plan.pieces, loads, strict=True):
        assert free[piece.unit] == min(free)
        free[piece.unit] += load
    counters = cluster.cycles(image, plan).counters
    assert counters.rounds.tolist() == [3 * load for load in free]
    assert (stitched(cluster, image) == cluster.run(image[None])[0]).all()


def test_folds_wait_in_the_same_queue() -> None:
    """SC R32, SC R148, SC R150: no unit waits for the last one of a fold; pieces of each channel in its own queue"""
    layer, image = layer_and_image(side=30)
    image[3:15, 3:15] = 7
    for scope in ("layer", "channel"):
        partition = PartitionSettings((1, 2), "overlap_add", scope, max_moves=0)  # type: ignore[arg-type]
        config = SparseClusterConfig(units=2, partition=partition, memory_words=200)
        folded = SparseCluster(layer, config)
        queued = SparseCluster(layer, replace(config, queue_pieces=True))
        first, second = folded.plan(image), queued.plan(image)
        assert len({piece.fold for piece in first.pieces}) > 1
        assert [piece.stored for piece in first.pieces] == [piece.stored for piece in second.pieces]
        assert queued.cycles(image).rounds <= folded.cycles(image).rounds
        assert (stitched(queued, image) == queued.run(image[None])[0]).all()


def test_pointwise_pieces_wait_in_a_queue() -> None:
    """SC R32, SC R120: pixels of six pieces on four units"""
    generator = np.random.default_rng(4)
    image = np.where(generator.random((12, 12, 7)) < 0.5, 3, 0)
    config = SparseClusterConfig(units=4, partition=PartitionSettings((2, 3)), queue_pieces=True)
    counters = SparseCluster(SparseLayer(generator.integers(1, 9, (2, 1, 1, 7))), config).cycles(image).counters
    assert counters.total("rounds") == 2 * int((-(-np.count_nonzero(image, axis=2) // 9)).sum())
    assert (counters.rounds > 0).all()


@given(st.lists(st.integers(0, 50), max_size=12), st.lists(st.integers(1, 8), min_size=1, max_size=4))
def test_no_unit_rests_while_pieces_wait(loads: list[int], lanes: list[int]) -> None:
    """SC R150: simulated clock by clock of 1 / 840"""
    step = 840
    busy = [0] * len(lanes)
    waiting, clock, wanted = list(loads), 0, []
    while waiting:
        for unit in range(len(lanes)):
            while waiting and busy[unit] <= clock:
                busy[unit] = clock + waiting.pop(0) * step // lanes[unit]
                wanted.append(unit)
        clock = min(busy)
    assert units_of_pieces(loads, lanes) == wanted


@pytest.mark.parametrize(("values", "message"), [
    ({"units": 4, "partition": PartitionSettings((2, 3))}, "grid 2 x 3 makes 6 pieces for 4 units"),
    ({"units": 8, "partition": PartitionSettings((2, 3)), "queue_pieces": True}, "grid 2 x 3 makes 6 pieces for 8"),
    ({"unit_lanes": (4, 8)}, r"unit_lanes is \(4, 8\); 8 numbers from 1 to 32 are needed"),
    ({"unit_lanes": (4,) * 7 + (33,)}, "8 numbers from 1 to 32"),
])  # fmt: skip
def test_clusters_that_cannot_be_built_are_refused(values: dict[str, object], message: str) -> None:
    """SC R154"""
    with pytest.raises(ConfigurationError, match=message):
        SparseClusterConfig(**values)  # type: ignore[arg-type]


def test_lanes_that_fit_no_partition_are_refused() -> None:
    """SC R154"""
    work = np.ones((6, 6), np.int64)
    with pytest.raises(ConfigurationError, match="4 numbers of 1 at least are needed"):
        balance(work, overlap_add_geometry(6, 6), PartitionSettings((2, 2)), lanes=(1, 2))
    with pytest.raises(ConfigurationError, match="cannot be balanced exactly"):
        balance(work * (1 << 23), overlap_add_geometry(6, 6), PartitionSettings((2, 2)), lanes=(31, 29, 27, 25))
