"""Several cores of one board as one device: each takes the next samples when it is free, and answers keep their order.

A core that hangs or answers wrongly is taken out with a warning, and the others compute its samples. Threads do: a core
computes while its thread waits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import Program
from bfpga.devices.base import Device, DeviceResult
from bfpga.devices.health import BoardHealth
from bfpga.devices.part_queue import PartQueue
from bfpga.devices.parts import joined
from bfpga.devices.values import check_inputs
from bfpga.errors import CoreWarning, DeviceError

#: Samples that a core gets at once, at most; and parts that each core has of a run, at least where there are samples.
PART_SAMPLES, PARTS_A_CORE = 64, 4
#: What takes a core out of service; other errors are the program's or the user's.
FAILURES = (DeviceError, OSError, TimeoutError)

Arrays = Mapping[str, npt.NDArray[Any]]


class Cores(Protocol):
    """The cores of a board, as far as a device of all of them needs them."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def open(self, index: int) -> Device:
        """The program with its weights on one core."""
        ...

    def restart(self) -> None:
        """Load the board again, after which no core is out; none may be at work."""
        ...

    def release(self) -> None:
        """The device of all cores was closed."""
        ...


@dataclass
class _Core:
    """A core and what became of it so far; ``device``: None where it is out; ``told``: failures that were told."""

    health: BoardHealth
    device: Device | None = None
    told: int = 0

    def take_out(self, error: BaseException) -> None:
        self.device = None
        self.health.in_service = False
        self.health.taken_out += 1
        self.health.failures.append((str(error) or type(error).__name__).splitlines()[0])


class CoresDevice:
    """A device of several cores for one program whose samples do not depend on each other."""

    #: Takes all samples of a run at once and spreads them itself.
    spreads = True

    def __init__(self, program: Program, cores: Cores, name: str) -> None:
        """DeviceError with the reason of each core if none takes the program."""
        self.program, self.name = program, name
        self.progress: Callable[[int, int], None] | None = None
        self._cores = cores
        self._all = [_Core(BoardHealth(f"core {index}")) for index in range(cores.count)]
        self._opened: list[Device] = []
        self._closed = False
        self._open_all()
        self._warn()

    def run(self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False) -> DeviceResult:
        """Samples through all cores; see ``Device.run``. DeviceError with every core's reason if none is left."""
        if self._closed:
            raise DeviceError("this device is closed: its overlay was closed, or another program was opened on it")
        checked = check_inputs(self.program, inputs)
        if not self._in_service():
            self._begin_again()
        parts = self._parts(checked)
        queue: PartQueue[DeviceResult] = PartQueue(len(parts), len(self._all))
        samples = len(next(iter(checked.values())))
        with ThreadPoolExecutor(len(self._in_service()), "core") as threads:
            for core in self._in_service():
                threads.submit(self._serve, core, queue, parts, trace)
            try:
                result = joined(queue.results(lambda done: self._report(-(-done * samples // len(parts)), samples)))
            except BaseException as error:
                queue.give_up(error)
                raise
        self._warn()
        result.cores = [replace(core.health, failures=list(core.health.failures)) for core in self._all]
        return result

    def reset(self) -> None:
        """Programs that learn run on one core: there is nothing to forget."""

    def close(self) -> None:
        """Release the cores. Closing twice does nothing."""
        if not self._closed:
            self._closed = True
            self._close_all()
            self._cores.release()

    # Parts of a run

    def _parts(self, inputs: Arrays) -> list[Arrays]:
        samples = len(next(iter(inputs.values())))
        size = max(1, min(PART_SAMPLES, -(-samples // (PARTS_A_CORE * len(self._in_service())))))
        return [
            {name: value[first : first + size] for name, value in inputs.items()} for first in range(0, samples, size)
        ]

    def _serve(self, core: _Core, queue: PartQueue[DeviceResult], parts: list[Arrays], trace: bool) -> None:
        """The thread of one core: parts for as long as it works."""
        try:
            while core.device is not None and (number := queue.take()) is not None:
                self._run_part(core, core.device, queue, number, parts[number], trace)
        except BaseException as error:
            queue.give_up(error)

    def _run_part(
        self, core: _Core, device: Device, queue: PartQueue[DeviceResult], number: int, part: Arrays, trace: bool
    ) -> None:
        begun = perf_counter()
        try:
            result = device.run(part, trace=trace)
        except FAILURES as error:
            core.take_out(error)
            if not self._in_service():
                queue.give_up(self._nobody_left())
            queue.give_back(number, error)
            return
        core.health.seconds += perf_counter() - begun
        core.health.parts += 1
        core.health.samples += result.samples
        queue.answer(number, result)

    def _report(self, done: int, samples: int) -> None:
        if self.progress is not None:
            self.progress(done, samples)

    # Cores in and out of service

    def _in_service(self) -> list[_Core]:
        return [core for core in self._all if core.health.in_service]

    def _open_all(self) -> None:
        for index, core in enumerate(self._all):
            try:
                core.device = self._cores.open(index)
            except FAILURES as error:
                core.take_out(error)
            else:
                self._opened.append(core.device)
                core.health.in_service = True
        if not self._in_service():
            raise self._nobody_left()

    def _begin_again(self) -> None:
        """All cores failed in the run before: the board is loaded again."""
        self._close_all()
        self._cores.restart()
        self._open_all()
        for core in self._in_service():
            core.health.returned = core.health.taken_out

    def _close_all(self) -> None:
        for device in self._opened:
            device.close()
        self._opened = []

    def _warn(self) -> None:
        """A line for each core that was taken out since the last one; the others have its samples."""
        for core in self._all:
            if core.told < core.health.taken_out:
                core.told = core.health.taken_out
                reason = core.health.failures[-1]
                text = f"{core.health.name} of {len(self._all)} is taken out, the others get its samples: {reason}"
                warnings.warn(text, CoreWarning, stacklevel=3)

    def _nobody_left(self) -> DeviceError:
        for core in self._all:
            core.told = core.health.taken_out  # by this error
        reasons = "\n".join(f"  {core.health.name}: {core.health.failures[-1]}" for core in self._all)
        return DeviceError(f"no core of the overlay works any more:\n{reasons}\nthe next run loads the overlay again")
