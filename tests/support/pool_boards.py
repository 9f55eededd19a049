"""Boards for the tests and benchmarks of several boards: virtual ones with faults, and doubles. Workers load this."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from board_fixtures import overlay_directory
from fault_sequences import random_fault

from bfpga.board.load import BoardError, BoardOverlay
from bfpga.board.local import VirtualTarget
from bfpga.board.overlays import load_overlay
from bfpga.board.virtual.board import VirtualBoard
from bfpga.contract.program import Program
from bfpga.devices.base import Device, DeviceResult
from bfpga.devices.emulator import Emulator

#: Reads of a status register after which a virtual board says that nothing can change.
STALL_READS = 20


class Wrapped:
    """A device that does something before each run."""

    name = "wrapped"

    def __init__(self, device: Device) -> None:
        self.device = device

    def before(self) -> None:
        """What precedes a run."""

    def run(self, inputs: Mapping[str, Any], *, trace: bool = False) -> DeviceResult:
        self.before()
        return self.device.run(inputs, trace=trace)

    def reset(self) -> None:
        self.device.reset()

    def close(self) -> None:
        self.device.close()


@dataclass(frozen=True)
class FaultyBoards:
    """Opens virtual boards on which random faults are injected in every run with the given chance."""

    accelerator: str
    chance: float

    def __call__(self, program: Program, name: str) -> Device:
        files = load_overlay(overlay_directory(self.accelerator))
        family = files.manifest.board.processing_system
        overlay = BoardOverlay(files, VirtualTarget(family, VirtualBoard(family, stall_reads=STALL_READS)), timeout=0.3)
        return _Faulty(overlay, overlay.open(program, close_overlay=True), self.chance)


class _Faulty(Wrapped):
    #: Of this process: a board that is opened again has other faults.
    rng = random.Random(os.getpid())

    def __init__(self, overlay: BoardOverlay, device: Device, chance: float) -> None:
        super().__init__(device)
        self.overlay, self.chance = overlay, chance
        self.runs = 0

    def before(self) -> None:
        board = self.overlay.target.board  # type: ignore[attr-defined]
        board.faults.clear()
        self.runs += 1
        if self.rng.random() < self.chance:
            board.faults.inject(random_fault(self.rng, board))


@dataclass(frozen=True)
class SlowBoards:
    """Boards whose time is a fixed latency for each run; answers are the emulator's."""

    seconds: float

    def __call__(self, program: Program, name: str) -> Device:
        return _Slow(Emulator(program, threads=1), self.seconds)


class _Slow(Wrapped):
    def __init__(self, device: Device, seconds: float) -> None:
        super().__init__(device)
        self.seconds = seconds

    def before(self) -> None:
        time.sleep(self.seconds)


@dataclass(frozen=True)
class TroubledBoards:
    """Boards of which the one that gets to it first has the trouble, once: hang, die, fail, or give a wrong bit.

    folder: where its mark is left. after: runs that go well before, the two of a self-test among them.
    """

    trouble: str
    folder: Path
    after: int = 3

    def __call__(self, program: Program, name: str) -> Device:
        return _Troubled(Emulator(program, threads=1), self)


class _Troubled(Wrapped):
    def __init__(self, device: Device, plan: TroubledBoards) -> None:
        super().__init__(device)
        self.plan, self.runs = plan, 0

    def before(self) -> None:
        self.runs += 1
        if self.runs <= self.plan.after:
            return
        try:
            (self.plan.folder / "mark").open("x").close()
        except FileExistsError:
            return
        if self.plan.trouble == "hang":
            time.sleep(60)
        elif self.plan.trouble == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            raise BoardError("overlay tiny is no longer on the board\nlikely cause: it was reprogrammed")


@dataclass(frozen=True)
class WrongBoards:
    """Boards whose answers are wrong in one bit; no part of theirs may be believed."""

    def __call__(self, program: Program, name: str) -> Device:
        return _Wrong(Emulator(program, threads=1))


class _Wrong(Wrapped):
    def run(self, inputs: Mapping[str, Any], *, trace: bool = False) -> DeviceResult:
        result = self.device.run(inputs, trace=trace)
        result.outputs = {name: value + 1 for name, value in result.outputs.items()}
        return result
