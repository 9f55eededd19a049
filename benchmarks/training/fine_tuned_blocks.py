"""The networks that benchmarks.training.blocks fine-tunes, and the cells of its table; needs PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn

import bfpga
from benchmarks.common.networks import scaled
from benchmarks.training.fine_tuned import (
    FINER,
    IMAGES,
    MIDDLE,
    RATE,
    ResNet8,
    cross_entropy,
    learn,
    moved,
    on_emulator,
    targets,
)
from benchmarks.training.four_bits import other_images, training_images
from benchmarks.training.rounded_products import Numbers, with_rounded_products
from benchmarks.training.small_networks import VisionTransformer, equalized, folded, keyword_network, separable

#: Numbers of the table's columns; of 4 bits by what has an exponent.
BLOCK = 32
EIGHT = Numbers(8, 8, 8)
KINDS = {
    "a tensor": Numbers(5, 4, 7),
    "a sample's tensor": Numbers(5, 4, 7, dynamic=True),
    f"blocks of {BLOCK}": Numbers(5, 4, 7, BLOCK, BLOCK),
}
#: Steps that train a network in float, and the largest rate of Adam.
FLOAT_STEPS, FLOAT_RATE = 6000, 3e-3
#: Bytes are less ``MIDDLE`` and divided by this.
DEVIATION = 64.0
#: Samples that choose exponents, and that are computed at once.
CALIBRATION, AT_ONCE = 256, 500
#: Frames that recordings of a keyword are moved by where they judge.
FRAMES = 3
#: Of the table's cells: the accelerator that compiles without training.
ACCELERATOR = "pynq_z2_quad"
Batches = Callable[[], Iterator[tuple[Tensor, Tensor]]]


@dataclass(frozen=True)
class Task:
    """Samples: those that train, with their classes; those that choose exponents, and that judge."""

    batches: Batches
    calibration: Tensor
    x: Tensor
    y: np.ndarray

    def judged(self, network: nn.Module) -> float:
        """Accuracy in percent."""
        network.eval()
        with torch.no_grad():
            found = [network(part).argmax(dim=1).numpy() for part in self.x.split(AT_ONCE)]
        return 100 * float((np.concatenate(found) == self.y).mean())


class Raised(nn.Module):
    """A network of bytes for bytes less their middle: pads with zero bytes, which rounded ones take for the middle."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """x: (samples, 3, 32, 32)."""
        result: Tensor = self.network(x + MIDDLE)
        return result


@dataclass(frozen=True)
class Case:
    """A float network, and the network that is fine-tuned, of other sizes of scores perhaps."""

    network: nn.Module
    task: Task
    tuned: nn.Module

    @cached_property
    def alike(self) -> nn.Module:
        """What takes one exponent for all channels."""
        return equalized(self.tuned, self.task.calibration) if isinstance(self.tuned, nn.Sequential) else self.tuned


def images_task(folder: Path, images: Path, divided: float) -> Task:
    """Images of CIFAR-10, of bytes less their middle."""
    given = np.load(folder / "data" / "cifar10_test_shared.npz")
    known, (others, classes) = scaled(given), other_images(images, given["index"])
    pixels, labels = training_images(images)

    def ready(x: np.ndarray) -> Tensor:
        return (torch.tensor(x).float() - MIDDLE) / divided

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            for chosen in torch.randperm(len(pixels)).split(IMAGES):
                part = moved(ready(pixels[chosen.numpy()]), True)
                yield part.contiguous(memory_format=torch.channels_last), torch.tensor(labels[chosen.numpy()])

    x = torch.cat([ready(known), ready(others)])
    return Task(batches, ready(pixels[:CALIBRATION]), x, np.concatenate([given["y"], classes]))


def keywords_task(folder: Path) -> Task:
    """Recordings of keywords; those that train are moved and mixed with each other."""
    file = np.load(folder / "data" / "kws_mfcc_shared.npz")
    x, y = torch.tensor(scaled(file)), file["y"].astype(np.int64)
    learnt, labels = x[1::2], torch.tensor(y[1::2])

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            first, second = torch.randint(len(learnt), (2, IMAGES))
            shares = torch.rand(IMAGES, 1, 1, 1) * 0.5
            frames = torch.randint(-2 * FRAMES, 2 * FRAMES + 1, (IMAGES,)).tolist()
            mixed = learnt[first] * (1 - shares) + learnt[second] * shares
            rolled = [shifted(part, by) for part, by in zip(mixed, frames, strict=True)]
            yield torch.stack(rolled), labels[first]

    judged = torch.cat([torch.stack([shifted(part, by) for part in x[::2]]) for by in (-FRAMES, 0, FRAMES)])
    return Task(batches, learnt, judged, np.tile(y[::2], 3))


def shifted(recording: Tensor, frames: int) -> Tensor:
    """(1, frames, coefficients), later by so many frames; the outer frame fills what is free."""
    at = (torch.arange(recording.shape[1]) - frames).clamp(0, recording.shape[1] - 1)
    return recording[:, at]


def trained(network: nn.Module, task: Task, steps: int) -> nn.Module:
    """The network in float."""
    optimizer = torch.optim.AdamW(network.parameters(), FLOAT_RATE, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, FLOAT_RATE, total_steps=steps)
    batches = task.batches()
    network.train()
    for _ in range(steps):
        x, labels = next(batches)
        with torch.autocast("cpu", torch.bfloat16):
            found = network(x)
        optimizer.zero_grad()
        cross_entropy(found, labels).backward()
        optimizer.step()
        schedule.step()
    return network.eval()


def fine_tuned(case: Case, network: nn.Module, numbers: Numbers, steps: int) -> nn.Module:
    """A network with rounded products, half by labels and half by what the float network says."""
    result = calibrated(network, numbers, case.task)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for x, labels in case.task.batches():
            yield x, targets(case.network, x, labels)

    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        learn(result, batches(), steps, RATE, cross_entropy, renewing=0)
    return result


def calibrated(network: nn.Module, numbers: Numbers, task: Task) -> nn.Module:
    """With rounded products, whose exponents the samples have chosen."""
    result = with_rounded_products(network, numbers)
    with torch.no_grad():
        result(task.calibration)
    return result


def cases(folder: Path, images: Path, keep: Path | None) -> dict[str, Callable[[], Case]]:
    """By name."""

    def resnet() -> Case:
        given = ResNet8(folder / "models" / "resnet8_cifar10.onnx").eval()
        return Case(Raised(given), images_task(folder, images, 1.0), given.around(MIDDLE, FINER))

    def keywords() -> Case:
        given = keyword_network(folder / "models" / "dscnn_kws.onnx").eval()
        return Case(given, keywords_task(folder), given)

    def made(name: str, network: Callable[[], nn.Module]) -> Case:
        task, file = images_task(folder, images, DEVIATION), keep / f"{name}.pt" if keep else None
        torch.manual_seed(0)
        found = network()
        if file is not None and file.exists():
            found.load_state_dict(torch.load(file, weights_only=True))
        else:
            trained(found, task, FLOAT_STEPS)
            if file is not None:
                torch.save(found.state_dict(), file)
        found = folded(found.eval())
        return Case(found, task, found)

    return {
        "ResNet-8": resnet,
        "DS-CNN": keywords,
        "MobileNet": lambda: made("mobilenet", separable),
        "transformer": lambda: made("transformer", VisionTransformer),
    }


def row(name: str, case: Case, steps: int) -> list[str]:
    """Cells: float, 8 bits, 4 bits compiled, after training only and fine-tuned."""
    task, network = case.task, case.network
    program = bfpga.compile(network, ACCELERATOR, task.calibration.numpy())
    found = [task.judged(network), task.judged(calibrated(network, EIGHT, task))]
    found.append(on_emulator(program, task.x.numpy(), task.y))
    found += [task.judged(calibrated(network, numbers, task)) for numbers in KINDS.values()]
    for kind, numbers in KINDS.items():
        begun = perf_counter()
        given = case.tuned if numbers.values else case.alike
        found.append(task.judged(fine_tuned(case, given, numbers, steps)))
        print(f"{name}, {kind}: {found[-1]:.2f} %, {perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    return [name, *(f"{accuracy:.2f}" for accuracy in found)]


def head() -> list[str]:
    """Of the columns."""
    columns = ["network", "float", "8 bits", f"4 bits on {ACCELERATOR}", *(f"4 bits, {kind}" for kind in KINDS)]
    return [*columns, *(f"fine-tuned, {kind}" for kind in KINDS)]
