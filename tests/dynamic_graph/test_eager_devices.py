"""One program, operation by operation, on every device: the same bits, clocks and counts (FP R48)."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from cluster_configs import TILE
from eager_cases import CASES, IMAGES, KERNELS, B, W, X, integers, plain_convolution, random_convolution, tiny_with
from effort import each_once
from skip_arrays import SKIPPING

import bfpga
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.options import RuleName
from bfpga.contract.flows import Flow
from bfpga.devices.streaming_device import OperationStarts
from bfpga.dynamic_graph.array import EagerArray
from bfpga.dynamic_graph.records import OperationRecord
from bfpga.dynamic_graph.run import EagerRun
from bfpga.errors import ConfigurationError, DeviceError

FLOWS = get_args(Flow)
EXAMPLE = Path(__file__).parents[2] / "examples" / "define_by_run.py"


def facts(record: OperationRecord) -> tuple[object, ...]:
    return (
        record.name, record.where, record.first_exponent, record.exponent, record.measured, record.saturated,
        record.underflows, record.status, record.macs, record.cycles, record.compiled,
    )  # fmt: skip


def check_equal(found: EagerRun, expected: EagerRun, results: list[tuple[EagerArray, EagerArray]]) -> None:
    assert [facts(record) for record in found.trace] == [facts(record) for record in expected.trace]
    for ours, theirs in results:
        assert ours.exponent == theirs.exponent
        assert np.array_equal(ours.mantissa, theirs.mantissa)


@pytest.mark.parametrize("device", ["csim", "virtual"])
def test_every_operation_gives_the_emulators_bits(device: str) -> None:
    """FP R48, R27: results, positions, clocks, counters of all operations, each after another on an open kernel."""
    with bfpga.eager("tiny", "emulator") as expected, bfpga.eager("tiny", device) as found:
        results = [(operation(found), operation(expected)) for operation, _ in CASES.values()]
        check_equal(found, expected, results)


@pytest.mark.parametrize("skipping", [SKIPPING, accelerator_around(TILE)], ids=["windows", "tile"])
def test_operations_with_new_weights_give_the_same_bits(skipping: Accelerator) -> None:
    """On arrays that skip zero weights, of which weights decide how many entries a layer has, at run time."""
    with bfpga.eager(skipping, "emulator") as expected, bfpga.eager(skipping, "csim") as found:
        for density in (1.0, 0.3, 0.0):
            kept = np.random.default_rng(2).random(W.shape) < density
            results = [(run.linear(X, np.where(kept, W, 0.0), B)) for run in (found, expected)]
            check_equal(found, expected, [(results[0], results[1])])
        images, kernels, options = random_convolution(1)
        check_equal(found, expected, [tuple(run.conv2d(images, kernels, **options) for run in (found, expected))])


def test_convolutions_of_any_geometry_are_exact_and_the_same_on_a_kernel() -> None:
    """FP R3, R48: strides, padding, dilation, groups and batches; half a step from the exact result."""
    with bfpga.eager("tiny", "emulator") as expected, bfpga.eager("tiny", "csim") as found:
        for seed in range(40):
            images, kernels, options = random_convolution(seed)
            ours, theirs = (run.conv2d(images, kernels, **options) for run in (found, expected))
            check_equal(found, expected, [(ours, theirs)])
            error = np.abs(np.asarray(ours) - plain_convolution(images, kernels, options))
            saturated = found.trace[-1].saturated > 0  # the largest, by its rounding carry
            assert error.max() <= 2.0**ours.exponent * (1 if saturated else 0.5), options


def program(run: EagerRun) -> list[EagerArray]:
    """Convolutions, pooling, products of arrays, and a loop that ends by its data."""
    features = run.conv2d(np.repeat(IMAGES, 4, axis=0), KERNELS, padding=1, function="relu").max_pool2d(2)
    value = features.flatten(1) @ features.flatten(1).T
    results = [features, value]
    while value.exponent < 24:
        value = value @ value
        results.append(value)
    return [*results, run.linear(np.repeat(X, 9, axis=0), W, B, function="sigmoid")]


@pytest.fixture(scope="module")
def collecting(tmp_path_factory: pytest.TempPathFactory) -> Accelerator:
    """A small array with a collector and a keep buffer."""
    return load_accelerator(tiny_with(tmp_path_factory.mktemp("accelerator"), "position_bins: 24", "wide_words: 4096"))


@pytest.mark.parametrize(("flow", "rule"), each_once(FLOWS, ["rate", "window"]))
def test_flows_give_the_same_bits_on_kernels(collecting: Accelerator, flow: Flow, rule: RuleName) -> None:
    """FP R22-R25: what precedes an operation measures all or a sample, and keeps its accumulators or does not."""
    options = {"flow": flow, "rule": rule, "rate": 4}
    with bfpga.eager(collecting, **options) as expected, bfpga.eager(collecting, "csim", **options) as found:
        check_equal(found, expected, list(zip(program(found), program(expected), strict=True)))


def test_flows_that_measure_everything_agree(collecting: Accelerator) -> None:
    """FP R26: keeping the accumulators or computing them again changes no bit."""
    with bfpga.eager(collecting, flow="two_pass") as first, bfpga.eager(collecting, flow="keep") as second:
        for ours, theirs in zip(program(first), program(second), strict=True):
            assert ours.exponent == theirs.exponent
            assert np.array_equal(ours.mantissa, theirs.mantissa)


def test_sampling_needs_values_to_say_something(collecting: Accelerator) -> None:
    """FP 2.3, R23: with nothing asked for, small results are measured whole, and large ones by every eighth row."""
    small, large = integers(64, 32), integers(2048, 32)
    with bfpga.eager(collecting) as usual, bfpga.eager(collecting, flow="two_pass") as whole:
        for values, sampled in ((small, False), (large, True)):
            assert usual.array(values).relu().shape == whole.array(values).relu().shape
            assert (usual.trace[-1].cycles < whole.trace[-1].cycles) == sampled


def test_accelerator_without_collector_takes_leads(tmp_path: Path, collecting: Accelerator) -> None:
    """docs/kernel-positions.md: exponents come from leads alone, and another rule is refused."""
    bare = load_accelerator(tiny_with(tmp_path))
    with bfpga.eager(bare) as run, bfpga.eager(collecting, rule="max", flow="two_pass") as other:
        found, expected = run.array(X) @ W, other.array(X) @ W
    assert found.exponent == expected.exponent
    assert np.array_equal(found.mantissa, expected.mantissa)
    with pytest.raises(ConfigurationError, match="needs a collector"):
        bfpga.eager(bare, rule="rate")
    with pytest.raises(ConfigurationError, match="needs a place for accumulators"):
        bfpga.eager(bare, flow="keep")


def test_weights_are_loaded_again_after_a_start_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what a kernel holds then; while nothing fails, weights stay where they are."""

    def fail(*_: object, **__: object) -> None:
        raise DeviceError("the board was unplugged")

    with bfpga.eager("tiny", "csim") as run:
        x = run.array(X)
        results = [x @ W, x @ W]
        with monkeypatch.context() as broken:
            broken.setattr(OperationStarts, "run_operations", fail)
            with pytest.raises(DeviceError, match="unplugged"):
                x @ W
        results.append(x @ W)
        first, second, third = (record.cycles for record in run.trace)
    assert first == third > second
    assert all(np.array_equal(result.mantissa, results[0].mantissa) for result in results)


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Its second operation has as many rows as the first one left doubtful."""
    runpy.run_path(str(EXAMPLE))["main"]("csim", "tiny")
    printed = capsys.readouterr().out
    first, second = (float(number) for number in re.findall(r"([\d.]+)%", printed))
    assert second > first > 85
    doubtful = re.search(r"(\d+) doubtful", printed)
    assert doubtful is not None
    assert f"{doubtful[1]} x 100" in printed
    assert "2 operations on csim (tiny), 0 on the host" in printed
