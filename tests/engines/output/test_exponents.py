"""How exponents are chosen and learned (BFP 3.2, R23-R38): policy registers against exact references."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import load_vectors, reference_magnitude, reference_statistics, select_exponent
from strategies import FORMATS

from bfpga.contract.descriptor import Policy
from bfpga.engines.output.exponents import (
    PolicyRegisters,
    format_exponent,
    magnitudes,
    predicted_sum,
    statistics_lead,
)
from bfpga.formats.block_format import BlockFormat, Status

FMT = BlockFormat(16)


@pytest.mark.parametrize("case", load_vectors("bfp_statistics.json")["cases"], ids=lambda case: case["id"])
def test_statistics_vectors(case: dict[str, Any]) -> None:
    """R26, R27"""
    window = np.array(case["window"])
    s1, s2 = int(window.sum()), int(window @ window)
    assert (s1, s2) == (case["s1"], case["s2"])
    assert predicted_sum(s1, s2, len(window), case["k_quarters"]) == case["y"]
    assert statistics_lead(s1, s2, len(window), case["k_quarters"], case["unit_exp"]) == case["lead"]
    if case["lead"] is not None:
        assert format_exponent(case["lead"], FMT)[0] == case["e_mw16"]


@settings(deadline=None, max_examples=drawn(200))
@given(
    window=st.lists(st.integers(0, 2**18), min_size=1, max_size=50),
    factor=st.sampled_from([0, 4, 8, 10, 12, 16]),
    unit=st.integers(-20, 20),
)
def test_statistics_equal_the_definition_for_any_window(window: list[int], factor: int, unit: int) -> None:
    """R26, R27: integer rule = floor(log2(mean + k sigma)), also for windows that are no power of two."""
    s1, s2 = sum(window), sum(v * v for v in window)
    assert statistics_lead(s1, s2, len(window), factor, unit) == reference_statistics(window, factor, unit)


@settings(deadline=None, max_examples=drawn(100))
@given(fmt=FORMATS, v=st.lists(st.integers(-(2**57), 2**57 - 1), min_size=1, max_size=5), shift=st.integers(-80, 80))
def test_measured_magnitudes_see_overflows(fmt: BlockFormat, v: list[int], shift: int) -> None:
    """R26, BFP 4.2: rounded to the output's unit before saturation."""
    result = magnitudes(np.array(v), np.array([shift]), 3, fmt)
    assert result.tolist() == [reference_magnitude(value, shift, 3, fmt) for value in v]


def learn_statistics(registers: PolicyRegisters, values: list[int], e4: int, log_window: int, factor: int = 12) -> int:
    return registers.learn(
        Policy.STATISTICS, 0, e4, window=log_window, factor=factor, lead=None, drained=np.array(values, np.int64)
    )


@settings(deadline=None, max_examples=drawn(150))
@given(
    layers=st.lists(st.lists(st.integers(0, 2**15), max_size=40), min_size=1, max_size=6),
    log_window=st.integers(0, 5),
    factor=st.sampled_from([4, 12, 13]),
)
def test_tumbling_windows_equal_value_by_value_execution(layers: list[list[int]], log_window: int, factor: int) -> None:
    """R26-R28, R37: windows run on across layers; the last full one counts; a new exponent clears an open one."""
    registers = PolicyRegisters(1, FMT)
    e4, window = -5, []
    for values in layers:
        exponent, status = e4, 0
        for value in values:
            window.append(value)
            if len(window) == 1 << log_window:
                lead = reference_statistics(window, factor, e4)
                largest = Fraction(0) if lead is None else Fraction(2) ** lead
                exponent, status = select_exponent(largest, FMT)
                window = []
        if exponent != e4:
            window = []
        assert learn_statistics(registers, values, e4, log_window, factor) == status
        slot = registers.slots[0]
        assert (slot.exponent, slot.count, slot.s1) == (exponent, len(window), sum(window))
        assert slot.s2 == sum(value * value for value in window)
        e4 = exponent


def test_full_precision_windows_do_not_overflow() -> None:
    """R27: N = 8192 of the largest magnitudes of 18-bit mantissas."""
    registers = PolicyRegisters(1, BlockFormat(18))
    learn_statistics(registers, [2**20 - 1] * 8192, 0, 13)
    assert registers.slots[0].exponent == 19 - 16


def test_first_run_measures_and_later_runs_predict() -> None:
    """R38, R31: an unused slot needs the block's maximum, a preset one its preset, a used one its prediction."""
    registers = PolicyRegisters(2, FMT)
    assert registers.needs_lead(Policy.STATISTICS, 0, preset=False)
    assert not registers.needs_lead(Policy.STATISTICS, 0, preset=True)
    assert registers.choose(Policy.STATISTICS, 0, 99, False, 3) == (-11, 0)
    assert registers.choose(Policy.STATISTICS, 0, 99, True, None) == (99, 0)
    learn_statistics(registers, [10] * 4, -11, 2)
    assert registers.in_use(0)
    assert not registers.needs_lead(Policy.STATISTICS, 0, preset=False)
    assert registers.choose(Policy.STATISTICS, 0, 99, True, None) == (3 - 11 - 14, 0)
    assert not registers.in_use(1)
    registers.reset()
    assert not registers.in_use(0)


def test_static_and_maximum_keep_nothing() -> None:
    """R23, R24"""
    registers = PolicyRegisters(1, FMT)
    assert registers.choose(Policy.STATIC, 0, -3, False, 100) == (-3, 0)
    assert registers.choose(Policy.MAX, 0, -3, False, 0) == (-14, 0)
    assert registers.choose(Policy.MAX, 0, -3, True, None) == (-128, Status.ZERO_BLOCK)
    assert registers.choose(Policy.MAX, 0, 0, False, 200) == (127, Status.EXPONENT_HIGH)
    assert registers.choose(Policy.MAX, 0, 0, False, -200) == (-128, Status.EXPONENT_LOW)
    assert registers.learn(Policy.MAX, 0, -3, window=0, factor=0, lead=1) == 0
    assert not registers.in_use(0)


def test_rolling_maximum_looks_at_the_last_leads() -> None:
    """R29: sequence test; blocks of zeros count as no lead."""
    registers = PolicyRegisters(1, FMT)
    exponents, status = [], []
    for lead in [2, 7, None, 3, None, None, None]:
        status.append(registers.learn(Policy.ROLLING_MAX, 0, 0, window=3, factor=0, lead=lead))
        exponents.append(registers.slots[0].exponent)
    assert exponents == [-12, -7, -7, -7, -11, -11, -128]
    assert status == [0] * 6 + [Status.ZERO_BLOCK]
    for lead in range(10, 0, -1):
        registers.learn(Policy.ROLLING_MAX, 0, 0, window=8, factor=0, lead=lead)
    assert registers.slots[0].exponent == 8 - 14


def test_feedback_moves_by_one_step() -> None:
    """R33"""
    registers = PolicyRegisters(1, FMT)

    def step(e4: int, lead: int | None, overflows: int) -> int:
        assert registers.learn(Policy.FEEDBACK, 0, e4, window=0, factor=2, lead=lead, overflows=overflows) == 0
        return registers.slots[0].exponent

    assert step(-5, 12, 3) == -4  # too many overflows
    assert step(-5, 12, 2) == -5  # tolerated; the lead lies above the mantissa
    assert step(-5, 9, 0) == -5  # the mantissa is full
    assert step(-5, 8, 0) == -6  # a bit is unused
    assert step(-5, None, 0) == -5  # zeros teach nothing
    assert step(127, 200, 99) == 127
    assert step(-128, -150, 0) == -128


def test_slots_are_independent() -> None:
    """R40"""
    registers = PolicyRegisters(3, FMT)
    registers.learn(Policy.ROLLING_MAX, 1, 0, window=1, factor=0, lead=5)
    assert [registers.in_use(slot) for slot in range(3)] == [False, True, False]
