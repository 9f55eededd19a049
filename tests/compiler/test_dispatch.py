"""What the dispatcher of a kernel with two arrays rests on, and what it keeps (docs/dispatch.md; SC 3.2)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cluster_configs import CLUSTER
from small_networks import Network, compiled, float_outputs
from two_arrays import TWO_ARRAYS, WITH_TWO_ARRAYS

from bfpga.cli import main
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.numbers.sampled_inputs import ZeroCount, count_zeros
from bfpga.compiler.options import CompileOptions
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.engines.kernel.supported import PRODUCTS, supported
from bfpga.program.choices import program_operations
from bfpga.program.file import load_program, save_program


def three_layers() -> Network:
    network = Network(4, 12, 12)
    for inputs in (4, 8, 8):
        network.add("Relu", network.conv(8, inputs, 3, pads=[1, 1, 1, 1]))
    return network


# Zeros (SC R10, R144)


@pytest.mark.parametrize("shape", [(7,), (3, 5, 6), (2, 4, 4, 3)])
def test_zeros_of_a_map_are_counted_as_number_and_share(shape: tuple[int, ...]) -> None:
    """SC R10: against a count in plain Python."""
    values = np.random.default_rng(1).integers(-1, 2, shape)
    flat = values.reshape(-1).tolist()
    found = count_zeros(values)
    assert (found.zeros, found.elements) == (flat.count(0), len(flat))
    assert found.percent == pytest.approx(100 * flat.count(0) / len(flat))
    assert found.density == pytest.approx(1 - flat.count(0) / len(flat))


def test_of_an_empty_map_nothing_is_zero() -> None:
    assert (ZeroCount(0, 0).percent, ZeroCount(0, 0).density) == (0, 1)


def test_every_layer_keeps_the_zeros_that_its_input_had_on_the_samples(tmp_path: Path) -> None:
    """SC R10, R139: each map is counted anew; those of the network's input exactly, later ones as float has them."""
    network, rng = three_layers(), np.random.default_rng(7)
    values = rng.uniform(0.5, 1.0, (8, *network.inputs["x"])) * rng.choice([-1, 1], (8, *network.inputs["x"]))
    samples = {"x": (values * (rng.random(values.shape) >= 0.95)).astype(np.float32)}
    path = tmp_path / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    first, *later = products(compile_network(path, WITH_TWO_ARRAYS, samples))
    assert first.input_density == pytest.approx(np.count_nonzero(samples["x"]) / values.size)
    read = tuple(node.input[0] for node in network.nodes if node.op_type == "Conv")[1:]
    for node, exact in zip(later, float_outputs(network, samples, read), strict=True):
        # Values next to zero become zero mantissas; exponents leave room for the tail, so a few more than they must.
        assert node.input_density == pytest.approx(np.count_nonzero(exact) / exact.size, abs=0.03)


def products(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.kind == "gemm"]


# What is computed where (SC R9, R14)


def test_what_a_cluster_does_not_take_runs_on_the_host_with_the_values_of_the_network(tmp_path: Path) -> None:
    """SC R9, R14: pooling is the kernel's too, an operator and a stride that it does not take are the host's."""
    network = Network(4, 12, 12)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.add("HardSwish")
    network.conv(8, 8, 5, pads=[2, 2, 2, 2], strides=[4, 4])
    program = compiled(network, tmp_path, CLUSTER)
    assert [node.kind for node in program.nodes if isinstance(node, ArrayNode)] == ["gemm", "max"]
    operators = [name for node in program.nodes if isinstance(node, HostNode) for name in node.operators]
    assert sum("Conv" in name for name in operators) == 1
    samples = network.samples(5)
    (exact,) = float_outputs(network, samples)
    (found,) = Emulator(program).run(samples).outputs.values()
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()


def test_every_array_publishes_what_it_computes(tmp_path: Path) -> None:
    """SC R14: products of activations need weights that a start may replace."""
    target = tmp_path / "report.json"
    assert main(["accelerators", "--json", str(target)]) == 0
    listed = {item["name"]: item["engines"] for item in json.loads(target.read_text())["accelerators"]}
    assert listed["zcu104_hetero"] == listed["pynq_z2_dense"] == {"systolic_array": list(supported(TWO_ARRAYS))}
    assert PRODUCTS in supported(TWO_ARRAYS)
    assert listed["zcu104_cluster"] == listed["zcu104_zero_skip_tile"] == {"systolic_array": list(supported(CLUSTER))}
    assert set(supported(TWO_ARRAYS)) - set(supported(CLUSTER)) == {PRODUCTS}


# Determinism


def test_decisions_are_the_same_at_every_run_and_kept_in_program_files(tmp_path: Path) -> None:
    """SC R16: software decides when the network is compiled; the program has thresholds, and what most samples do."""
    options = CompileOptions(dispatch="majority")
    programs = [compiled(three_layers(), tmp_path, TWO_ARRAYS, options) for _ in range(2)]
    for name, program in zip(("first", "second"), programs, strict=True):
        save_program(program, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    loaded = load_program(tmp_path / "first")
    assert loaded.choices == programs[0].choices
    kept, made = ([item.descriptor for item in program_operations(each)] for each in (loaded, programs[0]))
    assert kept == made
    assert any(descriptor.count_threshold for descriptor in kept)
    plain = compiled(three_layers(), tmp_path, replace(TWO_ARRAYS, array=SystolicArray()), options)
    assert not any(item.descriptor.count_threshold for item in program_operations(plain))


# Options


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--engine", "gpu"], "engine 'gpu' is unknown; known are auto, systolic_array"),
        (["--dispatch", "luck"], "dispatch 'luck' is unknown; known are cost, majority, band"),
    ],
)
def test_wrong_engines_are_one_message(
    more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(three_layers().model().SerializeToString())
    words = ["compile", str(tmp_path / "net.onnx"), "-a", "tiny", "-o", str(tmp_path / "net.bfpga")]
    assert main([*words, *more]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"bfpga: {message}")
    assert printed.count("\n") == 1


@pytest.mark.parametrize("command", ["compile", "estimate", "run", "evaluate"])
def test_help_says_what_the_engines_are_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for text in ("--engine", "--dispatch", "two arrays", "the array that skips zeros", "majority", "band"):
        assert text in printed
