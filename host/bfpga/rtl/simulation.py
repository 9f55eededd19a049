"""The Verilog of a kernel as C++, clock by clock, and a host around it that has the interface of the bridge."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.bridge import PIECE, RUN
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.layout import layout
from bfpga.contract.processes import process_streams
from bfpga.contract.registers import (
    CONTROL_PORT,
    COUNTER_PORT,
    COUNTER_REGISTERS,
    INPUT_STREAM,
    OUTPUT_STREAM,
    REGISTERS,
    WEIGHT_STREAM,
    Control,
)
from bfpga.rtl.kernel import KERNEL_MODULE, WATCHED_BITS, host_ports, joining_files, made_of
from bfpga.rtl.netlist_cpp import NetlistCpp
from bfpga.rtl.ports import WATCHED
from bfpga.synthesis.netlist.expressions import ZEROED
from bfpga.synthesis.netlist.yosys import find_yosys
from bfpga.vendor.clock_counter import AXI_LITE
from bfpga.vendor.json_fields import json_text
from bfpga.vendor.render import structure
from bfpga.vendor.source_text import own, source_environment

#: The structure that is the kernel in C++.
_STRUCTURE = "Design"
#: Seconds that Yosys may take for a kernel.
_TIMEOUT = 1200.0
_HOST = {"input": (INPUT_STREAM, "Source"), "weights": (WEIGHT_STREAM, "Source"), "output": (OUTPUT_STREAM, "Sink")}


def simulation_digest(accelerator: Accelerator) -> str:
    """Digest of all that the simulation of an accelerator follows from: its C++, device and clock, and this code.

    ToolError without Yosys.
    """
    content = hashlib.sha256()
    parts = [*made_of(accelerator), find_yosys().version, _host(accelerator)]
    parts += [part for item in sorted(joining_files(accelerator).items()) for part in item]
    for part in parts:
        content.update(len(part).to_bytes(8, "little") + part.encode())
    return content.hexdigest()[:32]


def simulation_sources(accelerator: Accelerator, design: Mapping[str, str]) -> dict[str, str]:
    """C++ of the simulation of a design (the files of its Verilog): name -> text.

    ToolError if Yosys is missing or refuses the Verilog.
    """
    with tempfile.TemporaryDirectory(prefix="bfpga-rtl-") as place:
        directory = Path(place)
        for name, text in design.items():
            (directory / name).write_text(text)
        steps = (
            f"read_verilog -D {WATCHED} -D {ZEROED} {' '.join(design)}", f"hierarchy -check -top {KERNEL_MODULE}",
            "proc -noopt", "flatten", "write_json design.json", "",
        )  # fmt: skip
        find_yosys().run("\n".join(steps), directory, _TIMEOUT)
        netlist = json.loads((directory / "design.json").read_text())["modules"][KERNEL_MODULE]
    return NetlistCpp(netlist, _STRUCTURE).files() | {"simulation.cpp": _host(accelerator)}


def _host(accelerator: Accelerator) -> str:
    template = source_environment("kernels/rtl").get_template("simulation.cpp.j2")
    return template.render(_context(accelerator.name, accelerator.digest, accelerator.config))


def _context(name: str, digest: str, config: KernelConfig) -> dict[str, Any]:
    return {
        "name": name,
        "identification": f"0x{digest[:8]}",
        "layout": own(json_text(layout(*config.layout_parts))),
        "structures": {"Run": structure(RUN), "Piece": structure(PIECE)},
        "registers": [{"name": item.name, "offset": f"0x{item.offset:02x}"} for item in REGISTERS],
        "start_bit": int(Control.START),
        "done_bit": int(Control.DONE),
        "counter_words": len(COUNTER_REGISTERS),
        "top": _STRUCTURE,
        "watched_bits": WATCHED_BITS,
        "inner": [{"title": own(f'"{stream.name}"')} for stream in process_streams(config)],
        "lite": {
            name: [_wire(f"{port}_{signal}") for signal, _, _ in AXI_LITE]
            for name, port in (("control", CONTROL_PORT), ("counter", COUNTER_PORT))
        },
        "host": _host_streams(config),
    }


def _host_streams(config: KernelConfig) -> dict[str, dict[str, Any]]:
    bits = {port.name: port.bits for port in host_ports(config)}
    return {
        name: {
            "kind": kind,
            "title": own(f'"{stream}"'),
            "bytes": bits[stream] // 8,
            "members": [_wire(f"{stream}_{signal}") for signal in ("TDATA", "TLAST", "TVALID", "TREADY")],
        }
        for name, (stream, kind) in _HOST.items()
    }


def _wire(port: str) -> str:
    """A port in C++."""
    return f"p_{port}"
