"""Several programs on one kernel, in turn: weights that no other program has overwritten are not brought again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.kernel_start import StreamingKernel
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.errors import ProgramError
from bfpga.program.kept_programs import KeptPrograms
from bfpga.program.kernel_room import apart, room_of
from bfpga.program.learning import learns


class SharedKernel:
    """A kernel and a device for each program, in the order of these; one runs at a time. Closing one closes all."""

    def __init__(self, programs: Sequence[Program], kernel: StreamingKernel, name: str) -> None:
        """Set up each program in turn. ProgramError for programs of different accelerators, and for none."""
        check_accelerators(programs)
        self.lock = Lock()
        #: Starts in the kernel's program memory have places apart, too.
        self.kept: KeptPrograms | None = None
        self.devices: list[SharingDevice] = []
        for program in apart(programs):
            self.devices.append(SharingDevice(program, kernel, name, self))


class SharingDevice(StreamingDevice):
    """One of the programs. It is set up again before a run if another one may have written where it keeps something.

    What policies learned is forgotten then, and also when another program that learns runs, or any is set up or reset:
    the kernel has one set of policy slots.
    """

    def __init__(self, program: Program, kernel: StreamingKernel, name: str, shared: SharedKernel) -> None:
        self._shared = shared
        self._room, self._learns = room_of(program), learns(program)
        super().__init__(program, kernel, name)
        self._programs = shared.kept = shared.kept or self._programs

    @property
    def ready(self) -> bool:
        """Whether the kernel holds the program's weights: the next run brings none."""
        return self._loaded

    def run(self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False) -> DeviceResult:
        """Run a batch; see ``Device.run``. A run of another program is waited for."""
        with self._shared.lock:
            return super().run(inputs, trace=trace)

    def reset(self) -> None:
        """Forget what policy slots learned, those of the other programs too."""
        with self._shared.lock:
            super().reset()
            self._overwrite(policies=True)

    def _load(self) -> None:
        self._overwrite(policies=self._learns or not self._loaded)
        super()._load()

    def _overwrite(self, policies: bool) -> None:
        """Note whose state is gone once this program has written its own. policies: also the slots of policies."""
        for other in self._shared.devices:
            if other is not self and (other._room.meets(self._room) or (policies and other._learns)):
                other._loaded = False

    def _cancel(self) -> None:
        super()._cancel()
        for device in self._shared.devices:
            device._loaded = False


def check_accelerators(programs: Sequence[Program]) -> None:
    """ProgramError unless there are programs, all for the same accelerator."""
    if not programs:
        raise ProgramError("no program is given; a kernel is shared by one at least")
    first = programs[0]
    for program in programs[1:]:
        if program.digest != first.digest:
            raise ProgramError(
                f"program {program.name} was compiled for {program.accelerator} ({program.digest[:12]}), "
                f"{first.name} for {first.accelerator} ({first.digest[:12]}); those that share a kernel are compiled "
                "for the same accelerator"
            )
