"""Training with exponents from preceding operations: forward, backward and update (FP R4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import bfpga
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import FloatArray
from bfpga.training.layers import Convolution, Dense, Parameter
from bfpga.training.products import Activations, ArrayProducts, FloatProducts, Products
from bfpga.training.steps import Counters, Momentum, cross_entropy

GENERATOR = np.random.default_rng
Labels = npt.NDArray[np.int64]


def two_layers() -> list[Dense]:
    generator = GENERATOR(3)
    return [
        Dense("hidden", generator.normal(0, 0.5, (6, 8)), input_gradient=False),
        Dense("scores", generator.normal(0, 0.5, (8, 3)), relu=False),
    ]


def task(samples: int = 24) -> tuple[FloatArray, Labels]:
    """Points around three centres."""
    generator = GENERATOR(5)
    labels = np.arange(samples) % 3
    return generator.normal(0, 2, (3, 6))[labels] + generator.normal(0, 0.3, (samples, 6)), labels


def step(products: Products, layers: list[Dense], x: FloatArray, labels: Labels, optimizer: Momentum) -> float:
    """One iteration; the loss before it."""
    y: Activations = x
    for layer in layers:
        y = layer.forward(products, y)
    loss, gradient = cross_entropy(np.asarray(y), labels)
    for layer in reversed(layers):
        gradient = layer.backward(products, gradient)  # type: ignore[assignment]
    optimizer.update()
    return loss


def parameters(layers: list[Dense]) -> list[Parameter]:
    return [parameter for layer in layers for parameter in layer.parameters]


def trained(device: str, iterations: int) -> tuple[list[FloatArray], list[float]]:
    """Weights after iterations on a device, and the losses."""
    layers, (x, labels) = two_layers(), task()
    optimizer = Momentum(parameters(layers), 0.2)
    with bfpga.eager("tiny", device) as run:
        products = ArrayProducts(run, run)
        losses = [step(products, layers, x, labels, optimizer) for _ in range(iterations)]
    return [parameter.value for parameter in parameters(layers)], losses


def test_one_iteration_has_the_same_bits_in_emulation_and_simulation() -> None:
    """FP R4, R48: forward, backward and update."""
    emulated, simulated = trained("emulator", 2), trained("csim", 2)
    assert emulated[1] == simulated[1]
    assert all(np.array_equal(a, b) for a, b in zip(emulated[0], simulated[0], strict=True))


def test_the_loss_falls_as_it_does_in_floating_point() -> None:
    """FP R4: thirty iterations of an 8-bit array."""
    layers, (x, labels) = two_layers(), task()
    optimizer = Momentum(parameters(layers), 0.2)
    exact = [step(FloatProducts(), layers, x, labels, optimizer) for _ in range(30)]
    _, losses = trained("emulator", 30)
    assert losses[-1] < 0.1 * losses[0]
    assert abs(losses[0] - exact[0]) < 0.05
    assert losses[-1] < exact[-1] + 0.05


def test_the_next_layer_takes_the_mantissas_and_the_position_of_the_layer_before() -> None:
    """FP R27: nothing is encoded a second time."""
    layers, (x, _) = two_layers(), task()
    with bfpga.eager("tiny") as run:
        products = ArrayProducts(run, run)
        hidden = layers[0].forward(products, x)
        layers[1].forward(products, hidden)
        first, second = run.trace
    assert second.input_exponents[0] == first.exponent == hidden.exponent  # type: ignore[union-attr]


def test_gradients_of_a_layer_used_twice_are_those_of_the_longer_network() -> None:
    """FP 4.1: the program is the graph; here a layer is its own successor."""
    generator = GENERATOR(8)
    weights, x = generator.normal(size=(4, 4)), generator.normal(size=(5, 4))
    shared, apart = Dense("a", weights), [Dense("a", weights), Dense("b", weights)]
    products = FloatProducts()
    gradient = generator.normal(size=(5, 4))
    y = shared.forward(products, shared.forward(products, x))
    z = apart[1].forward(products, apart[0].forward(products, x))
    assert np.array_equal(y, z)
    for layers in ((shared, shared), (apart[1], apart[0])):
        layers[1].backward(products, layers[0].backward(products, gradient))  # type: ignore[arg-type]
    together = apart[0].weights.gradient + apart[1].weights.gradient
    np.testing.assert_allclose(shared.weights.gradient, together)


def test_gradients_of_a_convolution_are_slopes_of_its_result() -> None:
    """FP R4: backward as products of windows; slopes by differences."""
    generator = GENERATOR(9)
    weights, x = generator.normal(size=(3, 3, 2, 4)), generator.normal(size=(2, 5, 6, 2))
    outer, products = generator.normal(size=(2, 3, 4, 4)), FloatProducts()

    def value(weights: FloatArray, x: FloatArray) -> float:
        return float((Convolution("c", weights).forward(products, x) * outer).sum())

    layer = Convolution("c", weights)
    layer.forward(products, x)
    found = layer.backward(products, outer)
    assert found is not None
    for values, gradient, place in (
        (x, found, (1, 2, 3, 1)),
        (weights, layer.parameters[0].gradient.reshape(weights.shape), (2, 0, 1, 3)),
    ):
        moved = values.copy()
        moved[place] += 1e-6
        slope = (value(weights, moved) if values is x else value(moved, x)) - value(weights, x)
        assert slope / 1e-6 == pytest.approx(gradient[place], rel=1e-3)


def test_counters_of_iterations_and_mini_batches() -> None:
    """FP R4, R16: mini-batches start over, iterations go on; after the requested number the host is told."""
    told: list[int] = []
    counters = Counters(mini_batches=3, limit=7, finished=told.append)
    seen = [(batch, counters.iteration, counters.epoch) for batch in counters.run()]
    assert seen == [(0, 0, 0), (1, 1, 0), (2, 2, 0), (0, 3, 1), (1, 4, 1), (2, 5, 1), (0, 6, 2)]
    assert told == [7]
    assert counters.iteration == 7


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_counters_need_positive_numbers(numbers: tuple[int, int]) -> None:
    with pytest.raises(ConfigurationError, match="1 or more"):
        Counters(*numbers)
