"""What a plan gives to each unit, and what surrounds it: single maps, memory counters, orders, pooling, next layers."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import pytest

from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings
from bfpga.engines.sparse_cluster.partition.geometry import Padding
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.engines.sparse_cluster.units.output import PoolSettings, pool, relu
from bfpga.engines.sparse_cluster.units.weights import weight_order


def layer_and_image(channels: int = 3, side: int = 15) -> tuple[SparseLayer, np.ndarray]:
    """Five kernels of 3 x 3 and an image whose values lie in its upper left corner."""
    generator = np.random.default_rng(11)
    weights = generator.integers(-9, 10, (5, 3, 3, channels))
    image = generator.integers(-9, 10, (side, side, channels))
    image[side // 2 :] = 0
    image[:, side // 2 :] = 0
    return SparseLayer(weights, Padding(1, 1, 1, 1)), image


@pytest.mark.parametrize(("scope", "partitions"), [("layer", 1), ("channel", 3)])
def test_five_units_get_five_pieces(scope: Literal["layer", "channel"], partitions: int) -> None:
    """SC R21: a piece for each unit, of the layer or of each channel."""
    layer, image = layer_and_image()
    config = SparseClusterConfig(units=5, partition=PartitionSettings((1, 5), scope=scope))
    pieces = SparseCluster(layer, config).plan(image).pieces
    assert [piece.unit for piece in pieces] == [0, 1, 2, 3, 4] * partitions
    assert sum(piece.owned.area for piece in pieces) == partitions * 15 * 15


def test_an_image_is_as_many_maps_as_it_has_channels() -> None:
    """SC R1: the same sums from the image as from its maps, one after another."""
    layer, image = layer_and_image()
    whole = SparseCluster(layer, SparseClusterConfig()).run(image[None])
    maps = [
        SparseCluster(SparseLayer(layer.weights[..., c : c + 1], layer.padding), SparseClusterConfig()).run(
            image[None, :, :, c : c + 1]
        )
        for c in range(3)
    ]
    assert (sum(maps) == whole).all()


def test_occupancy_and_set_switches_are_counted() -> None:
    """SC R56: the fullest payload of each unit; a switch for each channel and group of kernels."""
    layer, image = layer_and_image()
    config = SparseClusterConfig(units=2, partition=PartitionSettings((1, 2)), kernels_in_flight=4)
    cluster = SparseCluster(layer, config)
    plan = cluster.plan(image)
    counters = cluster.cycles(image, plan).counters
    for piece in plan.pieces:
        stored = piece.stored
        cells = image[stored.row0 : stored.row1, stored.column0 : stored.column1]
        assert counters.memory_peak[piece.unit] == np.count_nonzero(cells, axis=(0, 1)).max()
    assert counters.set_switches.tolist() == [3 * 2, 3 * 2]


@pytest.mark.parametrize("scope", ["layer", "channel"])
def test_work_may_be_a_function_of_ones_own(scope: Literal["layer", "channel"]) -> None:
    """SC R27: what counts is the work that is given, not the non-zeros; the bits stay."""
    layer, image = layer_and_image(side=16)
    partition = PartitionSettings((2, 2), "overlap_add", scope, tau=0.0, metric="nnz")
    cluster = SparseCluster(layer, SparseClusterConfig(units=4, partition=partition))
    work = np.zeros((3, 16, 16), np.int64)
    work[:, 12:, :4] = np.arange(1, 4)[:, None, None]
    plan = cluster.plan(image, work if scope == "channel" else work.sum(axis=0))
    quarter = 16 * 6 // 4
    wanted = [[quarter] * 4] if scope == "layer" else [[4 * n] * 4 for n in (1, 2, 3)]
    assert [list(balance.loads) for balance in plan.balances] == wanted
    assert plan.reached
    assert plan.pieces != cluster.plan(image).pieces
    stitched = cluster.stitch(cluster.piece_results(image, plan), plan, image.shape[:2])
    assert (stitched == cluster.run(image[None])[0]).all()


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (3, 3), (4, 3), (5, 5)])
def test_serpentine_weights_move_the_window_by_one_cell(kernel: tuple[int, int]) -> None:
    """SC R84: every weight once, from the window at the bottom right; variant A takes this order."""
    order = weight_order(kernel, SparseClusterConfig(variant="A").order_of_weights)
    assert sorted(order) == [(row, column) for row in range(kernel[0]) for column in range(kernel[1])]
    origins = [(kernel[0] - 1 - row, kernel[1] - 1 - column) for row, column in order]
    assert origins[0] == (kernel[0] - 1, kernel[1] - 1)
    assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1 for a, b in pairwise(origins))


@pytest.mark.parametrize(("size", "stride"), [((3, 3), (2, 2)), ((2, 3), (1, 4)), ((3, 1), None)])
def test_pooling_windows_of_any_size_and_stride(size: tuple[int, int], stride: tuple[int, int] | None) -> None:
    """SC R123: window by window."""
    values = np.random.default_rng(5).integers(-99, 100, (9, 10, 2))
    steps = stride or size
    rows, columns = ((cells - each) // step + 1 for cells, each, step in zip((9, 10), size, steps, strict=True))
    for kind, wanted in (
        ("max", lambda window: window.max(axis=(0, 1))),
        ("sum", lambda window: window.sum(axis=(0, 1))),
        ("average", lambda window: np.floor(window.mean(axis=(0, 1)) + 0.5 + 1e-9)),
    ):
        found = pool(values, PoolSettings(kind, size, stride))  # type: ignore[arg-type]
        assert found.shape == (rows, columns, 2)
        for r in range(rows):
            for c in range(columns):
                top, left = r * steps[0], c * steps[1]
                assert (found[r, c] == wanted(values[top : top + size[0], left : left + size[1]])).all()


def test_pieces_of_pointwise_layers_share_no_border() -> None:
    """SC R31: raw results of overlap-add are as large as their pieces."""
    _, image = layer_and_image()
    layer = SparseLayer(np.random.default_rng(3).integers(-9, 10, (4, 1, 1, 3)))
    for mode in ("halo", "overlap_add"):
        partition = PartitionSettings(mode=mode)  # type: ignore[arg-type]
        cluster = SparseCluster(layer, SparseClusterConfig(partition=partition, pointwise="variant"))
        plan = cluster.plan(image)
        for piece, result in zip(plan.pieces, cluster.piece_results(image, plan), strict=True):
            assert piece.stored == piece.owned
            assert result.shape[:2] == (piece.owned.rows, piece.owned.columns)


def test_the_next_layer_is_cut_by_what_the_first_one_left() -> None:
    """SC R132, SC R134, SC R151: results become inputs, and their own non-zeros decide where they are cut."""
    first, image = layer_and_image()
    config = SparseClusterConfig(units=4, partition=PartitionSettings((2, 2), "overlap_add", start="equal"))
    between = relu(np.clip(SparseCluster(first, config).run(image[None])[0] >> 5, -128, 127))
    second = SparseCluster(SparseLayer(np.ones((2, 3, 3, 5), np.int64), Padding(1, 1, 1, 1)), config)
    plan = second.plan(between)
    balance = plan.balances[0]
    assert plan.moves > 0
    assert max(balance.loads) < max(balance.start_loads)
    stored = [piece.stored for piece in plan.pieces]
    assert list(balance.loads) == [np.count_nonzero(between[p.row0 : p.row1, p.column0 : p.column1]) for p in stored]
    stitched = second.stitch(second.piece_results(between, plan), plan, between.shape[:2])
    assert (stitched == second.run(between[None])[0]).all()
