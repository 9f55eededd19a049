"""The Verilog that Vivado packages, as Yosys reads it, against what the packaging scripts say of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tiny_verilog import ACCELERATOR, IPS, verilog
from vendor_scripts import JOBS, PATHS
from verilog_simulation import missing_tools

from bfpga.rtl import packaged
from bfpga.rtl.packaged import PackagedVerilog
from bfpga.synthesis.netlist.yosys import find_yosys
from bfpga.vendor.bitstream.hls_stages import ip_loops
from bfpga.vendor.bitstream.stage import OwnIp
from bfpga.vendor.block_design import block_design
from bfpga.vendor.build_scripts import ScriptOptions, render_scripts

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))
#: Signals that a slave drives; a master drives all others.
FROM_SLAVE = {"TREADY", "AWREADY", "WREADY", "BRESP", "BVALID", "ARREADY", "RDATA", "RRESP", "RVALID"}


@pytest.fixture(scope="module")
def made() -> dict[str, OwnIp]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packaged, "ips_of", lambda accelerator: list(map(verilog, IPS)))
        return PackagedVerilog().make(ACCELERATOR)


@pytest.fixture(scope="module")
def modules(made: dict[str, OwnIp], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All modules of all IPs read together: Yosys refuses two of one name, and a module that is missing."""
    place: Path = tmp_path_factory.mktemp("verilog")
    for name, ip in made.items():
        (place / f"{name}.v").write_text(ip.verilog)
    files = " ".join(f"{name}.v" for name in made)
    find_yosys().run(f"read_verilog {files}\nhierarchy -check\nblackbox\nwrite_json ports.json\n", place, 600)
    read: dict[str, Any] = json.loads((place / "ports.json").read_text())["modules"]
    return read


def test_scripts_name_every_port_of_the_verilog_once_with_its_direction_and_width(modules: dict[str, Any]) -> None:
    scripts = render_scripts(block_design(ACCELERATOR), PATHS, JOBS, ScriptOptions(hls="own"))
    for ip in IPS.values():
        text = scripts[f"ip_{ip.part}.tcl"]
        top = re.search(r"^set_property top (\w+) ", text, re.MULTILINE)
        assert top is not None
        ports = {name: (port["direction"], len(port["bits"])) for name, port in modules[top[1]]["ports"].items()}
        said: dict[str, tuple[str, int]] = {}
        for bus in text.split("set bus ")[1:]:
            master = "interface_mode master" in bus
            wide = re.search(r"value (\d+) \[ipx::add_bus_parameter TDATA_NUM_BYTES", bus)
            for port, signal in re.findall(r"physical_name (\w+) \[ipx::add_port_map (\w+) ", bus):
                assert port not in said
                width = 8 * int(wide[1]) if wide and signal == "TDATA" else ports[port][1]
                said[port] = "output" if master != (signal in FROM_SLAVE) else "input", width
        assert said == ports


def test_every_loop_of_the_verilog_keeps_its_interval(made: dict[str, OwnIp]) -> None:
    design = block_design(ACCELERATOR)
    for ip in IPS.values():
        stated = {loop.label: loop.interval for loop in ip_loops(design, ip)}
        found = made[ip.function].intervals
        assert found
        assert all(found[label] <= stated[label] for label in found)
