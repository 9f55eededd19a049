"""Fixed-point positions for tests: statistics and rules in plain Python integers, and the cases of the vectors."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from reference import load_vectors

from bfpga.formats.fixed_point import FixedPointFormat
from bfpga.formats.position_rules import PositionRule
from bfpga.formats.wide_statistics import StatisticsKind

DETERMINE = load_vectors("fixed_point_determine.json")["cases"]
POSITIONS = load_vectors("fixed_point_primitives.json")["positions"]
FLOWS = load_vectors("fixed_point_flows.json")


def case_values(case: dict[str, Any]) -> list[int]:
    """Values of a case, which some list as runs of [value, length]."""
    return case.get("values") or [value for value, length in case["runs"] for _ in range(length)]


def case_format(cfg: dict[str, Any]) -> FixedPointFormat:
    return FixedPointFormat(cfg["OW"], cfg["AW"], cfg["round"], cfg["sat"])


def case_kind(cfg: dict[str, Any]) -> StatisticsKind:
    return StatisticsKind(cfg["AW"], lsb="histogram")


def case_rule(cfg: dict[str, Any]) -> PositionRule:
    return PositionRule(cfg["rule"], cfg["rate_log2"], cfg["margin"], cfg["smin"], cfg["smax"])


def highest_differing_bit(value: int) -> int:
    """By definition: the bits of a sign-extended number, from the top."""
    bits = [value >> bit & 1 for bit in range(64)]
    return next((bit for bit in reversed(range(63)) if bits[bit] != bits[63]), -1)


def lowest_set_bit(value: int) -> int:
    """By definition."""
    return next((bit for bit in range(64) if value >> bit & 1), -1)


def fits(value: int, width: int) -> bool:
    return -(1 << width - 1) <= value < 1 << width - 1


def expected_shift(values: list[int], rule: PositionRule, width: int) -> int:
    """The rules as sentences, by trying shifts. FP 2.3"""
    if all(value in (0, -1) for value in values):
        return 0
    lowest = min(lowest_set_bit(value) for value in values if value)
    largest = next(
        s for s in range(-width + 2, 64) if all(fits(value >> s if s > 0 else value << -s, width) for value in values)
    )
    if rule.rule == "max":
        shift = largest
    elif rule.rule == "rate":
        candidates = range(max(rule.shift_min, -(width - 2)), largest + 1)
        shift = next((s for s in candidates if _saturating(values, s, width) << rule.rate_log2 <= len(values)), largest)
    else:
        shift = lowest if rule.rule == "lsb" or lowest >= largest else largest
    return min(max(shift + rule.margin, rule.shift_min), rule.shift_max)


def _saturating(values: list[int], shift: int, width: int) -> int:
    return sum(not fits(value >> shift if shift > 0 else value << -shift, width) for value in values)


def wide_values(width: int, **limits: int) -> st.SearchStrategy[list[int]]:
    """Lists of numbers of ``width`` bits, of all magnitudes, with their extremes."""
    high = (1 << width - 1) - 1
    sized = st.integers(0, width - 1).flatmap(lambda bits: st.integers(-(1 << bits), (1 << bits) - 1))
    return st.lists(st.one_of(sized, st.sampled_from([0, -1, high, -high - 1])), **limits)


RULES = st.builds(
    PositionRule,
    rule=st.sampled_from(["max", "rate", "lsb", "window"]),
    rate_log2=st.integers(0, 14),
    margin=st.integers(0, 2),
    shift_min=st.integers(-8, 0),
    shift_max=st.integers(16, 31),
)
