"""`bfpga build --hls own`: the whole build without Vitis HLS, IPs of Verilog that Vivado packages.

The stand-in for Vivado describes an IP as the script tells it to, with the ports that it finds in the Verilog.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_by_hand import LOOPS, MadeByHand
from process_designs import TINY
from stand_in_ips import stand_in
from vendor_scripts import JOBS, PATHS
from vendor_tools.workshop import HERE, Workshop

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.process_stream import PROCESSES
from bfpga.contract.processes import process_function
from bfpga.formats.version import VERSION
from bfpga.rtl.packaged import ip_file
from bfpga.vendor.bitstream import source_stages
from bfpga.vendor.bitstream.pipeline import BuildReport
from bfpga.vendor.bitstream.stage import Build
from bfpga.vendor.block_design import block_design
from bfpga.vendor.build_scripts import ScriptOptions, render_scripts
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.manifest import MANIFEST_NAME, read_manifest
from bfpga.vendor.tcl_check import check_scripts

pytestmark = pytest.mark.skipif(shutil.which("tclsh") is None, reason="the stand-ins run scripts in tclsh")
OWN = ScriptOptions(hls="own")
IPS = kernel_ips(load_accelerator(TINY).config)
FUNCTIONS = [process_function(process) for process in PROCESSES]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Vivado is there and no HLS program."""
    monkeypatch.setenv("CXX", str(HERE / "c++"))
    monkeypatch.setattr(source_stages, "check_scripts", lambda *arguments: [])
    return Workshop(tmp_path, TINY, ("vivado",))


def folder(workshop: Workshop) -> Path:
    return workshop.new_build().directory


def statuses(report: BuildReport) -> dict[str, str]:
    return {item.stage: item.status for item in report.outcomes}


# The scripts


@pytest.mark.parametrize("name", [TINY, "zcu104_cluster"])
def test_scripts_without_c_synthesis_pass_the_check(name: str) -> None:
    target = block_design(load_accelerator(name))
    scripts = render_scripts(target, PATHS, JOBS, OWN)
    assert check_scripts(target, scripts, PATHS, JOBS, OWN) == []
    assert not [name for name in scripts if name.startswith("hls")]


@pytest.mark.slow
def test_every_line_of_a_packaging_script_is_needed() -> None:
    """A check finds the loss of each."""
    target = block_design(load_accelerator(TINY))
    lines = render_scripts(target, PATHS, JOBS, OWN)["ip_sequencer.tcl"].split("\n")
    commands = [n for n, line in enumerate(lines) if line.strip() and line[0] != "#" and line not in lines[:n]]
    unnoticed = [
        lines[n]
        for n in commands
        if not check_scripts(target, {"ip_sequencer.tcl": "\n".join(lines[:n] + lines[n + 1 :])}, PATHS, JOBS, OWN)
    ]
    assert unnoticed == []


@pytest.mark.parametrize(
    ("script", "old", "new"),
    [
        ("ip_sequencer.tcl", "ACTIVE_LOW", "ACTIVE_HIGH"),
        ("ip_sequencer.tcl", "ASSOCIATED_RESET $bus", "RESET $bus"),
        ("ip_sequencer.tcl", "range 65536", "range 4096"),
        ("ip_store.tcl", "HAS_TLAST", "HAS_TKEEP"),
        ("ip_store.tcl", "-import_files ", ""),
        ("ip_array.tcl", "{synthesis implementation out_of_context}", "{synthesis}"),
        ("ip_array.tcl", "sums_TREADY", "sums_TVALID"),
        ("ip_array.tcl", "== 0} {", "== 9} {"),
        ("ip_array_ooc.xdc", "-period 10", "-period 8"),
    ],
)
def test_broken_script_is_found(script: str, old: str, new: str) -> None:
    target = block_design(load_accelerator(TINY))
    good = render_scripts(target, PATHS, JOBS, OWN)[script]
    assert old in good
    assert check_scripts(target, {script: good.replace(old, new, 1)}, PATHS, JOBS, OWN)


def test_block_design_is_the_same_whoever_makes_the_ips() -> None:
    target = block_design(load_accelerator(TINY))
    own, vitis = (render_scripts(target, PATHS, JOBS, options) for options in (OWN, ScriptOptions()))
    for script in ("block_design.tcl", "synthesis.tcl", "implementation.tcl"):
        assert own[script] == vitis[script]


# The whole build


def test_build_needs_vivado_alone_and_says_who_made_the_ips(workshop: Workshop) -> None:
    report = workshop.run(own_hls=MadeByHand())
    assert report.error is None
    assert set(statuses(report).values()) == {"done"}
    assert {line.split()[1] for line in Path(workshop.config["calls"]).read_text().splitlines()} == {"vivado"}
    assert sorted(call for call in workshop.calls() if call.startswith("ip_")) == sorted(
        f"ip_{process}" for process in PROCESSES
    )
    tools = read_manifest(workshop.overlay / MANIFEST_NAME).tools
    assert tools is not None
    assert (tools["hls"]["program"], tools["hls"]["version"]) == ("bfpga", VERSION)
    assert re.fullmatch("[0-9a-f]{64}", tools["hls"]["verilog"])
    assert tools["ips"].keys() == {f"xilinx.com:hls:{function}:1.0" for function in FUNCTIONS}


def test_vivado_reads_every_file_of_the_verilog_and_no_other(workshop: Workshop) -> None:
    workshop.run(until="hls", own_hls=MadeByHand())
    build = folder(workshop)
    added = re.findall(r"add_files -norecurse \{([^}]*)}", "".join(
        (build / "scripts" / f"ip_{process}.tcl").read_text() for process in PROCESSES))  # fmt: skip
    assert sorted(added) == sorted(str(path) for path in (build / "verilog").iterdir())
    for process in PROCESSES:
        packaged = {path.name for path in (build / "ip" / process / "src").iterdir()}
        assert packaged == {f"{process_function(process)}.v", f"ip_{process}_ooc.xdc"}


def test_other_verilog_is_another_digest_and_only_its_ip_is_packaged_again(workshop: Workshop) -> None:
    workshop.run(own_hls=MadeByHand())
    first = read_manifest(workshop.overlay / MANIFEST_NAME).tools
    before = len(workshop.calls())
    report = workshop.run(own_hls=MadeByHand({"bfpga_store": ("32'd7", "32'd9")}))
    assert report.error is None
    assert workshop.calls()[before:] == ["ip_store", "block_design", "synthesis", "implementation"]
    second = read_manifest(workshop.overlay / MANIFEST_NAME).tools
    assert first is not None
    assert second is not None
    assert first["hls"]["verilog"] != second["hls"]["verilog"]
    changed = {name for name, entry in first["ips"].items() if entry != second["ips"][name]}
    assert changed == {"xilinx.com:hls:bfpga_store:1.0"}


def test_lost_verilog_is_made_again(workshop: Workshop) -> None:
    workshop.run(own_hls=MadeByHand())
    (folder(workshop) / "verilog" / "bfpga_post.v").unlink()
    maker = MadeByHand()
    assert workshop.run(own_hls=maker).error is None
    assert maker.made == 1


def test_the_other_hls_in_the_same_directory_packages_its_own_ips(workshop: Workshop) -> None:
    workshop.install(workshop.bin, ("vitis_hls",))
    first = workshop.run(own_hls=MadeByHand())
    workshop.reporter.notes.clear()
    second, third = workshop.run(), workshop.run(own_hls=MadeByHand())
    assert first.error is second.error is third.error is None
    assert statuses(second)["hls"] == statuses(third)["hls"] == "done"
    assert not [note for note in workshop.reporter.notes if note.startswith("hls:") and "unchanged" in note]
    tools = read_manifest(workshop.overlay / MANIFEST_NAME).tools
    assert tools is not None
    assert tools["hls"]["program"] == "bfpga"


@pytest.mark.parametrize(
    ("function", "old", "new", "said"),
    [
        ("bfpga_array", "[47:0] sums_TDATA", "[39:0] sums_TDATA", "stream port sums has 40 bits, must have 48"),
        ("bfpga_store", "module bfpga_store ", "module bfpga_stores ", "Vivado finds no module bfpga_store"),
        ("bfpga_post", "sums_TVALID", "sum_TVALID", "no port sums_TVALID"),
    ],
)
def test_verilog_with_other_ports_is_refused(
    workshop: Workshop, function: str, old: str, new: str, said: str
) -> None:
    report = workshop.run(own_hls=MadeByHand({function: (old, new)}))
    assert said in str(report.error)


def test_interval_beyond_the_stated_one_stops_the_build_unless_it_is_accepted(workshop: Workshop) -> None:
    slow = MadeByHand(slow={"Rows": 3})
    report = workshop.run(own_hls=slow)
    assert report.failed_stage == "hls_check"
    assert report.error is not None
    assert report.error.kind == "interval"
    assert "loop Rows" in str(report.error)
    assert "interval of 3 clocks instead of" in str(report.error)
    assert workshop.run(own_hls=slow, accepted=("Rows",)).error is None


def test_loop_that_the_verilog_does_not_have_is_named(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOOPS, "array", ["Other"])
    report = workshop.run(own_hls=MadeByHand())
    assert "bfpga_array has no such loop" in str(report.error)


def test_failed_packaging_is_explained_with_its_log(workshop: Workshop) -> None:
    workshop.configure(failures={"ip_post": "error"})
    report = workshop.run(jobs=1, own_hls=MadeByHand())
    assert report.failed_stage == "hls"
    for text in ("stage hls: post: vivado ended with exit code 1", "[XFORM 203-123]", "ip_post.log:"):
        assert text in str(report.error)


def test_missing_vivado_is_said_and_no_hls_program_is_asked_for(workshop: Workshop) -> None:
    shutil.rmtree(workshop.bin)
    build: Build = workshop.new_build(own_hls=MadeByHand())
    assert build.tools.notes(workshop.design.accelerator.board) == [
        "no Vivado here: the build will end at the first stage that needs it"
    ]
    report = workshop.run(own_hls=MadeByHand())
    assert report.failed_stage == "hls"
    assert report.error is not None
    assert report.error.kind == "missing_tool"
    assert "Vitis HLS" not in str(report.error)


def test_missing_hls_program_is_said_with_the_way_without(workshop: Workshop) -> None:
    assert "--hls own" in str(workshop.run().error)


def test_name_of_a_module_that_ips_share_begins_with_the_ip() -> None:
    made = stand_in(IPS[1])
    shared = {"slice": "module slice (input a);\nendmodule\n"}
    core = {name: text.replace("endmodule", "slice one (.a(1'b0));\nendmodule") for name, text in made.modules.items()}
    text = ip_file(replace(made, modules=shared | core))
    assert re.findall(r"^module (\w+)", text, re.MULTILINE) == ["bfpga_scratchpad_slice", "bfpga_scratchpad"]
    assert "bfpga_scratchpad_slice one (" in text
