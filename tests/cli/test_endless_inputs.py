"""Pipes and devices as inputs: every command says so at once, instead of waiting or reading for ever."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bfpga.board.overlays import load_overlay
from bfpga.cli import main

MODELS = Path(__file__).parents[2] / "examples" / "models"
MODEL, DATA = str(MODELS / "mlp_digits.onnx"), str(MODELS / "digits_test.npz")
#: Commands with one input that never ends, IN.
COMMANDS = [
    ["compile", "IN", "-a", "tiny", "-o", "out"],
    ["compile", MODEL, "-a", "IN", "-o", "out"],
    ["compile", MODEL, "-a", "tiny", "-c", "IN", "-o", "out"],
    ["compile", MODEL, "-a", "tiny", "-r", "IN", "-o", "out"],
    ["run", "IN", "-a", "tiny", "-d", DATA],
    ["run", MODEL, "-a", "tiny", "-d", "IN"],
    ["evaluate", MODEL, "-a", "tiny", "-d", "IN"],
    ["estimate", "IN"],
    ["verify", "IN"],
    ["render", "IN", "-o", "out"],
    ["overlay", "IN", "-o", "out"],
    ["build", "IN", "--dry-run"],
    ["check-tcl", "IN"],
    ["lint-hls", "IN"],
    ["lint-hls", "folder"],
    ["deploy", "pynq", "--program", "IN", "--dry-run"],
    ["deploy", "pynq", "--overlay", "folder", "--dry-run"],
    ["research", "blocks", "IN", "-a", "tiny", "-d", DATA],
    ["research", "position-choice", "IN"],
    ["research", "position-measure", "IN", "-a", "tiny", "-d", DATA],
    ["research", "report-partition", "IN"],
]


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Ends what waits for ever."""
    import signal

    def stop(number: int, frame: object) -> None:
        raise AssertionError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_endless_input_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name in ("IN", "folder/overlay.yaml", "folder/kernel.cpp"):
        os.mkfifo(name) if kind == "pipe" else os.symlink("/dev/zero", name)
    with within(20):
        assert main(command) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not Path("out").exists()


def test_files_of_an_overlay_that_never_end_are_refused(tmp_path: Path) -> None:
    assert main(["overlay", "tiny", "-o", str(tmp_path)]) == 0
    handoff = next((tmp_path / "tiny").glob("*.hwh"))
    handoff.unlink()
    os.mkfifo(handoff)
    with within(20), pytest.raises(Exception, match=f"{handoff.name}.*is no regular file"):
        load_overlay(tmp_path / "tiny")
