"""Blocks of a memory follow from its words, bits and binding."""

from __future__ import annotations

import pytest
from loop_graphs import PLACE

from bfpga.engines.interface.resource_units import half_blocks
from bfpga.estimate.hardware import Area
from bfpga.synthesis.body import LoopBody, Memory
from bfpga.synthesis.delays import technology_of
from bfpga.synthesis.memories import memories_area, memory_area

ZYNQ = technology_of("xc7z020clg400-1")


@pytest.mark.parametrize(
    ("words", "bits", "blocks"),
    [(512, 36, 1), (512, 37, 2), (1024, 18, 1), (4096, 16, 4), (4097, 4, 2), (16384, 1, 1), (8192, 16, 8)],
)
def test_block_memories_take_the_shape_with_the_fewest_blocks(words: int, bits: int, blocks: int) -> None:
    assert half_blocks(words, bits) == blocks


def test_bits_that_carry_nothing_take_no_block() -> None:
    memory = Memory("sums", 512, 64, implementation="bram", bits=36)
    assert memory_area(memory, ZYNQ, 1) == Area(bram18=1)


def test_look_up_tables_hold_bound_memories() -> None:
    assert memory_area(Memory("slots", 64, 32, implementation="lutram"), ZYNQ, 1) == Area(lut_memory=44)
    assert memory_area(Memory("slots", 32, 32, implementation="lutram"), ZYNQ, 1) == Area(lut_memory=24)


def test_a_table_read_at_many_places_is_there_several_times() -> None:
    table = Memory("curve", 257, 16, implementation="bram", initial=tuple(range(257)))
    assert memory_area(table, ZYNQ, 2) == Area(bram18=1)
    assert memory_area(table, ZYNQ, 6) == Area(bram18=3)


def test_tables_without_a_name_of_their_own_are_told_apart_by_their_words() -> None:
    """Sigmoid and tanh are one behind the other, however many loops read them; two of other shapes are apart."""
    sigmoid, tanh = (Memory("[0]", 257, 16, implementation="bram", initial=(k,) * 257) for k in (1, 2))
    bodies = [LoopBody(name, PLACE, 1, memories=[sigmoid, tanh]) for name in ("rows", "words")]
    assert memories_area(bodies, ZYNQ) == Area(bram18=1)
    other = Memory("[0]", 1024, 18, implementation="bram", initial=(3,) * 1024)
    assert memories_area([*bodies, LoopBody("more", PLACE, 1, memories=[other])], ZYNQ) == Area(bram18=2)
