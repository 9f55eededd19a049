"""Points that no other point beats, which of them is the best for an objective, and which is to be recommended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from bfpga.errors import ConfigurationError
from bfpga.estimate.advice import TIE
from bfpga.explore.figures import Figures, Point

#: Standard deviations of a loss that chance may explain.
CHANCE = 2.0
Objective = Literal["throughput", "latency", "energy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


@dataclass(frozen=True)
class Goal:
    """What is looked for. objective: what the best point has the best of. drop: points of accuracy that may be lost."""

    objective: Objective = "throughput"
    drop: float = 0.5

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ConfigurationError(f"objective {self.objective!r} is unknown; known are {', '.join(OBJECTIVES)}")
        if not 0 <= self.drop <= 100:
            raise ConfigurationError(f"accuracy drop {self.drop} is not between 0 and 100 points")

    def time(self, figures: Figures) -> float:
        """Seconds that are to be few: of a sample in a stream, or of one alone."""
        return figures.latency if self.objective == "latency" else figures.seconds

    def costs(self, figures: Figures) -> tuple[float, float, float]:
        """Time, energy and lost accuracy, all to be small; better than float is as good as float."""
        return self.time(figures), figures.joules, max(figures.loss or 0.0, 0.0)

    def first(self, point: Point) -> tuple[float, float]:
        """Orders points, the best first."""
        time, joules, _ = self.costs(point.figures)
        return (joules, time) if self.objective == "energy" else (time, joules)

    def beats(self, point: Point, other: Point) -> bool:
        """Whether a point leaves no reason for another: it costs no more, and a plainer one is no tie either."""
        if not dominates(self.costs(point.figures), self.costs(other.figures)):
            return False
        plainer = other.candidate.plainness < point.candidate.plainness
        return not plainer or self.leads(point, other)

    def leads(self, point: Point, other: Point) -> bool:
        """Whether a point is better than another by more than a tie."""
        return self.first(point)[0] < (1 - TIE) * self.first(other)[0]

    def accepts(self, point: Point) -> bool:
        """Whether a point fits, loses no more accuracy than it may, and no synthesis contradicts its clock."""
        if point.beaten or point.clock == "missed":
            return False
        return point.excess <= 0 and (point.figures.loss or 0.0) <= self.drop


def by_chance(points: Iterable[Point], best: Sequence[Point], goal: Goal) -> Point | None:
    """The best of the points that would lead by more than a tie, were their loss smaller by what is chance; or None.

    best: the front that they would lead.
    """

    def lucky(point: Point) -> Point:
        loss = (point.figures.loss or 0.0) - CHANCE * point.figures.spread
        return replace(point, figures=replace(point.figures, loss=loss))

    leading = [point for point in points if not best or goal.leads(point, best[0])]
    chosen = [point for point in leading if not goal.accepts(point) and goal.accepts(lucky(point))]
    return min(chosen, key=goal.first, default=None)


def dominates(costs: Sequence[float], others: Sequence[float]) -> bool:
    """Whether nothing of ``costs`` is larger than in ``others`` and something smaller."""
    return all(a <= b for a, b in zip(costs, others, strict=True)) and tuple(costs) != tuple(others)


def front(points: Iterable[Point], goal: Goal) -> list[Point]:
    """Accepted points that none beats, the best for the objective first; of equal ones that tried first."""
    accepted = sorted(filter(goal.accepts, points), key=lambda point: point.number)
    result: list[Point] = []
    for point in accepted:
        costs = goal.costs(point.figures)
        if any(goal.costs(other.figures) == costs for other in result):
            continue
        if not any(goal.beats(other, point) for other in accepted):
            result.append(point)
    return sorted(result, key=goal.first)


def ties(best: Sequence[Point], goal: Goal) -> list[Point]:
    """The points of a front that are as good as its first within a tie, the one to be recommended first.

    That is the plainest, and of those as plain the one with the fewest look-up tables.
    """
    tied = [point for point in best if not goal.leads(best[0], point)]
    return sorted(tied, key=lambda point: (*point.candidate.plainness, point.figures.used["lut"]))
