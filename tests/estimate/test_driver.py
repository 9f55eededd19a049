"""What the driver takes on a board: the figures of the benchmark, for the samples of a program, on the board's core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import bfpga
from bfpga.contract.program import LaunchStep, Program
from bfpga.estimate.driver import driver_seconds, driver_time, encoded_values
from bfpga.estimate.program import ProgramEstimate, estimate_program
from bfpga.program.groups import START_BYTES, START_SAMPLES, sent_bytes
from bfpga.program.packets import SamplePackets

MODELS = Path(__file__).parents[2] / "examples" / "models"


@pytest.fixture(scope="module")
def lenet() -> Program:
    return bfpga.compile(MODELS / "lenet_mnist.onnx", "pynq_z2_dense", MODELS / "mnist_calibration.npz")


@pytest.fixture(scope="module")
def estimate(lenet: Program) -> ProgramEstimate:
    return estimate_program(bfpga.load_accelerator("pynq_z2_dense"), lenet)


def test_the_benchmark_measured_the_starts_that_are_made() -> None:
    time = driver_time()
    assert (time.start_samples, time.start_bytes) == (START_SAMPLES, START_BYTES)
    assert time.start > 0
    assert min(time.value, time.byte) >= 0
    assert time.value + time.byte > 0


def test_bytes_and_values_are_those_of_the_streams(lenet: Program, estimate: ProgramEstimate) -> None:
    (step,) = (step for step in lenet.steps if isinstance(step, LaunchStep))
    packets = SamplePackets(step.operations, lenet.config, step.ahead)
    (start,) = estimate.cycles.starts
    assert sent_bytes(lenet, start) == packets.input_bytes + packets.output_bytes
    spec = lenet.tensors[next(iter(lenet.inputs))]
    assert encoded_values(lenet, start) == spec.height * spec.width * spec.channels


def test_a_sample_takes_its_share_of_a_start(lenet: Program, estimate: ProgramEstimate) -> None:
    (start,) = estimate.cycles.starts
    time = driver_time()
    rest = time.value * encoded_values(lenet, start) + time.byte * sent_bytes(lenet, start)
    together = min(512, (1 << 21) // sent_bytes(lenet, start))
    assert time.sample_seconds(lenet, estimate) == pytest.approx(rest + time.start / together)
    cycles = replace(estimate.cycles, starts=[replace(start, shared=False)])
    assert time.sample_seconds(lenet, replace(estimate, cycles=cycles)) == pytest.approx(rest + time.start)


def test_a_board_takes_as_much_longer_as_it_is_assumed_to_for_operators(
    lenet: Program, estimate: ProgramEstimate
) -> None:
    here = driver_time().sample_seconds(lenet, estimate)
    cores = bfpga.load_board("pynq_z2").arm_cores
    assert cores is not None
    assert driver_seconds(lenet, estimate, cores) == pytest.approx(here * cores.assumed_call_us / 4)
    assert driver_seconds(lenet, estimate, None) is None
