"""What goes into DSP blocks of either family, and that the blocks do what the graph means."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import pytest
from loop_graphs import PLACE

from bfpga.synthesis.body import LoopBody, Opcode, Operation, Register, Stream
from bfpga.synthesis.netlist.mapped import Bit, Counts, count, total
from bfpga.synthesis.netlist.recording import Run, interpreted_run
from bfpga.synthesis.netlist.simulate import Simulator, differences
from bfpga.synthesis.netlist.verilog import Design, translate
from bfpga.synthesis.netlist.yosys import Family, map_modules
from bfpga.synthesis.schedule import Clock, schedule_loop

pytest.importorskip("pyosys", reason="the synthesis extra is not installed")

DEVICES: list[tuple[Family, str, float]] = [
    ("xc7", "xc7z020clg400-1", 8.0),
    ("xcup", "xczu7ev-ffvc1156-2-e", 5.33),
]
SUM = 44


class Products:
    """A loop that sends a sum of products of what it reads, and begins one anew in a register where a bit says so.

    ``widths``: of the two factors of each product; the last product is added to the register.
    """

    def __init__(self, widths: list[tuple[int, int]]) -> None:
        self.body = LoopBody("products", PLACE, 1)
        total_ = self.add(Opcode.STATE, SUM, register=0)
        always = self.add(Opcode.CONSTANT, 1, value=1)
        self.bits = 1 + sum(one + other for one, other in widths)
        self.word = self.add(Opcode.STREAM_READ, self.bits, always, stream=0)
        place, products = 1, []
        for pair in widths:
            factors = []
            for width in pair:
                factor = self.add(Opcode.SLICE, width, self.word, value=place)
                factors.append(self.add(Opcode.SEXT, sum(pair), factor))
                place += width
            products.append(self.add(Opcode.SEXT, SUM, self.add(Opcode.MUL, sum(pair), *factors)))
        result = products[0]
        for product in products[1:-1]:
            result = self.add(Opcode.ADD, SUM, result, product)
        begins = self.add(Opcode.SLICE, 1, self.word, value=0)
        start = self.add(Opcode.SELECT, SUM, begins, self.add(Opcode.CONSTANT, SUM, value=0), total_)
        self.last = self.add(Opcode.ADD, SUM, start, products[-1])
        sent = enumerate((result, total_), 1)
        writes = [self.add(Opcode.STREAM_WRITE, 0, value, always, stream=stream) for stream, value in sent]
        self.body.registers = [Register("total", SUM, total_, self.last)]
        names = ("in", "sums", "totals")
        accesses = zip(names, (self.bits, SUM, SUM), (self.word, *writes), strict=True)
        self.body.streams = [Stream(name, bits, [access]) for name, bits, access in accesses]

    def add(self, opcode: Opcode, width: int, *operands: int, **more: int) -> int:
        self.body.operations.append(Operation(opcode, width, operands, place=PLACE, **more))
        return len(self.body.operations) - 1

    def design(self, part: str, period: float) -> Design:
        """As it is counted: registers have no port for a first value, so they begin with zero."""
        return translate(self.body, schedule_loop(self.body, part, Clock.default(period)), loads=False)

    def run(self) -> Run:
        draw = random.Random(3)
        return interpreted_run(self.body, [0], {}, [{self.word: draw.getrandbits(self.bits)} for _ in range(60)])


def mapped(design: Design, family: Family) -> tuple[Counts, list[dict[str, list[Bit]]]]:
    """Cells of a design, and the ports of its DSP blocks."""
    modules = map_modules(design.modules, family, processes=1)
    instances = [modules[instance.module] for instance in design.instances]
    blocks = [ports for module in instances for kind, ports in module.cells if kind.startswith("DSP48")]
    return total(map(count, instances)), blocks


@pytest.mark.parametrize(("family", "part", "period"), DEVICES[1:])
def test_products_their_sums_and_registers_are_inside_of_blocks(family: Family, part: str, period: float) -> None:
    """A chain of three products and an accumulator: no carry chain, and registers of products inside."""
    design = Products([(20, 8)] * 4).design(part, period)
    counts, blocks = mapped(design, family)
    assert (counts.dsp, counts.carry4) == (4, 0)
    # The words of the streams, which the blocks do not hold.
    assert counts.ff + counts.lut < 4 * 28 + 20
    modes = ["".join("s" if isinstance(bit, int) else bit for bit in reversed(ports["OPMODE"])) for ports in blocks]
    # The multiplexer Z: nothing, another block's result, or the own one unless a new sum begins.
    added = sorted(mode[-7:-4] for mode in modes)
    assert added[0] == "000"
    assert set(added[1:3]) <= {"001", "011"}
    assert added[3] == "01s"
    registers = [{port for port in ports if port.startswith("CE") and ports[port] != ["x"]} for ports in blocks]
    assert all("CEM" in used for used in registers)
    assert sum("CEA2" in used and "CEB2" in used for used in registers) >= 3
    assert all(used >= {"CEM", "CEP"} for used, mode in zip(registers, modes, strict=True) if "s" in mode)


@pytest.mark.parametrize(("family", "part", "period"), DEVICES)
def test_the_wider_factor_of_the_newer_block_is_used(family: Family, part: str, period: float) -> None:
    """27 x 18 bits are one block of UltraScale+, and two with a sum of the 7 series."""
    counts, _ = mapped(Products([(27, 18), (27, 18)]).design(part, period), family)
    assert counts.dsp == (2 if family == "xcup" else 4)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(("device", "widths"), [(DEVICES[1], [(27, 16), (30, 9), (19, 18)])])
def test_mapped_cells_do_what_the_graph_means(
    device: tuple[Family, str, float], widths: list[tuple[int, int]]
) -> None:
    """Blocks, tables, carry chains and registers, simulated; another graph is told apart."""
    (family, part, period), products = device, Products(widths)
    simulator = Simulator(products.design(part, period), family=family)
    assert differences(simulator, products.run()) == []
    operations = products.body.operations
    operations[products.last] = replace(operations[products.last], opcode=Opcode.SUB)
    assert {found.port for found in differences(simulator, products.run())} >= {"state_0"}
