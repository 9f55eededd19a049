"""Figures of a synthesis, judged against a board."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bfpga.estimate.hardware import (
    Area,
    HardwareFigures,
    IntervalLimit,
    LoopFigures,
    WholePath,
    findings,
)

BOARD = {"dsp": 220, "bram36": 140, "lut": 53200, "ff": 106400}


def loop(**changes: object) -> LoopFigures:
    """A loop that is as it states."""
    plain = LoopFigures("Rows", "code.hpp:7", 1, 1, 4, 0.4, ("code.hpp:9",), 100, 64, (), Area(lut=900, ff=400, dsp=2))
    return replace(plain, **changes)  # type: ignore[arg-type]


def figures(*loops: LoopFigures, counted: bool = True) -> HardwareFigures:
    """Figures of a kernel with these loops, a memory and some infrastructure."""
    memories, beside = Area(bram18=3), Area(lut=100, ff=200)
    return HardwareFigures("one", "xc7z020clg400-1", {}, 10.0, 7.3, loops, memories, beside, counted)


def test_a_kernel_as_it_states_has_no_findings() -> None:
    assert findings(figures(loop()), BOARD) == []


def test_the_gate_counts_every_core() -> None:
    """A third of the board fits twice, and not three times within what may be routed."""
    one = figures(loop(area=Area(lut=17_000, dsp=60)))
    assert findings(one, BOARD) == findings(replace(one, cores=2), BOARD) == []
    (found,) = findings(replace(one, cores=3), BOARD)
    assert found == "LUT: 51,100 of 53,200 (96 %), above 80 %"


def test_a_slow_loop_is_found_with_the_circle_that_makes_it_slow() -> None:
    limit = IntervalLimit("recurrence", 3, "sum", 21.5, 1, ("code.hpp:9", "code.hpp:12"))
    (found,) = findings(figures(loop(interval=3, limits=(limit,))), BOARD)
    assert found == (
        "Rows (code.hpp:7): interval 3, stated 1; sum: 21.5 ns from one iteration to the next: "
        "code.hpp:9 -> code.hpp:12"
    )


def test_too_few_ports_are_found_with_their_accesses() -> None:
    limit = IntervalLimit("ports", 2, "line", 0.0, 0, ("code.hpp:9", "code.hpp:10"))
    (found,) = findings(figures(loop(interval=2, limits=(limit,))), BOARD)
    assert "line is accessed more often in an iteration than it has ports: code.hpp:9 -> code.hpp:10" in found


def test_a_path_beyond_the_clock_is_found() -> None:
    (found,) = findings(figures(loop(slack=-0.25)), BOARD)
    assert "misses the clock by 0.25 ns, through code.hpp:9" in found


def test_a_path_of_a_mapped_ip_that_is_longer_than_the_clock_is_found() -> None:
    """Of its loops, or of all of it where that is known: what stands between the loops is among it then."""
    one = replace(figures(loop(path=9.5, ip="post")), memories_of={"post": Area()})
    assert findings(one, BOARD) == []
    (found,) = findings(replace(one, period=9.0), BOARD)
    assert found == "post: the longest path takes 9.50 ns of 9.00, in Rows (code.hpp:7)"
    whole = replace(one, whole_paths={"post": WholePath(10.25, "exponent[3]", "at[0]")})
    (found,) = findings(whole, BOARD)
    assert found == "post: the longest path takes 10.25 ns of 10.00, from `exponent[3]` to `at[0]`"


@pytest.mark.parametrize(
    ("area", "text"),
    [
        (Area(lut=42_500), "LUT: 42,600 of 53,200 (80 %)"),
        (Area(lut_memory=43_000), "LUT: 43,100 of 53,200 (81 %)"),
        (Area(ff=86_000), "FF: 86,200 of 106,400 (81 %)"),
        (Area(dsp=221), "DSP: 221 of 220 (100 %), above 100 %"),
        (Area(bram18=258), "BRAM36: 130 of 140 (93 %), above 92 %"),
    ],
)
def test_more_than_a_routed_design_may_use_is_found(area: Area, text: str) -> None:
    (found,) = findings(figures(loop(area=area)), BOARD)
    assert found.startswith(text)
    assert findings(figures(loop(area=area), counted=False), BOARD) == []


def test_an_ip_counts_whole_where_it_was_mapped_whole() -> None:
    """Its loops and memories are in it; of another IP they are all that is known."""
    loops = (loop(ip="array"), loop(ip="store", area=Area(lut=50)))
    memories = {"array": Area(bram18=2), "store": Area(bram18=1)}
    both = replace(
        figures(*loops), sources={"array": "", "store": ""}, memories_of=memories, streams=Area(lut=7),
        wholes={"array": Area(lut=1500, ff=600, dsp=2, bram18=2)},
    )  # fmt: skip
    array, store = both.ips
    assert (array.is_whole, array.area) == (True, Area(lut=1500, ff=600, dsp=2, bram18=2))
    assert (store.is_whole, store.area) == (False, Area(lut=50, bram18=1))
    assert both.total == array.area + store.area + both.streams + both.infrastructure
    assert findings(replace(both, wholes={"array": Area(lut=43_000)}), BOARD) != []
