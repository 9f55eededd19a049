"""The device `csim:stalled`: a C simulation whose pipelined loops have stages (docs/kernel.md).

`csim:stalled` draws 0 to 40 stages for each loop of each process, anew for each program; `csim:stalled:seed=N` repeats
a draw. `csim:stalled:8` gives every loop eight, `csim:stalled:Array=8,post.Rows=3` those of some names.
"""

from __future__ import annotations

import re

from bfpga.contract.program import Program
from bfpga.devices.csim import CSimulation, check_stages
from bfpga.errors import ConfigurationError, DeviceError
from bfpga.verify.orders import number_of

STALLED = "csim:stalled"
#: Stages of all loops, or of one: `LOOP=N` or `PROCESS.LOOP=N`; or the seed of a draw.
_STAGES = re.compile(r"(?:([A-Za-z0-9_.]+)=)?([0-9]{1,18})")


def is_stalled(target: str) -> bool:
    """Whether a device is such a simulation, whatever stages its name says."""
    return target == STALLED or target.startswith(f"{STALLED}:")


def named_stages(target: str) -> tuple[int, dict[str, int]]:
    """The seed that the name of the device says, 0 for none, and stages by the names of loops.

    ConfigurationError for what it cannot say.
    """
    stages = {}
    for part in target.removeprefix(STALLED).removeprefix(":").split(",") if target != STALLED else ():
        found = _STAGES.fullmatch(part)
        if found is None:
            raise ConfigurationError(
                f"device {target!r}: {part!r} says no stages; {STALLED}:8 gives them to all loops, "
                f"{STALLED}:Array=8,post.Rows=3 to some, {STALLED}:seed=N repeats a draw"
            )
        stages[found[1] or ""] = int(found[2])
    seed = stages.pop("seed", 0)
    try:
        check_stages(stages)
    except DeviceError as error:
        raise ConfigurationError(f"device {target!r}: {error}") from None
    return seed, stages


def stall(kernel: CSimulation, program: Program, target: str) -> None:
    """Give the loops of a kernel the stages that a device's name says, or else those that are drawn for a program."""
    seed, stages = named_stages(target)
    kernel.stall(seed if seed or stages else number_of(program) or 1, stages)
