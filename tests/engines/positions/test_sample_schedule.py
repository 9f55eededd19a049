"""How the share of measured outputs changes from iteration to iteration (FP 3.5)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import load_vectors

from bfpga.engines.positions.sample_schedule import Progress, SampleSchedule, spread
from bfpga.errors import ConfigurationError

SCHEDULE: dict[str, Any] = load_vectors("fixed_point_control.json")["schedule"]


@pytest.mark.parametrize("lookup", SCHEDULE["lookups"], ids=lambda lookup: lookup["iteration"])
def test_the_schedule_of_the_specification(lookup: dict[str, Any]) -> None:
    """FP R31: 100, 50, 25 and 12.5 % in groups of iterations; the group begins with its boundary."""
    periods = tuple(int(1 / Fraction(text)) for text in SCHEDULE["fractions"])
    schedule = SampleSchedule(tuple(SCHEDULE["boundaries"]), periods)
    assert schedule == SampleSchedule()
    assert Fraction(1, schedule.period(Progress(lookup["iteration"]))) == Fraction(lookup["fraction"])


@pytest.mark.parametrize(
    ("accuracy", "period"), [(None, 1), (0.0, 1), (0.49, 1), (0.5, 2), (0.89, 2), (0.9, 8), (1.0, 8)]
)
def test_a_table_by_accuracy(accuracy: float | None, period: int) -> None:
    """FP R32: the better the network, the less is measured; the most while nothing is known, whatever the iteration."""
    schedule = SampleSchedule((0.5, 0.9), (1, 2, 8), "accuracy")
    assert schedule.period(Progress(5000, accuracy)) == period


@pytest.mark.parametrize(("bits", "period"), [(None, 1), (0, 8), (2, 8), (3, 4), (4, 1), (9, 1)])
def test_a_table_by_spread(bits: int | None, period: int) -> None:
    """FP R32: the wider the histogram, the more is measured."""
    assert SampleSchedule((3, 4), (8, 4, 1), "spread").period(Progress(5000, 0.99, bits)) == period


def test_an_iteration_keeps_what_it_did_not_measure() -> None:
    """FP R32: accuracy is measured once an epoch, and holds until the next time."""
    progress = Progress().after(accuracy=0.7).after(spread=3).after()
    assert progress == Progress(3, 0.7, 3)


@given(st.lists(st.integers(-128, 127), max_size=40))
def test_spread_is_the_distance_from_median_to_largest_position(values: list[int]) -> None:
    """FP R32: of the histogram of highest bits, which values without one are not in."""
    positions = sorted((value if value >= 0 else ~value).bit_length() - 1 for value in values)
    positions = [position for position in positions if position >= 0]
    expected = positions[-1] - positions[len(positions) // 2] if positions else 0
    assert spread(np.array(values, np.int8)) == expected


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (((1, 2), (1, 2)), "2 periods for 2 boundaries; one more is needed"),
        (((2, 1), (1, 2, 4)), r"boundaries of the schedule are \[2, 1\]; they must ascend"),
        (((float("nan"),), (1, 2)), "they must ascend"),
        (((1,), (1, 65)), "period 65 of the schedule is not between 1 and 64"),
        (((1,), (0.5, 2)), "period 0.5 of the schedule is not between"),
        (((1,), (1, 2), "loss"), "schedule.by"),
    ],
)
def test_tables_that_do_not_answer_are_refused(table: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        SampleSchedule(*table)
