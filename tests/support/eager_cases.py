"""Operations of a define-by-run session on whole numbers, and what plain numpy makes of them.

Operands are integers of at most 7 bits: a block holds them exactly, so that results may differ by their own rounding
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bfpga.accelerator.loader import load_accelerator

Operation = Callable[[Any], Any]
Expected = Callable[[], np.ndarray]


def tiny_with(directory: Path, *keys: str) -> Path:
    """The description of the smallest array with its keys of the collector and the keep buffer replaced by ``keys``."""
    source = load_accelerator("tiny").path
    assert source is not None
    lines = source.read_text().splitlines()
    kept = [line for line in lines if "position_bins" not in line and "wide_words" not in line]
    path = directory / "tiny_variant.yaml"
    path.write_text("\n".join([*kept, *(f"    {key}" for key in keys)]))
    return path


def integers(*shape: int, seed: int = 0, largest: int = 60) -> np.ndarray:
    """Whole numbers that a block of 8-bit mantissas holds exactly."""
    return np.random.default_rng(seed).integers(-largest, largest + 1, shape).astype(np.float64)


#: A stride with which all columns would read one bank.
BANKS = load_accelerator("tiny").config.banks
X, W, B = integers(9, 20), integers(20, 11, seed=1), integers(11, seed=2)
IMAGES = integers(3, 4, 9, 8, seed=3)
KERNELS = integers(6, 4, 3, 2, seed=4)
DEPTHWISE = integers(4, 1, 3, 3, seed=5)
STACK, SECOND = integers(2, 3, 5, 7, seed=6), integers(3, 7, 4, seed=7)


def windows(x: np.ndarray, kernel: tuple[int, int], stride: int, padding: int, fill: float, dilation: int = 1) -> Any:
    """Windows of images, (N, channels, height, width, kernel rows, kernel columns)."""
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(x, edges, constant_values=fill)
    span = tuple((size - 1) * dilation + 1 for size in kernel)
    every = np.lib.stride_tricks.sliding_window_view(padded, span, axis=(2, 3))
    return every[:, :, ::stride, ::stride, ::dilation, ::dilation]


def convolved(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0, dilation: int = 1) -> np.ndarray:
    """The definition of a convolution of images, without groups."""
    return np.einsum("nchwij,ocij->nohw", windows(x, w.shape[2:], stride, padding, 0, dilation), w)


def depthwise(x: np.ndarray, w: np.ndarray, padding: int) -> np.ndarray:
    """Every channel convolved with its own kernel."""
    return np.einsum("nchwij,cij->nchw", windows(x, w.shape[2:], 1, padding, 0), w[:, 0])


def by_channel(x: Any, numbers: np.ndarray) -> Any:
    """Images times a number for each channel."""
    return x * numbers[:, None, None]


#: By name: the operation of a session, and its result in float64.
CASES: dict[str, tuple[Operation, Expected]] = {
    "matmul": (lambda run: run.array(X) @ W, lambda: X @ W),
    "matmul_of_arrays": (lambda run: run.array(X) @ run.array(W), lambda: X @ W),
    "matmul_numpy_first": (lambda run: X @ run.array(W), lambda: X @ W),
    "matmul_transposed": (lambda run: run.array(X).T @ run.array(X), lambda: X.T @ X),
    "matmul_vectors": (lambda run: run.matmul(X[0], W[:, 0])[None], lambda: (X[0] @ W[:, 0])[None]),
    "matmul_stack": (lambda run: run.matmul(STACK, SECOND), lambda: STACK @ SECOND),
    "matmul_three_axes": (lambda run: run.array(STACK) @ SECOND[0], lambda: STACK @ SECOND[0]),
    "linear": (lambda run: run.linear(X, W, B), lambda: X @ W + B),
    "linear_relu": (lambda run: run.linear(X, W, B, function="relu"), lambda: np.maximum(X @ W + B, 0)),
    "linear_leaky": (
        lambda run: run.linear(X, W, B, function=("leaky_relu", 0.25)),
        lambda: np.where(X @ W + B > 0, X @ W + B, (X @ W + B) / 4),
    ),
    "conv2d": (lambda run: run.conv2d(IMAGES, KERNELS), lambda: convolved(IMAGES, KERNELS)),
    "conv2d_strided": (
        lambda run: run.conv2d(IMAGES, KERNELS, stride=2, padding=1), lambda: convolved(IMAGES, KERNELS, 2, 1)
    ),
    "conv2d_dilated": (
        lambda run: run.conv2d(IMAGES, KERNELS, dilation=2), lambda: convolved(IMAGES, KERNELS, 1, 0, 2)
    ),
    "conv2d_one_image": (
        lambda run: run.conv2d(IMAGES[:1], KERNELS, padding=1), lambda: convolved(IMAGES[:1], KERNELS, 1, 1)
    ),
    "conv2d_of_arrays": (lambda run: run.conv2d(IMAGES, run.array(KERNELS)), lambda: convolved(IMAGES, KERNELS)),
    "conv2d_depthwise": (
        lambda run: run.conv2d(IMAGES, DEPTHWISE, padding=1, groups=4), lambda: depthwise(IMAGES, DEPTHWISE, 1)
    ),
    "conv2d_stride_of_banks": (
        lambda run: run.conv2d(IMAGES, KERNELS, stride=BANKS), lambda: convolved(IMAGES, KERNELS, BANKS)
    ),
    "add": (lambda run: run.array(X) + X[::-1], lambda: X + X[::-1]),
    "add_broadcast": (lambda run: run.array(W) + B, lambda: W + B),
    "subtract": (lambda run: 3 - run.array(X), lambda: 3 - X),
    "scale": (lambda run: run.array(X) * 3, lambda: 3 * X),
    "scale_channels": (lambda run: run.array(X) * integers(20, seed=8), lambda: X * integers(20, seed=8)),
    "affine": (
        lambda run: run.affine(IMAGES, integers(4, seed=8), integers(4, seed=9), axis=1, function="relu"),
        lambda: np.maximum(by_channel(IMAGES, integers(4, seed=8)) + by_channel(1.0, integers(4, seed=9)), 0),
    ),
    "batch_norm": (
        lambda run: run.batch_norm(IMAGES, np.arange(4), np.array([4.0, 1, 16, 4]), 3.0, epsilon=0.0),
        lambda: by_channel(IMAGES - by_channel(1.0, np.arange(4)), 3 / np.array([2.0, 1, 4, 2])),
    ),
    "negative": (lambda run: -run.array(X), lambda: -X),
    "relu": (lambda run: run.array(X).relu(), lambda: np.maximum(X, 0)),
    "maximum": (lambda run: np.maximum(run.array(X), 0), lambda: np.maximum(X, 0)),
    "leaky_relu": (lambda run: run.array(X).leaky_relu(0.5), lambda: np.where(X > 0, X, X / 2)),
    "clip": (lambda run: run.array(X).clip(0, 25), lambda: np.clip(X, 0, 25)),
    "max_pool2d": (
        lambda run: run.max_pool2d(IMAGES, 3, 2, 1),
        lambda: windows(IMAGES, (3, 3), 2, 1, -np.inf).max(axis=(4, 5)),
    ),
    "max_pool2d_tiles": (
        lambda run: run.array(IMAGES[:, :, :8]).max_pool2d(2),
        lambda: windows(IMAGES[:, :, :8], (2, 2), 2, 0, 0).max(axis=(4, 5)),
    ),
    "average_pool2d": (
        lambda run: run.average_pool2d(IMAGES, (2, 4), 1),
        lambda: windows(IMAGES, (2, 4), 1, 0, 0).mean(axis=(4, 5)),
    ),
}  # fmt: skip


def random_convolution(seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Images, kernels and options of a convolution of any geometry that fits."""
    generator = np.random.default_rng(seed)
    groups, kernel = int(generator.choice([1, 1, 2, 3])), generator.integers(1, 5, 2)
    stride, dilation = generator.integers(1, 6, 2), generator.integers(1, 3, 2)
    span = (kernel - 1) * dilation + 1
    padding = generator.integers(0, span)
    size = np.maximum(span - 2 * padding, 1) + generator.integers(0, 8, 2)
    count, inner, outer = (int(number) for number in generator.integers(1, 5, 3))
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    named: dict[str, Any] = {name: (int(pair[0]), int(pair[1])) for name, pair in options.items()}
    images = integers(count, groups * inner, *size, seed=seed)
    return images, integers(groups * outer, inner, *kernel, seed=seed + 1), {**named, "groups": groups}


def plain_convolution(x: np.ndarray, w: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """Every result by itself: the sum over its window, pixels outside the image left out."""
    (down, right), (top, left), (below, beside) = options["stride"], options["padding"], options["dilation"]
    groups, (outputs, inner, rows, columns) = options["groups"], w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (top, top), (left, left)))
    height = (padded.shape[2] - (rows - 1) * below - 1) // down + 1
    width = (padded.shape[3] - (columns - 1) * beside - 1) // right + 1
    result = np.zeros((len(x), outputs, height, width))
    for output in range(outputs):
        first = output // (outputs // groups) * inner
        for i, j in np.ndindex(rows, columns):
            y, z = i * below, j * beside
            seen = padded[:, first : first + inner, y : y + (height - 1) * down + 1 : down]
            seen = seen[..., z : z + (width - 1) * right + 1 : right]
            result[:, output] += np.einsum("nchw,c->nhw", seen, w[output, :, i, j])
    return result
