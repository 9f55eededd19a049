"""The side of a worker: one board that is opened when it is needed, runs samples and proves that it is right."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.board.errors import BoardError
from bfpga.contract.program import Program
from bfpga.devices.base import Device, DeviceResult
from bfpga.errors import ClockWarning
from bfpga.scale.work import Work

Arrays = Mapping[str, npt.NDArray[Any]]
#: Opens a program on the board of a name.
Opener = Callable[[Program, str], Device]


@dataclass(frozen=True)
class KnownAnswer:
    """Samples and what the emulator computes for them."""

    inputs: Arrays
    outputs: Arrays


@dataclass(frozen=True)
class BoardTask:
    """What one board shall do: run samples, or with ``inputs`` None its self-test."""

    board: str
    inputs: Arrays | None = None
    trace: bool = False


class BoardStation:
    """The board of this process. A failure closes it; it is opened again by its self-test."""

    def __init__(self, program: Program, known: KnownAnswer, opener: Opener) -> None:
        self._program, self._known, self._opener = program, known, opener
        self._device: Device | None = None

    def do(self, task: BoardTask) -> DeviceResult | None:
        """Samples through the board, or its self-test; errors are those of the device."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ClockWarning)  # the report of all boards has it
                if task.inputs is None:
                    self._test(task.board)
                    return None
                if self._device is None:
                    raise BoardError(f"{task.board} was not opened: its process is a new one")
                return self._device.run(task.inputs, trace=task.trace)
        except BaseException:
            self.close()
            raise

    def _test(self, board: str) -> None:
        """Load the overlay with all its checks, then run known samples twice; BoardError for a wrong bit."""
        self.close()
        self._device = self._opener(self._program, board)
        for turn in ("first", "second"):
            found = self._device.run(self._known.inputs).outputs
            for name, expected in self._known.outputs.items():
                if not np.array_equal(found[name], expected):
                    raise BoardError(f"{board}: output {name!r} of its self-test is wrong in the {turn} run")

    def close(self) -> None:
        """Release the board, whatever state it is in."""
        device, self._device = self._device, None
        if device is not None:
            with suppress(Exception):  # it may be what has failed
                device.close()


def do_task(station: BoardStation, task: BoardTask) -> DeviceResult | None:
    """`BoardStation.do` as workers call it."""
    return station.do(task)


#: Work of boards; shared: the arguments of ``BoardStation``.
BOARD_WORK: Work[BoardStation, BoardTask, DeviceResult | None] = Work(BoardStation, do_task)
