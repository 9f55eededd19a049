"""Opening boards: what is missing is said, with what to do about it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import PropertyMock, patch

import pytest

pytest.importorskip("pynq")

import pynq
from board_fixtures import overlay_directory
from board_targets import require

from bfpga.board import local as board_local
from bfpga.board import target as board_target
from bfpga.board.load import BoardError, default_target, load, on_board, open_target
from bfpga.board.remote import lost_connection, remote_address

pytestmark = pytest.mark.board


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine looks like a PYNQ board on which the user is root."""
    manager = tmp_path / "firmware"
    manager.touch()
    for module in (board_target, board_local):
        monkeypatch.setattr(module, "FPGA_MANAGER", manager)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("BOARD", "Pynq-Z2")
    return manager


def test_an_unknown_target_lists_the_known_ones() -> None:
    known = "virtual, virtual:rtl, virtual:remote, board, remote:HOST"
    with pytest.raises(BoardError, match=f"'cloud' is unknown; known are {known}"):
        open_target("cloud", "zynq7")


@pytest.mark.parametrize(
    ("name", "address"),
    [("remote:pynq", ("pynq", 7967)), ("remote:192.168.2.99:1234", ("192.168.2.99", 1234))],
)
def test_a_remote_board_has_a_host_and_perhaps_a_port(name: str, address: tuple[str, int]) -> None:
    assert remote_address(name) == address


@pytest.mark.parametrize("name", ["remote:", "remote::80", "remote:host:0", "remote:host:x", "remote:host:65536"])
def test_a_remote_address_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(BoardError, match="write remote:HOST or remote:HOST:PORT"):
        remote_address(name)


def test_a_board_that_does_not_answer_is_told() -> None:
    require("virtual:remote")
    with pytest.raises(BoardError, match=r"no board answers at 127.0.0.1:9 .*pynq-remote runs on the board"):
        open_target("remote:127.0.0.1:9", "zynq7")


def test_a_laptop_is_no_board() -> None:
    assert not on_board()
    assert default_target() == "virtual"
    with pytest.raises(BoardError, match="this machine is no PYNQ board; use the target remote:HOST"):
        open_target("board", "zynq7")


def test_a_board_is_the_default_target_on_a_board(board: Path) -> None:
    assert on_board()
    assert default_target() == "board"


def test_without_root_a_board_is_not_opened(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BoardError, match="needs root; start with `sudo -E`"):
        open_target("board", "zynq7")


def test_without_the_environment_of_xrt_a_board_is_not_opened(board: Path) -> None:
    missing = PropertyMock(side_effect=RuntimeError("No Devices Found"))
    with (
        patch.object(type(pynq.Device), "active_device", missing),
        pytest.raises(BoardError, match=r"No Devices Found.*XRT environment is not set.*xrt_setup.sh"),
    ):
        open_target("board", "zynq7")


def test_without_pynq_a_board_is_not_opened(board: Path) -> None:
    with (
        patch.object(board_local, "import_module", side_effect=ImportError("No module named 'pynq'")),
        pytest.raises(BoardError, match=r"PYNQ does not load.*pynq_venv.sh"),
    ):
        open_target("board", "zynq7")


def test_an_overlay_for_another_family_is_refused(board: Path) -> None:
    with (
        patch.object(type(pynq.Device), "active_device", SimpleNamespace(arch="aarch64")),
        pytest.raises(BoardError, match=r"for a zynq7 board \(armv7l\); this one is aarch64"),
    ):
        open_target("board", "zynq7")


def test_an_overlay_that_was_never_built_is_refused_on_a_board(board: Path) -> None:
    with (
        patch.object(type(pynq.Device), "active_device", SimpleNamespace(arch="armv7l")),
        pytest.raises(Exception, match=r"has no bitstream: it was never built.*bfpga build"),
    ):
        load(overlay_directory("tiny"))


def test_a_call_to_a_remote_board_that_hangs_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """PYNQ's client sets no limit of its own."""
    require("virtual:remote")
    from threading import Event

    from bfpga.board import remote as board_remote
    from bfpga.board.virtual.board import VirtualBoard

    target = board_remote.RemoteTarget.to_virtual_board("zynq7")
    hang, release = Event(), Event()

    def hanging(board: VirtualBoard, address: int, length: int = 4) -> bytes:
        hang.set()
        release.wait(10)
        return bytes(length)

    monkeypatch.setattr(board_remote, "REMOTE_SECONDS", 0.2)
    mmio = pynq.MMIO(0xF8000000, 0x1000, device=target.device)
    try:
        with patch.object(VirtualBoard, "read", hanging), pytest.raises(Exception, match="Deadline") as failure:
            mmio.read(0x170)
        assert hang.is_set()
        assert lost_connection(failure.value)
    finally:
        release.set()
        target.close()
