"""The Verilog whose tables are counted, against the emulator: random clocks, simulated by Yosys' CXXRTL."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bfpga.formats.logarithmic import code_values, split_words
from bfpga.formats.shift_format import ShiftFormat, WeightMode

CLOCKS = 160
#: Clocks from the operands of a tile to its accumulator.
TILE_DELAY = 2
#: exp_width, d, lanes, both modes, accumulator bits
TILES = ((3, 0, 2, 1, 24), (3, 4, 1, 0, 20), (2, 1, 4, 1, 24), (1, 4, 2, 1, 20), (4, 0, 4, 0, 32), (1, 1, 1, 1, 24))
DECODERS = ((3, 0), (2, 1), (1, 4))
#: Reads a source, executes a script of Yosys and gives the text of the file it leaves.
Run = Callable[[str, str, str], str]
#: Prints the clocks that were simulated. A wrong output is an assertion, which ends the program.
MAIN = """
#include <cstdio>
#include <cstdlib>
#define CXXRTL_ASSERT(condition) do { if (!(condition)) { std::fputs(message, stderr); std::exit(1); } } while (0)
static const char message[] = "an output of the Verilog differs from the emulator\\n";
#include "bench.h"
int main() {
    cxxrtl_design::p_test__bench top;
    int clock = 0;
    for (; clock < CLOCKS; ++clock) {
        top.p_clk.set<bool>(false);
        top.step();
        top.p_clk.set<bool>(true);
        top.step();
    }
    std::printf("%d\\n", clock);
}
"""


@dataclass(frozen=True)
class Port:
    """A port: its width, what it gets (input) or must show (output) in every clock."""

    name: str
    bits: int
    values: Sequence[int]
    output: bool = False


def bench(name: str, module: str, parameters: dict[str, int], ports: list[Port]) -> str:
    """Feeds the inputs from a memory and asserts the outputs, clock by clock."""
    total = sum(port.bits for port in ports)
    clocks = len(ports[0].values)
    words, connections, checks, low = [], [".clk(clk)"], [], 0
    for clock in range(clocks):
        word = 0
        for port in reversed(ports):
            word = word << port.bits | (int(port.values[clock]) & ((1 << port.bits) - 1))
        words.append(f"        memory[{clock}] = {total}'h{word:x};")
    for port in ports:
        field = f"now[{low} +: {port.bits}]"
        connections.append(f".{port.name}({port.name}_out)" if port.output else f".{port.name}({field})")
        if port.output:
            checks.append(f"    wire [{port.bits - 1}:0] {port.name}_out;")
            checks.append(f"    always @(posedge clk) if (clock != {clocks - 1}) assert ({port.name}_out == {field});")
        low += port.bits
    made = ", ".join(f".{name}({value})" for name, value in parameters.items())
    return "\n".join(
        [
            f"module {name} (input clk);",
            f"    reg [{total - 1}:0] memory [0:{clocks - 1}];",
            "    reg [15:0] clock = 0;",
            "    initial begin",
            *words,
            "    end",
            f"    wire [{total - 1}:0] now = memory[clock];",
            f"    always @(posedge clk) if (clock != {clocks - 1}) clock <= clock + 1;",
            *checks,
            f"    {module} #({made}) made ({', '.join(connections)});",
            "endmodule\n",
        ]
    )


def wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return ((value + half) & (2 * half - 1)) - half


def operations(random: np.random.Generator) -> list[tuple[str, bool]]:
    """Kind of every clock and whether it begins one; the first clocks are idle until the pipeline is full."""
    clocks: list[tuple[str, bool]] = [("idle", False)] * TILE_DELAY
    while len(clocks) < CLOCKS:
        kind = str(random.choice(["multiply", "maximum", "sum"], p=[0.6, 0.2, 0.2]))
        length = int(random.integers(2, 9))
        clocks += [(kind, number == 0) for number in range(length)]
        clocks += [("idle", False)] * int(random.integers(0, 2))
    return clocks[:CLOCKS]


def tile_bench(name: str, numbers: tuple[int, int, int, int, int], random: np.random.Generator) -> str:
    """A tile: products, maxima and sums into the accumulators of its row (SM R17, R20)."""
    exp_width, d, lanes, both, bits = numbers
    fmt = ShiftFormat(exp_width=exp_width, d=d)
    kinds = operations(random)
    x = random.integers(-128, 128, (CLOCKS, lanes))
    words = random.integers(0, 1 << fmt.word_bits, (CLOCKS, lanes))
    term = random.integers(-128, 128, CLOCKS)
    pow2 = random.integers(0, 2, CLOCKS) * both
    mine, present = random.integers(0, 2, CLOCKS), random.integers(0, 2, CLOCKS)
    present[[kind == "sum" for kind, _ in kinds]] = 1
    powers = [code_values(fmt, WeightMode.POW2)[field] for field in split_words(words, fmt)]
    product0 = x * np.where(pow2[:, None], powers[0], code_values(fmt, WeightMode.TWO_HOT)[words])
    product1 = x * np.where(pow2[:, None], powers[1], 0)
    q0, q1 = 0, 0
    shown: list[tuple[int, int]] = []
    for clock, (kind, first) in enumerate(kinds):
        shown.append((q0, q1))
        if kind == "maximum":
            before = -128 if first else q0
            q0 = max(before, int(term[clock])) if mine[clock] and present[clock] else before
        elif kind == "sum":
            q0 = wrapped((0 if first else q0) + int(term[clock] * mine[clock]), bits)
        elif kind == "multiply":
            then = clock - TILE_DELAY
            q0 = wrapped((0 if first else q0) + int(product0[then].sum()), bits)
            if both:
                q1 = wrapped((0 if first else q1) + int(product1[then].sum()), bits)
    ports = [
        Port("enable", 1, [kind != "idle" for kind, _ in kinds]),
        Port("first", 1, [first for _, first in kinds]),
        Port("pow2", 1, pow2.tolist()),
        Port("maximum", 1, [kind == "maximum" for kind, _ in kinds]),
        Port("sum", 1, [kind == "sum" for kind, _ in kinds]),
        Port("mine", 1, mine.tolist()),
        Port("present", 1, present.tolist()),
        Port("x", 8 * lanes, [packed(row, 8) for row in x]),
        Port("words", fmt.word_bits * lanes, [packed(row, fmt.word_bits) for row in words]),
        Port("term", 9, term.tolist()),
        Port("q0", bits, [each for each, _ in shown], output=True),
        Port("q1", bits, [each for _, each in shown], output=True),
    ]
    parameters = {"EW": exp_width, "D": d, "LANES": lanes, "BOTH": both, "ACC": bits}
    return bench(name, "shift_tile", parameters, ports)


def decoder_bench(name: str, numbers: tuple[int, int], random: np.random.Generator) -> str:
    """All words, and random mantissas (ColumnWeights::Mantissas)."""
    exp_width, d = numbers
    fmt = ShiftFormat(exp_width=exp_width, d=d)
    words = random.permutation(np.arange(1 << fmt.word_bits))
    two_hot = (random.random(len(words)) < 0.8).astype(int)
    bits = max(8, fmt.word_bits)
    weight = np.where(two_hot, words, random.integers(0, 256, len(words)))
    mantissa = np.where(two_hot, code_values(fmt, WeightMode.TWO_HOT)[words], weight) & 0xFF
    # The register shows the first weight from clock 1 on; a repeated first weight leaves nothing unknown.
    ports = [
        Port("two_hot", 1, [0, *two_hot]),
        Port("weight", bits, [0, *weight]),
        Port("mantissa", 8, [0, 0, *mantissa[:-1]], output=True),
    ]
    return bench(name, "two_hot_value", {"EW": exp_width, "D": d}, ports)


def packed(values: Sequence[int] | np.ndarray[Any, Any], bits: int) -> int:
    """Fields, the first one lowest."""
    word = 0
    for value in reversed([int(each) for each in values]):
        word = word << bits | (value & ((1 << bits) - 1))
    return word


def benches(seed: int) -> list[str]:
    """Verilog of every bench; the top, `test_bench`, has them all."""
    random = np.random.default_rng(seed)
    made = [tile_bench(f"tile{number}", numbers, random) for number, numbers in enumerate(TILES)]
    made += [decoder_bench(f"decoder{number}", numbers, random) for number, numbers in enumerate(DECODERS)]
    kinds = {"tile": len(TILES), "decoder": len(DECODERS)}
    instances = [f"{kind}{number} {kind}_{number} (clk);" for kind, amount in kinds.items() for number in range(amount)]
    return [*made, f"module test_bench (input clk); {' '.join(instances)} endmodule\n"]


def simulate(verilog: str, run: Run, include: Path, compiler: str = "g++", seed: int = 1) -> int:
    """Clocks in which all outputs were those of the emulator; ``SystemExit`` at the first that is not.

    include: folder of Yosys' CXXRTL headers.
    """
    source = run(verilog + "".join(benches(seed)), "prep -top test_bench; write_cxxrtl bench.h", "bench.h")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bench.h").write_text(source)
        Path(folder, "main.cpp").write_text(MAIN)
        built = [compiler, "-std=c++14", "-O0", f"-DCLOCKS={2 * CLOCKS}", f"-I{include}", "main.cpp", "-o", "bench"]
        subprocess.run(built, cwd=folder, check=True, timeout=300)
        done = subprocess.run(["./bench"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode or not done.stdout.strip():
        raise SystemExit(f"simulation: {done.stderr.strip() or done.returncode}")
    return int(done.stdout)
