"""The device `csim:stalled`: a C simulation whose pipelined loops have stages and whose streams pause (docs/kernel.md).

`csim:stalled` draws 0 to 40 stages for each loop of each process, and how each side of each stream pauses, anew for
each program; `csim:stalled:seed=N` repeats a draw. `csim:stalled:8` gives every loop eight, and
`csim:stalled:Array=8,post.Rows=3` those of some names; `csim:stalled:scheduled` gives each those of its schedule, and
`csim:stalled:around` draws some around these. `pauses` goes with any of them; `pauses=N` repeats it, 0 omits it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Program
from bfpga.devices.csim import MOST_DRAWN_STAGES, MOST_STAGES, CSimulation, check_stages, pipelined_loops
from bfpga.devices.rtl import accelerator_of
from bfpga.errors import ConfigurationError, DeviceError, ToolError
from bfpga.formats.cache import cache_directory
from bfpga.verify.orders import number_of

STALLED = "csim:stalled"
#: Words of a device's name: stages as scheduled; drawn around these; streams pause as is drawn for each program.
SCHEDULED, AROUND, PAUSES, SEED = "scheduled", "around", "pauses", "seed"
#: Stages of all loops, or of one: `LOOP=N` or `PROCESS.LOOP=N`; or a seed.
_NUMBER = re.compile(r"(?:([A-Za-z0-9_.]+)=)?([0-9]{1,18})")
#: What a draw around a schedule makes of its stages at most.
_MOST_TIMES = 3


@dataclass(frozen=True)
class Stalls:
    """What the name of such a device says.

    ``schedule``: `scheduled`, `around` or nothing; ``stages``: of loops by name. ``seed``: of a draw, 0: none is named.
    ``pauses``: seed of the pauses, 0: no stream pauses, None: none is named; ``pauses_drawn``: for each program.
    """

    schedule: str = ""
    stages: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    pauses: int | None = None
    pauses_drawn: bool = False

    @property
    def draws(self) -> bool:
        """Whether stages are drawn, and with them pauses if nothing else is said of these."""
        return bool(self.seed) or self.schedule == AROUND or not (self.schedule or self.stages)

    def pauses_from(self, seed: int) -> int | None:
        """Seed of the pauses where the draw has this seed; None: they stay those of the order of processes."""
        if self.pauses is not None:
            return self.pauses
        return seed if self.draws or self.pauses_drawn else None

    def name(self, seed: int) -> str:
        """Of the device that repeats a draw, whatever the program."""
        parts = [self.schedule] * bool(self.schedule)
        parts += [f"{loop}={count}".removeprefix("=") for loop, count in self.stages.items()]
        parts += [f"{SEED}={seed}"] * self.draws
        pauses = self.pauses_from(seed)
        if pauses is not None and not (self.draws and pauses == seed):
            parts.append(f"{PAUSES}={pauses}")
        return f"{STALLED}:{','.join(parts)}"


def is_stalled(target: str) -> bool:
    """Whether a device is such a simulation, whatever its name says of stages and pauses."""
    return target == STALLED or target.startswith(f"{STALLED}:")


def named_stalls(target: str) -> Stalls:
    """What the name of a device says; ConfigurationError for what it cannot say."""
    parts = target.removeprefix(STALLED).removeprefix(":").split(",") if target != STALLED else []
    words = [part for part in parts if part in (SCHEDULED, AROUND, PAUSES)]
    numbers = {}
    for part in parts:
        if part not in words:
            found = _NUMBER.fullmatch(part)
            if found is None:
                raise ConfigurationError(
                    f"device {target!r}: {part!r} says no stages; {STALLED}:8 gives them to all loops, "
                    f"{STALLED}:Array=8,post.Rows=3 to some, {STALLED}:{SCHEDULED} as they are scheduled, "
                    f"{STALLED}:seed=N repeats a draw"
                )
            numbers[found[1] or ""] = int(found[2])
    seed, pauses = numbers.pop(SEED, 0), numbers.pop(PAUSES, None)
    try:
        check_stages(numbers)
    except DeviceError as error:
        raise ConfigurationError(f"device {target!r}: {error}") from None
    schedule = next((word for word in (AROUND, SCHEDULED) if word in words), "")
    return Stalls(schedule, numbers, seed, pauses, PAUSES in words)


class Staller:
    """Gives simulated kernels the stages and the pauses that the name of a device says."""

    def __init__(self, target: str) -> None:
        self._stalls = named_stalls(target)
        self._depths: dict[KernelConfig, dict[str, int]] = {}

    def stall(self, kernel: CSimulation, program: Program) -> None:
        """From the next start on a kernel has them; what is not named is drawn for its program.

        ToolError if stages are to be those of a schedule that is not there and cannot be made.
        """
        stalls = self._stalls
        seed = stalls.seed or number_of(program) or 1
        stages = {**self._scheduled(program, seed), **stalls.stages}
        drawn = seed if stalls.draws and not stalls.schedule else 0
        kernel.stall(drawn, stages)
        if (pauses := stalls.pauses_from(seed)) is not None:
            kernel.pause(pauses)
        kernel.repeated_by = stalls.name(seed)

    def _scheduled(self, program: Program, seed: int) -> dict[str, int]:
        """Stages that follow from the schedule of a program's accelerator, by the names of loops."""
        schedule = self._stalls.schedule
        if not schedule:
            return {}
        if program.config not in self._depths:
            self._depths[program.config] = _depths_of(program)
        depths = self._depths[program.config]
        return depths if schedule == SCHEDULED else _drawn_around(depths, seed)


def _depths_of(program: Program) -> dict[str, int]:
    from bfpga.synthesis.loop_depths import loop_depths

    try:
        found = loop_depths(_accelerator_of(program), cache_directory("synthesis"))
    except ModuleNotFoundError as error:
        raise ToolError(
            f"{STALLED}:{SCHEDULED} schedules the loops of {program.accelerator}, which has no figures; that needs the "
            f"package {error.name}: pip install 'bfpga[synthesis]'"
        ) from None
    simulated = pipelined_loops()
    return {name: count for name, count in found.items() if name.rpartition(".")[2] in simulated}


def _accelerator_of(program: Program) -> Accelerator:
    """A ready accelerator with the numbers of a program's kernel, whose figures are there; else as `rtl` has it."""
    ready = (load_accelerator(name) for name in accelerator_names())
    return next((one for one in ready if one.config == program.config), None) or accelerator_of(program)


def _drawn_around(depths: Mapping[str, int], seed: int) -> dict[str, int]:
    """Of half of the loops any stages up to the most that are drawn, of the others the schedule's times 0 to 3."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for name, depth in sorted(depths.items()):
        times = depth * rng.uniform(0, _MOST_TIMES)
        stages = rng.integers(0, MOST_DRAWN_STAGES + 1) if rng.random() < 0.5 else round(times)
        drawn[name] = min(int(stages), MOST_STAGES)
    return drawn
