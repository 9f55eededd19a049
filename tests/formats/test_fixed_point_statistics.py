"""Statistics of wide results: positions of bits, what is kept of them, merging (FP 2.2)."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from position_cases import (
    DETERMINE,
    POSITIONS,
    case_kind,
    case_values,
    highest_differing_bit,
    lowest_set_bit,
    wide_values,
)

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.wide_statistics import (
    COARSE_POSITIONS,
    StatisticsKind,
    WideStatistics,
    cleared,
    collect,
    lsb_positions,
    merge,
    nsb_positions,
)

KINDS = [
    StatisticsKind(24, nsb, lsb)
    for nsb in ("histogram", "coarse", "maximum")
    for lsb in ("none", "minimum", "histogram")
]


def state(statistics: WideStatistics) -> dict[str, Any]:
    """All numbers of a storage."""
    names = ("count", "nsb_max", "lsb_min", "nsb_histogram", "lsb_histogram")
    return {name: getattr(statistics, name).tolist() for name in names}


@pytest.mark.parametrize("case", POSITIONS, ids=lambda case: str(case["v"]))
def test_position_vectors(case: dict[str, int]) -> None:
    """FP R10, FP R48"""
    assert (int(nsb_positions(case["v"])), int(lsb_positions(case["v"]))) == (case["nsb"], case["lsb"])


@given(values=wide_values(48, min_size=1))
def test_positions_of_bits_of_any_number(values: list[int]) -> None:
    """FP R10"""
    assert nsb_positions(values).tolist() == [highest_differing_bit(value) for value in values]
    assert lsb_positions(values).tolist() == [lowest_set_bit(value) for value in values]


def test_a_value_fits_after_a_shift_exactly_when_its_highest_bit_does() -> None:
    """FP 2.2, FP R10, exhaustive: v >> s fits OW bits iff nsb <= s + OW - 2; minimal width is nsb + 2"""
    values = np.arange(-4096, 4097)
    nsb = nsb_positions(values)
    for width in range(4, 17):
        half = 1 << (width - 1)
        for shift in range(16):
            shifted = values >> shift
            np.testing.assert_array_equal(nsb <= shift + width - 2, (shifted >= -half) & (shifted < half))
    minimal = [
        next(bits for bits in range(1, 20) if -(1 << bits) <= 2 * value < 1 << bits) for value in values.tolist()
    ]
    np.testing.assert_array_equal(nsb + 2, minimal)


@pytest.mark.parametrize("case", DETERMINE, ids=lambda case: case["id"])
def test_statistics_vectors(case: dict[str, Any]) -> None:
    """FP R10, FP R49, FP R48: count, histograms, largest and smallest position"""
    assert state(collect(case_values(case), case_kind(case["cfg"]))) == {
        "count": case["stats"]["count"],
        "nsb_max": case["stats"]["nsb_max"],
        "lsb_min": -1 if not any(case_values(case)) else case["stats"]["lsb_min"],
        "nsb_histogram": case["stats"]["nsb_hist"],
        "lsb_histogram": case["stats"]["lsb_hist"],
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.nsb}-{kind.lsb}")
@settings(max_examples=drawn(30))
@given(values=wide_values(24, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4), order=st.randoms())
def test_parts_merge_to_the_same_statistics_in_any_order(
    kind: StatisticsKind, values: list[int], cuts: list[int], order: Any
) -> None:
    """FP R14: lanes and the scalar unit, split anywhere, grouped in any way"""
    edges = [0, *sorted(cuts), len(values)]
    parts = [collect(values[start:end], kind) for start, end in pairwise(edges)]
    whole = state(collect(values, kind))
    assert state(reduce(merge, parts)) == whole
    order.shuffle(parts)
    assert state(reduce(lambda total, part: merge(part, total), parts, cleared(kind))) == whole


def test_one_value_at_a_time_is_all_at_once() -> None:
    """FP R6, FP R7: a scalar unit collects what lanes collect"""
    kind, values = StatisticsKind(20, lsb="histogram"), [3, -1, 0, 512, -524288]
    assert state(reduce(merge, (collect([value], kind) for value in values))) == state(collect(values, kind))


@given(values=wide_values(32, min_size=1))
def test_a_coarse_histogram_is_the_top_of_the_whole_one(values: list[int]) -> None:
    """FP 7 (coarse histogram): 8 positions from the largest one downwards"""
    whole, coarse = (collect(values, StatisticsKind(nsb=nsb)) for nsb in ("histogram", "coarse"))
    largest = int(whole.nsb_max)
    kept = [position for position in range(32) if largest - COARSE_POSITIONS < position]
    expected = np.zeros(33, np.int64)
    expected[np.array(kept, int) + 1] = whole.nsb_histogram[np.array(kept, int) + 1]
    np.testing.assert_array_equal(coarse.nsb_histogram, expected)
    assert (coarse.nsb_max, coarse.count) == (whole.nsb_max, whole.count)


def test_a_cleared_storage_has_seen_nothing() -> None:
    """FP R15: the same as statistics of no value"""
    for kind in KINDS:
        assert state(cleared(kind)) == state(collect(np.zeros(0, np.int64), kind))
        assert cleared(kind).total == 0
    assert state(cleared(KINDS[0], 3)) == state(collect(np.zeros((0, 3), np.int64), KINDS[0], per_channel=True))


def test_channels_have_statistics_of_their_own() -> None:
    """FP 2.1 (granularity channel), FP R14"""
    kind = StatisticsKind(lsb="minimum")
    wide = np.random.default_rng(4).integers(-(1 << 30), 1 << 30, (5, 7, 3)) >> np.array([0, 9, 25])
    together = collect(wide, kind, per_channel=True)
    for channel in range(3):
        alone = collect(wide[..., channel], kind)
        assert {name: value[channel] for name, value in state(together).items()} == state(alone)


def test_wide_results_that_do_not_fit_are_refused() -> None:
    """FP R8: statistics of wrapped numbers would be those of other numbers"""
    collect([32767, -32768], StatisticsKind(16))
    for value in (32768, -32769):
        with pytest.raises(DataError, match="a wide result needs 17 bits, acc_width is 16"):
            collect([0, value], StatisticsKind(16))


@pytest.mark.parametrize("value", [2**63 - 1, 2**62, -(2**63)])
def test_the_widest_integers_are_refused_too(value: int) -> None:
    """FP R8: a result that filled the 64 bits it was computed in is not taken for a small one."""
    assert nsb_positions(value) == 62
    with pytest.raises(DataError, match="needs 64 bits"):
        collect([value, 1], StatisticsKind(48))


def test_statistics_of_different_kinds_do_not_merge() -> None:
    """FP R14"""
    with pytest.raises(ConfigurationError, match="cannot be merged"):
        merge(cleared(StatisticsKind(16)), cleared(StatisticsKind(24)))


@pytest.mark.parametrize(("arguments", "message"), [
    ({"acc_width": 49}, "acc_width is 49; a whole number from 16 to 48"),
    ({"nsb": "hist"}, "statistics.nsb is 'hist'; one of histogram, coarse, maximum"),
    ({"lsb": True}, "statistics.lsb is True; one of none, minimum, histogram"),
])  # fmt: skip
def test_kinds_that_do_not_exist_are_refused(arguments: dict[str, Any], message: str) -> None:
    """FP 2.2"""
    with pytest.raises(ConfigurationError, match=message):
        StatisticsKind(**arguments)
