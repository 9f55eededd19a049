"""The clock of the logic, from registers as UG585 and UG1087 describe them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfpga.board.clock import CLOCK_REGISTERS, close_to, nearest_divisors, read_clock, set_clock

ZYNQ7, ZYNQMP = CLOCK_REGISTERS["zynq7"], CLOCK_REGISTERS["zynqmp"]
#: 50 MHz times 20; dividers 7 and 1, source IO PLL.
PYNQ_Z2 = {0xF8000108: 20 << 12, 0xF8000170: 1 << 20 | 7 << 8}
#: 33.333 MHz times 90 halved; dividers 15 and 1, source IOPLL, clock on.
ZCU104 = {0xFF5E0020: 90 << 8 | 1 << 16, 0xFF5E00C0: 1 << 24 | 1 << 16 | 15 << 8}


def test_the_clock_of_a_zynq_7000_is_pll_by_both_dividers() -> None:
    assert read_clock(ZYNQ7, PYNQ_Z2.__getitem__) == pytest.approx(1000 / 7)


def test_the_clock_of_a_zynq_ultrascale_halves_the_pll_where_its_bit_says_so() -> None:
    assert read_clock(ZYNQMP, ZCU104.__getitem__) == pytest.approx(33.333 * 45 / 15)
    whole = ZCU104 | {0xFF5E0020: 45 << 8}
    assert read_clock(ZYNQMP, whole.__getitem__) == pytest.approx(33.333 * 45 / 15)


def test_the_memory_pll_passes_the_divider_between_the_domains() -> None:
    values = {0xFF5E00C0: 1 << 16 | 5 << 8 | 3, 0xFD1A002C: 60 << 8 | 1 << 16, 0xFD1A004C: 2 << 8}
    assert read_clock(ZYNQMP, values.__getitem__) == pytest.approx(33.333 * 30 / 2 / 5)


@pytest.mark.parametrize("control", [1 << 16 | 5 << 8 | 1, 0])
def test_registers_that_make_no_clock_give_none(control: int) -> None:
    assert read_clock(ZYNQMP, (ZCU104 | {0xFF5E00C0: control}).__getitem__) is None


@given(mhz=st.sampled_from([50.0, 100.0, 125.0, 142.857, 166.667, 200.0, 250.0]))
def test_a_clock_that_is_set_reads_back(mhz: float) -> None:
    values = dict(PYNQ_Z2)
    set_clock(ZYNQ7, values.__getitem__, values.__setitem__, mhz)
    assert close_to(read_clock(ZYNQ7, values.__getitem__), mhz)


def test_a_pll_that_runs_from_another_reference_has_no_known_rate() -> None:
    other = ZCU104 | {0xFF5E0020: ZCU104[0xFF5E0020] | 4 << 20}
    assert read_clock(ZYNQMP, other.__getitem__) is None


def test_setting_leaves_source_and_enable_alone() -> None:
    values = dict(ZCU104)
    set_clock(ZYNQMP, values.__getitem__, values.__setitem__, 50.0)
    assert values[0xFF5E00C0] >> 24 == 1
    assert values[0xFF5E00C0] & 7 == 0


def test_a_reserved_source_is_not_touched() -> None:
    values = ZCU104 | {0xFF5E00C0: 1}
    before = dict(values)
    set_clock(ZYNQMP, values.__getitem__, values.__setitem__, 100.0)
    assert values == before


def test_divisors_are_the_nearest_there_are() -> None:
    assert nearest_divisors(1000.0, 142.857) == (7, 1)
    assert nearest_divisors(1000.0, 10.0) == (50, 2)


def test_one_percent_is_close() -> None:
    assert close_to(101.0, 100.0)
    assert not close_to(101.1, 100.0)
    assert not close_to(None, 100.0)
