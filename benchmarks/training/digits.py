"""Training with positions from the data of the same pass, from random weights on the digits: one command.

    BFPGA_MODELS=FOLDER python -m benchmarks.training.digits [--part PART ...] [--epochs N] [--plot FILE]

mlp: 64-32-10, all products on the array by way of `bfpga.eager`, activations and weights in 8 bits, gradients in 16;
and in floating point from the same start. cnn: a convolution and a layer behind it, gradients as products of windows.
depth: a network that passes a digit through an amplifying layer until it is bright enough; digits come at four
brightnesses, so every mini-batch has a graph of its own. Positions of the same pass (flows 1, 2) against those of the
iteration before (flow 0), in the emulator of flows, and on the array. Ends with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.report import status, write_picture
from bfpga.engines.positions.flows import PositionEmulator
from bfpga.engines.positions.layers import FullyConnected
from bfpga.engines.positions.settings import FlowSettings
from bfpga.engines.positions.times import Flow
from bfpga.formats.fixed_point import FixedPointFormat, FixedTensor, fixed_point_tensor
from bfpga.formats.wide_statistics import StatisticsKind
from bfpga.training.layers import Convolution, Dense, Parameter
from bfpga.training.products import Activations, ArrayProducts, FloatArray, FloatProducts, Products
from bfpga.training.steps import Counters, Momentum, cross_entropy

Labels = npt.NDArray[np.int64]
BATCH, ACC_WIDTH = 64, 48
#: Curves of part depth.
SAME, BEFORE = "same pass (flow 1)", "iteration before (flow 0)"
#: Test accuracy that the trained networks have to reach, in percent.
GOAL = 94.0
#: Of the gradients of one step.
LARGEST_NORM = 1.0
#: Brightness of a mini-batch, what an amplified digit must reach on average, and how often it is amplified at most.
BRIGHTNESS, BRIGHT, DEEPEST = (1.0, 1 / 4, 1 / 16, 1 / 64), 0.2, 4


@dataclass(frozen=True)
class Digits:
    """Pixels 0..1 in rows of 64, with labels."""

    x: FloatArray
    y: Labels

    @staticmethod
    def read(folder: Path, name: str) -> Digits:
        with np.load(folder / "data" / f"{name}.npz", allow_pickle=False) as file:
            return Digits(file["x"].reshape(len(file["x"]), -1) / 16.0, file["y"].astype(np.int64))


class FlowProducts:
    """Products in the emulator of flows: 8 bits forward, 16 bits for gradients."""

    def __init__(self, flow: Flow) -> None:
        self.narrow, self.wide = (
            PositionEmulator(
                FlowSettings(flow, FixedPointFormat(width, ACC_WIDTH), statistics=StatisticsKind(acc_width=ACC_WIDTH))
            )
            for width in (8, 16)
        )
        self.saturated = 0

    def forward(self, name: str, x: Activations, weights: FloatArray, bias: FloatArray, relu: bool) -> FloatArray:
        y = self._product(self.narrow, f"{name} forward", np.asarray(x), weights) + bias
        return np.maximum(y, 0) if relu else y

    def input_gradient(self, name: str, gradient: FloatArray, weights: FloatArray) -> FloatArray:
        return self._product(self.wide, f"{name} inputs", gradient, weights.T)

    def weight_gradient(self, name: str, x: Activations, gradient: FloatArray) -> FloatArray:
        return self._product(self.wide, f"{name} weights", np.asarray(x).T, gradient)

    def _product(self, emulator: PositionEmulator, name: str, x: FloatArray, weights: FloatArray) -> FloatArray:
        width = emulator.settings.format.out_width
        emulator.begin_iteration()
        result: FixedTensor = emulator.layer(
            FullyConnected(name, fixed_point_tensor(weights, width, "sym")), fixed_point_tensor(x, width)
        )
        self.saturated += int(emulator.trace[-1].saturated)
        return np.ldexp(result.mantissa.astype(np.float64), -int(result.position))


def start(*shape: int, generator: np.random.Generator) -> FloatArray:
    """Random weights that keep the size of what passes a ReLU."""
    return generator.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape)


class Perceptron:
    """64-32-10."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.layers: Sequence[Dense] = (
            Dense("hidden", start(64, 32, generator=generator), input_gradient=False),
            Dense("scores", start(32, 10, generator=generator), relu=False),
        )
        self.used: list[Dense] = []

    @property
    def parameters(self) -> list[Parameter]:
        return [parameter for layer in self.layers for parameter in layer.parameters]

    def forward(self, products: Products, x: FloatArray) -> FloatArray:
        y: Activations = x
        self.used = list(self.layers)
        for layer in self.used:
            y = layer.forward(products, y)
        return np.asarray(y, np.float64)

    def backward(self, products: Products, gradient: FloatArray) -> None:
        for layer in reversed(self.used):
            gradient = layer.backward(products, gradient)  # type: ignore[assignment]

    def forget(self) -> None:
        for layer in self.layers:
            layer.forget()


class Amplifying(Perceptron):
    """64-32, then 32-32 until the results are bright enough, then 32-10."""

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__(generator)
        first, last = self.layers
        self.layers = (first, Dense("amplify", 4 * np.eye(32)), last)

    @property
    def parameters(self) -> list[Parameter]:
        """All weights. A bias in front of amplifying layers would mean something else at every brightness."""
        return [layer.weights for layer in self.layers] + [self.layers[-1].bias]

    def forward(self, products: Products, x: FloatArray) -> FloatArray:
        first, amplify, last = self.layers
        self.used, y = [first], first.forward(products, x)
        while np.asarray(y).mean() < BRIGHT and self.used.count(amplify) < DEEPEST:
            self.used.append(amplify)
            y = amplify.forward(products, y)
        self.used.append(last)
        return np.asarray(last.forward(products, y), np.float64)


class Convolutional:
    """8 convolutions 3 x 3 and a layer behind them."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.convolution = Convolution("convolution", start(3, 3, 1, 8, generator=generator), input_gradient=False)
        self.scores = Dense("scores", start(288, 10, generator=generator), relu=False)
        self.layers = (self.convolution, self.scores)

    @property
    def parameters(self) -> list[Parameter]:
        return [parameter for layer in self.layers for parameter in layer.parameters]

    def forward(self, products: Products, x: FloatArray) -> FloatArray:
        maps = self.convolution.forward(products, x.reshape(-1, 8, 8, 1))
        return np.asarray(self.scores.forward(products, maps.reshape(len(x), -1)), np.float64)

    def backward(self, products: Products, gradient: FloatArray) -> None:
        found = self.scores.backward(products, gradient)
        assert found is not None
        self.convolution.backward(products, found.reshape(len(gradient), 6, 6, 8))

    def forget(self) -> None:
        for layer in self.layers:
            layer.forget()


Network = Perceptron | Convolutional


def bright(generator: np.random.Generator) -> float:
    """A brightness of a mini-batch."""
    return float(generator.choice(BRIGHTNESS))


def same(generator: np.random.Generator) -> float:
    """Every mini-batch as it is."""
    return 1.0


@dataclass
class Task:
    """Samples to learn and to be judged by; brightness: of every mini-batch."""

    train: Digits
    test: Digits
    epochs: int
    rate: float = 0.1
    brightness: Callable[[np.random.Generator], float] = same

    def learn(self, network: Network, products: Products) -> list[float]:
        """Test accuracy in percent after every epoch."""
        generator = np.random.default_rng(1)
        batches = len(self.train.x) // BATCH
        counters, curve = Counters(batches, self.epochs * batches), []
        optimizer = Momentum(network.parameters, self.rate, largest_norm=LARGEST_NORM)
        for batch in counters.run():
            if batch == 0:
                order = generator.permutation(len(self.train.x))
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            scores = network.forward(products, self.train.x[chosen] * self.brightness(generator))
            _, gradient = cross_entropy(scores, self.train.y[chosen])
            network.backward(products, gradient)
            optimizer.update()
            if batch == batches - 1:
                curve.append(self.judged(network, products))
        return curve

    def judged(self, network: Network, products: Products) -> float:
        """Test accuracy in percent, mini-batches at changing brightness."""
        generator, right = np.random.default_rng(2), 0
        for first in range(0, len(self.test.x), BATCH):
            part = slice(first, first + BATCH)
            scores = network.forward(products, self.test.x[part] * self.brightness(generator))
            right += int((scores.argmax(axis=1) == self.test.y[part]).sum())
            network.forget()
        return 100 * right / len(self.test.x)


def on_array(task: Task, make: Callable[[np.random.Generator], Network], arguments: argparse.Namespace) -> list[float]:
    """Learned on sessions of 8-bit and of 16-bit mantissas."""
    with ExitStack() as stack:
        narrow, wide = (stack.enter_context(bfpga.eager(name)) for name in arguments.accelerators)
        curve = task.learn(make(np.random.default_rng(0)), ArrayProducts(narrow, wide))
        records = [*narrow.trace, *wide.trace]
        milliseconds = sum(record.cycles for record in records) / (1e3 * narrow.session.accelerator.clock_mhz)
        print(f"{len(records):,} operations, {milliseconds:,.0f} ms of the kernel's clock", file=sys.stderr)
    return curve


def in_float(task: Task, make: Callable[[np.random.Generator], Network]) -> list[float]:
    """Learned in floating point from the same start."""
    return task.learn(make(np.random.default_rng(0)), FloatProducts())


def show(title: str, curves: dict[str, list[float]]) -> None:
    """Test accuracy after some epochs."""
    last = len(next(iter(curves.values())))
    epochs = sorted({1, 2, 5, 10, 15, 20, 30, last} & set(range(1, last + 1)))
    print(f"\n{title}: test accuracy in percent after epochs\n")
    print("| positions | " + " | ".join(map(str, epochs)) + " |\n|" + "---|" * (len(epochs) + 1))
    for name, curve in curves.items():
        print(f"| {name} | " + " | ".join(f"{curve[epoch - 1]:.1f}" for epoch in epochs) + " |", flush=True)


def picture(curves: dict[str, list[float]]) -> Any:
    """The curves as a picture."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for name, curve in curves.items():
        axes.plot(range(1, len(curve) + 1), curve, label=name)
    axes.set(xlabel="epoch", ylabel="test accuracy, %", ylim=(0, 100), title="depth depends on the input")
    axes.legend()
    return figure


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--part", nargs="+", choices=("mlp", "cnn", "depth"), default=["mlp", "cnn", "depth"])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--accelerators", nargs=2, default=["pynq_z2_dense", "pynq_z2_bfp16"], metavar="NAME")
    parser.add_argument("--plot", type=Path, help="draw the curves of part depth to this file")
    arguments = parser.parse_args(given)
    folder, begun = required_models_folder(), perf_counter()
    task = Task(Digits.read(folder, "digits_train"), Digits.read(folder, "digits_test_a"), arguments.epochs)
    missed = []
    for part, make in (("mlp", Perceptron), ("cnn", Convolutional)):
        if part in arguments.part:
            curves = {"array, same pass": on_array(task, make, arguments), "float": in_float(task, make)}
            show(part, curves)
            if curves["array, same pass"][-1] < GOAL:
                missed.append(f"{part}: {curves['array, same pass'][-1]:.1f} % of the test digits, {GOAL} % wanted")
    if "depth" in arguments.part:
        task.brightness = bright
        curves = {"float": in_float(task, Amplifying), "array, same pass": on_array(task, Amplifying, arguments)}
        flows: dict[str, Flow] = {SAME: "two_pass", "a sample of it (flow 2)": "two_pass_sampled", BEFORE: "delayed"}
        for name, flow in flows.items():
            curves[name] = task.learn(Amplifying(np.random.default_rng(0)), FlowProducts(flow))
        show("depth", curves)
        if arguments.plot:
            write_picture(arguments.plot, picture(curves))
        if curves[SAME][-1] <= curves[BEFORE][-1]:
            missed.append("depth: positions of the same pass are no better than those of the iteration before")
    print(f"{perf_counter() - begun:.0f} s", file=sys.stderr)
    return status(missed)


if __name__ == "__main__":
    sys.exit(main())
