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
from bfpga.explore.modelled_clock import MISSED, MODELLED, Synthesis, modelled, slower, uncounted
from bfpga.explore.space import PARTS, Values
from bfpga.explore.study import Study
from bfpga.explore.task import Task
from bfpga.formats.notebook import clipped
from bfpga.scale.work import IN_PROCESS, Work, Workers

#: Called with trials done, trials in all, and the best point so far.
Show = Callable[[int, int, Point | None], None]
#: Trials that are proposed together, as many as are then computed at the same time.
GENERATION = 4
#: Points whose clock a synthesis judges at most: each takes it half a minute and more.
MOST_MODELLED = 12
#: Points next in rank to the front whose neighbours are tried too.
NEXT_BEST = 8
#: Points that lose too much accuracy whose neighbours are tried too.
MOST_LOSSY = 4


@dataclass(frozen=True, repr=False)
class Exploration:
    """What a search found. points: all that was compiled; refused: trials that were not. interrupted: by the user."""

    task: Task
    points: list[Point]
    refused: int
    interrupted: bool = False

    def __repr__(self) -> str:
        network, board = clipped(self.task.network.name), clipped(self.task.board.title)
        front = self.front
        best = f", the best {front[0].name} with {1 / front[0].figures.seconds:,.0f} images/s" if front else ""
        return f"Exploration({network} on {board}: {self.trials} trials, {len(front)} on the front{best})"

    @property
    def front(self) -> list[Point]:
        """Points that none beats, the best for the objective first; no clock beyond those found in time."""
        return front(filter(self.task.may_offer, self.points), self.task.goal)

    @property
    def ready(self) -> list[Point]:
        """The ready accelerators of the board."""
        return [point for point in self.points if point.candidate.origin]

    @property
    def trials(self) -> int:
        """How much was tried."""
        return len(self.points) + self.refused


@dataclass(frozen=True)
class Attempt:
    """A candidate that is to be tried, with all that a process needs for it in addition to the task.

    candidate: None: the one of ``values``. front: the best points so far. known: the same from an earlier trial.
    """

    number: int
    candidate: Candidate | None
    values: Values
    front: tuple[Point, ...]
    known: Point | None = None


def attempt(task: Task, tried: Attempt) -> Point | str:
    """What a candidate comes to, or why it cannot be."""
    if tried.known is not None:
        return replace(tried.known, number=tried.number, values=tried.values)
    try:
        candidate = tried.candidate or task.space.candidate(tried.values)
        return task.point(tried.number, candidate, tried.values, tried.front)
    except BfpgaError as error:
        return str(error).splitlines()[-1].strip()


def _given(task: Task) -> Task:
    return task


#: Attempts in any process: the task is what they share.
ATTEMPTS: Work[Task, Attempt, Point | str] = Work(_given, attempt)


class Search:
    """One task with its study. path: file of the study; None: it is forgotten afterwards."""

    def __init__(self, task: Task, path: Path | None = None) -> None:
        self.task = task
        self.study = Study(task.space, task.goal, task.seed, task.identity, path)
        self.ready = task.ready()

    def run(
        self, trials: int, limit: float | None = None, show: Show | None = None, workers: Workers = IN_PROCESS
    ) -> Exploration:
        """Try until there are ``trials`` in all or ``limit`` seconds are over; an interruption ends it early.

        The ready accelerators count; all of them are tried in any case. Trials of a generation are proposed together,
        so it does not matter who computes them; what of one is done when it is interrupted is lost. Last, the best
        point is tried without the keys without which it is plainer, so that a tie is found.
        """
        end = None if limit is None else time.monotonic() + limit
        trials, interrupted = max(trials, len(self.ready)), False
        try:
            while (number := len(self.study)) < trials:
                if end is not None and time.monotonic() > end and number >= len(self.ready):
                    break
                self._generation(number, min(GENERATION - number % GENERATION, trials - number), trials, show, workers)
            self._try_plainer()
        except KeyboardInterrupt:
            interrupted = True
        return self.exploration(interrupted)

    def _generation(self, first: int, count: int, trials: int, show: Show | None, workers: Workers) -> None:
        """Propose trials together, compute them in any order and end them in theirs."""
        points = self.study.points()
        best = front(points, self.task.goal)
        proposed = [self._next(number, points) for number in range(first, first + count)]
        attempts = [
            self._attempt(first + place, candidate, trial, points, best)
            for place, (candidate, trial) in enumerate(proposed)
        ]
        results = []
        for result in workers.map(ATTEMPTS, attempts, shared={"task": self.task}):
            results.append(result)
            if show is not None:
                found = front([*best, *(one for one in results if isinstance(one, Point))], self.task.goal)
                show(first + len(results), trials, found[0] if found else None)
        for (_, trial), result in zip(proposed, results, strict=True):
            self._end(trial, result, best)

    def _attempt(
        self, number: int, candidate: Candidate | None, trial: Any, points: list[Point], best: list[Point]
    ) -> Attempt:
        known = next((point for point in points if point.values == trial.params and not point.beaten), None)
        if candidate is not None or (known is not None and known.candidate.origin):
            known = None
        return Attempt(number, candidate, dict(trial.params), tuple(best), known)

    def _end(self, trial: Any, result: Point | str, best: list[Point]) -> None:
        """End a trial with what it came to. best: the front at the time, for accuracies that were not measured."""
        if isinstance(result, str):
            self.study.refuse(trial, result)
            return
        beaten = [other for other in best if self.task.is_beaten(result, [other])]
        loss = max((max(other.figures.loss or 0.0, 0.0) for other in beaten), default=0.0)
        self.study.accept(trial, result, loss)

    def _try_plainer(self) -> None:
        """Try the best point without each of its keys that may not be worth it (``Space.plainer``)."""
        while best := self.exploration().front:
            untried = [values for values in self.task.space.plainer(best[0].values) if values not in self.study.tried()]
            if not untried:
                return
            self._retry(untried[0])

    def exploration(self, interrupted: bool = False) -> Exploration:
        """What there is so far."""
        return Exploration(self.task, self.study.points(), self.study.refused, interrupted)

    def synthesize(self, show: Callable[[Point], None] | None = None, synthesis: Synthesis = uncounted) -> Exploration:
        """Let a synthesis judge the clocks of the front until all of it is modelled, or ``MOST_MODELLED`` are judged.

        A point that misses leaves the front, and comes back at the fastest slower clock that is in time, if any. An
        interruption ends it early.
        """
        interrupted = False
        try:
            for _ in range(MOST_MODELLED):
                if (point := self._not_modelled()) is None:
                    break
                if show is not None:
                    show(point)
                judged = modelled(point, synthesis)
                self.study.judge_clock(judged)
                if judged.clock == MISSED and not point.candidate.origin:
                    values = slower(point, self.task.space.clocks, synthesis)
                    if values is not None:
                        self._try_modelled(values)
                    self._revive()
        except KeyboardInterrupt:
            interrupted = True
        return self.exploration(interrupted)

    def _not_modelled(self) -> Point | None:
        best = front(self.study.points(), self.task.goal)
        return next((point for point in best if point.clock != MODELLED), None)

    def _try_modelled(self, values: Values) -> None:
        """A trial of values whose clock a synthesis found in time."""
        number = self._retry(values)
        made = next((point for point in self.study.points() if point.number == number), None)
        if made is not None:
            self.study.judge_clock(replace(made, clock=MODELLED, missed=""))

    def _revive(self) -> None:
        """Judge points that were beaten by none that is still in the front."""
        points = self.study.points()
        known = [point.candidate for point in points if not point.beaten]
        beaten = [point for point in points if point.beaten and point.candidate not in known]
        for point in sorted(beaten, key=self.task.goal.first):
            if not self.task.is_beaten(point, front(self.study.points(), self.task.goal)):
                self._retry(point.values)

    def _retry(self, values: Values) -> int:
        """One trial of these values; its number."""
        number, points = len(self.study), self.study.points()
        best, trial = front(points, self.task.goal), self.study.propose_values(values)
        self._end(trial, attempt(self.task, self._attempt(number, None, trial, points, best)), best)
        return number

    def _leading(self, points: list[Point]) -> list[Point]:
        """Points whose neighbours are worth trying: the front, the next best, and the best that lose too much."""
        goal = self.task.goal
        made = [point for point in points if not point.candidate.origin]
        best = front(made, goal)
        good = sorted(filter(goal.accepts, made), key=goal.first)
        lossy = [point for point in made if (point.figures.loss or 0.0) > goal.drop]
        return [*best, *good[:NEXT_BEST], *sorted(lossy, key=goal.first)[:MOST_LOSSY]]

    def _next(self, number: int, points: list[Point]) -> tuple[Candidate | None, Any]:
        """A ready accelerator, its like among the candidates, or what the study proposes."""
        count = len(self.ready)
        if number < count:
            return self.ready[number], self.study.propose_values(self._like(number))
        if number < 2 * count:
            return None, self.study.propose_values(self._like(number - count))
        return None, self.study.propose(number, self._leading(points))

    def _like(self, place: int) -> Values:
        """The candidate that comes closest to a ready accelerator, with all the columns that fit with the rest."""
        accelerator = load_accelerator(self.ready[place].origin)
        fastest = replace(accelerator, clock_mhz=max(accelerator.clock_mhz, self.task.space.clocks[-1]))
        return {**self.task.space.nearest(fastest), "fill": PARTS}
