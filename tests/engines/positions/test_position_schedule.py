"""How large the sample is as training goes on (FP R31, R32)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import load_vectors

from bfpga.engines.positions.sampling import SampleFraction
from bfpga.engines.positions.schedule import (
    BY_ACCURACY,
    BY_ITERATION,
    BY_SPREAD,
    Progress,
    SampleSchedule,
    histogram_spread,
)
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import FloatArray

SCHEDULE: dict[str, Any] = load_vectors("fixed_point_control.json")["schedule"]


@pytest.mark.parametrize("lookup", SCHEDULE["lookups"], ids=lambda lookup: str(lookup["iteration"]))
def test_vectors(lookup: dict[str, Any]) -> None:
    """FP R31: 8/8, 4/8, 2/8 and 1/8 in the groups that begin at 0, 100, 300 and 1000 iterations."""
    schedule = SampleSchedule.parse("iteration", SCHEDULE["boundaries"], SCHEDULE["fractions"])
    assert schedule == BY_ITERATION
    assert str(schedule.fraction(Progress(iteration=lookup["iteration"]))) == lookup["fraction"]


@pytest.mark.parametrize(
    ("accuracy", "fraction"),
    [
        (None, "8/8"),
        (0.0, "8/8"),
        (0.49, "8/8"),
        (0.5, "4/8"),
        (0.8, "2/8"),
        (0.949, "2/8"),
        (0.95, "1/8"),
        (1.0, "1/8"),
    ],
)
def test_by_accuracy(accuracy: float | None, fraction: str) -> None:
    """FP R32: the better the network, the smaller the sample; all of it before the first measurement."""
    assert str(BY_ACCURACY.fraction(Progress(iteration=5000, accuracy=accuracy))) == fraction


@pytest.mark.parametrize(
    ("spread", "fraction"), [(None, "8/8"), (0, "1/8"), (2, "1/8"), (3, "2/8"), (4, "4/8"), (5, "8/8"), (12, "8/8")]
)
def test_by_spread(spread: float | None, fraction: str) -> None:
    """FP R32: the heavier the tail, the larger the sample."""
    assert str(BY_SPREAD.fraction(Progress(iteration=5000, spread=spread))) == fraction


@given(st.lists(st.integers(-4, 40) | st.integers(-(2**31), 2**31 - 1), max_size=60))
def test_spread_is_largest_against_median_magnitude(values: list[int]) -> None:
    """FP R32: counted value by value; results of 0 and -1 have no magnitude."""
    positions = sorted((value if value >= 0 else ~value).bit_length() - 1 for value in values)
    histogram = np.bincount(np.array(positions, int) + 1, minlength=33)
    known = [position for position in positions if position >= 0]
    median = known[(len(known) - 1) // 2] if known else 0
    assert histogram_spread(histogram) == (known[-1] - median if known else None)


def test_heavy_tails_are_wide() -> None:
    """FP R32: normal numbers get 1/8 or 2/8, heavy tails more than that."""

    def sample(values: FloatArray) -> Fraction:
        wide = np.rint(values * 4096).astype(np.int64)
        position = np.frexp(np.where(wide >= 0, wide, ~wide).astype(float))[1] - 1
        spread = histogram_spread(np.bincount(position + 1, minlength=41))
        return BY_SPREAD.fraction(Progress(spread=spread)).value

    generator = np.random.default_rng(5)
    assert sample(generator.uniform(-1, 1, 4096)) == Fraction(1, 8)
    assert sample(generator.normal(0, 1, 4096)) <= Fraction(2, 8)
    assert sample(generator.standard_t(2, 4096)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("iteration", (100, 100), ("1/1", "1/2", "1/4")), "ascending"),
        (("iteration", (100, float("nan")), ("1/1", "1/2", "1/4")), "ascending"),
        (("iteration", (100,), ("1/2",)), "1 limits make 2 groups"),
        (("time", (), ("1/2",)), "one of iteration, accuracy, spread"),
        (("iteration", (), ("0/8",)), "the sample is 0/8"),
    ],
)
def test_mistakes_are_named(arguments: Any, message: str) -> None:
    """FP R31."""
    with pytest.raises(ConfigurationError, match=message):
        SampleSchedule.parse(*arguments)


def test_without_limits_the_sample_is_always_the_same() -> None:
    """FP R31."""
    assert SampleSchedule.parse("iteration", (), ("1/5",)).fraction(Progress(10**6)) == SampleFraction(1, 5)
