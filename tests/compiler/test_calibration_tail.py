"""Calibration on few samples: what it expects of others, and that a network without its outliers does not lose them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bfpga
from bfpga.compiler.numbers.calibrate import Histogram, best_exponent, exponent_without_overflow
from bfpga.compiler.numbers.equalize import ChannelRange, choose_shifts
from bfpga.compiler.numbers.tail import channel_reach, fit_tail
from bfpga.formats.block_format import BlockFormat

NARROW, WIDE = BlockFormat(), BlockFormat(mantissa_bits=16)


def lognormal(count: int, seed: int = 0, deviation: float = 0.35) -> np.ndarray:
    return np.asarray(np.exp(np.random.default_rng(seed).normal(scale=deviation, size=count)))


@pytest.mark.parametrize("count", [16, 64, 256])
def test_the_tail_reaches_what_the_largest_sample_does_not(count: int) -> None:
    """Of 200 sets of samples, what one in 1000 exceeds lies above the largest sample, and is not far off."""
    true = np.quantile(lognormal(10**6, 1), 1 - 1 / 1000)
    reached = np.array([fit_tail(lognormal(count, seed)).reach(1 / 1000) for seed in range(200)])
    largest = np.array([lognormal(count, seed).max() for seed in range(200)])
    assert np.mean(reached >= true) > np.mean(largest >= true) + 0.2
    assert np.median(reached) < 2 * true


def test_two_samples_do_not_make_others_expected_that_are_thousands_of_times_larger() -> None:
    """The line through 8 and 2 led to 2^20: 16 bits kept nothing of either."""
    assert fit_tail([8.0, 2.0]).reach(1 / 1000) == 64


def test_few_samples_widen_the_margin() -> None:
    """The same quantiles, from 16 samples and from 1024."""
    margins = []
    for count in (16, 1024):
        shares = (np.arange(count) + 0.5) / count
        margins.append(fit_tail(np.exp2(-np.log(1 - shares) / 4)).reach(1 / 1000))
    assert margins[0] > margins[1] > 2.0 ** (np.log(500) / 4)


def test_values_with_an_upper_end_have_no_margin() -> None:
    peaks = np.minimum(lognormal(64), 1.0)
    assert fit_tail(peaks).reach(1 / 1000) == 1.0
    assert fit_tail(np.zeros(64)).reach(1 / 1000) == 0.0
    assert fit_tail(np.array([3.0])).reach(1 / 1000) == 3.0


def test_wide_mantissas_spare_bits_for_rare_samples() -> None:
    """Values far beyond twice the largest sample: a heavy tail needs more than the one bit that is always spared."""
    peaks = np.exp2(np.random.default_rng(2).exponential(1.0, 32))
    histogram = Histogram(np.zeros(0, np.int64), peaks)
    assert best_exponent(histogram, WIDE) > exponent_without_overflow(peaks.max(), WIDE) + 1
    assert best_exponent(Histogram(np.zeros(0, np.int64), np.ones(32)), WIDE) == exponent_without_overflow(1, WIDE) + 1


def test_a_channel_that_few_samples_show_is_not_amplified() -> None:
    """A channel that is zero in most samples may be as large as any; one that is small in all of them is small."""
    rng = np.random.default_rng(0)
    peaks = np.stack([rng.uniform(1, 2, 64), rng.uniform(0.01, 0.011, 64), np.zeros(64)], axis=1)
    peaks[5, 2] = 0.01
    reach = channel_reach(peaks, 1 / 1000)
    assert reach[1] < 0.02
    assert np.isinf(reach[2])
    largest = peaks.max(axis=0)
    shifts = choose_shifts(ChannelRange(largest, largest**2, reach), [], NARROW)
    assert shifts[1] > shifts[0]
    assert shifts[2] == shifts[0]
    blind = choose_shifts(ChannelRange(largest, largest**2), [], NARROW)
    assert blind[2] == blind[1]


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hidden layer of 40 features, four for each of ten inputs, and one score a class."""
    classes = np.eye(10)
    hidden = np.kron(classes, np.ones((1, 4)))  # (10, 40)
    values = {"w0": hidden.T, "w1": hidden}
    nodes = [
        helper.make_node("Gemm", ["x", "w0"], ["h"], "hidden", transB=1),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "w1"], ["y"], "scores", transB=1),
    ]
    graph = helper.make_graph(
        nodes, "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in values.items()],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("tail") / "perceptron.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_a_perceptron_keeps_samples_that_calibration_did_not_see(perceptron: Path) -> None:
    """Calibrated on samples that hardly show half of the features, it tells them apart all the same."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 10, 400)
    x = np.where(np.arange(10) == y[:, None], rng.uniform(0.7, 1.0, (400, 1)), rng.uniform(-1, 0.6, (400, 10)))
    seen = x[y < 5][:48].copy()
    seen[:, 5:] = np.minimum(seen[:, 5:], 0)  # features 5 to 9 hardly appear
    seen[:2, 5:] = 0.02
    program = bfpga.compile(perceptron, "pynq_z2_dense", seen.astype(np.float32))
    result = bfpga.evaluate(program, perceptron, x.astype(np.float32), y)
    assert result.float_accuracy == 1.0
    assert result.accuracy is not None
    assert result.accuracy >= 0.99
