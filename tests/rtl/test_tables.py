"""Tables of constants of which one at most is read at a time are one memory, and each has its own words."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from ip_simulation import SimulatedIp
from process_designs import TINY
from verilog_simulation import missing_tools

from bfpga.accelerator.loader import load_accelerator
from bfpga.rtl.ip import IpVerilog, ip_verilog
from bfpga.synthesis.netlist.mapped import count
from bfpga.synthesis.netlist.yosys import map_whole
from bfpga.vendor.kernel_ips import KernelIp, StreamPort
from bfpga.vendor.render import kernel_sources

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

PORTS = (StreamPort("words", False, 32, False), StreamPort("results", True, 32, False))
IP = KernelIp("chosen", "chosen", "chosen", "src/chosen.cpp", False, PORTS)
#: Bits 30 and 31 of a word choose a table, its lowest nine bits a word of it.
SOURCE = """
#include "bfpga/ports/stream.hpp"
namespace {
TABLES
}
void chosen(bfpga::stream<uint32_t>& words, bfpga::stream<uint32_t>& results) {
Choose:
    for (;;) {
#pragma HLS PIPELINE II = 1
        const uint32_t word = words.read();
        const uint32_t kind = word >> 30;
        uint32_t found = 0;
        READS
        results.write(found);
    }
}
"""
#: One table at a time, and all of them in each iteration.
CHOSEN, TOGETHER = "if (kind == {k}) found = table_{k}[word & 511u];", "found += table_{k}[word & 511u];"


def contents(words: int) -> list[list[int]]:
    generator = random.Random(words)
    return [[generator.getrandbits(14) for _ in range(words)] for _ in range(3)]


def verilog(words: int, read: str) -> IpVerilog:
    lines = [
        f"const uint16_t table_{k}[{words}] = {{{', '.join(map(str, table))}}};"
        for k, table in enumerate(contents(words))
    ]
    reads = "\n".join(read.format(k=k) for k in range(3))
    source = SOURCE.replace("TABLES", "\n".join(lines)).replace("READS", reads)
    return ip_verilog(load_accelerator(TINY), IP, kernel_sources({IP.source: source}))


def banks(made: IpVerilog) -> int:
    return sum(name.endswith("_bank") or "_bank_" in name for name in made.modules)


@pytest.mark.parametrize("words", [257, pytest.param(512, marks=pytest.mark.slow)])
def test_each_table_has_its_words(words: int, tmp_path: Path) -> None:
    made = verilog(words, CHOSEN)
    assert banks(made) == 1
    places = [(kind, place) for kind in range(4) for place in range(words)]
    random.Random(1).shuffle(places)
    found = SimulatedIp(made, tmp_path).run(
        {"words": [kind << 30 | place for kind, place in places] + [0] * 20}, {"results": len(places)}
    )
    tables = [*contents(words), [0] * words]
    assert found.beats["results"][: len(places)] == [tables[kind][place] for kind, place in places]


def test_one_memory_takes_the_blocks_of_one() -> None:
    """Three times 256 words of 14 bits are half a block; those behind them are look-up tables."""
    assert count(map_whole(verilog(257, CHOSEN).text, IP.function)).bram18 == 1


def test_tables_that_are_read_at_once_are_memories_of_their_own() -> None:
    assert banks(verilog(257, TOGETHER)) == 3
