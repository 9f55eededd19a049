"""Every way in which a vendor tool fails ends at its stage, with a message that helps; what was done stays done."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from vendor_tools.artefacts import timing_report, utilization_report
from vendor_tools.workshop import HERE, Workshop

from bfpga.accelerator.boards import load_boards
from bfpga.errors import DeviceError
from bfpga.vendor.bitstream import source_stages
from bfpga.vendor.bitstream.diagnosis import board_advice, duration
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.pipeline import BuildReport, run_build, stage_names
from bfpga.vendor.handoff import render_handoff

pytestmark = pytest.mark.skipif(shutil.which("tclsh") is None, reason="the stand-ins run scripts in tclsh")


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(HERE / "c++"))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts themselves are checked elsewhere."""
    monkeypatch.setattr(source_stages, "check_scripts", lambda *arguments: [])


@pytest.fixture
def workshop(tmp_path: Path, unchecked: None) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A build that fails in one way after the other: a stage that is done once is not done again."""
    return Workshop(tmp_path_factory.mktemp("lasting"))


def stopped_at(report: BuildReport, stage: str) -> BuildError:
    """The error of a build that ended at ``stage``, with everything before done and everything after open."""
    assert report.error is not None
    place = stage_names().index(stage)
    statuses = [item.status for item in report.outcomes]
    assert report.failed_stage == stage
    assert set(statuses[:place]) <= {"done", "kept"}
    assert set(statuses[place + 1 :]) <= {"open"}
    assert report.overlay is None
    return report.error


FAILURES = [
    # stage, how the tool fails, kind of the error, what the message must hold
    ("hls", "error", "tool", ["ended with exit code 1", "[XFORM 203-123] an error of the tool", "_sequencer.log:3:"]),
    ("hls", "silent", "artefact", ["exit code 0 but has not written", "component.xml", "log:"]),
    ("hls", "error_with_zero", "tool", ["exit code 0", "[HLS 200-70] an error that the exit code hides"]),
    ("hls", "wordless", "tool", ["exit code 3 without an ERROR line", "INFO: the last thing it did"]),
    ("hls", "killed", "memory", ["killed", "lack of memory", "this machine has", "about 8 GiB"]),
    ("hls", "killed_in_shell", "memory", ["line 312", "Killed", "about 8 GiB", "--jobs"]),
    ("hls", "y2k22", "y2k22", ["bad lexical cast", "76960", "2022.1 or newer"]),
    ("hls", "part", "part", ["[HLS 200-1023]", "xc7z020clg400-1", "Add Design Tools or Devices"]),
    ("block_design", "board_files", "board_files", ["tul.com.tw:pynq-z2", "pynq-z2.zip", "--board-files"]),
    ("block_design", "part", "part", ["[Coretcl 2-106]", "xc7z020clg400-1"]),
    ("block_design", "silent", "artefact", ["has not written", "block_design.txt"]),
    ("synthesis", "license", "license", ["[Common 17-345]", "runme.log:3", "XILINXD_LICENSE_FILE"]),
    ("synthesis", "run_error", "tool", ["[Synth 8-439] module 'bfpga_systolic' not found", "synth_1/runme.log:2"]),
    ("synthesis", "out_of_memory", "memory", ["Killed", "runme.log", "about 8 GiB"]),
    ("synthesis", "wrong_part", "part", ["xc7z010clg400-1", "the board has xc7z020clg400-1"]),
    ("synthesis", "killed", "memory", ["(killed)"]),
    ("synthesis", "no_report", "artefact", ["exit code 0 but has not written", "reports/synthesis.txt"]),
    ("implementation", "place", "utilization", ["UTLZ-1", "does not fit into xc7z020clg400-1"]),
    ("implementation", "error", "tool", ["an error of the tool", "implementation.log"]),
    ("implementation", "no_bitstream", "tool", ["system_wrapper.bit"]),
    ("implementation", "silent", "artefact", ["implementation.txt"]),
]


@pytest.mark.parametrize(
    ("stage", "mode", "kind", "said"), FAILURES, ids=lambda value: value if isinstance(value, str) else ""
)
@pytest.mark.usefixtures("unchecked")
def test_failure_stops_its_stage_with_its_message(
    lasting: Workshop, stage: str, mode: str, kind: str, said: list[str]
) -> None:
    for log in lasting.directory.rglob("*.log"):  # of a build before, which no tool ends within a second
        os.utime(log, (0, 0))
    lasting.fail(stage, mode)
    error = stopped_at(lasting.run(), stage)
    for text in said:
        assert text in str(error)
    assert error.kind == kind
    assert error.log is None or error.log.is_file()


@pytest.mark.parametrize(("stage", "mode"), [("synthesis", "license")])
def test_build_continues_at_the_stage_that_failed_once_the_cause_is_gone(
    workshop: Workshop, stage: str, mode: str
) -> None:
    workshop.fail(stage, mode)
    stopped_at(workshop.run(), stage)
    calls = len(workshop.calls())
    workshop.configure(failures={})
    report = workshop.run()
    assert report.error is None
    kept = [item.stage for item in report.outcomes if item.status == "kept"]
    assert kept == stage_names()[: stage_names().index(stage)]
    assert ("hls_sequencer" if stage == "hls" else stage) in workshop.calls()[calls:]


@pytest.mark.parametrize("call", ["hls_array", "hls_array_package"])
def test_config_file_flow_fails_with_its_message_too(tmp_path: Path, call: str) -> None:
    workshop = Workshop(tmp_path, programs=("vivado", "vitis-run", "v++"), version="2024.2")
    workshop.fail(call, "silent")
    error = stopped_at(workshop.run(flow="v++"), "hls")
    # Without synthesis there is no synthesized design to package; without packaging there is no IP.
    assert ("has not written" if call.endswith("package") else "no synthesized design to package") in str(error)


def test_config_file_flow_without_its_packager_is_refused_before_synthesis(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, programs=("vivado", "v++"), version="2024.2")
    error = stopped_at(workshop.run(flow="v++"), "hls")
    assert (error.kind, "vitis-run" in str(error), workshop.calls()) == ("missing_tool", True, [])


def test_y2k22_is_refused_before_the_tool_is_called(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, version="2021.2")
    error = stopped_at(workshop.run(), "hls")
    assert (error.kind, workshop.calls()) == ("y2k22", [])
    assert "support.xilinx.com/s/article/76960" in str(error)


def test_design_that_does_not_fit_stops_after_synthesis(workshop: Workshop) -> None:
    workshop.artefact("utilization", utilization_report(workshop.design, 1.3))
    error = stopped_at(workshop.run(), "utilization")
    assert error.kind == "utilization"
    assert "implementation" not in workshop.calls()


def test_missed_timing_stops_before_packaging_and_hands_no_bitstream_on(workshop: Workshop) -> None:
    workshop.artefact("timing", timing_report(wns=-0.75))
    workshop.configure(wns=-0.75)
    error = stopped_at(workshop.run(), "timing")
    assert error.kind == "timing"
    assert "would be met" in str(error)
    assert not list((workshop.new_build().directory / "overlay").glob("*.bit"))
    assert not workshop.overlay.exists()


def test_handoff_of_another_design_is_not_packaged(workshop: Workshop) -> None:
    text = render_handoff(workshop.design).replace('INSTANCE="tensor_dma"', 'INSTANCE="axi_dma_0"')
    workshop.artefact("hwh", text)
    error = stopped_at(workshop.run(), "package")
    assert (error.kind, "has no cell tensor_dma" in str(error)) == ("handoff", True)
    assert not workshop.overlay.exists()


def test_failed_c_simulation_stops_before_any_vendor_tool(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = workshop.directory / "broken_compiler"
    broken.write_text("#!/bin/sh\necho 'array.cpp:7:1: error: expected a semicolon' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    error = stopped_at(workshop.run(), "csim")
    assert "csim.log" in str(error)
    assert "array.cpp:7:1: error: expected a semicolon" in str(error)
    assert workshop.calls() == []


def test_file_that_cannot_be_written_is_a_failure_of_its_stage(workshop: Workshop) -> None:
    """Here the manifest's place is taken by a directory; what was built stays."""
    (workshop.overlay / "overlay.yaml").mkdir(parents=True)
    error = stopped_at(workshop.run(), "package")
    assert error.kind == "file"
    assert "overlay.yaml" in str(error)
    (workshop.overlay / "overlay.yaml").rmdir()
    assert [item.status for item in workshop.run().outcomes] == [*["kept"] * 11, "done"]


def test_emulator_that_disagrees_with_the_kernel_stops_the_first_stage(workshop: Workshop) -> None:
    def disagree(config: object) -> dict[str, bytes]:
        raise DeviceError("the emulator disagrees in start 3")

    build = workshop.new_build()
    build = replace(build, settings=replace(build.settings, vectors=disagree))
    assert "start 3" in str(stopped_at(run_build(build, workshop.reporter), "render"))


def test_machine_without_tools_runs_what_needs_none_and_says_what_is_missing(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, programs=())
    error = stopped_at(workshop.run(), "hls")
    assert error.kind == "missing_tool"
    assert "looked in: the PATH; $XILINX_VIVADO (not set)" in str(error)
    assert str(error).count("looked in") == 1


def test_machine_without_vivado_stops_at_the_block_design(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, programs=("vitis_hls",))
    error = stopped_at(workshop.run(), "block_design")
    assert (error.kind, "vivado was not found" in str(error)) == ("missing_tool", True)


def test_every_board_says_where_its_board_files_come_from() -> None:
    for board in load_boards():
        assert board.board_files_in_vivado or board.board_files_source.startswith("https://"), board.name


def test_advice_for_boards_that_vivado_knows_is_the_installer(tmp_path: Path) -> None:
    advice = board_advice(Workshop(tmp_path, "kv260_dense").design)
    assert "xilinx.com:kv260_som" in advice
    assert "when the device xck26-sfvc784-2LV-c is installed" in advice


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.96, "10.0 s"), (45.2, "45 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")]
)
def test_durations_are_said_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text
