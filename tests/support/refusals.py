"""How a command refuses what it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from bfpga.cli import main


def refused(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str], *expected: str) -> None:
    """The command exits with 2, prints one message with every expected part, and writes no file."""
    before = sorted(folder.rglob("*"))
    code = main([*arguments, "--json", str(folder / "result.json")])
    message = capsys.readouterr().err
    assert code == 2, message
    assert message.count("bfpga: ") == 1, message
    assert "Traceback" not in message
    for part in expected:
        assert part in message, message
    assert sorted(folder.rglob("*")) == before
