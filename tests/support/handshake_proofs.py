"""What holds of Verilog in every clock: properties by induction (Yosys `sat`), and paths from port to port."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bfpga.errors import ToolError
from bfpga.synthesis.netlist.yosys import find_yosys

#: Cells whose outputs follow from their inputs at a clock edge only.
_REGISTERS = ("$dff", "$dffe", "$sdff", "$sdffe", "$sdffce", "$adff", "$adffe", "$aldff", "$aldffe")
_SECONDS = 120.0


def refuted(verilog: str, top: str, folder: Path, parameters: Mapping[str, int], depth: int = 4) -> str:
    """Why assertions in the text do not hold from every state that they allow; nothing if they do.

    ``depth``: clocks that an induction may look back. Registers are 0 at first, as in a device.
    """
    (folder / "design.v").write_text(verilog)
    chosen = "".join(f" -chparam {name} {value}" for name, value in parameters.items())
    script = (
        "read_verilog -formal design.v", f"hierarchy -check -top {top}{chosen}", "proc", "flatten", "memory_map",
        "opt -full", "async2sync", "chformal -lower", "opt_clean",
        f"sat -verify -tempinduct -maxsteps {depth} -prove-asserts -set-assumes -set-init-zero", "",
    )  # fmt: skip
    try:
        find_yosys().run("\n".join(script), folder, _SECONDS)
    except ToolError as error:
        return str(error)
    return ""


def reached_outputs(verilog: str, top: str, folder: Path, source: str) -> set[str]:
    """The outputs of a module that an input reaches without a register between."""
    (folder / "design.v").write_text(verilog)
    script = f"read_verilog design.v\nhierarchy -check -top {top}\nproc\nflatten\nopt_clean\nwrite_json design.json\n"
    find_yosys().run(script, folder, _SECONDS)
    module = json.loads((folder / "design.json").read_text())["modules"][top]
    reached = _reached(module, module["ports"][source]["bits"])
    return {
        name for name, port in module["ports"].items() if port["direction"] == "output" and reached & {*port["bits"]}
    }


def _reached(module: Mapping[str, Any], bits: Collection[Any]) -> set[Any]:
    sinks: dict[Any, list[Mapping[str, Any]]] = {}
    for cell in module["cells"].values():
        if cell["type"] not in _REGISTERS:
            for port, wires in cell["connections"].items():
                if cell["port_directions"][port] == "input":
                    for bit in wires:
                        sinks.setdefault(bit, []).append(cell)
    waiting, found = list(bits), set(bits)
    while waiting:
        for cell in sinks.get(waiting.pop(), ()):
            for port, wires in cell["connections"].items():
                if cell["port_directions"][port] == "output":
                    waiting += [bit for bit in wires if bit not in found]
                    found.update(wires)
    return found - {"0", "1", "x", "z"}
