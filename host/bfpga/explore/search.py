"""The search itself: ready accelerators first, then trial after trial, until there are enough or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bfpga.accelerator.loader import load_accelerator
from bfpga.errors import BfpgaError
from bfpga.explore.candidate import Candidate
from bfpga.explore.figures import Point
from bfpga.explore.front import front
from bfpga.explore.space import Values
from bfpga.explore.study import Study
from bfpga.explore.task import Task

#: Called with trials done, trials in all, and the best point so far.
Hear = Callable[[int, int, Point | None], None]
#: Points behind the front whose neighbours are tried too.
NEXT_BEST = 8


@dataclass(frozen=True)
class Exploration:
    """What a search found. points: all that was compiled; refused: trials that were not. interrupted: by the user."""

    task: Task
    points: list[Point]
    refused: int
    interrupted: bool = False

    @property
    def front(self) -> list[Point]:
        """Points that none beats, the best for the objective first."""
        return front(self.points, self.task.goal)

    @property
    def ready(self) -> list[Point]:
        """The ready accelerators of the board."""
        return [point for point in self.points if point.candidate.origin]

    @property
    def trials(self) -> int:
        """How much was tried."""
        return len(self.points) + self.refused


class Search:
    """One task with its study. path: file of the study; None: it is forgotten afterwards."""

    def __init__(self, task: Task, path: Path | None = None) -> None:
        self.task = task
        self.study = Study(task.space, task.goal, task.seed, task.identity, path)
        self.ready = task.ready()

    def run(self, trials: int, limit: float | None = None, hear: Hear | None = None) -> Exploration:
        """Try until there are ``trials`` in all or ``limit`` seconds are over; an interruption ends it early.

        The ready accelerators count; all of them are tried in any case.
        """
        end = None if limit is None else time.monotonic() + limit
        interrupted = False
        try:
            while (number := len(self.study)) < max(trials, len(self.ready)):
                if end is not None and time.monotonic() > end and number >= len(self.ready):
                    break
                best = self._try(number)
                if hear is not None:
                    hear(number + 1, max(trials, len(self.ready)), best)
        except KeyboardInterrupt:
            interrupted = True
        return self.exploration(interrupted)

    def exploration(self, interrupted: bool = False) -> Exploration:
        """What there is so far."""
        return Exploration(self.task, self.study.points(), self.study.refused, interrupted)

    def _try(self, number: int) -> Point | None:
        """One trial; the best point so far."""
        points = self.study.points()
        best = front(points, self.task.goal)
        candidate, trial = self._next(number, points, best)
        values = dict(trial.params)
        try:
            made = candidate or self.task.space.candidate(values)
            same = next((point for point in points if point.candidate == made), None)
            point = self.task.point(number, made, values, best) if same is None else again(same, number, values)
        except BfpgaError as error:
            self.study.refuse(trial, str(error).splitlines()[-1].strip())
            return best[0] if best else None
        beaten = [other for other in best if self.task.is_beaten(point, [other])]
        loss = max((max(other.figures.loss or 0.0, 0.0) for other in beaten), default=0.0)
        self.study.accept(trial, point, loss)
        found = front([*best, point], self.task.goal)
        return found[0] if found else None

    def _leading(self, points: list[Point], best: list[Point]) -> list[Point]:
        """Points beside which it is worth looking: the front, and the next best ones."""
        goal = self.task.goal
        judged = [point for point in points if goal.accepts(point) and not point.candidate.origin]
        return [*best, *sorted(judged, key=goal.first)[:NEXT_BEST]]

    def _next(
        self, number: int, points: list[Point], best: list[Point]
    ) -> tuple[Candidate | None, Any]:
        """A ready accelerator, its like among the candidates, or what the study proposes."""
        count = len(self.ready)
        if number < count:
            return self.ready[number], self.study.propose_values(self._like(number))
        if number < 2 * count:
            return None, self.study.propose_values(self._like(number - count))
        return None, self.study.propose(self._leading(points, best))

    def _like(self, place: int) -> Values:
        """The candidate of the space that comes closest to a ready accelerator."""
        accelerator = load_accelerator(self.ready[place].origin)
        fastest = replace(accelerator, clock_mhz=max(accelerator.clock_mhz, self.task.space.clocks[-1]))
        return self.task.space.nearest(fastest)


def again(point: Point, number: int, values: Values) -> Point:
    """The same point from another trial."""
    return replace(point, number=number, values=values)
