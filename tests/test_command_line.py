"""The command line: help with examples, JSON for machines, one message for every error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bfpga.cli import main, output
from bfpga.cli.application import app
from bfpga.cli.doctor import examine
from bfpga.errors import ModelError

COMMANDS = [
    "run", "compile", "evaluate", "verify", "render", "estimate", "boards", "accelerators", "doctor", "schema", "lint-hls"
]  # fmt: skip


def test_every_command_of_the_architecture_exists() -> None:
    names = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert names == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert re.search(rf"Examples?:\n\s+bfpga {command} ?", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["boards"], "boards"),
        (["accelerators"], "accelerators"),
        (["doctor"], "checks"),
        (["estimate", "tiny"], "roofline"),
    ],
)
def test_json_holds_what_the_table_shows(arguments: list[str], key: str, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    assert main([*arguments, "--json", str(target)]) == 0
    assert json.loads(target.read_text())[key]
    assert list(tmp_path.iterdir()) == [target]


def test_schema_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["schema", "--output", str(tmp_path / "schema.json")]) == 0
    assert json.loads((tmp_path / "schema.json").read_text()) == printed


@pytest.mark.parametrize(
    "arguments",
    [
        ["estimate", "nowhere.yaml"],
        ["estimate", "/"],
        ["estimate", "pynq_z2_danse"],
        ["estimate", "tiny", "--json", "/nowhere/at/all.json"],
        ["estimate", "tiny", "--json", "/"],
        ["boards", "--frobnicate"],
        ["frobnicate"],
    ],
)
def test_wrong_use_ends_with_2_and_a_message(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.strip()
    assert "Traceback" not in message


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "nowhere.yaml", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_no_color_codes_and_no_progress_in_a_pipe() -> None:
    """Machines read pipes: no escape codes, nothing on standard error."""
    script = "import sys; from bfpga.cli import main; sys.exit(main())"
    result = subprocess.run(
        [sys.executable, "-c", script, "estimate", "tiny"], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    script = "import sys; from bfpga.cli import main; sys.exit(main(['schema']))"
    result = subprocess.run(
        [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert result.stderr == ""


def test_help_answers_without_loading_numerics() -> None:
    script = (
        "import sys\nfrom bfpga.cli import main\nmain(['--help'])\n"
        "assert not {'numpy', 'onnx', 'onnxruntime', 'ruamel'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)


def test_json_is_complete_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    with pytest.raises(TypeError):
        output.write_json(target, {"x": object()})
    assert list(tmp_path.iterdir()) == []
    output.write_json(target, {"count": np.int64(3), "mean": np.float32(0.5), "none": float("nan"), "t": (1, 2)})
    assert json.loads(target.read_text()) == {"count": 3, "mean": 0.5, "none": None, "t": [1, 2]}


def test_doctor_says_what_each_tool_is_for_and_how_to_get_it() -> None:
    checks = examine()
    assert {check.name for check in checks} >= {
        "Python",
        "g++",
        "ap_int headers",
        "pynq",
        "Vitis HLS",
        "Vivado",
        "board",
    }
    for check in checks:
        assert check.needed_for
        assert check.remedy
        assert check.detail


def test_unexpected_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only errors that are the user's to mend become a message; a defect keeps its traceback."""

    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("bfpga.accelerator.boards.load_boards", broken)
    with pytest.raises(ZeroDivisionError):
        main(["boards"])


def test_errors_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise ModelError("x.onnx: not an ONNX file")

    monkeypatch.setattr("bfpga.accelerator.boards.load_boards", refuse)
    assert main(["boards"]) == 2
    assert capsys.readouterr().err == "bfpga: x.onnx: not an ONNX file\n"
