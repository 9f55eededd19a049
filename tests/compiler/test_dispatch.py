"""What is published of an array, and the options that choose between two (docs/dispatch.md; SC 3.2)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_configs import CLUSTER
from small_networks import Network, compiled
from two_arrays import TWO_ARRAYS

from bfpga.cli import main
from bfpga.compiler.options import CompileOptions
from bfpga.engines.array.supported import PRODUCTS, supported
from bfpga.program.choices import program_operations
from bfpga.program.file import load_program, save_program


def three_layers() -> Network:
    network = Network(4, 12, 12)
    for inputs in (4, 8, 8):
        network.add("Relu", network.conv(8, inputs, 3, pads=[1, 1, 1, 1]))
    return network


def test_every_array_publishes_what_it_computes(tmp_path: Path) -> None:
    """SC R14: products of activations need weights that a start may replace."""
    target = tmp_path / "report.json"
    assert main(["accelerators", "--json", str(target)]) == 0
    listed = {item["name"]: item["engines"] for item in json.loads(target.read_text())["accelerators"]}
    assert listed["zcu104_hetero"] == listed["pynq_z2_dense"] == {"systolic_array": list(supported(TWO_ARRAYS))}
    assert PRODUCTS in supported(TWO_ARRAYS)
    assert listed["zcu104_cluster"] == listed["zcu104_zero_skip_tile"] == {"systolic_array": list(supported(CLUSTER))}
    assert set(supported(TWO_ARRAYS)) - set(supported(CLUSTER)) == {PRODUCTS}


def test_thresholds_are_the_same_at_every_run_and_kept_in_program_files(tmp_path: Path) -> None:
    """SC R16: software makes them when the network is compiled; the program has them, and what most samples do."""
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
    plain = compiled(three_layers(), tmp_path, replace(TWO_ARRAYS, dense_beside=False), options)
    assert not any(item.descriptor.count_threshold for item in program_operations(plain))


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
