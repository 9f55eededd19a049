"""The netlist of a loop body, simulated cycle by cycle and compared with what each iteration has to do.

Yosys writes the Verilog as C++ (CXXRTL), the C++ compiler of this machine makes a library of it, and a run of cycles is
one call: all ports in a row, each in as many 32-bit words as it needs.
"""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bfpga.errors import ToolError
from bfpga.synthesis.netlist.interpret import ENABLED, EXTERNAL, WRITES
from bfpga.synthesis.netlist.recording import Iteration, Run
from bfpga.synthesis.netlist.verilog import TOP, Design
from bfpga.synthesis.netlist.yosys import Family, cxxrtl, find_yosys

_FLAGS = ("-std=c++17", "-O0", "-w", "-fPIC", "-shared")
#: A port's words, of one that is a register too.
_WORDS = (
    "template <size_t N> const uint32_t* words(const cxxrtl::value<N>& port) { return port.data; }",
    "template <size_t N> const uint32_t* words(const cxxrtl::wire<N>& port) { return port.curr.data; }",
)
#: Seed of the words on ports that are not read in a cycle: a netlist that looks at them differs.
_NOISE = 11


@dataclass(frozen=True, slots=True)
class Difference:
    """A port that has another value in an iteration than it should."""

    iteration: int
    port: str
    expected: int
    found: int

    def __str__(self) -> str:
        return f"iteration {self.iteration}: {self.port} is {self.found:#x} instead of {self.expected:#x}"


class Simulator:
    """A design as a compiled library; ToolError without Yosys or a C++ compiler.

    ``family``: its modules are mapped to cells of that family before, and the cells are simulated.
    """

    def __init__(self, design: Design, compiler: Sequence[str] = ("g++",), family: Family | None = None) -> None:
        self.design, self.family = design, family
        self.inputs = {"ce": 1, "start": 1, **{name: width for name, (_, width) in design.inputs.items()}}
        self.outputs = {name: _width(design, net) for name, net in design.outputs.items()}
        self._folder = tempfile.TemporaryDirectory(prefix="bfpga-simulation-")
        self._library = ctypes.CDLL(str(self._compiled(compiler)))

    def clocks(self, rows: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
        """Outputs in each cycle, from the first after power-on, with the inputs of the cycle (0 where not given)."""
        given = np.concatenate([_words(row, self.inputs) for row in rows])
        size = sum(map(_word_count, self.outputs.values()))
        found = np.zeros(size * len(rows), dtype=np.uint32)
        pointer = ctypes.POINTER(ctypes.c_uint32)
        self._library.run(len(rows), given.ctypes.data_as(pointer), found.ctypes.data_as(pointer))
        return [_values(row, self.outputs) for row in found.reshape(len(rows), size)]

    def _compiled(self, compiler: Sequence[str]) -> Path:
        if shutil.which(compiler[0]) is None:
            raise ToolError(f"simulating a netlist needs a C++ compiler, and {compiler[0]} was not found")
        directory = Path(self._folder.name)
        source = cxxrtl(self.design.modules, self.design.above(), TOP, self.family)
        (directory / "design.cpp").write_text(source)
        (directory / "harness.cpp").write_text(self._harness())
        include = find_yosys().share / "include" / "backends" / "cxxrtl" / "runtime"
        library = directory / "design.so"
        command = [*compiler, *_FLAGS, "-I", str(include), str(directory / "harness.cpp"), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ToolError(f"{compiler[0]} cannot compile the netlist:\n" + "\n".join(done.stderr.splitlines()[:10]))
        return library

    def _harness(self) -> str:
        """Each clock: inputs, the outputs that follow from them, the edge."""
        lines = ['#include "design.cpp"', *_WORDS]
        lines.append('extern "C" void run(int clocks, const uint32_t* in, uint32_t* out) {')
        lines += [f"  cxxrtl_design::p_{TOP} top;", "  for (int clock = 0; clock < clocks; clock++) {"]
        for name, width in self.inputs.items():
            lines += [f"    top.{_member(name)}.data[{word}] = *in++;" for word in range(_word_count(width))]
        lines += ["    top.p_clk.set<bool>(false);", "    top.step();"]
        for name, width in self.outputs.items():
            lines += [f"    *out++ = words(top.{_member(name)})[{word}];" for word in range(_word_count(width))]
        lines += ["    top.p_clk.set<bool>(true);", "    top.step();", "  }", "}", ""]
        return "\n".join(lines)


def differences(simulator: Simulator, run: Run, limit: int = 10) -> list[Difference]:
    """Where the netlist does other than the iterations of a run, at most ``limit`` places, in order of the iterations.

    Compared are enables and operands of all accesses, the next value of every register and what is used after the loop.
    """
    found: list[Difference] = []
    outputs = simulator.clocks(_stimuli(simulator.design, run))
    interval = simulator.design.pipeline.interval
    for number, iteration in enumerate(run.iterations):
        for port, stage, value in _expected(simulator.design, iteration):
            actual = outputs[1 + interval * number + stage][port]
            if actual != value:
                found.append(Difference(number, port, value, actual))
                if len(found) == limit:
                    return found
    return found


def _stimuli(design: Design, run: Run) -> list[dict[str, int]]:
    """Inputs of every cycle: the start, then data in the stages in which they arise, and noise where none is read."""
    pipeline = design.pipeline
    fixed = {f"initial_{index}": value for index, value in enumerate(run.initial)}
    fixed |= {f"data_{index}": value for index, value in run.invariants.items()}
    stages = (pipeline.stage(index) for index in range(len(design.body.operations)))
    depth = 2 + max([pipeline.depth, *pipeline.capture, *stages])
    count = 1 + pipeline.interval * len(run.iterations) + depth
    noise = random.Random(_NOISE)
    data = {name: width for name, (_, width) in design.inputs.items() if name.startswith("data_") and name not in fixed}
    rows = [{"ce": 1, "start": int(clock == 0), **fixed} for clock in range(count)]
    for row in rows:
        row.update({name: noise.getrandbits(width) for name, width in data.items()})
    for number, iteration in enumerate(run.iterations):
        for index, value in iteration.reads.items():
            rows[1 + pipeline.interval * number + pipeline.available(index)][f"data_{index}"] = value
    return rows


def _expected(design: Design, iteration: Iteration) -> Iterable[tuple[str, int, int]]:
    """Port, stage and value of all that an iteration does."""
    body, pipeline, outcome = design.body, design.pipeline, iteration.outcome
    for index, operation in enumerate(body.operations):
        if operation.opcode not in EXTERNAL and operation.opcode not in WRITES:
            continue
        stage = pipeline.stage(index)
        if operation.opcode in ENABLED:
            yield f"operand_{index}_{len(operation.operands) - 1}", stage, int(index in outcome.accesses)
        for number, value in enumerate(outcome.accesses.get(index, ())):
            yield f"operand_{index}_{number}", stage, value
    for index in pipeline.results():
        yield f"result_{index}", pipeline.ready(index) + 1, outcome.values[index]
    for index, value in enumerate(outcome.state):
        yield f"state_{index}", max(pipeline.capture[index], 0) + 1, value


def _width(design: Design, net: str) -> int:
    return design.nets[net].high - design.nets[net].low


def _member(port: str) -> str:
    """Name of a port's member in CXXRTL's C++."""
    return "p_" + port.replace("_", "__")


def _word_count(width: int) -> int:
    return -(-width // 32)


def _words(values: Mapping[str, int], widths: Mapping[str, int]) -> NDArray[np.uint32]:
    data = b"".join(
        (values.get(name, 0) & ((1 << width) - 1)).to_bytes(4 * _word_count(width), "little")
        for name, width in widths.items()
    )
    return np.frombuffer(data, dtype=np.uint32)


def _values(row: NDArray[np.uint32], widths: Mapping[str, int]) -> dict[str, int]:
    data, place, values = row.tobytes(), 0, {}
    for name, width in widths.items():
        end = place + 4 * _word_count(width)
        values[name] = int.from_bytes(data[place:end], "little")
        place = end
    return values
