"""A disk that fills up: the message names the file and the bytes that were needed, and nothing half is left."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bfpga.cli import main
from bfpga.vendor import overlay_files, render
from bfpga.verify import vectors

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "examples/models/mlp_digits.onnx")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
NEEDED = r"the disk is full: [\d,]+ bytes are needed, [\d,]+ are free; nothing was written"


def no_room(*arguments: object, **options: object) -> None:
    raise OSError(*FULL.args)


def after(count: int, write: Callable[..., object]) -> Callable[..., object]:
    """``write``, whose calls fail after ``count``."""
    calls: list[object] = []

    def limited(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        return write(*arguments, **options) if len(calls) <= count else no_room()

    return limited


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["compile", MODEL, "-a", "tiny", "-o", "out/net.bfpga"], "out/net.bfpga"),
        (["estimate", "tiny", "--json", "out/r.json"], "out/r.json"),
        (["schema", "-o", "out/schema.json"], "out/schema.json"),
        (["research", "position-times", "-o", "out/times.png"], "out/times.png"),
        (["overlay", "tiny", "-o", "out"], "out/tiny"),
    ],
)
def test_the_file_and_its_bytes_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    monkeypatch.setattr("bfpga.formats.files.os.replace", no_room)
    assert main(command) == 2
    message = capsys.readouterr().err.replace("cannot write there: ", "")
    assert message.startswith(f"bfpga: {named}: the disk is full: ")
    assert re.search(NEEDED, message)
    assert list(Path("out").iterdir()) == []


def test_no_half_project_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vectors, "kernel_vectors", lambda config: {})
    monkeypatch.setattr(render.Path, "write_bytes", after(3, Path.write_bytes))
    assert main(["render", "tiny", "-o", str(tmp_path / "project")]) == 2
    assert f"{tmp_path / 'project'}: the disk is full: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_overlay_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["overlay", "tiny", "-o", str(tmp_path)]) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "tiny").iterdir()}
    monkeypatch.setattr(overlay_files, "write_manifest", no_room)
    assert main(["overlay", "tiny", "-o", str(tmp_path)]) == 2
    assert "the disk is full" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "tiny").iterdir()} == before
