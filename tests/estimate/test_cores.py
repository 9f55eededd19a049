"""The rate of several cores: so many times one core's until the memory or the host limits it; latency as of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_networks import Network

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import with_cores
from bfpga.api.figures import host_content
from bfpga.cli.reports import array_text, kernels_text
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import Program
from bfpga.estimate.host import time_in_stream
from bfpga.estimate.program import estimate_program
from bfpga.estimate.sample import SampleEstimate, estimate_sample
from bfpga.runtime import compile as compile_network
from bfpga.synthesis.resources import board_use

ONE = load_accelerator("zcu104_dense")


def network(folder: Path, of_host: bool = False) -> tuple[Path, dict[str, np.ndarray]]:
    """A small convolution network, with an operator of the host or without."""
    made = Network(8, 16, 16)
    made.conv(16, 8, 3, pads=[1, 1, 1, 1])
    made.add("Relu")
    if of_host:
        made.add("Erf")
    path = folder / "network.onnx"
    path.write_bytes(made.model().SerializeToString())
    return path, made.samples(4)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    model, samples = network(tmp_path_factory.mktemp("array"))
    return compile_network(model, ONE, samples)


@pytest.fixture(scope="module")
def with_host(tmp_path_factory: pytest.TempPathFactory) -> Program:
    model, samples = network(tmp_path_factory.mktemp("host"), of_host=True)
    return compile_network(model, ONE, samples)


def of(program: Program, cores: int, gb_s: float | None = None) -> SampleEstimate:
    """The estimate with so many cores. gb_s: assumed rate of the memory."""
    accelerator = with_cores(ONE, cores)
    if gb_s is not None:
        accelerator = replace(accelerator, board=replace(ONE.board, assumed_gb_s=gb_s))
    return estimate_sample(accelerator, program, board_use(accelerator).total)


def test_rate_is_that_of_one_core_times_their_number_and_the_latency_is_the_same(program: Program) -> None:
    one, three = of(program, 1, 1e3), of(program, 3, 1e3)
    assert three.seconds == pytest.approx(one.seconds / 3)
    assert three.stream == pytest.approx(one.stream / 3)
    assert three.limit == "cores"
    assert three.latency == one.latency


def test_memory_limits_the_rate_of_cores_that_move_more_than_it_gives(program: Program) -> None:
    one = of(program, 1)
    # As much as one core and a half need.
    gb_s = 1.5 * one.moved / one.seconds / 1e9
    three = of(program, 3, gb_s)
    assert three.limit == "memory"
    assert three.seconds == pytest.approx(one.moved / (gb_s * 1e9))


def test_host_limits_the_rate_of_cores_that_wait_for_its_operators(with_host: Program) -> None:
    host = time_in_stream(with_host, estimate_program(ONE, with_host), ONE.board.arm_cores).host
    one, three = of(with_host, 1, 1e3), of(with_host, 3, 1e3)
    assert one.seconds == pytest.approx(max(one.stream, host))
    assert three.limit == "host"
    assert three.seconds == pytest.approx(host)


def test_program_that_learns_has_the_rate_of_one_core(tmp_path: Path) -> None:
    model, samples = network(tmp_path)
    learning = compile_network(model, ONE, samples, CompileOptions(policy="rolling_max", window=4))
    assert of(learning, 3, 1e3).seconds == of(learning, 1, 1e3).seconds


def test_reports_name_the_limit_of_several_cores_alone(program: Program) -> None:
    def content(accelerator: Accelerator) -> dict[str, object]:
        return host_content(accelerator, program, estimate_program(accelerator, program))

    one, two = content(ONE), content(with_cores(ONE, 2))
    assert two.keys() - one.keys() == {"stream_cores", "stream_limit"}
    assert two["stream_images_per_second"] == pytest.approx(2 * one["stream_images_per_second"])  # type: ignore[operator]
    assert two["latency_s"] == one["latency_s"]


def test_listings_say_how_many_cores_there_are() -> None:
    assert kernels_text(ONE) == array_text(ONE.config)
    assert kernels_text(with_cores(ONE, 2)) == f"2 cores of {array_text(ONE.config)}"
