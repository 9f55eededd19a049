"""Wide registers are read, not passed by, where the schedule stays as short and as slack as it was."""

from __future__ import annotations

import pytest
from loop_graphs import PLACE

from bfpga.synthesis import schedule
from bfpga.synthesis.body import LoopBody, Opcode, Operation, Register, Stream
from bfpga.synthesis.netlist.pipeline import Pipeline
from bfpga.synthesis.schedule import Clock, schedule_loop

PART = "xc7z020clg400-1"
WIDTH, LANES = 24, 176


def kept(*behind: Opcode) -> LoopBody:
    """Registers keep a sum now and then; what one of four has is sent, ``behind`` other operations."""
    body = LoopBody("kept", PLACE, 1)
    body.streams.append(Stream("in", WIDTH))

    def add(opcode: Opcode, width: int, *operands: int, **more: int) -> int:
        body.operations.append(Operation(opcode, width, operands, place=PLACE, **more))
        return len(body.operations) - 1

    states = [add(Opcode.STATE, WIDTH, register=lane) for lane in range(LANES)]
    always = add(Opcode.CONSTANT, 1, value=1)
    word = add(Opcode.STREAM_READ, WIDTH, always, stream=0)
    keeps, sends = add(Opcode.SLICE, 1, word, value=0), add(Opcode.SLICE, 1, word, value=1)
    factor = add(Opcode.SLICE, 12, word, value=2)
    total = add(Opcode.ADD, WIDTH, add(Opcode.ZEXT, WIDTH, add(Opcode.MUL, 12, factor, factor)), word)
    body.streams[0].accesses.append(word)
    for lane, state in enumerate(states):
        body.registers.append(Register(f"kept[{lane}]", WIDTH, state, add(Opcode.SELECT, WIDTH, keeps, total, state)))
    for lane in range(0, LANES, 4):
        # A selection of selections: moved one by one, each would wait in more registers.
        halves = [add(Opcode.SELECT, WIDTH, sends, *states[begin : begin + 2]) for begin in (lane, lane + 2)]
        sent = add(Opcode.SELECT, WIDTH, keeps, *halves)
        for opcode in behind:
            sent = add(opcode, WIDTH, *([sends] if opcode is Opcode.SELECT else []), sent, word)
        send = add(Opcode.STREAM_WRITE, 0, add(Opcode.XOR, WIDTH, sent, total), always, stream=1 + lane // 4)
        body.streams.append(Stream(f"out_{lane}", WIDTH, [send]))
    return body


def reads(body: LoopBody) -> tuple[set[int], int, float]:
    """How old kept values are where they are used, 0 in the clock in which they arise; depth and slack."""
    scheduled = schedule_loop(body, PART, Clock.default(8.0))
    pipeline = Pipeline(body, scheduled)
    following = {register.next for register in body.registers}
    ages = {
        pipeline.age(operand, scheduled.stage[index])
        for index, operation in enumerate(body.operations) if index not in following
        for operand in operation.operands if body.operations[operand].opcode is Opcode.STATE
    }  # fmt: skip
    return ages, scheduled.depth, scheduled.slack


def test_a_register_is_read_where_nothing_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ages, depth, slack = reads(body := kept())
    monkeypatch.setattr(schedule, "bypassed_variables", lambda *_: [])
    early, early_depth, early_slack = reads(body)
    assert 0 in early
    assert ages == {1}
    assert depth == early_depth
    assert slack >= early_slack


def test_a_register_is_passed_by_where_the_loop_would_be_deeper(monkeypatch: pytest.MonkeyPatch) -> None:
    ages, depth, _ = reads(body := kept(Opcode.ADD, Opcode.MUL))
    monkeypatch.setattr(schedule, "bypassed_variables", lambda *_: [])
    assert (ages, depth) == reads(body)[:2]
    assert 0 in ages
