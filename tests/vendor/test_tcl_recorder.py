"""The interpreter of the vendor's scripts: what it records, what it keeps from them, and how it fails."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bfpga.errors import ToolError
from bfpga.vendor.tcl_check.recorder import Recording, find_tclsh, record


def recorded(text: str, *answers: tuple[str, str]) -> Recording:
    return record([(text, answers)])[0]


def test_calls_are_recorded_with_their_lines_and_words() -> None:
    found = recorded("set a [first x]\nif {1} {\n    second $a {b c} \\\n        d\n}\n", ("first *", "value"))
    assert found.calls == [(1, ("first", "x")), (3, ("second", "value", "b c", "d"))]
    assert found.error is None


def test_a_question_without_an_answer_is_its_own_answer() -> None:
    assert recorded("use [get_cells {a b}] [current_project] [other]\n").calls[-1][1] == (
        "use", "[get_cells a b]", "[current_project]", "",
    )  # fmt: skip


def test_words_of_any_kind_come_back_as_they_are() -> None:
    text = 'say {a "b" \\ c} {ä€😀} "tab\\there" {} "new\\nline"\n'
    assert recorded(text).calls == [(1, ("say", 'a "b" \\ c', "ä€😀", "tab\there", "", "new\nline"))]


def test_error_comes_with_the_line_of_the_script() -> None:
    assert recorded("set a 1\n\nproc f {} {\n    error wrong\n}\nf\n").error == (6, "wrong")


def test_script_without_an_end_is_stopped() -> None:
    start = time.perf_counter()
    error = recorded("while {1} {}\n").error
    assert error is not None
    assert "limit" in error[1]
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("command", ["exec touch", "open", "file delete", "source", "socket localhost", "load"])
def test_script_cannot_touch_the_machine(command: str, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("kept")
    calls = recorded(f"catch {{{command} {target}}}\ncatch {{{command} {target} w}}\n").calls
    assert target.read_text() == "kept"
    assert calls[0][1][0] == command.split()[0]


def test_missing_tcl_shell_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="apt install tcl"):
        recorded("")


@pytest.mark.parametrize(
    ("script", "said"),
    [("echo broken installation >&2\nexit 3", "broken installation"), ("cat > /dev/null", "tclsh ran 0 of 1 scripts")],
)
def test_failing_or_silent_tcl_shell_is_an_error_of_the_tool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, said: str
) -> None:
    fake = tmp_path / "tclsh"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_tclsh() == str(fake)
    with pytest.raises(ToolError, match=said):
        recorded("")
