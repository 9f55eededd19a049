"""An IP mapped in one piece: its cells by another flow, and that control, reset and registers are among them."""

from __future__ import annotations

import functools
import json
import re
import tempfile
from pathlib import Path

import pytest
from effort import some_of
from kept_synthesis import kept
from tiny_verilog import IPS, verilog
from verilog_simulation import missing_tools

from bfpga.rtl.whole import whole_text
from bfpga.synthesis.netlist.expressions import ZEROED
from bfpga.synthesis.netlist.mapped import Counts, MappedModule, count, from_json
from bfpga.synthesis.netlist.yosys import Family, find_yosys, map_whole

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

SLOW = pytest.mark.slow
#: A table in block memory that a program writes, and a product of its words.
TABLE_AND_PRODUCT = """
module top(input clk, input ce, input we, input [8:0] wa, input [27:0] wd, input re, input [8:0] ra, input [15:0] other,
    output reg [31:0] product);
(* ram_style = "block" *) reg [27:0] stored [0:511];
always @(posedge clk) if (ce & we) stored[wa] <= wd;
reg [27:0] word;
always @(posedge clk) if (ce & re) word <= stored[ra];
always @(posedge clk) if (ce) product <= $signed(word[27:12]) * $signed(other);
endmodule
"""


@functools.cache
def mapped(text: str, top: str) -> MappedModule:
    return map_whole(text, top, cache=kept())


def cells(part: str) -> Counts:
    return count(mapped(whole_text(verilog(part)), IPS[part].function))


def by_yosys(part: str, *steps: str, top: str = "") -> MappedModule:
    """An IP, or a module of it, after steps of Yosys alone."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        (directory / "ip.v").write_text(whole_text(verilog(part)))
        script = [f"read_verilog -D {ZEROED} ip.v", *steps, "write_json ip.json", ""]
        find_yosys().run("\n".join(script), directory, 600)
        return from_json(json.loads((directory / "ip.json").read_text())["modules"][top or IPS[part].function])


def register_bits(part: str, top: str) -> int:
    """Bits of the registers of a module that are used."""
    steps = (f"hierarchy -top {top}", "proc", "flatten", "opt -full", "opt_clean -purge")
    cells_of_it = by_yosys(part, *steps, top=top).cells
    return sum(len(ports["Q"]) for kind, ports in cells_of_it if re.match(r"\$(a|s)?dff", kind))


@SLOW
@pytest.mark.parametrize("part", ["store", "array"])
def test_yosys_own_flow_finds_as_many_cells(part: str) -> None:
    """`synth_xilinx` as it is; it shares no operators here, and takes wide multiplexers instead of some tables."""
    own = count(by_yosys(part, f"synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {IPS[part].function}"))
    whole = cells(part)
    assert whole.dsp == own.dsp
    assert 0.65 * own.lut <= whole.lut <= 1.05 * own.lut
    assert 0.95 * own.ff <= whole.ff <= 1.2 * own.ff


@pytest.mark.parametrize("part", ["store", pytest.param("sequencer", marks=SLOW)])
def test_flip_flops_are_the_bits_of_the_registers_that_are_used(part: str) -> None:
    bits = register_bits(part, IPS[part].function)
    assert 0.95 * bits <= cells(part).ff <= bits


@SLOW
@pytest.mark.parametrize("part", ["store", "array", "weights"])
def test_a_reset_is_counted_and_takes_the_pins_of_registers(part: str) -> None:
    """Without it, an inversion of `ap_rst_n` and some tables of enables go; not a table for each register."""
    text, line = whole_text(verilog(part)), "wire reset = ~ap_rst_n;"
    assert text.count(line) == 1
    without = mapped(text.replace(line, "wire reset = 1'b0;"), IPS[part].function)
    whole = mapped(text, IPS[part].function)
    assert reset_registers(whole) > reset_registers(without)
    assert count(without).lut < count(whole).lut <= 1.1 * count(without).lut


def reset_registers(module: MappedModule) -> int:
    """Flip-flops whose set or reset is connected."""
    pins = [ports.get("R", ports.get("S", ["0"]))[0] for kind, ports in module.cells if kind.startswith("FD")]
    return sum(pin != "0" for pin in pins)


@pytest.mark.parametrize("family", some_of(["xc7", "xcup"], "xcup"))
def test_a_block_memory_before_a_product_keeps_its_register(family: Family) -> None:
    """A DSP block that takes the register of its factor leaves a memory that answers at once: no block."""
    found = count(map_whole(TABLE_AND_PRODUCT, "top", family, cache=kept()))
    assert (found.bram18, found.bram36, found.lut_memory, found.dsp) == (1, 0, 0, 1)


def test_equal_ips_are_mapped_once(tmp_path: Path) -> None:
    """Units of an array differ in the name that their modules begin with, and in the lines that comments tell."""
    for name, line in (("unit_0", 3), ("unit_1", 3), ("unit_0", 4)):
        part = f"// part.hpp:{line}\nmodule {name}_part(input a, b, output c); assign c = a & b; endmodule"
        top = f"module {name}(input a, b, output c); {name}_part part(a, b, c); endmodule // {line}"
        assert count(map_whole(f"{part}\n{top}\n", name, cache=tmp_path)).lut == 1
        assert len(list(tmp_path.glob("*.json"))) == 1
    map_whole("module unit_0(input a, b, output c); assign c = a | b; endmodule", "unit_0", cache=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2


@SLOW
def test_control_and_borders_are_counted() -> None:
    """The loop of `store` alone, from the same text, against all of the IP."""
    made = verilog("store")
    (loop,) = [name for name in made.modules if name.endswith("_Store")]
    alone, whole = count(mapped(made.text, loop)), cells("store")
    # `at`, `entered`, two words of 65 bits to the host and what says that they are there, a word to each FIFO.
    borders = 2 * (65 + 1) + sum(port.bits + 1 for port in IPS["store"].streams if port.master and not port.packets)
    # Some bits of a report are constant.
    assert whole.ff >= alone.ff + 0.95 * borders
    assert whole.lut > alone.lut


def test_the_registers_of_the_host_are_counted() -> None:
    """All registers are among the cells: `test_flip_flops_are_the_bits_of_the_registers_that_are_used`."""
    (core,) = [name for name in verilog("sequencer").modules if name.endswith("_core")]
    assert register_bits("sequencer", IPS["sequencer"].function) > register_bits("sequencer", core) + 64
