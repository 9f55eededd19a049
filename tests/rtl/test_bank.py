"""A memory in Verilog that is deeper than blocks side by side is made of pieces of the shapes that blocks have;
constants that are read at many places are copies."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from effort import some_of
from kept_synthesis import kept
from verilog_simulation import Simulation, missing_tools

from bfpga.engines.interface.resource_units import half_blocks
from bfpga.rtl.memories import Access, Bank, bank_module, bank_modules
from bfpga.rtl.words import Word
from bfpga.synthesis.body import Memory
from bfpga.synthesis.netlist.expressions import ZEROED
from bfpga.synthesis.netlist.mapped import count
from bfpga.synthesis.netlist.yosys import map_whole

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

#: Inputs of a bank of 2,560 words of 18 bits, and their bits.
INPUTS = {"ce": 1, "we0": 1, "wa0": 12, "wd0": 18, "re0": 1, "ra0": 12}


def bank(words: int, width: int, latency: int = 1, begin: Sequence[int] = ()) -> Bank:
    """A memory of blocks with a port that writes and one that reads."""
    memory = Memory("x", words, width, implementation="bram")
    reads, writes = [[Access(0, 0)]], [[Access(0, 1)]]
    return Bank("x", memory, latency, "block", tuple(begin), Word.whole(width), reads=reads, writes=writes)


def arrays(made: Bank) -> int:
    """Arrays of words in the Verilog of a bank."""
    return sum(line.startswith("reg ") and line.endswith("];") for line in bank_module("x", made).splitlines())


@pytest.mark.parametrize(("words", "width", "pieces"), [(512, 36, 1), (8192, 32, 1), (9216, 32, 2), (2560, 18, 2)])
def test_a_memory_has_as_few_pieces_as_its_blocks_allow(words: int, width: int, pieces: int) -> None:
    assert arrays(bank(words, width)) == pieces


@pytest.mark.parametrize(("words", "width"), [pytest.param(9216, 32, marks=pytest.mark.slow), (2560, 18)])
def test_pieces_take_as_many_blocks_as_the_data_sheet_says_and_few_tables(words: int, width: int) -> None:
    """Yosys, left alone, takes blocks of all bits of a word and selects among one for every 1,024 words."""
    found = count(map_whole(bank_module("x", bank(words, width)), "x", cache=kept()))
    assert found.bram18 + 2 * found.bram36 == half_blocks(words, width)
    # A selection of two words: two bits a table, and the addresses.
    assert found.lut <= width + 12


@pytest.mark.parametrize("latency", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_pieces_are_one_memory(latency: int, tmp_path: Path) -> None:
    """Random accesses, half of them around the border between two pieces, against a list of words."""
    words, width, generator = 2560, 18, random.Random(3)
    begin = [generator.getrandbits(width) for _ in range(words)]
    ports = "input aclk, " + ", ".join(f"input [{bits - 1}:0] {name}" for name, bits in INPUTS.items())
    wires = ", ".join(f".{name}({name})" for name in INPUTS)
    top = f"module top({ports}, output [17:0] rd0); x b(.clk(aclk), {wires}, .rd0(rd0)); endmodule\n"
    text = f"`define {ZEROED}\n" + bank_module("x", bank(words, width, latency, begin)) + top
    simulation = Simulation(text, "top", list(INPUTS), ("rd0",), tmp_path)

    def address() -> int:
        return generator.choice((generator.randrange(words), generator.randrange(2040, 2056)))

    clocks = [
        {"ce": generator.random() < 0.8, "we0": generator.random() < 0.5, "wa0": address(), "re0": 1, "ra0": address(),
         "wd0": generator.getrandbits(width)}
        for _ in range(4000)
    ]  # fmt: skip
    shown = simulation.run([{name: int(word) for name, word in clock.items()} for clock in clocks])
    held: list[int] = list(begin)
    stages: list[int | None] = [None] * latency
    for clock, row in zip(clocks, shown, strict=True):
        if stages[-1] is not None:
            assert row["rd0"] == stages[-1]
        if clock["ce"]:
            stages = [held[clock["ra0"]], *stages[:-1]]
            if clock["we0"]:
                held[clock["wa0"]] = clock["wd0"]


def table(places: int) -> Bank:
    """Constants in blocks that are read at some places at once."""
    generator = random.Random(5)
    words = tuple(generator.getrandbits(16) for _ in range(2048))
    memory = Memory("x", len(words), 16, implementation="bram", initial=words)
    reads = [[Access(0, place)] for place in range(places)]
    return Bank("x", memory, 1, "block", words, Word.whole(16), reads=reads)


@pytest.mark.parametrize("places", some_of([2, 5, 18], 5))
def test_a_table_has_a_block_for_every_two_places_that_read_it(places: int) -> None:
    """Yosys does not find them by itself in minutes where places are many: `zcu104_cluster` has 18."""
    text = "".join(bank_modules("x", table(places)).values())
    found = count(map_whole(text, "x", "xcup", cache=kept(), timeout=300))
    assert (found.bram36 + found.bram18 / 2, found.lut_memory) == (-(-places // 2), 0)


def test_every_place_reads_the_word_that_it_asks_for(tmp_path: Path) -> None:
    made, generator = table(5), random.Random(6)
    addresses = [f"ra{place}" for place in range(5)]
    ports = ", ".join(f"input [10:0] {name}" for name in addresses)
    shown = [f"rd{place}" for place in range(5)]
    wires = ", ".join(f".{name}({name})" for name in (*addresses, *shown))
    outputs = ", ".join(f"output [15:0] {name}" for name in shown)
    asked = ", ".join(f".re{place}(1'b1)" for place in range(5))
    top = f"module top(input aclk, {ports}, {outputs}); x b(.clk(aclk), .ce(1'b1), {wires}, {asked}); endmodule\n"
    text = f"`define {ZEROED}\n" + "".join(bank_modules("x", made).values()) + top
    clocks = [{name: generator.randrange(2048) for name in addresses} for _ in range(200)]
    rows = Simulation(text, "top", addresses, tuple(shown), tmp_path).run(clocks)
    for clock, row in itertools.pairwise(range(len(clocks))):
        assert [rows[row][name] for name in shown] == [made.words[clocks[clock][name]] for name in addresses]
