"""Boards for the tests and benchmarks of several boards: virtual ones with faults, and doubles. Workers load this."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from board_fixtures import overlay_directory
from fault_sequences import random_fault

from bfpga.board.load import BoardError, BoardOverlay
from bfpga.board.local import VirtualTarget
from bfpga.board.overlays import load_overlay
from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.faults import CorruptedTransfer, DmaError, Fault, KernelNeverDone, StuckStream
from bfpga.contract.program import Program
from bfpga.devices.base import Device, DeviceResult
from bfpga.devices.emulator import Emulator

#: Reads of a status register after which a virtual board says that nothing can change.
STALL_READS = 20
#: Runs of a self-test.
SELF_TEST_RUNS = 2


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


#: Faults that end a run whatever it is.
FAULTS: tuple[Fault, ...] = (
    DmaError(dma="tensor_dma", channel="s2mm", kind="decode"),
    CorruptedTransfer(dma="tensor_dma", channel="mm2s", byte=400, bit=3),
    KernelNeverDone(kernel="accelerator"),
    StuckStream(stream="accelerator/input_stream", after_bytes=100),
)


@dataclass(frozen=True)
class FaultyBoards:
    """Opens virtual boards with faults: one of ``FAULTS`` in every so many runs of a process (``every``), or any fault
    of the driver's tests in a run by ``chance``."""

    accelerator: str
    every: int = 0
    chance: float = 0.0

    def __call__(self, program: Program, name: str) -> Device:
        files = load_overlay(overlay_directory(self.accelerator))
        family = files.manifest.board.processing_system
        overlay = BoardOverlay(files, VirtualTarget(family, VirtualBoard(family, stall_reads=STALL_READS)), timeout=0.3)
        return _Faulty(overlay, overlay.open(program, close_overlay=True), self)


class _Faulty(Wrapped):
    #: Of this process: a board that is opened again has other faults.
    rng = random.Random(os.getpid())
    runs = itertools.count(1)

    def __init__(self, overlay: BoardOverlay, device: Device, plan: FaultyBoards) -> None:
        super().__init__(device)
        self.overlay, self.plan = overlay, plan

    def before(self) -> None:
        board, run = self.overlay.target.board, next(self.runs)  # type: ignore[attr-defined]
        board.faults.clear()
        if self.plan.every and run % self.plan.every == 0:
            board.faults.inject(FAULTS[run // self.plan.every % len(FAULTS)])
        if self.rng.random() < self.plan.chance:
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
class ReprogrammedBoards:
    """Boards of which the first that has run a part is then found with another overlay. folder: of its mark."""

    folder: Path

    def __call__(self, program: Program, name: str) -> Device:
        return _Reprogrammed(Emulator(program, threads=1), self.folder)


class _Reprogrammed(Wrapped):
    def __init__(self, device: Device, folder: Path) -> None:
        super().__init__(device)
        self.folder, self.runs = folder, 0

    def before(self) -> None:
        self.runs += 1
        if self.runs <= SELF_TEST_RUNS + 1:
            return
        with suppress(FileExistsError):
            (self.folder / "mark").open("x").close()
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


class StationsHere:
    """In the place of a cluster: stations of this process, without processes of their own.

    errors: what calls with samples raise in the place of an answer, by the number of the station and of the call. A
    process that ends or hangs loses what it had, as the one of a worker does.
    """

    def __init__(self, errors: Mapping[tuple[int, int], Exception] | None = None) -> None:
        self.errors = dict(errors or {})

    def stations(self, resource: str, count: int, work: Any, shared: Mapping[str, Any]) -> Sequence[Any]:
        return [_StationHere(number, self.errors, work, shared) for number in range(count)]


class _StationHere:
    def __init__(self, number: int, errors: dict[tuple[int, int], Exception], work: Any, shared: Any) -> None:
        self.number, self.errors, self.work, self.shared = number, errors, work, shared
        self.calls = 0
        self.state = work.prepare(**shared)

    def call(self, part: Any, seconds: float) -> Any:
        if part.inputs is not None:
            self.calls += 1
            if (self.number, self.calls) in self.errors:
                self.state = self.work.prepare(**self.shared)
                raise self.errors[self.number, self.calls]
        return self.work.compute(self.state, part)
