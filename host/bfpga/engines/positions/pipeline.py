"""Statistics and main pass on circuits of their own, as a pipeline over layers: how long it takes (FP 3.7, 6).

The preceding side computes the sample of one layer after the other and sends positions; the main side follows it. Four
arrangements of circuits are known, each with the sample that keeps both sides equally busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bfpga.errors import ConfigurationError


@dataclass(frozen=True)
class StageTimes:
    """Time of every layer on the preceding and on the main side, in one unit. ``ConfigurationError`` if they differ in
    length, if there is none, or for a time below 0."""

    preceding: tuple[float, ...]
    main: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.preceding) != len(self.main) or not self.main:
            raise ConfigurationError(
                f"{len(self.preceding)} preceding and {len(self.main)} main times; every layer needs one of both"
            )
        if not min(*self.preceding, *self.main) >= 0:
            raise ConfigurationError(f"times of layers are {self}; 0 or more are needed")

    @property
    def sequential(self) -> float:
        """One circuit after the other."""
        return sum(self.preceding) + sum(self.main)

    @property
    def makespan(self) -> float:
        """Both sides at once, the preceding one as far ahead as it gets. FP R41.

        The largest over k of what comes before and at layer k on the preceding, at and after it on the main side.
        """
        preceding, main = np.array(self.preceding), np.array(self.main)
        return (np.cumsum(preceding) + np.cumsum(main[::-1])[::-1]).max().item()  # type: ignore[no-any-return]

    @property
    def overhead(self) -> float:
        """What finding the positions adds to the main side's work."""
        return self.makespan - sum(self.main)

    @property
    def hidden(self) -> bool:
        """Whether every layer's statistics are ready before the main side needs them, those of the first one excepted;
        the overhead is then the first preceding time. FP R41."""
        return all(wanted <= busy for wanted, busy in zip(self.preceding[1:], self.main, strict=False))

    @property
    def lockstep(self) -> float:
        """Both sides step to the next layer together: one longest layer more. FP R41."""
        return (len(self.main) + 1) * max(*self.preceding, *self.main)

    def repeated(self, iterations: int) -> StageTimes:
        """The same layers again and again; the preceding side goes on with the next iteration."""
        return StageTimes(self.preceding * iterations, self.main * iterations)


@dataclass(frozen=True)
class Embodiment:
    """An arrangement of circuits. FP R37-R40.

    preceding, main: what each side computes in a unit of time, in circuits of full size. keeps: wide results of the
    sample move to the main side, which converts them and computes the rest only; else it computes everything.
    """

    number: int
    what: str
    preceding: Fraction
    main: Fraction
    keeps: bool

    @property
    def balanced_fraction(self) -> Fraction:
        """Sample for which both sides take the same time, conversion not counted. FP 6."""
        return self.preceding / (self.preceding + self.main if self.keeps else self.main)

    def stage_times(
        self, work: Sequence[float], fraction: float | Fraction, conversion: Sequence[float] = ()
    ) -> StageTimes:
        """Times of the layers on both sides.

        work: time of each layer on one circuit of full size. fraction: share that is sampled, above 0. conversion: what
        fetching and converting *all* wide results of each layer takes on the main side; nothing unless given.
        With a share of 1 a main side that keeps does nothing but convert. FP R44.
        """
        if not 0 < fraction <= 1:
            raise ConfigurationError(f"the sampled fraction is {fraction}; a share above 0 and up to 1 is needed")
        layers = np.array(work, np.float64)
        extra = np.array(conversion, np.float64) if len(conversion) else np.zeros_like(layers)
        if len(extra) != len(layers):
            raise ConfigurationError(f"{len(layers)} layers, but {len(extra)} times of conversion")
        share, preceding, main = float(fraction), float(self.preceding), float(self.main)
        computed = (1 - share) * layers / main + share * extra if self.keeps else layers / main
        return StageTimes(tuple((share * layers / preceding).tolist()), tuple(computed.tolist()))


#: Arrangements by their numbers in the specification; small circuits have a quarter of the power.
EMBODIMENTS = {
    embodiment.number: embodiment
    for embodiment in (
        Embodiment(6, "1 of 4 circuits precedes 3", Fraction(1), Fraction(3), False),
        Embodiment(7, "a small accelerator precedes 2 large ones", Fraction(1, 4), Fraction(2), False),
        Embodiment(8, "3 circuits precede, 1 converts and computes the rest", Fraction(3), Fraction(1), True),
        Embodiment(9, "2 large accelerators precede, a small one converts", Fraction(2), Fraction(1, 4), True),
    )
}
