"""The vectors of the sparse cluster: results and every counter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sparse_vectors import FOLDER, load_vector

from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings
from bfpga.engines.sparse_cluster.partition.geometry import Padding, folds
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.engines.sparse_cluster.units.cycles import count_layer
from bfpga.engines.sparse_cluster.units.output import PoolSettings, pool, relu
from bfpga.engines.sparse_cluster.units.plan import Piece, Plan
from bfpga.engines.sparse_cluster.units.reduction import partial_sums

#: What the names of schedules in the vectors mean.
SCHEDULES: dict[str, dict[str, Any]] = {
    "A": {"variant": "A", "skip_zero_weights": False},
    "A_skip": {"variant": "A"},
    "B": {"variant": "B"},
    "C_w1": {"variant": "C", "weights_per_round": 1},
    "C_w2": {"variant": "C", "weights_per_round": 2},
    "C_w3": {"variant": "C", "weights_per_round": 3},
    "C_wmax": {"variant": "C", "weights_per_round": 256},
    "D_w2": {"variant": "D", "weights_per_round": 2},
    "D_wmax": {"variant": "D", "weights_per_round": 256},
    "E": {"variant": "E"},
}
ONE_UNIT = PartitionSettings(grid=(1, 1), mode="overlap_add")
CASES = [
    (path.stem, schedule)
    for path in sorted(FOLDER.glob("sc*.json"))
    for schedule in load_vector(path.stem)["expected"].get("schedules", {})
]


def cluster_of(vector: dict[str, Any], **values: Any) -> SparseCluster:
    """One unit with the lanes and tile of a vector."""
    config = vector["config"]
    kernel = np.array(vector["weights"]["kernel"])[None, :, :, None]
    order = config.get("weight_order")
    layer = SparseLayer(kernel, Padding(*config["pad"]), tuple(config["stride"]))
    chosen = {"units": 1, "partition": ONE_UNIT, "lanes": config["p"], "tile": tuple(config["tile"])}
    if isinstance(order, list):
        chosen["weight_order"] = tuple(map(tuple, order))
    return SparseCluster(layer, SparseClusterConfig(largest_kernel=(16, 16), pointwise="variant", **(chosen | values)))


def image_of(vector: dict[str, Any]) -> np.ndarray:
    return np.array(vector["input"]["map"])[:, :, None]


@pytest.mark.parametrize(("name", "schedule"), CASES)
def test_results_and_counters_are_those_of_the_vector(name: str, schedule: str) -> None:
    """Functions SC R19, SC R35, SC R69-R72, SC R74, SC R77, SC R80, SC R91, SC R92, SC R105, SC R112, SC R113, SC R146.

    Counters SC R61, SC R78, SC R83, SC R85, SC R97-R102, SC R104, SC R108-R111, SC R114, SC R153.
    """
    vector = load_vector(name)
    cluster, image = cluster_of(vector, **SCHEDULES[schedule]), image_of(vector)
    assert cluster.run(image[None])[0, :, :, 0].tolist() == vector["expected"]["out"]
    plan = cluster.plan(image)
    full = cluster.piece_results(image, plan)
    assert full[0][:, :, 0].tolist() == vector["expected"]["full"]
    assert cluster.stitch(full, plan, image.shape[:2])[:, :, 0].tolist() == vector["expected"]["out"]
    expected = {key: value for key, value in vector["expected"]["schedules"][schedule].items() if key != "trace"}
    counters = cluster.cycles(image).counters
    assert {key: counters.total(key) for key in expected} == expected


def test_all_vectors_of_the_cluster_are_here() -> None:
    assert len(list(FOLDER.glob("sc*.json"))) == 26
    assert len(CASES) == 92


@pytest.mark.parametrize("mode", ["overlap_add", "halo"])
def test_pieces_of_four_units(mode: str) -> None:
    """SC R29, SC R30, SC R81, SC R128, SC R129: rectangles, values and rounds of each unit; the same output."""
    vector = load_vector("sc19_partition")
    partition = PartitionSettings((2, 2), mode=mode, start="equal", max_moves=0)  # type: ignore[arg-type]
    cluster = cluster_of(vector, units=4, variant="B", partition=partition)
    image, expected = image_of(vector), vector["expected"]
    plan = cluster.plan(image)
    counted = cluster.cycles(image, plan)
    for piece, want in zip(plan.pieces, expected[mode], strict=True):
        assert list(piece.stored) == want.get("rect", want.get("in_rect"))
        assert counted.counters.rounds[piece.unit] == want["rounds"]
        stored = image[piece.stored.row0 : piece.stored.row1, piece.stored.column0 : piece.stored.column1]
        assert np.count_nonzero(stored) == want["nnz"]
    stitched = cluster.stitch(cluster.piece_results(image, plan), plan, image.shape[:2])
    assert stitched[:, :, 0].tolist() == expected["out"]


def test_depthwise_separable_layers() -> None:
    """SC R120, SC R123, SC R125, SC R136, SC R137, SC R141: each channel alone, then 1 x 1 kernels, ReLU, pooling."""
    vector = load_vector("sc13_depthwise")
    config, expected = vector["config"], vector["expected"]
    image = np.array(vector["input"]["maps"]).transpose(1, 2, 0)
    depthwise = SparseLayer(np.array(vector["weights"]["depthwise"])[:, :, :, None], Padding(*config["pad"]), groups=3)
    first = SparseClusterConfig(units=1, lanes=config["p_depthwise"], tile=(3, 3), variant="B", partition=ONE_UNIT)
    cluster = SparseCluster(depthwise, first)
    between = cluster.run(image[None])[0]
    assert between.transpose(2, 0, 1).tolist() == expected["intermediate"]
    assert cluster.cycles(image).counters.total("rounds") == sum(expected["depthwise_rounds"])
    pointwise = SparseLayer(np.array(vector["weights"]["pointwise"])[:, None, None, :])
    second = SparseClusterConfig(units=1, lanes=config["p_pointwise"], input_bits=16, partition=ONE_UNIT)
    sums = SparseCluster(pointwise, second)
    result = sums.run(between[None])[0]
    assert result.transpose(2, 0, 1).tolist() == expected["pointwise"]
    assert sums.cycles(between).counters.total("rounds") == expected["pointwise_rounds"]
    active = relu(result)
    assert active.transpose(2, 0, 1).tolist() == expected["relu"]
    for kind, key in (("max", "pool_max"), ("average", "pool_avg"), ("sum", "pool_sum")):
        assert pool(active, PoolSettings(kind)).transpose(2, 0, 1).tolist() == expected[key]  # type: ignore[arg-type]


def test_fully_connected_layers() -> None:
    """SC R117-R119: sums of the adder tree round by round, a partial group last."""
    vector = load_vector("sc17_fully_connected")
    weights, inputs = np.array(vector["weights"]["matrix"]), np.array(vector["input"]["vector"])
    expected, lanes = vector["expected"], vector["config"]["p"]
    assert partial_sums(weights, inputs, lanes).tolist() == expected["partial_sums"]
    layer = SparseLayer(weights[:, None, None, :])
    cluster = SparseCluster(layer, SparseClusterConfig(units=1, lanes=lanes, partition=ONE_UNIT))
    image = inputs[None, None, :]
    assert cluster.run(image[None]).ravel().tolist() == expected["out"]
    counters = cluster.cycles(image).counters
    assert counters.total("rounds") == expected["rounds"]
    assert counters.total("idle") == len(weights) * (lanes - expected["last_group"])


@pytest.mark.parametrize("scope", ["layer", "channel"])
def test_channels_are_summed(scope: str) -> None:
    """SC R38, SC R77, SC R130: in the unit, or channel map by channel map; the same bits, the same rounds."""
    vector = load_vector("sc18_multi_channel")
    image = np.array(vector["input"]["maps"]).transpose(1, 2, 0)
    weights = np.array(vector["weights"]["kernels"]).transpose(1, 2, 0)[None]
    partition = PartitionSettings((1, 1), scope=scope, mode="overlap_add")  # type: ignore[arg-type]
    config = SparseClusterConfig(
        units=1, lanes=vector["config"]["p"], tile=(3, 3), variant="B", accumulator_words=128, partition=partition
    )
    cluster = SparseCluster(SparseLayer(weights, Padding(*vector["config"]["pad"])), config)
    plan = cluster.plan(image)
    stitched = cluster.stitch(cluster.piece_results(image, plan), plan, image.shape[:2])[:, :, 0]
    assert stitched.tolist() == vector["expected"]["out"] == cluster.run(image[None])[0, :, :, 0].tolist()
    assert relu(stitched).tolist() == vector["expected"]["relu"]
    assert cluster.cycles(image, plan).counters.total("rounds") == sum(vector["expected"]["rounds"])


def test_pooling() -> None:
    """SC R90, SC R121, SC R123: odd sizes, partial windows dropped, averages round half up."""
    vector = load_vector("sc22_pooling")
    image, expected = image_of(vector), vector["expected"]
    active = relu(image)
    assert active[:, :, 0].tolist() == expected["relu"]
    for kind, key in (("max", "max"), ("average", "avg"), ("sum", "sum")):
        assert pool(active, PoolSettings(kind))[:, :, 0].tolist() == expected[key]  # type: ignore[arg-type]
    assert pool(image, PoolSettings("average"))[:, :, 0].tolist() == expected["avg_no_relu"]


def test_folds_run_one_after_another() -> None:
    """SC R32, SC R55, SC R148: four folds by size on one unit, joined by overlap-add."""
    vector = load_vector("sc23_time_fold")
    cluster, image, expected = cluster_of(vector, variant="B"), image_of(vector), vector["expected"]
    nonzero = (image != 0).transpose(2, 0, 1)
    pieces = [Piece(0, number, fold, fold, (0, 1)) for number, fold in enumerate(folds(10, 10, (6, 6)))]
    for piece, want in zip(pieces, expected["folds"], strict=True):
        counted = count_layer(
            cluster.layer, cluster.config, cluster.patterns, nonzero, Plan("overlap_add", (piece,), ())
        )
        assert counted.rounds == want["rounds"]
    plan = Plan("overlap_add", tuple(pieces), ())
    stitched = cluster.stitch(cluster.piece_results(image, plan), plan, (10, 10))
    assert stitched[:, :, 0].tolist() == expected["out"]
    assert cluster.cycles(image, plan).rounds == sum(want["rounds"] for want in expected["folds"])


def test_an_unreachable_threshold_still_computes() -> None:
    """SC R33: sc21's map through the cluster."""
    mask = np.array(load_vector("sc21_balance_unreachable")["input"]["mask"])
    partition = PartitionSettings((2, 2), mode="overlap_add", tau=1.0, start="equal")
    layer = SparseLayer(np.arange(1, 10).reshape(1, 3, 3, 1), Padding(1, 1, 1, 1))
    cluster = SparseCluster(layer, SparseClusterConfig(units=4, partition=partition))
    image = mask[:, :, None]
    plan = cluster.plan(image)
    assert not plan.reached
    stitched = cluster.stitch(cluster.piece_results(image, plan), plan, (8, 8))
    assert (stitched == cluster.run(image[None])[0]).all()
    assert plan.balances[0].loads == (1, 1, 1, 0)
