"""Mistakes of programs that define by running: one error each, with what, where and what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from eager_cases import IMAGES, KERNELS, B, W, X

import bfpga
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.dynamic_graph.run import EagerRun
from bfpga.errors import ConfigurationError, DataError, DeviceError, ModelError


@pytest.fixture
def run() -> Iterator[EagerRun]:
    with bfpga.eager("tiny", "emulator") as opened:
        yield opened


MISTAKES: dict[str, tuple[Callable[[EagerRun], Any], str]] = {
    "columns and rows": (lambda run: run.array(X) @ W.T, r"shapes \(9, 20\) and \(11, 20\) do not go together"),
    "stacks": (lambda run: run.matmul(np.ones((2, 3, 4)), np.ones((3, 4, 5))), "leading axes"),
    "weights of three axes": (lambda run: run.linear(X, np.ones((2, 20, 3))), r"\(K, M\) is needed"),
    "a bias too long": (lambda run: run.linear(X, W, np.ones(12)), r"bias has shape \(12,\); \(11,\) is needed"),
    "broadcasting": (lambda run: run.array(X) + np.ones(19), r"shapes \(9, 20\) and \(19,\)"),
    "groups": (lambda run: run.conv2d(IMAGES, KERNELS, groups=2), "in 2 groups do not go together"),
    "a kernel too large": (lambda run: run.conv2d(IMAGES[:, :, :2], KERNELS), r"kernel of \(3, 2\) does not fit"),
    "padding beyond the kernel": (lambda run: run.max_pool2d(IMAGES, 2, padding=2), "see no pixel"),
    "a stride of nothing": (lambda run: run.conv2d(IMAGES, KERNELS, stride=0), "stride is 0"),
    "three axes": (lambda run: run.max_pool2d(IMAGES[0], 2), "images are"),
    "an unknown function": (lambda run: run.linear(X, W, function="cosine"), "'cosine' is unknown; known are relu"),
    "not a number": (lambda run: run.array([1.0, np.nan]), "holds nan at index"),
    "weights not finite": (lambda run: run.linear(X, np.full((20, 11), np.inf)), "not finite"),
    "a result not finite": (lambda run: np.log(run.array([1.0, 0.0])), "result of log.*-inf"),
    "text": (lambda run: run.array(["one"]), "numbers are needed"),
    "complex numbers": (lambda run: run.array([1j]), "real ones are needed"),
    "nothing": (lambda run: run.array([]), "there is nothing in it"),
    "beyond the format": (lambda run: run.array([1e300]), "beyond"),
    "a scale too long": (
        lambda run: run.affine(X, np.ones(9)),
        r"scale has shape \(9,\); \(20,\) is needed, for axis -1",
    ),
    "an axis too many": (lambda run: run.affine(X, np.ones(9), axis=2), "has no axis 2"),
    "a factor not finite": (lambda run: run.array(X) * np.inf, "a finite number is needed"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_one_data_error(run: EagerRun, mistake: str) -> None:
    operation, message = MISTAKES[mistake]
    with pytest.raises(DataError, match=message):
        operation(run)
    assert run.report().on_device == 0


def test_operation_too_large_names_itself_and_its_shapes(run: EagerRun) -> None:
    """Nothing of it can be cut small enough for the memories."""
    with pytest.raises(ModelError, match=r"matmul: cannot be computed.*\(1, 1, 100000\).*activation memory"):
        run.matmul(np.ones((1, 100000)), np.ones((100000, 1)))


def test_unknown_device_is_named_with_those_that_are_known() -> None:
    with pytest.raises(DeviceError, match=r"'emulater' is unknown; known are emulator"):
        bfpga.eager("tiny", "emulater")


def test_unknown_accelerator_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tinny"):
        bfpga.eager("tinny")


@pytest.mark.parametrize("options", [{"rule": "best"}, {"flow": "twice"}, {"sample": 0}, {"formats": "two_hot"}])
def test_options_are_checked_when_the_session_opens(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        bfpga.eager("tiny", **options)


def test_closed_session_computes_nothing_and_its_arrays_keep_their_values() -> None:
    with bfpga.eager("tiny") as run:
        x = run.array(X)
    assert np.array_equal(np.asarray(x), X)
    with pytest.raises(DeviceError, match="is closed"):
        x.relu()


def test_arrays_of_two_sessions_do_not_mix(run: EagerRun) -> None:
    with bfpga.eager("tiny") as other, pytest.raises(DataError, match="another session"):
        run.linear(X, other.array(W), B)


@pytest.mark.parametrize("name", accelerator_names())
def test_every_ready_accelerator_computes_or_leaves_to_numpy(name: str) -> None:
    """Products of arrays need integers: an array of shift units alone leaves them to numpy and says why."""
    if load_accelerator(name).config.static_exponents:
        with pytest.raises(ConfigurationError, match=r"at run time.*\(key static_exponents\): choose another one"):
            bfpga.eager(name)
        return
    with bfpga.eager(name) as run:
        expected = np.maximum(X @ W + B, 0)
        hidden = run.linear(X, W, B, function="relu")
        product = hidden.T @ hidden
        integers = "linear" in run.config.weight_formats
        assert [record.where for record in run.trace] == ["device", "device" if integers else "host"]
    found = np.asarray(hidden)
    steps = min(8, 2 ** (run.config.format.mantissa_bits - 3))  # of the largest value
    assert np.abs(found - expected).max() < np.abs(expected).max() / steps
    assert np.abs(np.asarray(product) - found.T @ found).max() <= 2.0**product.exponent
