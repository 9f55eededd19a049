"""Schedules: they respect all that they must, they are as short as they can be, and they name what limits them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_bodies import BodyBuilder, histogram

from bfpga.errors import ToolError
from bfpga.synthesis.body import LoopBody, Opcode, Waiver
from bfpga.synthesis.delays import Delays, technology_of
from bfpga.synthesis.dependences import find_dependences
from bfpga.synthesis.frontend.kernel import analyse_source
from bfpga.synthesis.ports import port_groups
from bfpga.synthesis.schedule import Clock, schedule_loop
from bfpga.synthesis.schedule_types import Limit, Schedule
from bfpga.vendor.clang import find_clang

ZYNQ = "xc7z020clg400-1"
CALIBRATION = Path(__file__).parents[2] / "benchmarks" / "synthesis"
PITFALLS = Path(__file__).parent / "pitfalls.cpp"
_BINARY = (Opcode.ADD, Opcode.SUB, Opcode.AND, Opcode.XOR, Opcode.MUL)


def has_clang() -> bool:
    try:
        return bool(find_clang())
    except ToolError:
        return False


needs_clang = pytest.mark.skipif(not has_clang(), reason="no clang with exact integers")


@st.composite
def bodies(draw: st.DrawFn) -> LoopBody:
    """Random bodies with registers, three memories and a stream."""
    b = BodyBuilder()
    kinds = st.sampled_from(("auto", "ram_1p", "ram_s2p", "ram_2p"))
    memories = [b.memory(64, 16, ports=draw(kinds)) for _ in range(3)]
    stream = b.stream(16)
    conditions = [b.always, b.invariant(1, "condition")]
    conditions.append(b.invert(conditions[1]))
    states = [b.state(16, f"state{k}") for k in range(draw(st.integers(1, 3)))]
    counter = b.counter(6)
    values = [*states, b.constant(5, 16)]
    pick = st.integers(0, 10**6)

    def value() -> int:
        return values[-1 - draw(pick) % min(len(values), 6)]

    def address() -> int:
        return counter if draw(st.booleans()) else b.add(Opcode.SLICE, 6, value(), value=0)

    for _ in range(draw(st.integers(3, 22))):
        kind, enable = draw(st.integers(0, 9)), conditions[draw(pick) % 3]
        if kind < 4:
            values.append(b.add(draw(st.sampled_from(_BINARY)), 16, value(), value()))
        elif kind == 4:
            condition = b.add(Opcode.SLT, 1, value(), value())
            values.append(b.add(Opcode.SELECT, 16, condition, value(), value()))
        elif kind < 7:
            values.append(b.read(memories[draw(pick) % 3], address(), enable))
        elif kind < 9:
            b.write(memories[draw(pick) % 3], address(), value(), enable)
        else:
            values.append(b.receive(stream, enable))
    for state in states:
        b.follow(state, value())
    b.send(stream, value())
    b.body.leaves = b.add(Opcode.EQ, 1, counter, b.constant(63, 6))
    return b.body


@settings(max_examples=drawn(60), deadline=None)
@given(bodies(), st.sampled_from((4.0, 6.0, 10.0)))
def test_a_schedule_respects_operands_clocks_edges_and_ports(body: LoopBody, period: float) -> None:
    clock = Clock.default(period)
    schedule = schedule_loop(body, ZYNQ, clock)
    delays = Delays(body, technology_of(ZYNQ), clock.usable)
    # What no one uses is not built.
    built = delays.groups.live
    check_operands(body, schedule, delays, clock.usable)
    check_edges(body, schedule, built)
    check_ports(body, schedule, built)
    assert schedule.interval >= max((limit.interval for limit in schedule.limits), default=1)


def check_operands(body: LoopBody, schedule: Schedule, delays: Delays, usable: float) -> None:
    """No operation begins before its operands are there, and none goes beyond its clock unless it alone does."""
    for index, operation in enumerate(body.operations):
        timing = delays.timing(index)
        start = schedule.stage[index]
        for operand in operation.operands:
            assert schedule.stage[operand] + schedule.latency[operand] <= start
        begins = max(
            (schedule.arrival[source] for source in delays.groups.sources[index]
             if schedule.stage[source] + schedule.latency[source] == start), default=0.0,
        )  # fmt: skip
        assert begins + timing.first <= usable + 1e-6 or begins == 0.0
        if timing.latency == 0:
            assert schedule.arrival[index] >= begins + timing.first - 1e-6


def check_edges(body: LoopBody, schedule: Schedule, built: list[bool]) -> None:
    for edge in find_dependences(body).edges:
        if not (built[edge.source] and built[edge.target]):
            continue
        source = schedule.stage[edge.source]
        if edge.kind not in ("memory", "stream"):
            source += schedule.latency[edge.source]
        assert schedule.stage[edge.target] + schedule.interval * edge.distance >= source + edge.clocks, edge


def check_ports(body: LoopBody, schedule: Schedule, built: list[bool]) -> None:
    """In no clock of an interval are there more accesses than ports, those apart that may share one."""
    may_share = find_dependences(body).may_share
    for group in port_groups(body):
        for slot in range(schedule.interval):
            there = [access for access in group.accesses
                     if built[access] and schedule.stage[access] % schedule.interval == slot]  # fmt: skip

            def together(turn: list[int], access: int) -> bool:
                return all(schedule.stage[o] == schedule.stage[access] and may_share(o, access) for o in turn)

            assert fewest_turns(there, together) <= group.count, (group, slot)


def fewest_turns(accesses: list[int], together: Callable[[list[int], int], bool]) -> int:
    """Fewest sets into which the accesses fall so that all of a set may be together."""

    def cover(left: list[int], turns: list[list[int]]) -> int:
        if not left:
            return len(turns)
        first, rest = left[0], left[1:]
        fitting = [k for k, turn in enumerate(turns) if together(turn, first)]
        choices = [cover(rest, [*turns[:k], [*turns[k], first], *turns[k + 1 :]]) for k in fitting]
        return min([*choices, cover(rest, [*turns, [first]])])

    return cover(accesses, [])


@pytest.mark.parametrize(("waivers", "interval"), [((), 3), ((Waiver("inter", "RAW"),), 1)])
def test_a_histogram_waits_for_its_bins_unless_it_says_that_it_need_not(
    waivers: tuple[Waiver, ...], interval: int
) -> None:
    body, read, new, write = histogram(*waivers)
    schedule = schedule_loop(body, ZYNQ, Clock.default(10))
    assert schedule.interval == interval
    if not waivers:
        assert schedule.limits[0] == Limit("recurrence", 3, "bins (RAW)", (read, new, write), pytest.approx(9.06), 1)


def test_an_accumulator_of_integers_runs_at_every_clock_and_one_of_floats_does_not() -> None:
    for opcode, name, interval in ((Opcode.ADD, "", 1), (Opcode.FLOAT, "fadd", 4)):
        b = BodyBuilder()
        total = b.state(32, "total")
        grown = b.add(opcode, 32, total, b.receive(b.stream(32)), name=name)
        b.follow(total, grown)
        b.body.outputs.append(grown)
        schedule = schedule_loop(b.body, ZYNQ, Clock.default(10))
        assert schedule.interval == interval
        recurrences = [limit.subject for limit in schedule.limits if limit.reason == "recurrence"]
        assert recurrences == ["total"] * (interval > 1)


def test_chained_steps_on_carried_state_lengthen_the_interval() -> None:
    b = BodyBuilder()
    state = b.state(32, "carried")
    value = state
    chain = []
    for _ in range(3):
        value = b.add(Opcode.SUB, 32, value, b.receive(b.stream(32)))
        chain.append(value)
        condition = b.add(Opcode.SLT, 1, value, b.invariant(32, "limit"))
        value = b.add(Opcode.SELECT, 32, condition, value, b.invariant(32, "limit"))
    b.follow(state, value)
    b.body.outputs.append(value)
    schedule = schedule_loop(b.body, ZYNQ, Clock.default(10))
    limit = schedule.limits[0]
    assert (schedule.interval, limit.subject) == (3, "carried")
    assert set(chain) <= set(limit.cycle)
    # Three times 2.55 + 2.47 ns and the last selection, 0.70 ns: the others are in the LUTs of the next subtraction.
    assert limit.delay == pytest.approx(3 * (2.552 + 2.47) + 0.698)


def test_an_operation_that_fits_no_clock_has_negative_slack() -> None:
    b = BodyBuilder()
    total = b.add(Opcode.ADD, 64, b.receive(b.stream(64)), b.receive(b.stream(64)))
    b.send(b.stream(64), total)
    schedule = schedule_loop(b.body, ZYNQ, Clock(4.0, 1.08))
    assert schedule.slack == pytest.approx(2.92 - 3.52)
    assert schedule.worst == (total,)


def test_the_worst_path_is_the_chain_in_one_clock() -> None:
    b = BodyBuilder()
    x, y = b.receive(b.stream(16)), b.receive(b.stream(16))
    condition = b.add(Opcode.SLT, 1, x, y)
    least = b.add(Opcode.SELECT, 16, condition, x, y)
    total = b.add(Opcode.MUL, 16, least, least)
    b.send(b.stream(16), total)
    schedule = schedule_loop(b.body, ZYNQ, Clock.default(16))
    assert (schedule.depth, schedule.worst[-3:]) == (1, (condition, least, total))


def test_an_iteration_waits_for_the_exit() -> None:
    b = BodyBuilder()
    memory = b.memory(1024, 16)
    word = b.read(memory, b.counter(10))
    b.body.leaves = b.add(Opcode.EQ, 1, word, b.constant(0, 16))
    b.send(b.stream(16), word)
    schedule = schedule_loop(b.body, ZYNQ, Clock.default(10))
    assert schedule.interval == 2
    assert schedule.limits[0].subject == "exit"


def test_the_default_uncertainty_is_the_tools_and_a_stated_one_is_taken() -> None:
    assert Clock.default(10).usable == pytest.approx(7.3)
    assert Clock.default(8, "vivado_hls").usable == pytest.approx(7.0)
    assert Clock(10, 1.0).usable == 9.0


@cache
def pitfalls() -> dict[str, LoopBody]:
    return {body.name: body for body in analyse_source(PITFALLS).loops}


@needs_clang
@pytest.mark.parametrize(
    ("loop", "reason", "interval"),
    [("histogram", "recurrence", 3), ("two_reads", "ports", 2), ("chained_accumulators", "recurrence", 2),
     ("variable_bank", "ports", 2), ("float_sum", "recurrence", 4)],
)  # fmt: skip
def test_pitfalls_are_found_on_their_lines(loop: str, reason: str, interval: int) -> None:
    marked = [
        number for number, line in enumerate(PITFALLS.read_text().split("\n"), 1) if re.search(rf"FOUND {loop}$", line)
    ]
    body = pitfalls()[loop]
    schedule = schedule_loop(body, ZYNQ, Clock.default(10))
    limit = schedule.limits[0]
    lines = [place.line for index in limit.cycle if (place := body.operations[index].place) is not None]
    assert (limit.reason, limit.interval) == (reason, interval)
    assert schedule.interval >= interval > body.stated_interval
    assert marked[0] in lines


#: The tool keeps two writes apart that never meet; ours proves that they do not.
BETTER = {"copy_ends"}


def published_loops(*kernels: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Loops of the calibration's table in files of kernels/, each with its source."""
    content = yaml.safe_load((CALIBRATION / "published.yaml").read_text(encoding="utf-8"))
    loops = [loop for loop in content["loops"] if loop["kernel"] in kernels and loop["loop"] not in BETTER]
    return [(loop, content["sources"][loop["source"]]) for loop in loops]


@cache
def calibration_bodies(kernel: str) -> dict[str, LoopBody]:
    return {body.name: body for body in analyse_source(CALIBRATION / "kernels" / f"{kernel}.cpp").loops}


@needs_clang
@pytest.mark.parametrize(("loop", "source"), published_loops("grids", "scatter"), ids=lambda it: it.get("loop", ""))
def test_published_intervals_are_ours(loop: dict[str, Any], source: dict[str, Any]) -> None:
    body = calibration_bodies(loop["kernel"])[loop["loop"]]
    forwards = loop.get("forwards", source["forwards"])
    schedule = schedule_loop(body, source["part"], Clock.default(source["clock"]), forwards)
    assert schedule.interval == loop["interval"]
