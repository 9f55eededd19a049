"""Work for the tests of `bfpga.scale`: workers load it by its name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from bfpga.errors import DataError
from bfpga.scale.work import Work


class Table:
    """A state that says in which process it was made, and when it is closed."""

    def __init__(self, table: list[int], log: Path) -> None:
        self.table, self.log = table, log
        self._note("made")

    def _note(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{what} {os.getpid()}\n")

    def close(self) -> None:
        self._note("closed")


def look_up(state: Table, part: int) -> tuple[int, int]:
    """The entry of a part, later parts first, and the process that found it."""
    time.sleep(0.02 * (len(state.table) - part) / len(state.table))
    return state.table[part], os.getpid()


def look_up_or_die(state: Table, part: int) -> tuple[int, int]:
    """As ``look_up``; the first process that takes part 3 is killed, with what it has done and not handed over."""
    if part == 3 and not (mark := state.log.with_suffix(".killed")).exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return look_up(state, part)


def die(state: Table, part: int) -> int:
    """A part that no process survives."""
    os.kill(os.getpid(), signal.SIGKILL)
    return part


def refuse(state: Table, part: int) -> int:
    """An error of a user in one part."""
    if part == 2:
        raise DataError("part 2 is damaged")
    return part


def answer_or_not(state: Table, part: str) -> str:
    """A worker that answers, hangs or dies, as it is asked to."""
    if part == "hang":
        time.sleep(60)
    elif part == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return part


ANSWER = Work(Table, answer_or_not)
LOOK_UP = Work(Table, look_up, size=lambda part: part + 1)
LOOK_UP_OR_DIE = Work(Table, look_up_or_die)
DIE = Work(Table, die)
REFUSE = Work(Table, refuse)


def set_environment(variables: dict[str, str | None]) -> dict[str, str | None]:
    """On a worker: variables of its environment, None for those that it shall not have; what they were before."""
    before = {name: os.environ.get(name) for name in variables}
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return before
