"""C++ of a netlist computes what Verilog says: every kind of cell, at widths on both sides of a word."""

from __future__ import annotations

import ctypes
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from verilog_simulation import missing_tools

from bfpga.devices import toolchain
from bfpga.errors import ToolError
from bfpga.rtl.netlist_cpp import NetlistCpp
from bfpga.synthesis.netlist.yosys import find_yosys

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

WIDTHS = (1, 7, 32, 63, 64, 65, 100, 126)
#: Words of 32 bits of an expression: two bits more than the longest operand.
WORDS = 5


def signed(value: int, width: int) -> int:
    return value - (value >> (width - 1) << width)


def divided(value: int, by: int) -> int:
    return abs(value) // abs(by) * (1 if (value < 0) == (by < 0) else -1)


def odd(value: int) -> int:
    return bin(value).count("1") & 1


#: Expressions of `a` and `b` (``w`` bits), `s` (7 bits) and `c` (one bit), of two bits more than ``w``, and in Python.
EXPRESSIONS: tuple[tuple[str, Callable[[int, int, int, int, int], int]], ...] = (
    ("a + b", lambda a, b, s, c, w: a + b),
    ("a - b", lambda a, b, s, c, w: a - b),
    ("a * b", lambda a, b, s, c, w: a * b),
    ("-a", lambda a, b, s, c, w: -a),
    ("~a", lambda a, b, s, c, w: ~a),
    ("a & b", lambda a, b, s, c, w: a & b),
    ("a | b", lambda a, b, s, c, w: a | b),
    ("a ^ b", lambda a, b, s, c, w: a ^ b),
    ("a ~^ b", lambda a, b, s, c, w: ~(a ^ b)),
    ("c ? a : b", lambda a, b, s, c, w: a if c else b),
    ("a << s", lambda a, b, s, c, w: a << s),
    ("a >> s", lambda a, b, s, c, w: a >> s),
    ("$signed(a) >>> s", lambda a, b, s, c, w: signed(a, w) >> s),
    ("$signed(a) + $signed(b)", lambda a, b, s, c, w: signed(a, w) + signed(b, w)),
    ("$signed(a) * $signed(b)", lambda a, b, s, c, w: signed(a, w) * signed(b, w)),
    ("b ? a / b : 1", lambda a, b, s, c, w: a // b if b else 1),
    ("a ? b % a : 2", lambda a, b, s, c, w: b % a if a else 2),
    (
        "b ? $signed(a) / $signed(b) : $signed(3'd1)",
        lambda a, b, s, c, w: divided(signed(a, w), signed(b, w)) if b else 1,
    ),
    ("long[s +: 5]", lambda a, b, s, c, w: (a | b << w) >> s & 31),
    ("{a[0], s, c}", lambda a, b, s, c, w: (a & 1) << 8 | s << 1 | c),
    ("a == b", lambda a, b, s, c, w: a == b),
    ("a != b", lambda a, b, s, c, w: a != b),
    ("{b, a} == {a, b}", lambda a, b, s, c, w: a == b),
    ("{b, a} != {a, b}", lambda a, b, s, c, w: a != b),
    ("a < b", lambda a, b, s, c, w: a < b),
    ("a <= b", lambda a, b, s, c, w: a <= b),
    ("a > b", lambda a, b, s, c, w: a > b),
    ("$signed(a) < $signed(b)", lambda a, b, s, c, w: signed(a, w) < signed(b, w)),
    ("$signed(a) >= $signed(b)", lambda a, b, s, c, w: signed(a, w) >= signed(b, w)),
    ("!a", lambda a, b, s, c, w: a == 0),
    ("&a", lambda a, b, s, c, w: a == (1 << w) - 1),
    ("|{a, b}", lambda a, b, s, c, w: (a | b) != 0),
    ("^{a, b}", lambda a, b, s, c, w: odd(a) ^ odd(b)),
    ("~^a", lambda a, b, s, c, w: 1 ^ odd(a)),
    ("a && b", lambda a, b, s, c, w: a != 0 and b != 0),
    ("a || c", lambda a, b, s, c, w: a != 0 or c != 0),
)


def module(width: int) -> str:
    """All expressions, as they are chosen by number, in words; one that is in a register shows the clock before."""
    lines = [
        f"module cells_{width} (input aclk, input [127:0] wide_a, wide_b, input [6:0] s, input c, input [5:0] n,",
        f"    output [{32 * WORDS - 1}:0] y, output reg [{width - 1}:0] q, output [{width - 1}:0] m);",
        f"wire [{width - 1}:0] a = wide_a, b = wide_b;",
        f"wire [{max(2 * width, 160) - 1}:0] long = {{b, a}};",
        f"reg [{width + 1}:0] x;",
        "assign y = x;",
        "always @* case (n)",
        *(f"{number}: x = {text};" for number, (text, _) in enumerate(EXPRESSIONS)),
        "default: x = 0; endcase",
        f"initial q = {width}'d1;",
        "always @(posedge aclk) q <= c ? a : q ^ b;",
        f"reg [{width - 1}:0] words [0:7];",
        "initial words[2] = 1;",
        "always @(posedge aclk) if (c) words[s[2:0]] <= a;",
        "assign m = words[s[5:3]];",
        "endmodule",
    ]
    return "\n".join(lines)


def top() -> str:
    outputs, cells = [], []
    for width in WIDTHS:
        outputs.append(f"output [{32 * WORDS - 1}:0] y{width}, output [{width - 1}:0] q{width}, m{width}")
        cells.append(
            f"cells_{width} u{width} (.aclk(aclk), .wide_a(a), .wide_b(b), .s(s), .c(c), .n(n), .y(y{width}), "
            f".q(q{width}), .m(m{width}));"
        )
    inputs = "input aclk, input [127:0] a, b, input [6:0] s, input c, input [5:0] n"
    # Each bit follows from the one below: a vector that would loop as a whole.
    chain = "assign chain = {chain[6:0] & s, c};"
    body = "\n".join([*cells, chain])
    return f"module cells ({inputs}, {', '.join(outputs)}, output [7:0] chain);\n{body}\nendmodule\n"


def netlist(verilog: str, name: str, folder: Path) -> NetlistCpp:
    (folder / "text.v").write_text(verilog)
    script = ("read_verilog text.v", f"hierarchy -check -top {name}", "proc -noopt", "flatten", "write_json text.json")
    find_yosys().run("\n".join(script), folder, 60)
    return NetlistCpp(json.loads((folder / "text.json").read_text())["modules"][name], "Design")


def library(verilog: str, ports: dict[str, int], folder: Path) -> ctypes.CDLL:
    """A design whose function takes the words of inputs and gives those of outputs as they are before the edge."""
    for name, text in netlist(verilog, "cells", folder).files().items():
        (folder / name).write_text(text)
    reads = "".join(f"top.p_{name}[{k}] = *in++; " for name in INPUTS for k in range(-(-INPUTS[name] // 32)))
    writes = "".join(f"*out++ = top.p_{name}[{k}]; " for name in ports for k in range(-(-ports[name] // 32)))
    main = '#include "design.h"\nstatic Design top;\nextern "C" void clock_once(const uint32_t* in, uint32_t* out) {\n'
    (folder / "main.cpp").write_text(f"{main}    {reads}\n    top.settle();\n    {writes}\n    top.edge();\n}}\n")
    built = folder / "design.so"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-O0"]
    toolchain.run_compiler([*flags, *map(str, folder.glob("*.cpp")), "-o", str(built)])
    return ctypes.CDLL(str(built))


INPUTS = {"a": 128, "b": 128, "s": 7, "c": 1, "n": 6}


def test_every_cell_computes_what_verilog_says(tmp_path: Path) -> None:
    ports = {"chain": 8}
    ports |= {f"{kind}{width}": 32 * WORDS if kind == "y" else width for width in WIDTHS for kind in "yqm"}
    design = library("\n".join([*map(module, WIDTHS), top()]), ports, tmp_path)
    chance = random.Random(5)
    kept = dict.fromkeys(WIDTHS, 1)
    memories = {width: [0, 0, 1, 0, 0, 0, 0, 0] for width in WIDTHS}
    size = sum(-(-bits // 32) for bits in ports.values())
    for clock in range(60 * len(EXPRESSIONS)):
        a, b = chance.getrandbits(128), chance.getrandbits(128)
        a, b = chance.choice([(a, b), (a, a), (0, b), ((1 << 128) - 1, b), (a, 0)])
        given = {"a": a, "b": b, "s": chance.getrandbits(7), "c": chance.getrandbits(1), "n": clock % len(EXPRESSIONS)}
        words = [given[name] >> 32 * k & 0xFFFFFFFF for name in INPUTS for k in range(-(-INPUTS[name] // 32))]
        out = (ctypes.c_uint32 * size)()
        design.clock_once((ctypes.c_uint32 * len(words))(*words), out)
        found = dict(zip(ports, _numbers(out, list(ports.values())), strict=True))
        s, c = given["s"], given["c"]
        text, expected = EXPRESSIONS[given["n"]]
        ones = next((k for k in range(7) if not s >> k & 1), 7)
        assert found["chain"] == ((1 << (ones + 1)) - 1 if c else 0)
        for width in WIDTHS:
            mask = (1 << width) - 1
            value = int(expected(a & mask, b & mask, s, c, width)) & ((1 << (width + 2)) - 1)
            assert found[f"y{width}"] == value, f"{text} at {width} bits, {given}"
            assert found[f"q{width}"] == kept[width]
            assert found[f"m{width}"] == memories[width][s >> 3 & 7]
            kept[width] = a & mask if c else kept[width] ^ (b & mask)
            if c:
                memories[width][s & 7] = a & mask


def _numbers(words: ctypes.Array[ctypes.c_uint32], widths: list[int]) -> list[int]:
    numbers, place = [], 0
    for width in widths:
        count = -(-width // 32)
        numbers.append(sum(word << 32 * k for k, word in enumerate(words[place : place + count])))
        place += count
    return numbers


def test_a_loop_without_a_register_is_refused(tmp_path: Path) -> None:
    text = "module loop (input [3:0] a, output [3:0] y); assign y = a + {y[2:0], 1'b0}; endmodule"
    with pytest.raises(ToolError, match=r"a loop without a register passes text\.v:1"):
        netlist(text, "loop", tmp_path)


def test_a_cell_that_is_not_known_is_refused(tmp_path: Path) -> None:
    text = "module power (input [3:0] a, b, output [3:0] y); assign y = a ** b; endmodule"
    with pytest.raises(ToolError, match=r"knows no cell \$pow \(text\.v:1"):
        netlist(text, "power", tmp_path)


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
def test_words_at_power_on_are_no_symbols_that_designs_of_a_process_share(tmp_path: Path) -> None:
    """A table in an inline function is one for all libraries of a process, that of the kernel that was loaded first."""
    text = (
        "module cells (input aclk, input [127:0] a, b, input [6:0] s, input c, input [5:0] n, output [7:0] y);"
        "reg [7:0] words [0:7]; initial words[3] = 5; assign y = words[s[2:0]];"
        "always @(posedge aclk) if (c) words[n[2:0]] <= a[7:0]; endmodule"
    )
    design = library(text, {"y": 8}, tmp_path)
    words, out = [*[0] * 8, 3, 0, 0], (ctypes.c_uint32 * 1)()
    design.clock_once((ctypes.c_uint32 * len(words))(*words), out)
    assert out[0] == 5
    listing = subprocess.run(["nm", "-DC", str(tmp_path / "design.so")], capture_output=True, text=True, check=True)
    assert "Design::settle" in listing.stdout
    assert "_first" not in listing.stdout
