"""Networks for a kernel that multiplies by activations that are not zero: what their zeros do to its schedule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_networks import Network, nodes_of, residual_network

from bfpga import runtime
from bfpga.accelerator.loader import load_accelerator
from bfpga.cli.work import compile_for_estimate
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import LaunchStep, Program
from bfpga.engines.skip_array.activation_cycles import last_sums
from bfpga.estimate.program import estimate_program
from bfpga.explore.ready import ReadyTask, advise
from bfpga.program.cycles import program_cycles
from bfpga.program.file import load_program, save_program
from bfpga.program.schedule import RESULT_LATENCY, schedule

ACCELERATOR = load_accelerator("pynq_z2_sparse")


def three_layers() -> Network:
    """Two convolutions with ReLU behind each other, and one that reads the same as the second."""
    network = Network(8, 24, 24)
    first = network.add("Relu", network.conv(32, 8, 3, pads=[1, 1, 1, 1]))
    second = network.conv(32, 32, 3, pads=[1, 1, 1, 1], source=first)
    third = network.conv(32, 32, 1, source=first)
    network.add("Add", second, third)
    return network


def program_of(network: Network, folder: Path, samples: dict[str, np.ndarray] | None) -> Program:
    path = folder / "network.onnx"
    onnx.save(network.model(), str(path))
    return compile_for_estimate(ACCELERATOR, read_network(path), samples, CompileOptions())


def clocks(program: Program, samples: int = 1) -> int:
    found = program_cycles(program).scheduled(samples)
    assert found is not None
    return found


def sparse_samples(network: Network, density: float) -> dict[str, np.ndarray]:
    values = network.samples(8)["x"]
    kept = np.random.default_rng(3).random(values.shape) < density
    return {"x": np.where(kept, values, 0).astype(np.float32)}


def test_zeros_are_counted_on_samples_and_shorten_the_schedule(tmp_path: Path) -> None:
    network = three_layers()
    unknown = program_of(network, tmp_path, None)
    assert all(node.input_density is None and node.input_share == 1.0 for node in nodes_of(unknown))
    dense, sparse = (program_of(network, tmp_path, sparse_samples(network, density)) for density in (1.0, 0.2))
    first = nodes_of(sparse)[0]
    assert first.input_density == pytest.approx(0.2, abs=0.02)
    # Behind ReLU about half is zero, whatever the input is.
    for program in (dense, sparse):
        second = nodes_of(program)[1]
        assert second.input_density is not None
        assert second.input_density - 0.01 <= second.input_share < second.input_density + 0.2
        assert second.input_share < 0.85
    assert clocks(sparse) < clocks(dense) < clocks(unknown)
    work = [program_cycles(program, lambda config, item: 1).compute_bound for program in (dense, sparse, unknown)]
    assert len(set(work)) == 1


def test_a_program_keeps_what_was_counted(tmp_path: Path) -> None:
    network = three_layers()
    program = program_of(network, tmp_path, sparse_samples(network, 0.3))
    save_program(program, tmp_path / "program.bfpga")
    loaded = load_program(tmp_path / "program.bfpga")
    assert [node.input_share for node in nodes_of(loaded)] == [node.input_share for node in nodes_of(program)]
    assert clocks(loaded, 4) == clocks(program, 4)


def test_weights_come_beside_the_passes_before_and_sums_leave_behind_them(tmp_path: Path) -> None:
    """An operation that needs results begins when the last sums have left; one that needs none begins at once."""
    network = three_layers()
    program = program_of(network, tmp_path, sparse_samples(network, 1.0))
    (step,) = [step for step in program.steps if isinstance(step, LaunchStep)]
    timed = schedule(program.config, step.operations).operations
    computing = [
        (item, step.operations[item.index]) for item in timed
        if step.operations[item.index].descriptor.operation in (Operation.GEMM, Operation.SUM)
    ]  # fmt: skip
    (first, made), (second, _), (third, summed), (added, _) = computing
    tails = [last_sums(program.config, operation.descriptor) for operation in (made, summed)]
    assert all(tail > 2 * program.config.rows for tail in tails)
    assert second.begin - first.end == RESULT_LATENCY + tails[0]
    assert third.begin - second.end < 20
    assert added.begin - third.end == RESULT_LATENCY + tails[1]


def test_limits_of_layers_are_all_their_clocks(tmp_path: Path) -> None:
    program = runtime.compile(
        _saved(residual_network(), tmp_path), ACCELERATOR, residual_network().samples(4), CompileOptions()
    )
    estimate = estimate_program(ACCELERATOR, program)
    for layer in estimate.layers:
        assert sum(layer.limits.values()) == layer.cycles + layer.transfer_cycles
    assert {"array", "weights"} & {layer.limit for layer in estimate.layers}


def _saved(network: Network, folder: Path) -> Path:
    path = folder / "saved.onnx"
    onnx.save(network.model(), str(path))
    return path


def test_the_choice_of_an_accelerator_says_whether_zeros_are_known(tmp_path: Path) -> None:
    network = three_layers()
    read = read_network(_saved(network, tmp_path))
    texts = {}
    for samples in (None, sparse_samples(network, 0.5)):
        found = advise(ReadyTask(read, {"": CompileOptions()}, samples), [ACCELERATOR.name])
        texts[found.input_zeros is not None] = found.offers[0].zeros
    assert texts == {True: "activations", False: "activations, not known"}
