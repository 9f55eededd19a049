"""The networks that benchmarks.training.fine_tuning trains, fine-tunes and judges; needs PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional

import bfpga
from benchmarks.common.networks import scaled
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.frameworks import export_network
from bfpga.training.fine_tuning import Prepared, prepare

#: Images a step, and samples that choose exponents.
BATCH, CALIBRATION = 50, 256
#: Steps after which the exponents follow the weights.
RENEWED = 20
#: Of bytes: less it, images take mantissas of both signs, twice as many.
MIDDLE = 128.0
#: Scores start so much smaller, and keep the exponent that they have then: classes differ by smaller steps.
FINER = 4
#: Of a step of training for four bits: images, and the rate from which it falls to zero.
IMAGES, RATE = 128, 8e-3
Loss = Callable[[Tensor, Tensor], Tensor]
#: Bytes (samples, 3, 32, 32) and classes (samples,).
Images = tuple[np.ndarray, np.ndarray]


class ResNet8(nn.Module):
    """ResNet-8 of MLPerf Tiny, batch normalization folded; layers in the order of the ONNX file."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        graph = onnx.load(file).graph
        numbers = {item.name: torch.tensor(onnx.numpy_helper.to_array(item)) for item in graph.initializer}
        self.convolutions = nn.ModuleList()
        for node in graph.node:
            if node.op_type == "Conv":
                stride = next(item.ints[0] for item in node.attribute if item.name == "strides")
                pads = next((list(item.ints) for item in node.attribute if item.name == "pads"), [0, 0, 0, 0])
                weights, bias = numbers[node.input[1]], numbers[node.input[2]]
                self.convolutions.append(convolution(weights, bias, (stride, stride), pads))
        dense = [node.input[1] for node in graph.node if node.op_type in ("MatMul", "Add")][-2:]
        weights, bias = (numbers[name] for name in dense)
        self.scores = nn.Linear(*weights.shape)
        self.scores.weight.data, self.scores.bias.data = weights.T.contiguous(), bias
        self.average = nn.AvgPool2d(8)

    def around(self, middle: float, finer: float) -> ResNet8:
        """That of images less ``middle``, which it takes for what is outside, its scores divided by ``finer``."""
        result = deepcopy(self)
        first = result.convolutions[0]
        assert isinstance(first, nn.Conv2d)
        assert first.bias is not None
        first.bias.data += middle * first.weight.data.sum((1, 2, 3))
        for item in result.scores.parameters():
            item.data /= finer
        return result

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, 3, 32, 32)."""
        layers = self.convolutions
        x = torch.relu(layers[0](x))
        x = torch.relu(x + layers[2](torch.relu(layers[1](x))))
        for first in (3, 6):
            x = torch.relu(layers[first](x) + layers[first + 2](torch.relu(layers[first + 1](x))))
        return self.scores(torch.flatten(self.average(x), 1))


def convolution(
    weights: Tensor, bias: Tensor, stride: tuple[int, ...], pads: Sequence[int], groups: int = 1
) -> nn.Module:
    """A layer of an ONNX file, behind one that pads where its sides are padded unlike."""
    even = list(pads[:2]) == list(pads[2:])
    padding = (pads[0], pads[1]) if even else 0
    channels = groups * weights.shape[1], weights.shape[0]
    layer = nn.Conv2d(*channels, tuple(weights.shape[2:]), stride, padding, groups=groups)
    layer.weight.data, layer.bias.data = weights, bias
    return layer if even else nn.Sequential(nn.ZeroPad2d((pads[1], pads[3], pads[0], pads[2])), layer)


class MobileNet(nn.Sequential):
    """Depthwise and pointwise convolutions behind an ordinary one, an average, ten classes; for images of 28 x 28.

    widths, strides: of the first convolution and of each pair behind it.
    """

    def __init__(
        self,
        widths: Sequence[int] = (8, 16, 24, 32),
        strides: Sequence[int] = (2, 2, 1, 2),
        channels: int = 1,
        function: type[nn.Module] = nn.SiLU,
    ) -> None:
        first = nn.Conv2d(channels, widths[0], 3, strides[0], 1, bias=False)
        parts: list[nn.Module] = [first, nn.BatchNorm2d(widths[0]), function()]
        for (inner, outer), stride in zip(itertools.pairwise(widths), strides[1:], strict=True):
            parts += [
                nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), function(),
                nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer), function(),
            ]  # fmt: skip
        super().__init__(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))


def moved(x: Tensor, mirrored: bool) -> Tensor:
    """Images moved by up to 3 pixels, each by its own, half of them mirrored."""
    images = functional.pad(x, (3, 3, 3, 3))
    places = torch.randint(0, 7, (len(x), 2)).tolist()
    height, width = x.shape[2:]
    x = torch.stack([image[:, i : i + height, j : j + width] for image, (i, j) in zip(images, places, strict=True)])
    return torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(3), x) if mirrored else x


def learn(
    module: nn.Module, batches: Iterator[tuple[Tensor, Tensor]], steps: int, rate: float, loss: Loss,
    renewing: float = 1.0,
) -> None:  # fmt: skip
    """Adam with a rate that falls to zero; rate: a step as part of the parameter's deviation.

    renewing: the share of the steps in which exponents follow the weights.
    """
    deviations = [(item, float(item.detach().std().clamp(min=1e-3))) for item in module.parameters()]
    optimizer = torch.optim.Adam([{"params": [item], "lr": rate * deviation} for item, deviation in deviations])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    module.train()
    for step in range(steps):
        x, wanted = next(batches)
        optimizer.zero_grad()
        loss(module(x), wanted).backward()
        optimizer.step()
        schedule.step()
        if isinstance(module, Prepared) and step % RENEWED == 0 and step < renewing * steps:
            module.calibrate(x)
    module.eval()


def on_emulator(program: Any, x: np.ndarray, y: np.ndarray) -> float:
    """Accuracy in percent."""
    scores = next(iter(bfpga.run(program, x).outputs.values()))
    return 100 * float((scores.argmax(axis=1) == y).mean())


def in_float(module: nn.Module, x: np.ndarray, y: np.ndarray) -> float:
    """Accuracy in percent."""
    with torch.no_grad():
        return 100 * float((module.eval()(torch.tensor(x)).argmax(dim=1).numpy() == y).mean())


def compared(
    title: str,
    module: nn.Module,
    accelerator: str,
    formats: Any,
    calibration: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    tune: Callable[[Prepared], None],
) -> None:
    """A row of the table."""
    options = CompileOptions(formats=formats)
    usual = on_emulator(bfpga.compile(module, accelerator, calibration, options), x, y)
    prepared = prepare(module, accelerator, torch.tensor(calibration), options)
    before = on_emulator(bfpga.compile(prepared, accelerator, example_inputs=calibration), x, y)
    begun = perf_counter()
    tune(prepared)
    prepared.calibrate(torch.tensor(calibration))
    seconds = perf_counter() - begun
    after = on_emulator(bfpga.compile(prepared, accelerator, example_inputs=calibration), x, y)
    found = f"{in_float(module, x, y):.2f} | {before:.2f} | {usual:.2f} | {after:.2f}"
    print(f"| {title} | {accelerator} | {formats} | {found} | {seconds:.0f} |", flush=True)


def row(numbers: str, accelerator: str, accuracies: Sequence[float], seconds: float = 0) -> None:
    """A row of the table of ``four_bits``."""
    found = " | ".join(f"{accuracy:.2f}" for accuracy in accuracies)
    print(f"| {numbers} | {accelerator} | {found} | {f'{seconds:.0f}' if seconds else ''} |", flush=True)


def resnet(folder: Path, steps: int) -> None:
    """ResNet-8 with both formats of shift units."""
    module = ResNet8(folder / "models" / "resnet8_cifar10.onnx").eval()
    train, test = (np.load(folder / "data" / f"cifar10_{name}.npz") for name in ("train_calib", "test_shared"))
    images = scaled(train)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            chosen = moved(torch.tensor(images)[torch.randint(len(images), (BATCH,))], True)
            with torch.no_grad():
                wanted = module(chosen).softmax(1)
            yield chosen, wanted

    def tune(prepared: Prepared) -> None:
        learn(prepared, batches(), steps, 8e-3, functional.cross_entropy)

    for formats in ("two_hot", "power_of_two"):
        torch.manual_seed(0)
        arguments = images[:CALIBRATION], scaled(test), test["y"]
        compared("ResNet-8, CIFAR-10", module, "pynq_z2_shift", formats, *arguments, tune)


def targets(network: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """(samples, classes): half the labels (samples,), half what a float network says of x."""
    with torch.no_grad():
        said = network(x).float().softmax(1)
    return (said + functional.one_hot(labels, said.shape[1])) / 2


def cross_entropy(found: Tensor, wanted: Tensor) -> Tensor:
    """Of scores, bfloat16 perhaps; wanted: classes, or the share of each."""
    return functional.cross_entropy(found.float(), wanted)


def four_bits(folder: Path, training: Images, others: Images, steps: int, file: Path | None) -> None:
    """ResNet-8 with weights of 4 bits and mantissas of 5. others: test images, beside those of the folder.

    file: for the fine-tuned network.
    """
    given = ResNet8(folder / "models" / "resnet8_cifar10.onnx").eval()
    calibration, test = (np.load(folder / "data" / f"cifar10_{name}.npz") for name in ("train_calib", "test_shared"))
    judges = [(scaled(test), test["y"]), (others[0].astype(np.float32), others[1])]
    row("float", "", [in_float(given, *judge) for judge in judges])
    for accelerator in ("pynq_z2_dense", "pynq_z2_quad"):
        program = bfpga.compile(given, accelerator, scaled(calibration))
        row("compiled as usual", accelerator, [on_emulator(program, *judge) for judge in judges])
    images, labels = training

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            for chosen in torch.randperm(len(images)).split(IMAGES):
                part = moved(torch.tensor(images[chosen.numpy()]).float(), True)
                part = part.contiguous(memory_format=torch.channels_last)
                yield part - MIDDLE, targets(given, part, torch.tensor(labels[chosen.numpy()]))

    middle = torch.tensor(scaled(calibration)) - MIDDLE
    tuned = prepare(given.around(MIDDLE, FINER), "pynq_z2_quad", middle)
    begun = perf_counter()
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        learn(tuned, batches(), steps, RATE, cross_entropy, renewing=0)
    seconds = perf_counter() - begun
    program = bfpga.compile(tuned, "pynq_z2_quad", example_inputs=middle.numpy())
    found = [on_emulator(program, x - MIDDLE, y) for x, y in judges]
    row(f"fine-tuned, {steps:,} steps", "pynq_z2_quad", found, seconds)
    if file is not None:
        export_network(tuned, file, middle)


def mobilenet(folder: Path, steps: int) -> None:
    """The MobileNet with linear weights of 8 bits."""
    torch.manual_seed(0)
    file = np.load(folder / "data" / "mnist_test_even.npz")
    x, y = scaled(file), file["y"].astype(np.int64)
    images, labels = torch.tensor(x[:3000]), torch.tensor(y[:3000])

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            chosen = torch.randint(len(images), (BATCH,))
            yield moved(images[chosen], False), labels[chosen]

    module = MobileNet()
    learn(module, batches(), 4 * steps, 2e-2, functional.cross_entropy)

    def tune(prepared: Prepared) -> None:
        learn(prepared, batches(), steps, 4e-3, functional.cross_entropy)

    arguments = x[:CALIBRATION], x[3000:], y[3000:]
    compared("MobileNet with SiLU, MNIST", module, "zcu104_dense", "linear", *arguments, tune)
