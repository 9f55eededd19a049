"""`bfpga build`, which `scripts/build_bitstream.py` calls: what it says, writes and returns."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from made_by_hand import MadeByHand
from process_designs import TINY
from rich.console import Console
from vendor_tools.workshop import HERE, Workshop

from bfpga.accelerator.boards import config_folder
from bfpga.api import building
from bfpga.cli import build_report, main
from bfpga.cli.doctor import vivado
from bfpga.formats.cache import cache_directory
from bfpga.vendor.bitstream import tools
from bfpga.vendor.bitstream.pipeline import STAGES, stage_names
from bfpga.vendor.bitstream.processes import processes_of
from bfpga.vendor.manifest import MANIFEST_NAME, read_manifest

pytestmark = pytest.mark.skipif(shutil.which("tclsh") is None, reason="the stand-ins run scripts in tclsh")
SCRIPT = HERE.parents[2] / "scripts" / "build_bitstream.py"


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Stand-ins on the PATH, no tools anywhere else, no vectors that take a compiler."""
    made = Workshop(tmp_path)
    made.configure()
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    for name in tools.SETTINGS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CXX", str(HERE / "c++"))
    monkeypatch.setattr(building, "kernel_vectors", lambda config: {"starts.txt": b""})
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(tools.Search.__init__, "__defaults__", (*tools.Search.__init__.__defaults__[:1], ()))
    monkeypatch.chdir(tmp_path)
    return made


def result(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_build_ends_with_a_table_an_overlay_and_json(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", TINY, "--jobs", "3", "--json", "r.json"]) == 0
    shown = capsys.readouterr()
    for stage in stage_names():
        assert stage in shown.out
        assert f"{stage}: done in" in shown.err
    assert f"timing met at {workshop.design.clock.actual_mhz:.3f} MHz" in shown.out
    assert f"overlay: {workshop.overlay}" in shown.out
    assert "\x1b" not in shown.out + shown.err
    content = result(Path("r.json"))
    assert content["error"] is None
    assert [item["stage"] for item in content["stages"]] == stage_names()
    assert content["overlay"] == str(workshop.overlay)
    assert content["results"]["timing"]["wns"] == 0.512
    assert read_manifest(workshop.overlay / MANIFEST_NAME).bitstream is not None
    assert main(["build", TINY]) == 0
    assert "implementation: unchanged" in capsys.readouterr().err


def test_failed_stage_is_exit_code_1_with_its_message_last(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    workshop.fail("synthesis", "license")
    assert main(["build", TINY, "--json", "r.json"]) == 1
    shown = capsys.readouterr()
    assert "stage synthesis failed" in shown.err
    assert "[Common 17-345]" in shown.err
    error = result(Path("r.json"))["error"]
    assert (error["stage"], error["kind"]) == ("synthesis", "license")
    assert error["log"].endswith("runme.log")


def test_missing_tools_are_exit_code_3_after_everything_that_needs_none(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(workshop.bin)
    assert main(["build", TINY, "--json", "r.json"]) == 3
    shown = capsys.readouterr()
    assert "note: no HLS and no Vivado here" in shown.err
    assert "source its settings64.sh" in shown.err
    statuses = [item["status"] for item in result(Path("r.json"))["stages"]]
    assert statuses[:4] == ["done", "done", "done", "failed"]


def test_versions_that_do_not_belong_together_are_noted_at_once(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    workshop.configure(versions={"vivado": "2024.2"})
    main(["build", TINY, "--until", "render"])
    shown = capsys.readouterr().err
    assert "note: vitis_hls 2022.1" in shown
    assert "differ" in shown
    assert "PYNQ images" in shown


def test_dry_run_renders_and_shows_every_command_without_tools(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(workshop.bin)
    assert main(["build", TINY, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    build = workshop.new_build().directory
    scripts = build / "scripts"
    for text in ("make test", f"vitis_hls -f {scripts}/hls_array.tcl", f"-source {scripts}/implementation.tcl",
                 f"overlay: {workshop.overlay}"):  # fmt: skip
        assert text in shown
    assert (build / "kernel/src/array.cpp").is_file()
    assert (build / "scripts/hls_array_config.cfg").is_file()
    assert workshop.calls() == []


def test_dry_run_shows_the_flow_that_was_asked_for(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    workshop.install(workshop.bin, ("v++", "vitis-run"))
    workshop.configure(version="2024.1")
    assert main(["build", TINY, "--dry-run", "--hls-flow", "v++"]) == 0
    shown = capsys.readouterr().out
    assert "v++ -c --mode hls --config" in shown
    assert "vitis-run --mode hls --package --config" in shown


def test_build_with_own_hls_asks_for_vivado_alone(
    workshop: Workshop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bfpga.rtl.packaged.PackagedVerilog", MadeByHand)
    (workshop.bin / "vitis_hls").unlink()
    assert main(["build", TINY, "--hls", "own", "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "ip_array.tcl" in shown.out
    assert "vitis" not in shown.out.replace("--hls vitis", "")
    assert "no HLS" not in shown.err
    assert main(["build", TINY, "--hls", "own", "--json", "r.json"]) == 0
    assert "hls: done in" in capsys.readouterr().err
    content = result(Path("r.json"))
    assert content["tools"]["hls"].startswith("bfpga ")
    assert content["results"]["hls_check"]["intervals"]["Array"] == 1


def test_several_accelerators_are_built_one_after_the_other(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same one twice is one build; two of one name would be one overlay."""
    assert main(["build", "tiny", "tiny", "pynq_z2_dense", "--dry-run", "--json", "r.json"]) == 0
    assert [item["accelerator"] for item in result(Path("r.json"))["builds"]] == ["tiny", "pynq_z2_dense"]
    assert capsys.readouterr().out.count("build directory: ") == 2
    shutil.copy(config_folder("accelerators") / "tiny.yaml", "other.yaml")
    assert main(["build", "tiny", "other.yaml", "--dry-run"]) == 2
    assert "two accelerators have the name 'tiny'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tinny"], "did you mean `tiny`"),
        ([TINY, "--until", "hsl"], "there is no stage 'hsl'"),
        ([TINY, "--from", "package", "--until", "hls"], "comes after hls"),
        ([TINY, "--hls-flow", "vivado_hls"], "--hls-flow vivado_hls"),
        ([TINY, "--hls", "vivado"], "--hls vivado: there is vitis, own"),
        ([TINY, "--hls", "own", "--hls-flow", "v++"], "which --hls own does not run"),
        ([TINY, "--vivado-version", "new"], "'new' is no version of Vivado"),
        ([TINY, "--jobs", "0"], "--jobs"),
        ([TINY, "--timeout", "0"], "--timeout"),
        ([TINY, "--board-files", "nowhere"], "is no directory"),
        ([TINY, "--json", "nowhere/r.json"], "directory does not exist"),
        ([TINY, "--directory", "a place with spaces"], "cannot be given to the vendor's tools"),
        ([TINY, "--directory", "a_file"], "a_file"),
        ([TINY, "--overlays", "a_file/overlays"], "a_file: is no directory; --overlays"),
        ([], "accelerator"),
    ],
)
def test_wrong_use_is_exit_code_2_with_one_message(
    workshop: Workshop, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    Path("a_file").touch()
    assert main(["build", *arguments]) == 2
    shown = capsys.readouterr().err
    assert said.lower() in shown.lower()
    assert "Traceback" not in shown
    assert workshop.calls() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_directory_that_cannot_be_written_is_said(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("closed").mkdir(mode=0o555)
    assert main(["build", TINY, "--directory", "closed"]) == 2
    assert "closed" in capsys.readouterr().err
    assert main(["build", TINY, "--overlays", "closed"]) == 2
    assert "directory of overlays cannot be written" in capsys.readouterr().err


def test_board_files_are_given_to_the_script_of_the_block_design(workshop: Workshop) -> None:
    Path("boards").mkdir()
    assert main(["build", TINY, "--until", "render", "--board-files", "boards"]) == 0
    text = workshop.new_build().script("block_design.tcl").read_text()
    assert f"board.repoPaths [list {{{workshop.directory}/boards}}]" in text


def test_help_teaches_stages_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "--help"]) == 0
    shown = capsys.readouterr().out
    for stage in stage_names():
        assert stage in shown
    assert "bfpga build pynq_z2_dense --dry-run" in shown
    assert "Exit code: 0 done, 1 a stage failed" in shown


def test_terminal_shows_lines_of_a_log_as_they_are() -> None:
    screen = io.StringIO()
    reporter = build_report.ConsoleReporter(Console(file=screen, force_terminal=True, width=120))
    reporter.started(STAGES[3])
    reporter.progress(STAGES[3], 65.0, "ERROR: [Synth 8-439] module 'x' not found [/a/system.v:12] [bold]")
    reporter.finished(STAGES[3], "failed", 66.0)
    assert "1 min 05 s  ERROR: [Synth 8-439] module 'x' not found [/a/system.v:12] [bold]" in screen.getvalue()


def test_pipe_gets_a_line_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter, clock = build_report.ConsoleReporter(), [0.0]
    monkeypatch.setattr(build_report.time, "monotonic", lambda: clock[0])
    reporter.started(STAGES[3])
    for second in range(150):
        clock[0] = float(second)
        reporter.progress(STAGES[3], float(second), f"line {second}")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"hls: {STAGES[3].purpose}", "hls: 1 min 00 s: line 60", "hls: 2 min 00 s: line 120"]


def interrupted(workshop: Workshop, number: signal.Signals, runs: int) -> str:
    """The script in a process of its own, interrupted while its tool hangs for the ``runs``-th time; what it said."""
    environment = {**os.environ, **workshop.environment, "BFPGA_CACHE": str(cache_directory())}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), TINY],
        cwd=workshop.directory,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's job in the background ignores it, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while workshop.calls().count("hls_sequencer") != runs and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    return errors


def test_interrupted_build_ends_its_tools_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """With vectors and a C simulation by the real compiler."""
    workshop = Workshop(tmp_path)
    workshop.fail("hls", "hang")
    for runs, (number, csim) in enumerate(((signal.SIGINT, "csim: done"), (signal.SIGTERM, "csim: unchanged")), 1):
        said = interrupted(workshop, number, runs)
        assert csim in said
        assert "the same command continues where it stopped" in said
        assert processes_of(workshop.new_build().directory) == []


def test_doctor_finds_the_tools_of_the_build(workshop: Workshop) -> None:
    check = vivado()
    assert check.found
    assert "2022.1" in check.detail
    shutil.rmtree(workshop.bin)
    assert not vivado().found
