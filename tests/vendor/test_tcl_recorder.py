"""The interpreter of the vendor's scripts: what it records, what it keeps from them, and how it fails."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from vendor_scripts import design, scripts

from bfpga.errors import ToolError
from bfpga.vendor.tcl_check import check_scripts
from bfpga.vendor.tcl_check.recorder import Run, find_tclsh, record


def recorded(text: str, *answers: tuple[str, str]) -> tuple[list[tuple[int, tuple[str, ...]]], tuple[int, str] | None]:
    recording = record([Run("test", "x.tcl", text, answers)])[0]
    return [(call.line, call.words) for call in recording.calls], recording.error


def test_calls_are_recorded_with_their_lines_and_words() -> None:
    calls, error = recorded("set a [first x]\nif {1} {\n    second $a {b c} \\\n        d\n}\n", ("first *", "value"))
    assert calls == [(1, ("first", "x")), (3, ("second", "value", "b c", "d"))]
    assert error is None


def test_words_of_any_kind_come_back_as_they_are() -> None:
    text = 'say {a "b" \\ c} {ä€😀} "tab\\there" {} "new\\nline"\n'
    assert recorded(text)[0] == [(1, ("say", 'a "b" \\ c', "ä€😀", "tab\there", "", "new\nline"))]


def test_error_comes_with_the_line_of_the_script() -> None:
    assert recorded("set a 1\n\nproc f {} {\n    error wrong\n}\nf\n")[1] == (6, "wrong")


def test_script_without_an_end_is_stopped() -> None:
    start = time.perf_counter()
    error = recorded("while {1} {}\n")[1]
    assert error is not None
    assert "limit" in error[1]
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("command", ["exec touch", "open", "file delete", "source", "socket localhost", "load"])
def test_script_cannot_touch_the_machine(command: str, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("kept")
    calls, _ = recorded(f"catch {{{command} {target}}}\ncatch {{{command} {target} w}}\n")
    assert target.read_text() == "kept"
    assert calls[0][1][0] == command.split()[0]


def test_missing_tcl_shell_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="apt install tcl"):
        check_scripts(design(), scripts())


def test_failing_tcl_shell_is_an_error_of_the_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "tclsh"
    fake.write_text("#!/bin/sh\necho broken installation >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_tclsh() == str(fake)
    with pytest.raises(ToolError, match="broken installation"):
        check_scripts(design(), scripts())


def test_silent_tcl_shell_is_an_error_of_the_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "tclsh"
    fake.write_text("#!/bin/sh\ncat > /dev/null\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ToolError, match="tclsh"):
        check_scripts(design(), scripts())


def test_shell_of_this_machine_is_new_enough() -> None:
    result = subprocess.run([find_tclsh()], input="puts [info patchlevel]", capture_output=True, text=True, check=True)
    assert tuple(map(int, result.stdout.split(".")[:2])) >= (8, 6)
