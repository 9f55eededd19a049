"""Operations called one by one: numpy's results, exponents from their own data, decisions by values (FP 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from eager_cases import CASES, IMAGES, KERNELS, B, W, X, convolved, integers, tiny_with

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.functions import Function
from bfpga.dynamic_graph import compiled
from bfpga.dynamic_graph.run import EagerRun

FUNCTIONS = [Function.named(name) for name in load_accelerator("tiny").config.functions]
#: Largest magnitude of an 8-bit mantissa.
MANTISSA = 127


@pytest.fixture
def run() -> Iterator[EagerRun]:
    with bfpga.eager("tiny", "emulator") as opened:
        yield opened


# Values and exponents


@pytest.mark.parametrize("name", CASES)
def test_result_is_numpys_but_for_one_rounding(run: EagerRun, name: str) -> None:
    """FP R3, R8, R12: exact sums and one rounding to half a step; the largest may saturate by its rounding carry."""
    operation, expected = CASES[name]
    found, values = operation(run), expected()
    step = 2.0**found.exponent
    carried = np.abs(values) > MANTISSA * step
    assert found.shape == values.shape
    assert np.abs(np.asarray(found) - values)[~carried].max() <= step / 2
    assert np.abs(np.asarray(found) - values).max() <= step


@pytest.mark.parametrize("name", [name for name in CASES if "max_pool" not in name])
def test_exponent_is_the_smallest_that_holds_the_result(run: EagerRun, name: str) -> None:
    """FP R16, R17: the largest magnitude of the operation's own results has the highest bit of the mantissa."""
    operation, expected = CASES[name]
    found, values = operation(run), expected()
    largest = np.floor(np.abs(values).max() * 2.0**-found.exponent)
    lowest = np.ceil(-values.min() * 2.0**-found.exponent) if values.min() < 0 else 0
    assert max(largest, lowest) >= (MANTISSA + 1) / 2 - 1
    assert largest <= MANTISSA + 1


@pytest.mark.parametrize("function", [item for item in FUNCTIONS if item.row.on_grid], ids=lambda item: item.key)
def test_functions_of_tables_come_close(run: EagerRun, function: Function) -> None:
    """FP R3: within a step, which the largest result may lose by saturation; alone and at the end of a product."""
    x = integers(6, 5) / 16
    expected = function.row.plain(x, 0.0)
    for operation in (lambda: run.function(x, function.key), lambda: run.linear(x, np.eye(5), function=function.key)):
        found = operation()
        assert np.abs(np.asarray(found) - expected).max() <= 2.0**found.exponent
        assert run.trace[-1].cycles > 0  # on the array


def test_no_history_enters_a_result(run: EagerRun) -> None:
    """FP R19: the same operation on other data, then on the first again: nothing of the data between is left."""
    first = run.array(X) @ W
    run.array(X * 1024) @ W
    again = run.array(X) @ W
    large = run.array(X * 1024) @ W
    assert (first.exponent, large.exponent) == (again.exponent, first.exponent + 10)
    assert np.array_equal(first.mantissa, again.mantissa)
    assert np.array_equal(first.mantissa, large.mantissa)


def test_first_position_is_that_of_the_operation_before(run: EagerRun) -> None:
    """FP R18: measured under the exponent of the operation before, preset 0 for the first, converted under its own."""
    hidden = run.linear(X, W, B, function="relu")
    scores = hidden @ W.T
    assert [record.first_exponent for record in run.trace] == [0, hidden.exponent]
    assert [record.exponent for record in run.trace] == [hidden.exponent, scores.exponent]


def test_next_operation_takes_mantissas_and_position_of_the_one_before(run: EagerRun) -> None:
    """FP R27: what passes between operations is the narrow result; rounding it again changes nothing."""
    hidden = run.array(X) @ W
    passed = hidden + np.zeros(11)
    assert run.trace[1].input_exponents[0] == hidden.exponent
    assert np.array_equal(np.asarray(passed), np.asarray(hidden))


def test_maxima_keep_the_position_and_measure_nothing(run: EagerRun) -> None:
    """FP R35: an operation that updates no position has no operation before it."""
    images = run.array(IMAGES)
    pooled = images.max_pool2d(3)
    assert pooled.exponent == images.exponent
    assert not run.trace[-1].measured
    images.average_pool2d(3)
    assert run.trace[-1].measured


def test_batch_is_one_block(run: EagerRun) -> None:
    """FP 2.1: one position for the tensor: images of different magnitude share it, and none is lost by itself."""
    images = np.stack([IMAGES[0], IMAGES[1] // 16])
    found = run.conv2d(images, KERNELS)
    error = np.abs(np.asarray(found) - convolved(images, KERNELS))
    assert error.max() <= 2.0 ** (found.exponent - 1)
    assert found.exponent == run.conv2d(images[:1], KERNELS).exponent


def test_saturated_results_are_counted(tmp_path: Path) -> None:
    """FP R49, R12: with one value in 2 allowed to saturate, exactly those beyond the mantissa's range are counted."""
    accelerator = tiny_with(tmp_path, "position_bins: 24")
    with bfpga.eager(accelerator, rule="rate", rate=1, flow="two_pass") as run:
        found = run.array(np.arange(1, 33.0).reshape(8, 4)) @ (np.eye(4) * 8)
        values = np.arange(1, 33.0) * 8
        beyond = np.count_nonzero(np.rint(values * 2.0**-found.exponent) > MANTISSA)
        assert run.trace[-1].saturated == beyond
        assert beyond > 0


# Programs that look at their values


def test_values_decide_what_runs_next(run: EagerRun) -> None:
    """FP R16: a loop that ends by its data: a matrix is squared until its largest value passes a bound."""
    value = run.array(np.diag([2.0, 1.0, 0.5]))
    rounds = 0
    while np.asarray(value).max() < 1000:
        value = value @ value
        rounds += 1
    assert rounds == 4  # 2, 4, 16, 256, 65536
    assert np.asarray(value)[0, 0] == 2.0**16
    assert [record.name for record in run.trace] == ["matmul"] * 4


def test_branches_share_what_came_before(run: EagerRun) -> None:
    """FP 4.1: one result read by two operations, whose results meet again."""
    hidden = run.linear(X, W, function="relu")
    left, right = hidden @ W.T, hidden @ W[::-1].T
    joined = left + right
    plain = np.asarray(left) + np.asarray(right)
    assert np.abs(np.asarray(joined) - plain).max() <= 1.5 * 2.0**joined.exponent


def test_second_call_compiles_nothing(run: EagerRun) -> None:
    """A loop pays for its operations once, weights that change included."""
    for step in range(4):
        (run.linear(X, W + step, B, function="relu") @ run.array(W.T)).tanh()
    assert run.report().compiled == 3
    assert [record.compiled for record in run.trace] == [True] * 3 + [False] * 9


def test_changed_weights_are_not_those_of_the_call_before(run: EagerRun) -> None:
    """What is kept is found by the weights' values, not by their place in memory."""
    weights = W.copy()
    first = run.array(X) @ weights
    weights[:] = weights * 2
    second = run.array(X) @ weights
    assert second.exponent == first.exponent + 1
    assert np.array_equal(first.mantissa, second.mantissa)


# numpy's part


def test_rearrangements_keep_the_mantissas(run: EagerRun) -> None:
    """No operation runs, and the position stays."""
    x = run.array(IMAGES)
    for found, expected in (
        (x.reshape(3, -1), IMAGES.reshape(3, -1)),
        (x.transpose(0, 2, 3, 1), IMAGES.transpose(0, 2, 3, 1)),
        (x.T, IMAGES.T),
        (np.swapaxes(x, 0, 1), np.swapaxes(IMAGES, 0, 1)),
        (x[1:, ::2], IMAGES[1:, ::2]),
        (x.flatten(1), IMAGES.reshape(3, -1)),
        (x * (IMAGES > 0), IMAGES * (IMAGES > 0)),
    ):
        assert found.exponent == x.exponent
        assert np.array_equal(np.asarray(found), expected)
    assert (x * 0.25).exponent == x.exponent - 2
    assert len(run.trace) == 0


def test_numpy_computes_what_the_array_cannot_and_the_report_says_so(run: EagerRun) -> None:
    """The rest of numpy works on the values; results of floats are blocks again."""
    scores = run.array(X) @ W / 4096
    weights = np.exp(scores)
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    assert np.abs(np.asarray(probabilities).sum(axis=1) - 1).max() < 0.05
    assert probabilities.argmax(axis=1).tolist() == np.asarray(scores).argmax(axis=1).tolist()
    assert (scores > 0).dtype == np.bool_
    report = run.report()
    assert [record.name for record in report if record.where == "host"] == [
        "exp", "sum", "divide", "argmax", "greater",
    ]  # fmt: skip
    assert (report.on_device, report.on_host) == (1, 5)


def test_report_counts_work_and_prints_it(run: EagerRun) -> None:
    """FP R49: operations, positions, saturated results, clocks."""
    found = run.linear(X, W, B)
    report = run.report()
    assert report.macs == 9 * 20 * 11
    assert report.cycles == run.trace[0].cycles > 0
    assert run.trace[0].position == -found.exponent == found.position
    run.linear(X * 4, W, B)
    titles, line, sums = str(run.report()).splitlines()
    assert titles.split() == ["operation", "where", "result", "times", "exponents", "saturated", "cycles"]
    assert line.split()[:6] == ["linear", "device", "9", "x", "11", "2"]
    assert f"{found.exponent} .. {found.exponent + 2}" in line
    assert sums.startswith("2 operations on emulator (tiny), 0 on the host, 1 compiled")


def test_in_place_operators_bind_a_new_array(run: EagerRun) -> None:
    """`w -= step` leaves other names of the old array alone; writing into an array is refused."""
    kept = weights = run.array(W)
    weights -= W / 2
    assert np.array_equal(np.asarray(kept), W)
    assert np.abs(np.asarray(weights) - W / 2).max() <= 2.0 ** (weights.exponent - 1)
    with pytest.raises(TypeError, match="not changed in place"):
        np.add(kept, kept, out=kept)


def test_weights_that_are_kept_stay_within_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long training run packs new weights in every step; those of steps long ago are given up."""
    monkeypatch.setattr(compiled, "KEPT_WEIGHTS", 4096)
    with bfpga.eager("tiny") as run:
        first = run.array(X) @ W
        for step in range(8):
            run.array(X) @ (W + step)
        again = run.array(X) @ W
    kept = run.session.compiler.calls
    assert kept.total <= 4096
    assert np.array_equal(first.mantissa, again.mantissa)
