"""Sums in the accumulators of DSP blocks: what they are, when others see them, and that they take nothing else."""

from __future__ import annotations

import random
import shutil

import pytest
from loop_graphs import PLACE

from bfpga.synthesis import timing_graph
from bfpga.synthesis.body import LoopBody, Opcode, Operation, Register, Stream
from bfpga.synthesis.netlist.implement import implement
from bfpga.synthesis.netlist.recording import interpreted_run
from bfpga.synthesis.netlist.simulate import Simulator, differences
from bfpga.synthesis.netlist.verilog import translate
from bfpga.synthesis.netlist.yosys import Family
from bfpga.synthesis.schedule import Clock, schedule_loop
from bfpga.synthesis.schedule_types import Schedule

PART = "xc7z020clg400-1"
#: Family, part and clock in ns.
DEVICES = [("xc7", PART, 8.0), ("xcup", "xczu7ev-ffvc1156-2-e", 5.33)]
FACTOR, OTHER, SUM = 25, 8, 40


class Summing:
    """A loop that adds products of what it reads to a register, to zero where a bit says so, and sends the sum.

    ``leaves``: the loop has an end, so that the register keeps its word in what is no iteration.
    """

    def __init__(self, binding: str = "", first: int = 0, keeps: bool = False, leaves: bool = False) -> None:
        self.body = LoopBody("sums", PLACE, 1)
        total = self.add(Opcode.STATE, SUM, register=0)
        runs = self.add(Opcode.STATE, 1, register=1) if leaves else -1
        always = self.add(Opcode.CONSTANT, 1, value=1)
        self.word = self.add(Opcode.STREAM_READ, FACTOR + OTHER + 2, always, stream=0)
        factor = self.add(Opcode.SLICE, FACTOR, self.word, value=0)
        other = self.add(Opcode.SLICE, OTHER, self.word, value=FACTOR)
        begins = self.add(Opcode.SLICE, 1, self.word, value=FACTOR + OTHER)
        ends = self.add(Opcode.SLICE, 1, self.word, value=FACTOR + OTHER + 1)
        wide = [self.add(Opcode.SEXT, FACTOR + OTHER, each) for each in (factor, other)]
        product = self.add(Opcode.MUL, FACTOR + OTHER, *wide, binding=binding)
        start = self.add(Opcode.SELECT, SUM, begins, self.add(Opcode.CONSTANT, SUM, value=first), total)
        self.sum = self.add(Opcode.ADD, SUM, start, self.add(Opcode.SEXT, SUM, product))
        kept = self.add(Opcode.SELECT, SUM, ends, self.sum, total) if keeps else self.sum
        if leaves:
            kept = self.add(Opcode.SELECT, SUM, runs, kept, total)
            self.body.leaves = self.add(Opcode.XOR, 1, runs, always)
        self.sent = self.add(Opcode.STREAM_WRITE, 0, self.sum, ends, stream=1)
        self.body.registers = [Register("total", SUM, total, kept)]
        if leaves:
            self.body.registers.append(Register("runs", 1, runs, self.add(Opcode.XOR, 1, ends, always)))
        self.body.streams = [Stream("in", FACTOR + OTHER + 2, [self.word]), Stream("out", SUM, [self.sent])]

    def add(self, opcode: Opcode, width: int, *operands: int, **more: object) -> int:
        self.body.operations.append(Operation(opcode, width, operands, place=PLACE, **more))  # type: ignore[arg-type]
        return len(self.body.operations) - 1

    def schedule(self, part: str = PART, period: float = 8.0) -> Schedule:
        return schedule_loop(self.body, part, Clock.default(period))


@pytest.mark.parametrize("leaves", [False, True])
def test_a_sum_of_products_is_seen_when_the_register_of_the_block_has_it(leaves: bool) -> None:
    summing = Summing(leaves=leaves)
    schedule = summing.schedule()
    assert [each.sum for each in schedule.accumulators] == [summing.sum]
    assert schedule.interval == 1
    assert schedule.stage[summing.sent] == schedule.stage[summing.sum] + 1


@pytest.mark.parametrize("other", [{"binding": "fabric"}, {"first": 5}, {"keeps": True}])
def test_what_no_block_accumulates_stays_outside(other: dict[str, object]) -> None:
    """A product in look-up tables, a start that is not zero, a register that keeps its word now and then."""
    assert not Summing(**other).schedule().accumulators  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("family", "part", "period"), [DEVICES[0], pytest.param(*DEVICES[1], marks=pytest.mark.slow)]
)
def test_an_accumulator_takes_a_block_and_no_more(
    family: Family, part: str, period: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tables only those that hand on a bit; without it, the addition and its selection are tables."""
    pytest.importorskip("pyosys", reason="the synthesis extra is not installed")
    summing = Summing()
    inside = summing.schedule(part, period)
    monkeypatch.setattr(timing_graph, "find_accumulators", lambda _: [])
    loops = [(summing.body, inside), (summing.body, summing.schedule(part, period))]
    made, other = implement(loops, family, processes=1)
    assert made.logic.dsp == other.logic.dsp == 1
    assert made.logic.lut < SUM / 4
    assert made.logic.ff < SUM / 4
    assert other.logic.lut >= SUM


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_netlist_with_an_accumulator_does_what_the_graph_means() -> None:
    pytest.importorskip("pyosys", reason="the synthesis extra is not installed")
    summing, draw = Summing(), random.Random(5)
    reads = [{summing.word: draw.getrandbits(FACTOR + OTHER + 2)} for _ in range(60)]
    run = interpreted_run(summing.body, [0], {}, reads)
    assert differences(Simulator(translate(summing.body, summing.schedule())), run) == []
