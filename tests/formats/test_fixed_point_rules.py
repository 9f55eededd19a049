"""From statistics to the shift: the rules max, rate, lsb, window, margin and limits (FP 2.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from position_cases import DETERMINE, RULES, case_format, case_kind, case_rule, case_values, expected_shift, wide_values

from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Int64Array
from bfpga.formats.fixed_point import FixedPointFormat, convert
from bfpga.formats.position_rules import PositionRule, select_shift
from bfpga.formats.wide_statistics import COARSE_POSITIONS, StatisticsKind, cleared, collect

FULL = StatisticsKind(lsb="histogram")


@pytest.mark.parametrize("case", DETERMINE, ids=lambda case: case["id"])
def test_selection_vectors(case: dict[str, Any]) -> None:
    """FP R17, FP R12, FP R48: the shift, the narrow results and how many of them saturate"""
    values, cfg = case_values(case), case["cfg"]
    shift = int(select_shift(collect(values, case_kind(cfg)), case_rule(cfg), cfg["OW"]))
    narrow = convert(values, shift, case_format(cfg))
    assert (shift, narrow.saturated) == (case["shift"], case["saturated"])
    if "out" in case:
        assert narrow.mantissa.tolist() == case["out"]


@given(values=wide_values(32, min_size=1, max_size=40), rule=RULES, width=st.integers(4, 16))
def test_rules_do_what_they_say(values: list[int], rule: PositionRule, width: int) -> None:
    """FP R17: against shifts that are tried one by one"""
    assert select_shift(collect(values, FULL), rule, width) == expected_shift(values, rule, width)


@given(values=wide_values(32, min_size=1, max_size=40), copies=st.integers(1, 5000), r=st.integers(0, 16))
def test_rate_allows_one_value_in_so_many_to_saturate(values: list[int], copies: int, r: int) -> None:
    """FP 2.3: 2**r times the values beyond the range are no more than all values, and a smaller shift breaks that"""
    data = np.array(values + [1] * copies)
    rule = PositionRule(rate_log2=r)
    shift = int(select_shift(collect(data, FULL), rule, 8))

    def beyond(s: int) -> int:
        limit = 128 * 2.0**s
        return int(np.count_nonzero((data < -limit) | (data >= limit)))

    assert beyond(shift) << r <= len(data)
    assert shift == -6 or beyond(shift - 1) << r > len(data)


@given(values=wide_values(24, min_size=1), symmetric=st.booleans())
@example(values=[-128], symmetric=True)
def test_max_saturates_only_by_a_carry_of_the_rounding(values: list[int], symmetric: bool) -> None:
    """FP 2.3: 127.5 becomes 128, and in a symmetric format all that rounds to -128 becomes -127"""
    shift = int(select_shift(collect(values, FULL), PositionRule("max"), 8))
    narrow = convert(values, shift, FixedPointFormat(saturation="sym" if symmetric else "full"))
    carries = [value for value in values if shift > 0 and 2 * value >= 255 << shift]
    lowest = np.count_nonzero(convert(values, shift, FixedPointFormat()).mantissa == -128)
    assert narrow.saturated == len(carries) + lowest * symmetric


@given(values=wide_values(32, min_size=1), r=st.integers(0, 16))
def test_a_coarse_histogram_selects_as_the_whole_one_within_its_positions(values: list[int], r: int) -> None:
    """FP 7: the same shift, unless outliers stand out by more than eight bits"""
    rule = PositionRule(rate_log2=r)
    whole, coarse = (collect(values, StatisticsKind(nsb=nsb)) for nsb in ("histogram", "coarse"))
    lowest = int(whole.nsb_max) - COARSE_POSITIONS - 6
    wanted = int(select_shift(whole, rule, 8))
    expected = wanted if whole.nsb_max < 0 else int(rule.clamp(np.int64(max(wanted, lowest))))
    assert select_shift(coarse, rule, 8) == expected


@given(values=wide_values(32), rule=RULES)
def test_less_statistics_serve_the_rules_that_need_no_more(values: list[int], rule: PositionRule) -> None:
    """FP 7 (`stats: hist | max`): the same shift"""
    kind = StatisticsKind(nsb="histogram" if rule.rule == "rate" else "maximum", lsb="minimum")
    assert select_shift(collect(values, kind), rule, 8) == select_shift(collect(values, FULL), rule, 8)


@pytest.mark.parametrize("rule", ["max", "rate", "lsb", "window"])
def test_nothing_seen_keeps_the_grid_of_the_accumulator(rule: Any) -> None:
    """FP 2.3: also with a margin; FP R15 after a clear"""
    for data in ([], [0, 0], [0, -1, -1]):
        assert select_shift(collect(np.array(data, int), FULL), PositionRule(rule, margin=1), 8) == 0
    assert select_shift(cleared(FULL), PositionRule(rule), 8) == 0


@pytest.mark.parametrize("copies", [1, 4096, 1 << 20])
def test_rate_never_shifts_ones_further_left_than_the_sign_bit(copies: int) -> None:
    """FP 2.3: not below -(OW - 2), however rare the ones are"""
    data = np.zeros(copies + 1, np.int64)
    data[0] = 1
    assert select_shift(collect(data, FULL), PositionRule(), 8) == -6


@pytest.mark.parametrize(("value", "rule", "width", "shift"), [
    (2**30, PositionRule("max", shift_max=16), 8, 16),
    (2**30, PositionRule("max", margin=3), 4, 31),
    (3, PositionRule("max"), 16, -8),
    (3, PositionRule("max", shift_min=-2), 8, -2),
    (3, PositionRule("max", margin=2), 8, -3),
    (3 << 12, PositionRule("lsb"), 8, 12),
    (3 << 12, PositionRule("lsb", margin=1), 8, 13),
])  # fmt: skip
def test_margin_and_limits(value: int, rule: PositionRule, width: int, shift: int) -> None:
    """FP 2.3: the margin comes after the rule, the limits after the margin"""
    assert select_shift(collect([value], FULL), rule, width) == shift


def test_every_channel_gets_a_shift_of_its_own() -> None:
    """FP 2.1 (granularity channel), FP R17"""
    wide = np.random.default_rng(5).integers(-(1 << 30), 1 << 30, (900, 4)) >> np.array([0, 5, 22, 62])
    rule = PositionRule(rate_log2=7)
    shifts = select_shift(collect(wide, FULL, per_channel=True), rule, 8)
    assert shifts.tolist() == [int(select_shift(collect(column, FULL), rule, 8)) for column in wide.T]
    assert len(set(shifts.tolist())) == 4


def test_rules_without_their_statistics_are_refused() -> None:
    """FP 7: `rate` needs a histogram"""
    with pytest.raises(ConfigurationError, match=r"rule is rate, but statistics\.nsb is maximum"):
        select_shift(cleared(StatisticsKind(nsb="maximum")), PositionRule(), 8)
    for rule in ("lsb", "window"):
        with pytest.raises(ConfigurationError, match=f"rule is {rule}, but statistics.lsb is none"):
            select_shift(cleared(StatisticsKind()), PositionRule(rule), 8)  # type: ignore[arg-type]


@pytest.mark.parametrize(("arguments", "message"), [
    ({"rule": "mean"}, "rule is 'mean'; one of max, rate, lsb, window"),
    ({"rate_log2": 32}, "rate_log2 is 32; a whole number from 0 to 31"),
    ({"margin": -1}, "margin is -1; a whole number from 0 to 15"),
    ({"shift_min": -9}, "shift_min is -9; a whole number from -8 to 31"),
    ({"shift_min": 5, "shift_max": 4}, "shift_min is 5; a whole number from -8 to 4"),
    ({"shift_max": 32}, "shift_max is 32; a whole number from -8 to 31"),
])  # fmt: skip
def test_rules_that_do_not_exist_are_refused(arguments: dict[str, Any], message: str) -> None:
    """FP 2.3"""
    with pytest.raises(ConfigurationError, match=message):
        PositionRule(**arguments)


#: Mean signal to noise ratio in dB of each rule, and of the best possible shift (FP 2.3). Drawn in this order.
DECIBELS = {
    "gaussian": {"max": 37.3, 14: 37.7, 12: 38.4, 10: 39.0, 8: 38.5, "best": 39.0},
    "laplace": {"max": 32.1, 14: 34.2, 12: 34.2, 10: 33.8, 8: 31.7, "best": 34.3},
    "relu": {"max": 37.7, 14: 38.4, 12: 38.7, 10: 38.8, 8: 37.6, "best": 38.9},
    "student": {"max": 26.4, 14: 26.9, 12: 28.6, 10: 25.1, 8: 21.5, "best": 29.2},
}


def random_numbers(generator: np.random.Generator, name: str) -> np.ndarray:
    if name == "laplace":
        return generator.laplace(0, 1, 20000)
    if name == "student":
        return generator.standard_t(4, 20000)
    normal = generator.normal(0, 1, 20000)
    return np.maximum(normal, 0) if name == "relu" else normal


def decibels(wide: Int64Array, shift: int) -> float:
    """Signal to noise ratio of the narrow results."""
    error = convert(wide, shift, FixedPointFormat()).mantissa.astype(float) * 2.0**shift - wide
    return float(10 * np.log10(np.mean(wide.astype(float) ** 2) / np.mean(error**2)))


def selected(column: int | str, wide: Int64Array) -> int:
    """Shift of a column of the table."""
    rule = PositionRule(rate_log2=column) if isinstance(column, int) else PositionRule("max")
    return int(select_shift(collect(wide, StatisticsKind()), rule, 8))


def test_signal_to_noise_ratio_of_the_rules() -> None:
    """FP 2.3: the table, with the random numbers of the specification, over one octave of scales"""
    generator = np.random.default_rng(9)
    for name, wanted in DECIBELS.items():
        found = []
        for step in range(16):
            wide = np.rint(random_numbers(generator, name) * 2 ** (12 + step / 16)).astype(np.int64)
            ratio = {shift: decibels(wide, shift) for shift in range(2, 16)}
            found.append([*(ratio[selected(column, wide)] for column in list(wanted)[:-1]), max(ratio.values())])
        means = np.mean(found, axis=0)
        np.testing.assert_allclose(means, list(wanted.values()), atol=0.06)
        assert means[-1] - means[list(wanted).index(12)] < 0.75
