"""Issue 16, item 4: fine-tuning in the directions in which what a layer reads does not correlate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bfpga.compiler.read.network import read_network
from bfpga.data import load_inputs
from bfpga.pruning import tuning, uncorrelated
from bfpga.pruning.prune import Pruned, prune
from bfpga.pruning.scores import Scorer
from bfpga.pruning.split import labelled, split
from bfpga.pruning.tuning import Tuning
from bfpga.pruning.uncorrelated import Turned, UncorrelatedAdam
from bfpga.training.layers import Dense
from bfpga.training.network import LearningNetwork
from bfpga.training.steps import RelativeAdam

MODELS = Path(__file__).parents[2] / "examples" / "models"
GENERATOR = np.random.default_rng


def correlated(rows: int = 400, inputs: int = 12) -> np.ndarray:
    """Inputs that say much the same, behind a ReLU, and 1."""
    x = GENERATOR(1).normal(size=(rows, 3)) @ GENERATOR(2).normal(size=(3, inputs))
    x = np.maximum(x + 0.1 * GENERATOR(3).normal(size=(rows, inputs)), 0)
    return np.concatenate([x, np.ones((rows, 1))], axis=1)


def sparse(inputs: int = 12, outputs: int = 5) -> Dense:
    """Weights of which most are zero, a different number of each output; one output without any."""
    kept = GENERATOR(4).random((inputs, outputs)) < np.array([0.2, 0.4, 0.0, 0.6, 0.9])
    return Dense("a", kept * GENERATOR(5).normal(size=kept.shape), relu=False, bias=GENERATOR(6).normal(size=outputs))


def test_every_direction_changes_results_alike_and_by_itself() -> None:
    """Mean products of what they give: ones on the diagonal, zeros beside it."""
    x, dense = correlated(), sparse()
    power = x.T @ x / len(x)
    turned = Turned.of(dense, True, power)
    for output, (places, directions) in enumerate(zip(turned.places, turned.directions, strict=True)):
        count = np.count_nonzero(dense.weights.value[:, output]) + 1
        own, given = places[:count], directions[:count, :count]
        assert set(own) == {*np.flatnonzero(dense.weights.value[:, output]), 12}
        found = given.T @ power[np.ix_(own, own)] @ given
        np.testing.assert_allclose(found - np.diag(np.diag(found)), 0, atol=1e-9)
        assert np.diag(found).max() == pytest.approx(1, abs=2e-3)
        assert not directions[count:].any()


def test_zeros_stay_and_gradients_start_over() -> None:
    x, dense = correlated(), sparse()
    kept, turned = dense.weights.value != 0, Turned.of(dense, False, x.T @ x)
    before, bias = dense.weights.value, dense.bias.value
    for updates in (1, 2, 3):
        dense.weights.gradient[...] = GENERATOR(updates).normal(size=kept.shape)
        turned.update(0.1, updates)
    assert not dense.weights.value[~kept].any()
    assert (dense.weights.value[kept] != before[kept]).all()
    assert dense.bias.value is bias
    assert not dense.weights.gradient.any()


def test_inputs_that_say_much_the_same_are_told_apart_soon() -> None:
    """The same steps one weight at a time leave several times the error."""
    x = correlated()
    start = sparse()
    values = np.concatenate([start.weights.value, start.bias.value[None]])
    wanted = x @ (values * GENERATOR(7).uniform(0.5, 1.5, size=values.shape))
    errors = []
    for turns in (True, False):
        dense = sparse()
        kept, turned = dense.weights.value != 0, Turned.of(dense, True, x.T @ x / len(x))
        alone = RelativeAdam([dense.weights, dense.bias], 0.05)
        for updates in range(1, 201):
            apart = x[:, :-1] @ dense.weights.value + dense.bias.value - wanted
            dense.weights.gradient[...], dense.bias.gradient[...] = x[:, :-1].T @ apart, apart.sum(axis=0)
            rate = 0.05 * (1 - updates / 201)
            if turns:
                turned.update(rate, updates)
            else:
                alone.rate = rate
                alone.update()
                dense.weights.value *= kept
        errors.append(float(np.square(x[:, :-1] @ dense.weights.value + dense.bias.value - wanted).sum()))
    assert errors[0] < 0.3 * errors[1]


def digits() -> Pruned:
    network = read_network(MODELS / "mlp_digits.onnx")
    samples = labelled(load_inputs(MODELS / "digits_test.npz", network.inputs), Scorer(network.graph(), []).scores)
    return prune(network, split(samples, None, 0, MODELS), 0.85, Tuning(16, 0.01))


def test_a_network_learns_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    found = digits()
    monkeypatch.setattr(tuning, "UncorrelatedAdam", lambda network, _, rate: RelativeAdam(network.parameters, rate))
    assert found.losses[2] < 0.9 * digits().losses[2]


def test_large_layers_learn_one_weight_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions and connected layers with biases; zeros stay zero either way."""
    graph = read_network(MODELS / "lenet_mnist_pruned90.onnx").graph()
    x = {"input": GENERATOR(1).random((20, 1, 28, 28)).astype(np.float32)}
    for largest, turned in ((4e9, 4), (1e6, 2), (0, 0)):
        monkeypatch.setattr(uncorrelated, "LARGEST", largest)
        network = LearningNetwork(graph, "n")
        optimizer = UncorrelatedAdam(network, x, 0.01)
        assert len(optimizer._turned) == turned
        zeros = {name: item.parameter.value == 0 for name, item in network.learned.items()}
        network.backward(network.forward(x))
        optimizer.update()
        for name, item in network.learned.items():
            if item.parameter.value.ndim > 1:
                np.testing.assert_array_equal(item.parameter.value == 0, zeros[name])
        assert not any(item.gradient.any() for item in network.parameters)
