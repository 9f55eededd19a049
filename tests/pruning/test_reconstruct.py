"""Issue 16, item 4: weights that stay make up for those that go, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from bfpga.compiler.read.network import read_network
from bfpga.formats.arrays import FloatArray
from bfpga.pruning.layers import prunable_layers
from bfpga.pruning.least_squares import Squares, pruned_squares
from bfpga.pruning.reconstruct import Reconstruction, alone
from bfpga.pruning.sensitivity import LEVELS, curves, pruned_weights
from bfpga.training.network import LearningNetwork

MODELS = Path(__file__).parents[2] / "examples" / "models"
GENERATOR = np.random.default_rng


def squares(rows: int = 60, inputs: int = 6, outputs: int = 2) -> tuple[Squares, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs that say much the same, and weights."""
    x = GENERATOR(1).normal(size=(rows, inputs)) @ GENERATOR(2).normal(size=(inputs, inputs))
    weights = GENERATOR(3).normal(size=(inputs, outputs))
    sums = Squares.none(inputs, outputs)
    sums.add(x[:20], x[:20] @ weights)
    sums.add(x[20:], x[20:] @ weights)
    return sums, x, weights, x @ weights


def choose(worth: np.ndarray, share: float) -> np.ndarray:
    kept = np.ones(worth.size, bool)
    kept[np.argsort(worth, axis=None)[: round(share * worth.size)]] = False
    return kept.reshape(worth.shape)


def test_what_a_weight_is_worth_is_the_error_without_it() -> None:
    """The error that the other weights, set anew, leave: by least squares on the rows themselves."""
    sums, x, _, y = squares()
    kept = np.array([[True, True], [True, False], [False, True], [True, True], [True, True], [True, True]])
    weights, added = sums.best(kept)
    for output in (0, 1):
        def error(inputs: list[int], y: np.ndarray = y[:, output]) -> tuple[np.ndarray, float]:
            found, *_ = np.linalg.lstsq(x[:, inputs], y, rcond=None)
            return found, float(np.square(x[:, inputs] @ found - y).sum())

        inputs = list(np.flatnonzero(kept[:, output]))
        best, least = error(inputs)
        np.testing.assert_allclose(weights[inputs, output], best, rtol=1e-6)
        for index in inputs:
            _, without = error([item for item in inputs if item != index])
            assert added[index, output] == pytest.approx(without - least, rel=1e-5)
    assert not weights[~kept].any()


def test_half_of_the_weights_are_nearly_the_best_half() -> None:
    """Of all halves of the weights of one output, tried one by one; the smallest weights do far worse."""
    sums, x, weights, y = squares(outputs=1)
    found = pruned_squares(sums, weights, 0.5, choose)
    assert np.count_nonzero(found) == 3
    errors = []
    for inputs in combinations(range(6), 3):
        best, *_ = np.linalg.lstsq(x[:, inputs], y, rcond=None)
        errors.append(float(np.square(x[:, inputs] @ best - y).sum()))
    error = float(np.square(x @ found - y).sum())
    assert error <= sorted(errors)[2] * 1.01
    assert error < 0.5 * float(np.square(x @ (weights * choose(np.abs(weights), 0.5)) - y).sum())


def test_weights_of_inputs_that_say_nothing_stay_and_go_first() -> None:
    sums, weights = Squares.none(3, 1), np.array([[1.0], [5.0], [2.0]])
    x = GENERATOR(4).normal(size=(30, 3)) * (1, 0, 1)
    sums.add(x, x @ weights)
    np.testing.assert_allclose(sums.damped(weights).best(np.ones((3, 1), bool))[0], weights, rtol=1e-6)
    np.testing.assert_allclose(pruned_squares(sums, weights, 1 / 3, choose), [[1], [0], [2]], rtol=1e-3)
    np.testing.assert_array_equal(Squares.none(3, 1).damped(weights).best(np.ones((3, 1), bool))[0], weights)


def test_a_network_keeps_its_scores_where_its_smallest_weights_alone_lose_them() -> None:
    """Convolutions with biases, and connected layers; the largest one as it is where solving takes too long."""
    graph = read_network(MODELS / "lenet_mnist.onnx").graph()
    with np.load(MODELS / "mnist_test.npz") as file:
        x = {"input": (file["x"][:40].astype(np.float32) / 255).reshape(40, 1, 28, 28)}
    layers, networks = prunable_layers(graph), (LearningNetwork(graph, "n"), LearningNetwork(graph, "n"))
    wanted, shares = networks[0].forward(x), {layer.name: 0.6 for layer in layers}
    found, smallest = Reconstruction(networks, layers, shares, largest=1e9).run(x), pruned_weights(layers, shares)
    errors = []
    for constants in (found, smallest):
        networks[0].load(constants)
        errors.append(float(np.square(networks[0].forward(x) - wanted).sum()))
    assert errors[0] < 0.3 * errors[1]
    large = max(smallest, key=lambda name: smallest[name].size)
    for name, values in smallest.items():
        assert np.count_nonzero(found[name]) == np.count_nonzero(values)
        assert np.array_equal(found[name], values) == (name == large)


def test_a_layer_alone_is_rebuilt_at_every_share_and_the_others_stay() -> None:
    """The first layer as a whole rebuild has it, whose shares are these steps; the network is itself again after it.

    The largest layer is left out where solving takes too long.
    """
    graph = read_network(MODELS / "lenet_mnist.onnx").graph()
    with np.load(MODELS / "mnist_test.npz") as file:
        x = {"input": (file["x"][:40].astype(np.float32) / 255).reshape(40, 1, 28, 28)}
    layers, network = prunable_layers(graph), LearningNetwork(graph, "n")
    before, levels = network.constants(), [1 - 0.4 ** (step / 8) for step in range(1, 9)]
    seen = []
    for layer, variants in alone(network, layers, x, None, levels, largest=1e9):
        seen.append(layer.name)
        zeros = []
        for constants in variants:
            zeros.append(1 - np.count_nonzero(constants[layer.constant]) / layer.size)
            others = {item.constant for item in layers} - {layer.constant}
            assert all(np.array_equal(constants[name], before[name]) for name in others)
        np.testing.assert_allclose(zeros, levels, atol=0.5 / layer.size)
        assert all(np.array_equal(values, before[name]) for name, values in network.constants().items())
        if len(seen) == 1:
            copies = (LearningNetwork(graph, "n"), LearningNetwork(graph, "n"))
            whole = Reconstruction(copies, layers, {item.name: 0.6 for item in layers}, largest=1e9).run(x)
            np.testing.assert_allclose(constants[layer.constant], whole[layer.constant], rtol=1e-6)
    assert seen == ["/c1/Conv", "/c2/Conv", "/f2/Gemm"]


def test_a_layer_that_can_be_made_up_for_is_not_taken_for_sensitive() -> None:
    """Curves of rebuilt layers lie below those of their smallest weights; a layer that is not rebuilt keeps its own."""
    graph = read_network(MODELS / "lenet_mnist.onnx").graph()
    with np.load(MODELS / "mnist_test.npz") as file:
        x = {"input": (file["x"][:60].astype(np.float32) / 255).reshape(60, 1, 28, 28)}
    layers, judge = prunable_layers(graph), LearningNetwork(graph, "n")
    unpruned, wanted = judge.constants(), judge.forward(x)

    def loss(constants: Mapping[str, FloatArray]) -> float:
        judge.load({**unpruned, **constants})
        return float(np.square(judge.forward(x) - wanted).sum())

    plain = curves(layers, loss)
    rebuilt = curves(layers, loss, rebuilt=alone(LearningNetwork(graph, "n"), layers, x, None, LEVELS[1:], 1e9))
    assert [curve.layer for curve in rebuilt] == [layer.name for layer in layers]
    for layer, curve, other in zip(layers, rebuilt, plain, strict=True):
        assert curve.at(0.9) == other.at(0.9) if layer.size > 1e5 else curve.at(0.9) < 0.5 * other.at(0.9)
