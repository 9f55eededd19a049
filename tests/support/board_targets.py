"""Boards for the tests of the driver: opened overlays by target, and what a clean board looks like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from board_fixtures import CASES, Expected, compiled_program, expected, overlay_directory

from bfpga.board.load import BoardOverlay
from bfpga.board.local import VirtualTarget
from bfpga.board.overlays import load_overlay
from bfpga.board.remote import RemoteTarget
from bfpga.board.target import BoardTarget
from bfpga.board.virtual.board import Family, VirtualBoard
from bfpga.devices.base import DeviceResult
from bfpga.devices.streaming_device import StreamingDevice

#: The virtual board in this process, and behind PYNQ's own client of remote boards.
TARGETS = ("virtual", "virtual:remote")
#: Reads of a status register after which a virtual board says that nothing can change: few, so that tests are fast.
STALL_READS = 20
IDLE = ["Nothing is under way: no transfer, no kernel, no data in a stream."]


def require(target: str) -> None:
    """Skip a test whose target the installed PYNQ does not have."""
    if target == "virtual:remote":
        pytest.importorskip("pynq.pl_server.remote_device", reason="PYNQ before 3.1 has no remote boards")


def target_of(name: str, family: Family, **board: Any) -> BoardTarget:
    """A target on a virtual board that stalls early; ``board``: other arguments of the board."""
    require(name)
    made = VirtualBoard(family, stall_reads=STALL_READS, **board)
    return VirtualTarget(family, made) if name == "virtual" else RemoteTarget.to_virtual_board(family, made)


def open_case(case: str, target: str, **options: Any) -> BoardOverlay:
    """The overlay of a case's accelerator on a virtual board."""
    files = load_overlay(overlay_directory(CASES[case].accelerator, CASES[case].cores))
    return BoardOverlay(files, target_of(target, files.manifest.board.processing_system), **options)


@contextmanager
def opened(case: str, target: str = "virtual", **options: Any) -> Iterator[tuple[BoardOverlay, StreamingDevice]]:
    """An overlay with the program of a case."""
    with open_case(case, target, **options) as overlay:
        yield overlay, overlay.open(compiled_program(case))


def same(result: DeviceResult, reference: Expected) -> bool:
    """Whether all outputs are those of the emulator, bit by bit."""
    return all(np.array_equal(result.outputs[name], value) for name, value in reference.outputs.items())


def check_run(device: StreamingDevice, case: str, samples: int = 1) -> None:
    """A run from a fresh state gives what the emulator gives."""
    device.reset()
    reference = expected(case, samples)
    assert same(device.run(reference.inputs), reference)


def check_clean(overlay: BoardOverlay) -> None:
    """Nothing is left on the board of a start that failed: no transfer, no data in a stream, no running kernel."""
    assert overlay.target.board.explain() == IDLE  # type: ignore[attr-defined]
    assert not any(channel.busy for channel in overlay.hardware.channels)
