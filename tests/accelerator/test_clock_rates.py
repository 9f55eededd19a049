"""Clocks of the logic: the nearest that dividers make, and a refusal with the nearest possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfpga.accelerator.boards import load_boards
from bfpga.accelerator.clocks import (
    LARGEST_DIVIDER,
    PLL_MHZ,
    TOLERANCE,
    clock_problem,
    clock_setting,
    speed_grade,
    wire_percent,
)
from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import fitting_boards
from bfpga.contract.processes import process_kind
from bfpga.errors import ConfigurationError

SYSTEMS = st.sampled_from(sorted(PLL_MHZ))


def every_clock(system: str) -> set[float]:
    """What two dividers can make of the PLL, by trying all."""
    dividers = range(1, LARGEST_DIVIDER + 1)
    return {PLL_MHZ[system] / (first * second) for first in dividers for second in dividers}


@given(SYSTEMS, st.floats(1, 1000))
def test_the_setting_is_the_nearest_of_all(system: str, mhz: float) -> None:
    nearest = min(abs(clock - mhz) for clock in every_clock(system))
    if nearest > TOLERANCE * mhz:
        with pytest.raises(ConfigurationError, match="clock_mhz: is"):
            clock_setting(system, mhz)
        return
    setting = clock_setting(system, mhz)
    assert abs(setting.actual_mhz - mhz) == nearest
    assert setting.divisor1 <= setting.divisor0 <= LARGEST_DIVIDER


@given(SYSTEMS, st.floats(1, 1000))
def test_the_clocks_of_a_refusal_are_neighbours_and_are_accepted(system: str, mhz: float) -> None:
    problem = clock_problem(system, mhz, 25, 333)
    if not problem:
        return
    named = [float(word) for word in problem.rsplit(": ", 1)[1].split(" and ") if word != "none"]
    possible = {float(f"{clock:.6g}") for clock in every_clock(system) if 25 <= clock <= 333}
    assert set(named) <= possible
    assert not any(min(named) < clock < max(named) for clock in possible)
    assert [clock for clock in named if clock < mhz] + [clock for clock in named if clock > mhz] == named
    assert [clock_problem(system, clock) for clock in named] == [""] * len(named)


@pytest.mark.parametrize(
    ("system", "mhz", "low", "high", "nearest"),
    [
        ("zynq7", 171.3, 25, 200, "166.667 and 200"),
        ("zynq7", 190, 25, 195, "166.667"),
        ("zynqmp", 200, 25, 333, "187.5 and 214.286"),
        ("zynqmp", 330, 310, 333, "none"),
    ],
)
def test_a_refusal_names_clocks_of_the_board_only(
    system: str, mhz: float, low: float, high: float, nearest: str
) -> None:
    assert clock_problem(system, mhz, low, high).endswith(f"the nearest possible: {nearest}")


def test_every_board_has_a_default_that_can_be_made() -> None:
    for board in load_boards():
        assert clock_setting(board.processing_system, board.clock_default).actual_mhz <= board.clock_max


def test_numbered_ips_leave_what_their_kind_leaves_for_wires() -> None:
    assert [process_kind(name) for name in ("gather_12", "unit_0", "step_maker", "post", "")] == [
        "gather", "unit", "step_maker", "post", "",
    ]  # fmt: skip
    assert wire_percent("zynqmp", "gather_3") == wire_percent("zynqmp", "gather") != wire_percent("zynqmp", "unit_3")


def test_wires_take_more_of_a_fast_clock_on_ultrascale_plus() -> None:
    """Least where the tool's own delays are longest, as those of low voltage are."""
    low_voltage = load_accelerator("kv260_dense").wire_percent("post")
    fast = load_accelerator("zcu104_three_cores")
    slow = replace(fast, clock_mhz=187.5)
    assert fast.wire_percent("post") > low_voltage == slow.wire_percent("post")
    assert load_accelerator("pynq_z2_dense").wire_percent("post") < slow.wire_percent("post")


def test_a_device_of_a_slower_grade_does_not_get_an_accelerator_at_the_clock_of_a_faster_one() -> None:
    parts = ["xczu3eg-sbva484-1-i", "xck26-sfvc784-2LV-c", "xczu7ev-ffvc1156-2-e"]
    assert sorted(parts, key=speed_grade) == parts
    assert speed_grade("xc7z020clg400-1") == 1
    fast, low_voltage = (fitting_boards(load_accelerator(name)) for name in ("aup_zu3_static", "kv260_dense"))
    assert not {"ultra96_v2", "kv260"} & {board.name for board in fast}
    assert "zcu104" in {board.name for board in low_voltage}
