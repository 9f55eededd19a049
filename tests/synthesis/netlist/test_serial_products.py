"""A wide product of code that is executed once is made digit by digit: the same product in a few DSP blocks."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from loop_bodies import BodyBuilder
from verilog_simulation import missing_tools

from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.netlist import simulate
from bfpga.synthesis.netlist.cell_arcs import whole_graph
from bfpga.synthesis.netlist.mapped import count
from bfpga.synthesis.netlist.recording import interpreted_run
from bfpga.synthesis.netlist.timing import longest_path
from bfpga.synthesis.netlist.verilog import Design, translate
from bfpga.synthesis.netlist.yosys import map_whole
from bfpga.synthesis.schedule import Clock, schedule_loop, schedule_segment

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

ZYNQ = "xc7z020clg400-1"
#: Kind of extension and bits of both factors, and bits of the product.
PRODUCTS = (
    (Opcode.ZEXT, 23, 23, 46), (Opcode.SEXT, 32, 32, 62), (Opcode.ZEXT, 17, 40, 57), (Opcode.SEXT, 18, 35, 53),
    (Opcode.SEXT, 19, 30, 49), (Opcode.ZEXT, 18, 35, 40), (Opcode.ZEXT, 62, 62, 62), (Opcode.SEXT, 36, 52, 88),
)  # fmt: skip


def body(products: tuple[tuple[Opcode, int, int, int], ...]) -> LoopBody:
    """The products of registers that change from iteration to iteration, each in a register."""
    b = BodyBuilder()
    for kind, narrow, wide, width in products:
        factors = []
        for bits in (narrow, wide):
            state = b.state(bits)
            b.follow(state, b.add(Opcode.XOR, bits, state, b.add(Opcode.MUL, bits, state, state, binding="fabric")))
            factors.append(b.add(kind, width, state) if bits < width else state)
        held = b.state(width)
        b.follow(held, b.add(Opcode.XOR, width, held, b.add(Opcode.MUL, width, *factors)))
    return b.body


def product_of_counters(bits: int) -> LoopBody:
    """A product whose factors cost next to nothing."""
    b = BodyBuilder()
    factors = [b.state(bits), b.state(bits)]
    for factor in factors:
        b.follow(factor, b.add(Opcode.XOR, bits, factor, b.add(Opcode.CONSTANT, bits, value=5)))
    b.follow(b.state(bits), b.add(Opcode.MUL, bits, *factors))
    return b.body


def design(made: LoopBody, is_once: bool) -> Design:
    schedule = (schedule_segment if is_once else schedule_loop)(made, ZYNQ, Clock(8.0, 2.16))
    assert bool(schedule.digits) == is_once
    return translate(made, schedule)


def first_words(made: LoopBody) -> Iterator[int]:
    generator = random.Random(2)
    for register in made.registers:
        # Zeros would stay zeros; ones above are a negative number.
        yield generator.getrandbits(register.width) | 1 | (generator.random() < 0.5) << register.width - 1


def test_products_are_those_of_the_graph() -> None:
    made = body(PRODUCTS)
    run = interpreted_run(made, list(first_words(made)), {}, [{}] * 30)
    assert simulate.differences(simulate.Simulator(design(made, True)), run) == []


def test_the_sum_of_a_row_of_blocks_fits_a_cycle() -> None:
    """Its products have registers: through a multiplier and along the cascade of four blocks it would be 11 ns."""
    mapped = map_whole(design(product_of_counters(62), True).verilog(), "loop")
    path = longest_path(whole_graph(mapped))
    assert path is not None
    assert path.delay < 8.0
    assert count(mapped).dsp == 4


@pytest.mark.slow
@pytest.mark.parametrize(("product", "most"), [(PRODUCTS[0], 1), (PRODUCTS[1], 2), (PRODUCTS[6], 4)])
def test_a_product_takes_a_row_of_blocks(product: tuple[Opcode, int, int, int], most: int) -> None:
    made = body((product,))
    once, pipelined = (
        count(map_whole(design(made, is_once).verilog(), "loop")).dsp for is_once in (True, False)
    )
    assert 0 < once <= most < pipelined
