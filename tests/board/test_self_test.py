"""The self-test: every stage passes on a virtual board, and what is broken fails at its stage and with its reason."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pynq")

from board_fixtures import compiled_program, overlay_directory, program_file

from bfpga.board import self_test_stages
from bfpga.board.overlays import load_overlay
from bfpga.board.self_test import main
from bfpga.deploy.bundle import Bundle, build_bundle
from bfpga.devices.vectors import Vectors, random_inputs
from bfpga.program.file import save_program

STAGES = ["environment", "files", "load", "clock", "identification", "dma limits"]
PROGRAM_STAGES = ["open", "repeatable", "equals emulator", "weights resident", "throughput"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "digits.bfpga"
    path.write_bytes(program_file("digits_tiny_learning").read_bytes())
    return path


def self_test(tmp_path: Path, program: Path, overlay: Path | None = None, target: str = "virtual") -> dict[str, Any]:
    """Report of a run; exit code and verdict agree."""
    report = tmp_path / "report.json"
    arguments = ["--overlay", str(overlay or overlay_directory("tiny")), "--program", str(program)]
    arguments += ["--target", target, "--repeat", "5", "--batch", "4", "--json", str(report)]
    status = main(arguments)
    content = dict(json.loads(report.read_text()))
    assert content["passed"] == (status == 0)
    return content


def failed(report: Mapping[str, Any]) -> tuple[str, str]:
    """The only stage that failed, and its reason."""
    found = [stage for stage in report["stages"] if stage["status"] == "FAIL"]
    assert len(found) == 1, found
    return found[0]["name"], found[0]["text"]


def test_all_stages_pass_on_a_virtual_board(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = self_test(tmp_path, program)
    assert report["passed"] is True
    assert [stage["name"] for stage in report["stages"]] == STAGES + PROGRAM_STAGES
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("PASS  ") for line in lines) == len(STAGES + PROGRAM_STAGES)
    assert lines[-1] == "self-test passed: 11 stages passed, 0 failed, 0 not reached"


def test_report_holds_latency_throughput_and_their_parts(tmp_path: Path, program: Path) -> None:
    data = self_test(tmp_path, program)["stages"][-1]["data"]
    assert 0 < data["latency"]["median_ms"] <= data["latency"]["p95_ms"]
    assert data["images_per_second"] > 0
    assert set(data["milliseconds_a_sample"]) >= {"pack", "transfer", "compute", "unpack"}
    assert (data["runs"], data["batch"]) == (5, 4)


def test_vectors_of_the_deploying_machine_are_compared(tmp_path: Path, program: Path) -> None:
    network = compiled_program("digits_tiny_learning")
    inputs = random_inputs(network, 3, seed=7)
    outputs = self_test_stages.Emulator(network).run(inputs).outputs
    vectors = program.with_suffix(".vectors.npz")
    vectors.write_bytes(Vectors(inputs, outputs).to_bytes())
    report = self_test(tmp_path, program)
    assert report["passed"] is True
    assert any("3 test vectors" in stage["text"] for stage in report["stages"])
    name = next(iter(outputs))
    wrong = {name: outputs[name].copy()}
    wrong[name][2, 1] = np.nextafter(wrong[name][2, 1], np.float32(np.inf))
    vectors.write_bytes(Vectors(inputs, wrong).to_bytes())
    stage, text = failed(self_test(tmp_path, program))
    assert stage == "equals emulator"
    assert "1 of 30 values, first at (2, 1)" in text


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "not readable"), (b"PK\5\6" + bytes(18), "is missing"), (b"junk", "not readable")]
)
def test_vectors_of_something_else_are_refused(tmp_path: Path, program: Path, content: bytes, said: str) -> None:
    program.with_suffix(".vectors.npz").write_bytes(content)
    stage, text = failed(self_test(tmp_path, program))
    assert stage == "equals emulator"
    assert said in text


def test_a_board_target_without_a_board_stops_early(tmp_path: Path, program: Path) -> None:
    report = self_test(tmp_path, program, target="board")
    by_name = {stage["name"]: stage for stage in report["stages"]}
    assert by_name["files"]["status"] == "FAIL"
    assert "never built" in by_name["files"]["text"]
    skipped = [stage for stage in report["stages"] if stage["status"] == "SKIP"]
    assert by_name["load"]["text"] == "needs stage `files`"
    assert by_name["throughput"]["text"] == "needs stage `open`"
    assert len(skipped) >= 8


def test_a_changed_file_of_the_overlay(tmp_path: Path, program: Path) -> None:
    copy = tmp_path / "overlay"
    copy.mkdir()
    for path in overlay_directory("tiny").iterdir():
        (copy / path.name).write_bytes(path.read_bytes() + (b" " if path.suffix == ".hwh" else b""))
    stage, text = failed(self_test(tmp_path, program, copy))
    assert stage == "files"
    assert ".hwh" in text


def test_a_missing_overlay(tmp_path: Path, program: Path) -> None:
    assert failed(self_test(tmp_path, program, tmp_path / "none"))[0] == "files"


def test_a_program_of_another_accelerator(tmp_path: Path, program: Path) -> None:
    other = tmp_path / "other.bfpga"
    save_program(replace(compiled_program("digits_tiny_learning"), accelerator="other", digest="0" * 64), other)
    stage, text = failed(self_test(tmp_path, other))
    assert stage == "open"
    assert "other" in text


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "x.bfpga"
    path.write_text("nothing")
    assert failed(self_test(tmp_path, path))[0] == "open"


def test_wrong_results_are_found(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator that differs in the last bit of one value stands for a board that does."""
    original = self_test_stages.Emulator.run

    def wrong(emulator: Any, inputs: Any, **options: Any) -> Any:
        result = original(emulator, inputs, **options)
        for values in result.outputs.values():
            values[-1, -1] = np.nextafter(values[-1, -1], np.float32(np.inf))
        return result

    monkeypatch.setattr(self_test_stages.Emulator, "run", wrong)
    stage, text = failed(self_test(tmp_path, program))
    assert stage == "equals emulator"
    assert "differs from the emulator (seed" in text
    assert "1 of 30 values, first at (2, 9)" in text


def test_results_that_do_not_repeat_are_found(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies that keep what they learned make the second run another one."""
    monkeypatch.setattr("bfpga.devices.streaming_device.StreamingDevice.reset", lambda device: None)
    scale = iter([1.0, 64.0, 1.0, 1.0, 1.0, 1.0])
    original = self_test_stages.ProgramStages._fresh
    monkeypatch.setattr(
        self_test_stages.ProgramStages,
        "_fresh",
        lambda stages, inputs: original(stages, {name: value * next(scale) for name, value in inputs.items()}),
    )
    report = self_test(tmp_path, program)
    assert "repeatable" in [stage["name"] for stage in report["stages"] if stage["status"] == "FAIL"]


def test_weights_that_are_moved_again_are_found(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that loads its weights before every run is found out by the bytes it moves."""
    from bfpga.devices.streaming_device import StreamingDevice

    original = StreamingDevice.run

    def forgetful(device: StreamingDevice, inputs: Any, **options: Any) -> Any:
        device._loaded = False
        return original(device, inputs, **options)

    monkeypatch.setattr(StreamingDevice, "run", forgetful)
    stage, text = failed(self_test(tmp_path, program))
    assert stage == "weights resident"
    assert "0 are right" in text


def test_a_wrong_clock_is_found(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bfpga.board.load import BoardOverlay

    monkeypatch.setattr(BoardOverlay, "clock_mhz", property(lambda overlay: 50.0))
    stage, text = failed(self_test(tmp_path, program))
    assert (stage, text) == ("clock", "the logic runs at 50.000 MHz, 100.000 MHz are right")


def test_another_identification_is_found(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bfpga.board.registers import KernelRegisters

    original = KernelRegisters.probe
    answers = iter([None, 0xDEADBEEF])

    def probe(registers: KernelRegisters, seconds: float) -> int | None:
        return next(answers) or original(registers, seconds)

    monkeypatch.setattr(KernelRegisters, "probe", probe)
    stage, text = failed(self_test(tmp_path, program))
    assert stage == "identification"
    assert "0xdeadbeef" in text


@pytest.mark.parametrize(
    "arguments",
    [[], ["--overlay", "x"], ["--overlay", "x", "--program", "y", "--repeat", "0"],
     ["--overlay", "x", "--program", "y", "--json", "/nowhere/at/all.json"]],
)  # fmt: skip
def test_wrong_use_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage" in capsys.readouterr().err


# In a bundle


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    path = program_file("digits_tiny_learning")
    programs = {"digits": (compiled_program("digits_tiny_learning"), path.read_bytes())}
    return build_bundle(load_overlay(overlay_directory("tiny")), programs, {})


def test_every_file_of_the_bundle_is_python_3_10(bundle: Bundle) -> None:
    for path, data in bundle.files.items():
        if path.endswith(".py"):
            ast.parse(data, path, feature_version=(3, 10))


def test_compiling_in_the_bundle_says_where_to_compile(bundle: Bundle, tmp_path: Path) -> None:
    bundle.write(tmp_path)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import bfpga, bfpga.errors\n"
        "try:\n"
        "    bfpga.compile('net.onnx', 'tiny')\n"
        "except bfpga.errors.ToolError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-I", "-B", "-c", script], capture_output=True, text=True, check=True)
    assert "compile on a PC (`bfpga compile`)" in result.stdout


def test_the_bundle_alone_passes_on_a_virtual_board(bundle: Bundle, tmp_path: Path) -> None:
    """Nothing of this repository is imported: the bundle's modules are, and those of the environment."""
    bundle.write(tmp_path / "bundle")
    script = (
        "import runpy, sys\n"
        "sys.path.insert(0, sys.argv.pop(1))\n"
        "try:\n"
        "    runpy.run_module('bfpga.board.self_test', run_name='__main__', alter_sys=True)\n"
        "finally:\n"
        "    ours = [m for n, m in sys.modules.items() if n.split('.')[0] in ('bfpga', 'vitis_hls_templates')]\n"
        "    files = [getattr(m, '__file__', None) or '' for m in ours]\n"
        "    assert all(path.startswith(sys.path[0]) for path in files), files\n"
    )
    command = [sys.executable, "-I", "-B", "-c", script, str(tmp_path / "bundle"), "--overlay", "overlays/tiny"]
    command += ["--program", "programs/digits.bfpga", "--target", "virtual", "--repeat", "3", "--batch", "2"]
    kept = ("PATH", "HOME", "BFPGA_CACHE", "BFPGA_CXXFLAGS", "CXX")
    keep = {name: os.environ[name] for name in kept if name in os.environ}
    result = subprocess.run(
        [*command, "--json", str(tmp_path / "report.json")],
        cwd=tmp_path / "bundle", env=keep, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [stage["status"] for stage in report["stages"]] == ["PASS"] * len(STAGES + PROGRAM_STAGES)
    assert "4 test vectors" in result.stdout


# Several cores


def test_every_core_is_tested_and_timed_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "digits.bfpga"
    path.write_bytes(program_file("digits_three_cores").read_bytes())
    report = self_test(tmp_path, path, overlay_directory("tiny", 3))
    assert report["passed"]
    stages = {stage["name"]: stage for stage in report["stages"]}
    assert len(stages["dma limits"]["data"]["bytes"]) == 9
    together = stages["every core"]["data"]
    assert set(together["samples"]) == {"core 0", "core 1", "core 2"}
    assert sum(together["samples"].values()) == 12
    assert "every core" in capsys.readouterr().out


def test_core_that_is_another_kernel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second core's register says something else after the overlay was loaded."""
    path = tmp_path / "digits.bfpga"
    path.write_bytes(program_file("digits_three_cores").read_bytes())
    identification = self_test_stages.OverlayStages.identification

    def changed(self: self_test_stages.OverlayStages) -> Any:
        monkeypatch.setattr(self.loaded.cores[1].registers, "probe", lambda seconds: 5)
        return identification(self)

    monkeypatch.setattr(self_test_stages.OverlayStages, "identification", changed)
    stage, text = failed(self_test(tmp_path, path, overlay_directory("tiny", 3)))
    assert stage == "identification"
    assert "core 1 says 0x00000005" in text
