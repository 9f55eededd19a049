"""Operations that begin late: a product waits as its factors, and no interval, depth or value changes."""

from __future__ import annotations

import pytest
from loop_graphs import PLACE

from bfpga.synthesis import schedule
from bfpga.synthesis.body import LoopBody, Opcode, Operation, Register
from bfpga.synthesis.netlist.pipeline import Pipeline
from bfpga.synthesis.schedule import Clock, schedule_loop

PART = "xc7z020clg400-1"


def chain(lanes: int = 4) -> LoopBody:
    """total = ((one * w0 + one * w1) + one * w2) + ..., a sum a clock; every factor is loop-carried."""
    body = LoopBody("chain", PLACE, 1)

    def add(opcode: Opcode, width: int, *operands: int, **more: int) -> int:
        body.operations.append(Operation(opcode, width, operands, place=PLACE, **more))
        return len(body.operations) - 1

    factors = [add(Opcode.STATE, 8, register=k) for k in range(lanes + 1)]
    wide = [add(Opcode.SEXT, 24, factor) for factor in factors]
    products = [add(Opcode.MUL, 24, wide[0], factor) for factor in wide[1:]]
    total = products[0]
    for product in products[1:]:
        total = add(Opcode.ADD, 24, total, product)
    body.registers += [Register(f"f{k}", 8, factor, factors[k - 1]) for k, factor in enumerate(factors)]
    body.outputs = [total]
    return body


def row_bits(body: LoopBody, clock: Clock) -> tuple[int, int]:
    """Bits of registers in which products wait, and depth of the schedule."""
    scheduled = schedule_loop(body, PART, clock)
    pipeline = Pipeline(body, scheduled)
    bits = 0
    for index, operation in enumerate(body.operations):
        if operation.opcode is Opcode.ADD:
            for operand in operation.operands:
                if body.operations[operand].opcode is Opcode.MUL:
                    bits += 24 * pipeline.age(operand, pipeline.stage(index))
    return bits, scheduled.depth


def test_products_of_a_chain_do_not_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    # At 5 ns every sum of the chain has a clock of its own, and its product arises in the clock before or in this one.
    clock = Clock.default(5.0)
    bits, depth = row_bits(chain(), clock)
    monkeypatch.setattr(schedule, "delayed_starts", lambda *_: {})
    early_bits, early_depth = row_bits(chain(), clock)
    assert depth == early_depth
    assert bits <= 2 * 24 < 4 * 24 <= early_bits
