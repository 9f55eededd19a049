"""The user's cache is the user's alone: what others own or can write is refused, since compiled code in it is run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bfpga.cli import main
from bfpga.errors import CacheError
from bfpga.formats.cache import cache_directory, make_private, not_private

ROOT = Path(__file__).parents[2]
MODEL, DATA = str(ROOT / "examples/models/mlp_digits.onnx"), str(ROOT / "examples/models/digits_test.npz")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_place_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "common"))
    assert cache_directory() == tmp_path / "own"
    assert cache_directory("csim", "x") == tmp_path / "own" / "csim" / "x"
    monkeypatch.delenv("BFPGA_CACHE")
    assert cache_directory() == tmp_path / "common" / "bfpga"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == Path.home() / ".cache" / "bfpga"


def test_directories_are_made_for_the_user_alone_whatever_the_umask(cache: Path) -> None:
    before = os.umask(0)
    try:
        make_private(cache_directory("synthesis", "netlists"))
    finally:
        os.umask(before)
    for place in (cache, cache / "synthesis", cache / "synthesis" / "netlists"):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("place", [".", "csim"])
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o1777])
def test_what_others_can_write_is_refused(cache: Path, place: str, mode: int) -> None:
    make_private(cache / "csim")
    (cache / place).chmod(mode)
    with pytest.raises(CacheError, match=rf"{cache / place}: other users can write it \(mode {mode:o}\).*BFPGA_CACHE"):
        cache_directory("csim")
    if place == "csim":
        with pytest.raises(CacheError):
            make_private(cache / "csim")
    (cache / place).chmod(0o755)  # others may read
    assert cache_directory("csim") == cache / "csim"


def test_what_another_user_owns_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_private(cache)
    if os.geteuid() == 0:
        os.chown(cache, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(CacheError, match=r"another user \(number \d+\) owns it"):
        cache_directory()


def test_a_command_ends_with_one_message_and_runs_nothing(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cache / "csim").mkdir(parents=True)
    (cache / "csim").chmod(0o777)
    assert main(["run", MODEL, "-a", "tiny", "-d", DATA, "-n", "1", "--device", "csim"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "other users can write it (mode 777)" in error
    assert "Traceback" not in error
    assert list((cache / "csim").iterdir()) == []


def test_a_place_that_is_not_there_is_nobody_elses(tmp_path: Path) -> None:
    assert not_private(tmp_path / "none") == ""
