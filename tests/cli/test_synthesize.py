"""`bfpga synthesize` on an accelerator whose figures are there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from vendor_tools.artefacts import csynth_xml

from bfpga.accelerator.loader import load_accelerator
from bfpga.cli import main
from bfpga.estimate.hardware import Area, IntervalLimit, LoopFigures
from bfpga.formats.cache import cache_directory
from bfpga.synthesis.ip_figures import IpRecord, kernel_figures
from bfpga.synthesis.kept import Compiled, keep_figures, kept_figures
from bfpga.vendor.block_design import block_design

NAME = "pynq_z2_dense"
#: An accelerator of the tests, for which figures are made up.
DENSE = Path(__file__).parents[1] / "data" / "dense.yaml"
SLOW = IntervalLimit("recurrence", 18, "sums_", 83.5, 2, ("array.hpp:60", "multiplier.hpp:40"))


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An accelerator in whose kept figures the loop that computes is slow and takes too many tables."""
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path / "cache"))
    accelerator = load_accelerator(DENSE)
    loop = LoopFigures("Array", "array.hpp:57", 1, 18, 35, 0.1, (), 49000, 20000, (SLOW,), Area(lut=50_000))
    ips = {name: IpRecord(name, sources) for name, sources in Compiled.of(accelerator).digests.items()}
    figures = kernel_figures(accelerator, ips | {"array": replace(ips["array"], loops=(loop,))})
    keep_figures(figures, accelerator, cache_directory("synthesis"))
    return str(DENSE)


def test_loops_limits_and_resources_are_printed(slow: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synthesize", slow]) == 0
    printed = capsys.readouterr().out
    assert "Array: interval 18 by sums_" in printed
    assert "array.hpp" in printed
    assert "interconnect, DMAs (assumed)" in printed
    # Of these IPs none was mapped whole, and it says so.
    assert "of sequencer, " in printed
    assert "loops and memories alone" in printed


def test_figures_of_the_package_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figures = kept_figures(load_accelerator(NAME), tmp_path)
    assert figures is not None
    assert main(["synthesize", NAME]) == 0
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
    for loop in figures.loops:
        assert [loop.name, loop.place, str(loop.stated_interval), str(loop.interval)] in rows
    for ip in figures.ips:
        assert [ip.name, f"{ip.area.tables:,}", f"{ip.area.ff:,}", str(ip.area.dsp)] in rows


def test_the_gate_fails_with_its_findings(slow: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    assert main(["synthesize", slow, "--check", "--json", str(target)]) == 1
    found = json.loads(target.read_text())["findings"]
    assert any(text.startswith("Array ") for text in found)
    assert any(text.startswith("LUT: ") and " of 53,200 " in text for text in found)


def test_the_gate_passes_where_nothing_is_found(slow: str, tmp_path: Path) -> None:
    cache = cache_directory("synthesis")
    accelerator = load_accelerator(slow)
    figures = kept_figures(accelerator, cache)
    assert figures is not None
    loops = tuple(replace(loop, interval=1, area=Area(dsp=100)) for loop in figures.loops)
    keep_figures(replace(figures, loops=loops), accelerator, cache)
    assert main(["synthesize", slow, "--check"]) == 0


def test_a_report_of_the_vendor_is_laid_beside(
    slow: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = tmp_path / "csynth.xml"
    report.write_text(csynth_xml(block_design(load_accelerator(slow)), intervals={"Array": 16}, part="array"))
    assert main(["synthesize", slow, "--against", str(report)]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[:2] == ["Array", "18"]]
    assert row.split() == ["Array", "18", "16", "35", "9"]


def test_what_is_missing_or_wrong_is_one_message(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["synthesize"]) == 2
    assert "which accelerator?" in capsys.readouterr().err
    assert main(["synthesize", NAME, "--against", str(tmp_path / "none.xml")]) == 2
    assert "none.xml" in capsys.readouterr().err
