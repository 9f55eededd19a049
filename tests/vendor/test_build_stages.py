"""A whole build against stand-ins for the vendor's tools: what it makes, keeps, and does again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from effort import each_once
from process_designs import TINY
from vendor_tools.workshop import HERE, Workshop

from bfpga.errors import ConfigurationError
from bfpga.vendor.bitstream import source_stages
from bfpga.vendor.bitstream.pipeline import run_build, stage_names
from bfpga.vendor.bitstream.stage import Build
from bfpga.vendor.block_design import block_design
from bfpga.vendor.manifest import MANIFEST_NAME, file_hash, read_manifest

pytestmark = pytest.mark.skipif(shutil.which("tclsh") is None, reason="the stand-ins run scripts in tclsh")
#: Stages in which a vendor tool is called.
TOOL_STAGES = ["hls", "block_design", "synthesis", "implementation"]


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(HERE / "c++"))


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Other tests build with the check of the scripts; here it would only take time."""
    monkeypatch.setattr(source_stages, "check_scripts", lambda *arguments: [])
    return Workshop(tmp_path)


#: Flow, programs that are installed, their version.
FLOWS = [
    ("vitis_hls", ("vivado", "vitis_hls"), "2020.1"),
    ("vitis-run", ("vivado", "vitis-run"), "2024.1"),
    ("v++", ("vivado", "vitis-run", "v++"), "2025.1"),
]


@pytest.mark.parametrize(("tools", "accelerator"), each_once(FLOWS, [TINY, "kv260_dense"]))
def test_build_gives_a_complete_overlay(
    tmp_path: Path, tools: tuple[str, tuple[str, ...], str], accelerator: str
) -> None:
    """R84: 2020.1: Vivado leaves the handoff in `.srcs`, later in `.gen`; up to 2021.2 the Y2K22 patch is there."""
    flow, programs, version = tools
    workshop = Workshop(tmp_path, accelerator, programs, version)
    scripts = tmp_path / "common" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "automg_patch_20220104.tcl").touch()
    report = workshop.run(flow=flow)
    assert report.error is None
    assert [item.stage for item in report.outcomes] == stage_names()
    assert {item.status for item in report.outcomes} == {"done"}
    assert workshop.stages() == TOOL_STAGES
    assert any(call.endswith("_package") for call in workshop.calls()) == (flow == "v++")
    assert report.overlay == workshop.overlay
    manifest = read_manifest(workshop.overlay / MANIFEST_NAME)
    design = workshop.design
    assert manifest.accelerator.digest == design.accelerator.digest
    assert manifest.clock.actual_mhz == pytest.approx(design.clock.actual_mhz, rel=1e-6)
    assert manifest.tools is not None
    assert {name: tool for name, tool in manifest.tools.items() if name != "ips"} == {
        "hls": {"program": flow, "version": version},
        "vivado": {"program": "vivado", "version": version},
        "board_files": design.accelerator.board.board_part.rpartition(":")[0] + ":1.0",
    }
    assert manifest.utilization is not None
    assert manifest.utilization["lut"] == {
        "used": design.accelerator.board.lut / 2,
        "available": design.accelerator.board.lut,
    }
    assert manifest.timing is not None
    assert manifest.timing["wns"] == 0.512
    assert manifest.timing["reachable_mhz"] > manifest.timing["clock_mhz"]
    assert set(manifest.files) == {"bitstream", "handoff", "utilization_report", "timing_report"}
    for entry in manifest.files.values():
        assert entry is not None
        assert file_hash(workshop.overlay / entry.name) == entry.sha256
    assert manifest.bitstream is not None
    assert (workshop.overlay / manifest.bitstream.name).read_bytes() == Path(workshop.config["bit"]).read_bytes()


def test_second_build_keeps_everything(workshop: Workshop) -> None:
    """With other jobs and another limit of time too, which change no result."""
    workshop.run(jobs=1, limit_seconds=50)
    before, content = workshop.calls(), workshop.overlay_content()
    report = workshop.run(jobs=7, limit_seconds=3000)
    assert "-jobs 7" in workshop.new_build().script("synthesis.tcl").read_text()
    assert {item.status for item in report.outcomes} == {"kept"}
    assert report.overlay == workshop.overlay
    assert (workshop.calls(), workshop.overlay_content()) == (before, content)


def test_until_ends_a_build_and_the_next_goes_on(workshop: Workshop) -> None:
    report = workshop.run(until="ip_check")
    assert report.error is None
    assert [item.stage for item in report.outcomes if item.status == "open"] == stage_names()[6:]
    assert not workshop.overlay.exists()
    report = workshop.run()
    assert [item.stage for item in report.outcomes if item.status == "kept"] == stage_names()[:6]
    assert workshop.stages() == TOOL_STAGES


def test_from_does_a_stage_and_all_after_it_again(workshop: Workshop) -> None:
    workshop.run()
    report = workshop.run(redo_from="synthesis")
    done = [item.stage for item in report.outcomes if item.status == "done"]
    assert done == stage_names()[stage_names().index("synthesis") :]
    assert workshop.stages() == [*TOOL_STAGES, "synthesis", "implementation"]


def test_stages_that_do_not_exist_or_contradict_are_refused(workshop: Workshop) -> None:
    with pytest.raises(ConfigurationError, match=r"no stage 'hsl'; stages: render, csim"):
        workshop.run(until="hsl")
    with pytest.raises(ConfigurationError, match="comes after render"):
        workshop.run(until="render", redo_from="hls")


def test_another_version_of_the_tools_starts_at_synthesis_of_the_kernel(workshop: Workshop) -> None:
    workshop.run()
    workshop.configure(version="2023.2")
    report = workshop.run()
    assert [item.stage for item in report.outcomes if item.status == "kept"] == ["render", "csim", "tcl_check"]
    manifest = read_manifest(workshop.overlay / MANIFEST_NAME)
    assert manifest.tools is not None
    assert manifest.tools["vivado"]["version"] == "2023.2"


def test_changed_accelerator_is_built_again_in_the_same_directory(workshop: Workshop) -> None:
    """Another clock is another digest, hence another directory; here the directory is held to show the keys."""
    workshop.run()
    accelerator = workshop.design.accelerator
    changed = block_design(replace(accelerator, clock_mhz=100.0, digest="f" * 64))
    build = workshop.new_build()
    held = Build(changed, build.settings, build.tools)
    report = run_build(held, workshop.reporter, until="ip_check")
    assert "kept" not in {item.status for item in report.outcomes}


@pytest.mark.parametrize(
    ("place", "first_done"),
    [
        ("kernel/src/array.cpp", "render"),
        ("stages/timing.json", "timing"),
    ],
)
def test_lost_file_is_made_again_with_all_that_follows(workshop: Workshop, place: str, first_done: str) -> None:
    workshop.run()
    content = workshop.overlay_content()
    (workshop.new_build().directory / place).unlink()
    report = workshop.run()
    assert next(item.stage for item in report.outcomes if item.status == "done") == first_done
    assert [item.status for item in report.outcomes] == sorted((item.status for item in report.outcomes), reverse=True)
    assert workshop.overlay_content() == content


def test_touched_overlay_is_packaged_again(workshop: Workshop) -> None:
    workshop.run()
    content = workshop.overlay_content()
    (workshop.overlay / MANIFEST_NAME).write_text("{}")
    report = workshop.run()
    assert [item.stage for item in report.outcomes if item.status == "done"] == ["package"]
    assert workshop.overlay_content() == content


@pytest.mark.parametrize("text", ["{"])
def test_broken_record_counts_as_none(workshop: Workshop, text: str) -> None:
    workshop.run(until="hls")
    (workshop.new_build().directory / "stages" / "hls.json").write_text(text)
    report = workshop.run(until="hls")
    assert [item.status for item in report.outcomes][:4] == ["kept", "kept", "kept", "done"]
