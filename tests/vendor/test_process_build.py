"""The IPs of a build with stand-ins for the vendor's tools: six IPs, each made, checked, kept alone."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from process_designs import TINY
from vendor_tools.artefacts import csynth_xml
from vendor_tools.workshop import HERE, Workshop

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.process_stream import PROCESSES
from bfpga.contract.processes import process_function
from bfpga.vendor import render
from bfpga.vendor.bitstream import hls_stages, source_stages, vitis_ips
from bfpga.vendor.bitstream.hls_gates import PROCESS_LOOPS
from bfpga.vendor.bitstream.pipeline import run_build, stage_names
from bfpga.vendor.bitstream.processes import processes_of
from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.manifest import MANIFEST_NAME, read_manifest

pytestmark = pytest.mark.skipif(shutil.which("tclsh") is None, reason="the stand-ins run scripts in tclsh")
PROGRAMS = ("vivado", "vitis_hls", "vitis-run", "v++")


@pytest.fixture(autouse=True)
def changes(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Text behind rendered files, by their paths. No stand-in compiles them; a test may change them."""
    monkeypatch.setenv("CXX", str(HERE / "c++"))
    monkeypatch.setattr(source_stages, "check_scripts", lambda *arguments: [])
    real = render.render_kernel
    changed: dict[str, str] = {}

    def rendered(name: str, digest: str, config: KernelConfig) -> dict[str, str]:
        return {path: text + changed.get(path, "") for path, text in real(name, digest, config).items()}

    def of_design(design: BlockDesign) -> dict[str, str]:
        return rendered(design.accelerator.name, design.accelerator.digest, design.accelerator.config)

    monkeypatch.setattr(render, "render_kernel", rendered)
    for module in (vitis_ips, hls_stages, source_stages):
        monkeypatch.setattr(module, "rendered_kernel", of_design)
    return changed


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, TINY, PROGRAMS, "2024.1")


def test_all_ips_are_synthesised_and_lie_in_the_repository(workshop: Workshop) -> None:
    report = workshop.run(flow="v++")
    assert report.error is None
    assert [item.status for item in report.outcomes] == ["done"] * len(stage_names())
    build = workshop.new_build().directory
    hls = [call for call in workshop.calls() if call.startswith("hls")]
    names = [f"hls_{process}{step}" for process in PROCESSES for step in ("", "_package")]
    assert sorted(hls) == sorted(names)
    for process in PROCESSES:
        component = (build / "ip" / process / "component.xml").read_text()
        assert f"<spirit:name>{process_function(process)}<" in component
        assert (build / "reports" / f"hls_{process}.xml").is_file()
        assert (build / "logs" / f"hls_{process}.log").is_file()
    manifest = read_manifest(workshop.overlay / MANIFEST_NAME)
    assert manifest.tools is not None
    ips = manifest.tools["ips"]
    assert ips.keys() == {f"xilinx.com:hls:{process_function(process)}:1.0" for process in PROCESSES}
    assert len({entry["sha256"] for entry in ips.values()}) == len(PROCESSES)
    assert {entry["cell"] for entry in ips.values()} == {"accelerator", *PROCESSES[1:]}


def test_ips_are_synthesised_at_the_same_time_up_to_the_number_of_jobs(workshop: Workshop) -> None:
    workshop.run(until="tcl_check")
    workshop.configure(seconds=0.15)
    assert 2 <= most_at_the_same_time(workshop, jobs=3) <= 3


def sessions(directory: Path) -> set[int]:
    """The tools that run: each has a session, with whatever it starts."""
    found = set()
    for number in processes_of(directory):
        with suppress(ProcessLookupError):
            found.add(os.getsid(number))
    return found


def most_at_the_same_time(workshop: Workshop, jobs: int) -> int:
    """The most tools that ran at the same time while all IPs were synthesised."""
    most, directory = 0, workshop.new_build(jobs=jobs).directory
    with ThreadPoolExecutor(1) as pool:
        build = pool.submit(workshop.run, "hls", "hls", jobs=jobs)
        while not build.done():
            # One look takes a while; who is seen twice was there in between with all others who are.
            most = max(most, len(sessions(directory) & sessions(directory)))
            time.sleep(0.05)
    assert build.result().error is None
    return most


def test_the_ip_that_fails_is_named_and_the_others_are_kept(workshop: Workshop) -> None:
    workshop.fail("hls_post", "error")
    report = workshop.run(jobs=1)
    assert report.failed_stage == "hls"
    assert report.error is not None
    for text in ("stage hls: post: vitis_hls ended with exit code 1", "[XFORM 203-123]", "hls_post.log:"):
        assert text in str(report.error)
    assert workshop.calls() == [f"hls_{process}" for process in PROCESSES[: PROCESSES.index("post") + 1]]
    workshop.configure(failures={})
    before = len(workshop.calls())
    assert workshop.run(until="ip_check").error is None
    assert sorted(workshop.calls()[before:]) == ["hls_post", "hls_store"]
    assert "hls: sequencer, scratchpad, weights, array unchanged" in workshop.reporter.notes


def test_every_ip_that_fails_at_the_same_time_is_named(workshop: Workshop) -> None:
    workshop.configure(failures={"hls_sequencer": "error", "hls_scratchpad": "wordless"}, seconds=0.3)
    error = workshop.run(jobs=2).error
    assert error is not None
    assert "stage hls: sequencer: vitis_hls" in str(error)
    assert "also failed: stage hls: scratchpad: vitis_hls" in str(error)
    assert error.log is not None
    assert error.log.name == "hls_sequencer.log"


def test_an_ip_that_hangs_ends_at_the_limit_and_only_with_what_it_started(workshop: Workshop) -> None:
    """The helper of the stand-in has a session of its own and ignores SIGTERM."""
    workshop.fail("hls_weights", "hang")
    started = time.monotonic()
    error = workshop.run(limit_seconds=1.5, jobs=3).error
    assert error is not None
    assert error.kind == "timeout"
    for text in ("stage hls: weights: vitis_hls has not finished within 1.5 s", "--timeout", "Phase 4.1 Global"):
        assert text in str(error)
    assert any("Phase 4.1" in line for line in workshop.reporter.lines)
    assert time.monotonic() - started < 20
    assert processes_of(workshop.new_build().directory) == []
    records = {path.stem for path in (workshop.new_build().directory / "stages").glob("hls.*.json")}
    assert {"hls.sequencer", "hls.scratchpad"} <= records
    assert "hls.weights" not in records


def test_an_interruption_ends_every_tool(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(runs: object, timeout: float | None = None) -> object:
        monkeypatch.undo()
        time.sleep(0.5)
        raise KeyboardInterrupt

    workshop.configure(failures={"hls_sequencer": "hang", "hls_scratchpad": "hang"})
    build = workshop.new_build(jobs=2)
    run_build(build, workshop.reporter, until="tcl_check")
    monkeypatch.setattr("bfpga.vendor.bitstream.parts.wait", interrupted)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_build(build, workshop.reporter, until="hls")
    assert time.monotonic() - started < 20, "the tools ran into their limit"
    assert processes_of(build.directory) == []
    assert set(workshop.calls()) == {"hls_sequencer", "hls_scratchpad"}


def test_a_changed_process_is_synthesised_alone(workshop: Workshop, changes: dict[str, str]) -> None:
    workshop.run(until="hls")
    before = len(workshop.calls())
    changes["src/store.cpp"] = "// another line\n"
    report = workshop.run(until="hls")
    assert {item.stage: item.status for item in report.outcomes if item.status != "open"}["hls"] == "done"
    assert workshop.calls()[before:] == ["hls_store"]


def test_a_lost_ip_is_made_again_alone(workshop: Workshop) -> None:
    workshop.run(until="hls")
    before = len(workshop.calls())
    (workshop.new_build().directory / "ip" / "post" / "component.xml").unlink()
    assert workshop.run(until="ip_check").error is None
    assert workshop.calls()[before:] == ["hls_post"]


# Gates


def test_a_report_of_another_ip_is_refused(workshop: Workshop) -> None:
    workshop.artefact("csynth_bfpga_store", csynth_xml(workshop.design, part="weights"))
    error = workshop.run(until="ip_check").error
    assert error is not None
    assert "the report of bfpga_weights names no such loop" in str(error)


def test_the_resources_of_all_ips_count_together(workshop: Workshop) -> None:
    for process in PROCESSES:
        text = csynth_xml(workshop.design, part=process, used={"LUT": 9000})
        workshop.artefact(f"csynth_{process_function(process)}", text)
    error = workshop.run(until="ip_check").error
    assert error is not None
    assert (error.kind, "54,000 LUT for the kernel alone" in str(error)) == ("utilization", True)


def test_the_estimate_of_every_ip_is_kept(workshop: Workshop) -> None:
    build = workshop.new_build()
    assert run_build(build, workshop.reporter, until="hls_check").error is None
    result = build.results["hls_check"]
    assert result["ips"].keys() == {process_function(process) for process in PROCESSES}
    assert result["estimate"]["lut"] == sum(item["lut"] for item in result["ips"].values())
    assert result["intervals"].items() >= {PROCESS_LOOPS[process]: 1 for process in PROCESSES}.items()
    record = json.loads((build.directory / "stages" / "hls.post.json").read_text())
    assert record["tool"] == "vitis_hls 2024.1"
    assert "ip/post/component.xml" in record["artefacts"]
