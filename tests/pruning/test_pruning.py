"""Issue 16, item 4: pruning by sensitivity, fine-tuning, groups of an engine, what judges it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bfpga.compiler.read.network import read_network
from bfpga.data import load_inputs
from bfpga.devices.reference import FloatNetwork
from bfpga.engines.skip_array.entries import entry_words
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import chunk_kernels, piece_window
from bfpga.errors import ConfigurationError, DataError
from bfpga.pruning.layers import EVEN, Balanced, PrunableLayer, prunable_layers
from bfpga.pruning.prune import Pruned, prune
from bfpga.pruning.scores import Scorer
from bfpga.pruning.sensitivity import Curve, allocate, best_shares, by_size, curves, lower_hull
from bfpga.pruning.split import Parts, labelled, split
from bfpga.pruning.tuning import Tuning
from bfpga.report.accuracy import Changes

MODELS = Path(__file__).parents[2] / "examples" / "models"
DIGITS, MODEL = MODELS / "digits_test.npz", MODELS / "mlp_digits.onnx"


def layer(weights: np.ndarray, outputs_last: bool = False) -> PrunableLayer:
    return PrunableLayer("a", "w", weights.astype(np.float32), outputs_last)


def test_the_smallest_weights_go() -> None:
    weights = np.array([[3.0, -0.5, 0.25], [-4.0, 0.75, 2.0]])
    np.testing.assert_array_equal(layer(weights).kept(weights, 0.5), [[True, False, False], [True, False, True]])


@pytest.mark.parametrize("outputs_last", [False, True])
def test_even_kernels_lose_as_many_weights_each(outputs_last: bool) -> None:
    """--structure even: the smallest weights of each output, however large those of the others are."""
    weights = np.random.default_rng(3).normal(size=(6, 5)) * np.arange(1, 7)[:, None]
    given = weights.T if outputs_last else weights
    kept = layer(given, outputs_last).kept(given, 0.6, EVEN)
    kept = kept.T if outputs_last else kept
    assert [np.count_nonzero(row) for row in kept] == [2] * 6
    for row, own in zip(weights, kept, strict=True):
        assert np.abs(row[own]).min() > np.abs(row[~own]).max()


@pytest.mark.parametrize("groups", [4, 12, 16])
@pytest.mark.parametrize("outputs", [8, 16, 20, 40])
@pytest.mark.parametrize("sparsity", [0.1, 0.6, 0.9])
def test_balanced_groups_are_as_full_as_their_mean(groups: int, outputs: int, sparsity: float) -> None:
    """--structure of a skip array: as kernels are dealt, all groups have about as many entries, but those whose kernels
    are too few for that. The kernels are of very different size."""
    rng = np.random.default_rng(groups * outputs)
    weights = rng.normal(size=(outputs, 4, 3, 3)) * rng.uniform(0.2, 1.8, size=(outputs, 1, 1, 1))
    kept = layer(weights).kept(weights, sparsity, Balanced(groups, lanes=4, rows=128))
    entries = 1 + np.count_nonzero(kept.reshape(outputs, -1), axis=1)
    assert np.count_nonzero(~kept) == pytest.approx(sparsity * kept.size, abs=outputs // 2)
    full = outputs // groups * (1 + weights[0].size)  # of the groups with the fewest kernels
    begun = min(groups, outputs)
    mean = -(-int(entries.sum()) // begun)
    if mean > full > 0:
        mean = -(-int(entries.sum() - (begun - outputs % groups) * full) // (outputs % groups))
    stored = np.where(kept, 1, 0).transpose(0, 2, 3, 1)  # as ``ArrayNode`` has them
    shape = SkipShape(groups=groups)
    chunks = chunk_kernels(stored, 1, 0, outputs, piece_window(stored, 1, 0, outputs, shape), shape)
    assert mean <= int(entry_words(chunks, shape).fullest[0]) <= 1.1 * mean + 1


@pytest.mark.parametrize("outputs_last", [False, True])
def test_groups_go_as_a_whole_and_borders_are_smaller_groups(outputs_last: bool) -> None:
    """5 outputs x 3 inputs in groups of 2 x 2: those with the least mean square."""
    weights = np.random.default_rng(1).normal(size=(5, 3, 3, 3))
    weights[2:4, 2] *= 0.01
    weights[4, :2] *= 0.02
    given = weights.swapaxes(0, 1) if outputs_last else weights
    kept = layer(given, outputs_last).kept(given, 36 / 135, (2, 2))
    kept = kept.swapaxes(0, 1) if outputs_last else kept
    assert not kept[2:4, 2].any()
    assert not kept[4, :2].any()
    assert np.count_nonzero(~kept) == 36


@pytest.mark.parametrize("outputs_last", [False, True])
def test_groups_are_of_outputs_and_inputs_whatever_the_order_of_the_axes(outputs_last: bool) -> None:
    """3 outputs x 1 input, where Gemm has outputs first and MatMul has them last."""
    weights = np.ones((6, 4))
    weights[3:, 1] = 0.1
    given = weights.T if outputs_last else weights
    np.testing.assert_array_equal(layer(given, outputs_last).kept(given, 3 / 24, (3, 1)), given == 1)


def test_shares_of_zeros_are_those_with_the_least_loss_of_all() -> None:
    """Against every choice on a grid: convex curves, layers of different size."""
    levels = tuple(np.linspace(0, 0.98, 50))
    found = [Curve("a", 100, levels, tuple(x**3 for x in levels)), Curve("b", 300, levels, tuple(x**2 for x in levels))]
    found.append(Curve("c", 50, levels, tuple(0.1 * x for x in levels)))
    shares = allocate(found, 0.6)
    sizes = np.array([100, 300, 50])
    assert sum(shares[curve.layer] * curve.weights for curve in found) == pytest.approx(0.6 * sizes.sum())
    best = sum(curve.at(shares[curve.layer]) for curve in found)
    for a in np.linspace(0, 0.98, 80):
        for b in np.linspace(0, 0.98, 80):
            c = (0.6 * sizes.sum() - 100 * a - 300 * b) / 50
            if 0 <= c <= 0.98:
                assert sum(map(Curve.at, found, (a, b, c))) >= best - 1e-3


def test_the_hull_passes_below_all_points() -> None:
    x, y = [0.0, 0.2, 0.5, 0.7, 1.0], [0.0, 3.0, 1.0, 5.0, 6.0]
    hull = lower_hull(x, y)
    assert hull == [(0.0, 0.0), (0.5, 1.0), (1.0, 6.0)]


def test_a_layer_that_the_loss_does_not_see_is_pruned_first() -> None:
    layers = [PrunableLayer(name, name, np.arange(1, 101, dtype=np.float32), False) for name in ("seen", "unseen")]

    def loss(constants: dict[str, np.ndarray]) -> float:
        return float(np.count_nonzero(constants.get("seen", np.ones(100)) == 0))

    shares = allocate(curves(layers, loss), 0.45)
    assert shares == {"seen": 0.0, "unseen": pytest.approx(0.9)}


def test_a_weight_counts_by_those_of_its_layer_that_are_not_smaller() -> None:
    """Scores 1/14, 4/13, 1 and 1/3, 1/2, 1: the two smallest of the first and the least of the second go at a half."""
    values = {"a": [1, 2, 3], "b": [5, 5, 5]}
    layers = [PrunableLayer(name, name, np.array(weights, np.float32)) for name, weights in values.items()]
    assert by_size(layers, 0.5) == {"a": pytest.approx(2 / 3), "b": pytest.approx(1 / 3)}


def test_what_the_largest_share_leaves_is_spread_over_all_layers() -> None:
    layers = [PrunableLayer(name, name, values.astype(np.float32)) for name, values in
              (("a", np.r_[np.full(99, 1e-6), 9.0]), ("b", np.linspace(1, 2, 100)))]  # fmt: skip
    shares = by_size(layers, 0.9)
    assert shares["a"] < 1
    assert (shares["a"] + shares["b"]) / 2 == pytest.approx(0.9)


def test_of_several_choices_the_one_with_the_least_loss_of_the_whole_network_is_taken() -> None:
    """What layers lose together says more than the sum of what each loses alone."""
    layers = [PrunableLayer(name, name, np.linspace(1, 2, 100).astype(np.float32)) for name in "ab"]
    found = curves(layers, lambda constants: float("a" in constants))
    tried: list[dict[str, float]] = []

    def loss(shares: dict[str, float]) -> float:
        tried.append(shares)
        return abs(shares["a"] - 0.25)

    shares = best_shares(layers, found, 0.49, loss)
    wanted = [{"a": 0.0, "b": 0.98}, {"a": 0.49, "b": 0.49}, {"a": 0.245, "b": 0.735}, {"a": 0.49, "b": 0.49}]
    assert tried == [pytest.approx(item) for item in wanted]
    assert shares == pytest.approx(wanted[2])


def parts(seed: int = 0) -> Parts:
    network = read_network(MODEL)
    return split(labelled(load_inputs(DIGITS, network.inputs), Scorer(network.graph(), []).scores), None, seed, DIGITS)


@pytest.fixture(scope="module")
def pruned() -> Pruned:
    return prune(read_network(MODEL), parts(), 0.85, Tuning(epochs=30, batch=16))


def test_fine_tuning_wins_back_what_pruning_loses(pruned: Pruned) -> None:
    """On samples that neither learned nor chose."""
    alone = prune(read_network(MODEL), parts(), 0.85, Tuning(epochs=0))
    assert alone.after.value < alone.before.value - 0.15
    assert pruned.at_once.value > alone.after.value + 0.1
    assert pruned.after.value > pruned.before.value - 0.06
    assert pruned.losses[2] < 0.5 * alone.losses[2]


def test_layers_are_as_sensitive_as_they_are_rebuilt(pruned: Pruned) -> None:
    """Without fine-tuning nothing makes up for what goes."""
    alone = prune(read_network(MODEL), parts(), 0.85, Tuning(epochs=0))
    for rebuilt, smallest in zip(pruned.curves, alone.curves, strict=True):
        assert rebuilt.at(0.9) < 0.8 * smallest.at(0.9)


def test_the_share_of_zeros_is_the_one_asked_for(pruned: Pruned) -> None:
    assert pruned.sparsity == pytest.approx(0.85, abs=0.002)
    stored = {item.name: numpy_helper.to_array(item) for item in pruned.model.graph.initializer}
    zeros = sum(int((stored[name] == 0).sum()) for name in ("a.weight", "b.weight"))
    assert zeros == sum(item.zeros for item in pruned.layers)
    assert len({round(item.sparsity, 2) for item in pruned.layers}) == 2


def test_the_same_seed_finds_the_same(pruned: Pruned) -> None:
    again = prune(read_network(MODEL), parts(), 0.85, Tuning(epochs=30, batch=16))
    assert again.model.SerializeToString() == pruned.model.SerializeToString()


def test_the_network_runs_anywhere_and_is_what_was_judged(pruned: Pruned, tmp_path: Path) -> None:
    """Checked by onnx, run by ONNX Runtime from its file."""
    onnx.checker.check_model(pruned.model, full_check=True)
    onnx.save(pruned.model, tmp_path / "pruned.onnx")
    judging = parts().judging
    network = FloatNetwork(read_network(tmp_path / "pruned.onnx"))
    scores = network.run(judging.inputs)[network.outputs[0]]
    assert int((scores.argmax(1) == judging.labels).sum()) == pruned.after.hits


def test_without_epochs_the_weights_that_stay_are_the_network_s_own() -> None:
    network = read_network(MODEL)
    found = prune(network, parts(), 0.5, Tuning(epochs=0))
    for item in found.model.graph.initializer:
        values, before = numpy_helper.to_array(item), network.graph().constants[item.name]
        np.testing.assert_array_equal(values[values != 0], before[values != 0])
    assert found.after == found.at_once


def test_groups_of_weights_stay_whole_through_fine_tuning() -> None:
    """--structure 1x4: 4 input channels of one kernel."""
    found = prune(read_network(MODEL), parts(), 0.5, Tuning(epochs=2), (1, 4))
    weights = numpy_helper.to_array(next(item for item in found.model.graph.initializer if item.name == "a.weight"))
    groups = weights.reshape(32, 16, 4)
    assert ((groups == 0).all(axis=2) | (groups != 0).all(axis=2)).all()
    assert found.sparsity == pytest.approx(0.5, abs=0.01)


def test_no_sample_is_in_two_parts() -> None:
    found = parts(3)
    rows = [row.tobytes() for part in (found.learning, found.choosing, found.judging) for row in part.inputs["input"]]
    assert len(rows) == len(set(rows)) == 300
    assert len(found.judging) == 75


def test_wrong_samples_and_shares_are_refused() -> None:
    network, dealt = read_network(MODEL), parts()
    with pytest.raises(ConfigurationError, match="--sparsity is 1"):
        prune(network, dealt, 1.0, Tuning(0))
    with pytest.raises(ConfigurationError, match=r"90\.0 % of its weights are zero already"):
        prune(read_network(MODELS / "lenet_mnist_pruned90.onnx"), dealt, 0.8, Tuning(0))
    dealt.learning.labels[0] = 10
    with pytest.raises(DataError, match=r"10 scores, labels \(`y`\) are 0\.\.10"):
        prune(network, dealt, 0.5, Tuning(0))


def test_layers_of_a_network_are_those_with_constant_weights() -> None:
    names = [item.name for item in prunable_layers(read_network(MODELS / "lenet_mnist.onnx").graph())]
    assert names == ["/c1/Conv", "/c2/Conv", "/f1/Gemm", "/f2/Gemm"]


def test_the_interval_of_a_difference_counts_the_samples_that_differ() -> None:
    """Agresti and Min (2005): (lost - gained) with half a sample added to each kind."""
    few, many = Changes(both=990, gained=0, lost=10, neither=0), Changes(both=890, gained=50, lost=60, neither=0)
    assert few.difference == pytest.approx(many.difference) == pytest.approx(0.01)
    low, high = few.difference_interval
    assert (low, high) == pytest.approx((0.003522, 0.016438), abs=2e-6)
    assert many.difference_interval[1] > high
