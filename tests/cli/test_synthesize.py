"""`bfpga synthesize` on an accelerator whose figures are in the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from vendor_tools.artefacts import csynth_xml

from bfpga.accelerator.loader import load_accelerator
from bfpga.cli import main
from bfpga.vendor.block_design import block_design

NAME = "pynq_z2_dense"


def test_loops_limits_and_resources_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synthesize", NAME]) == 0
    printed = capsys.readouterr().out
    assert "Array: interval 18 by activations_" in printed
    assert "systolic_array.hpp" in printed
    assert "interconnect, DMAs (assumed)" in printed


def test_the_gate_fails_with_its_findings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    assert main(["synthesize", NAME, "--check", "--json", str(target)]) == 1
    found = json.loads(target.read_text())["findings"]
    assert any(text.startswith("Array ") for text in found)
    assert any(text.startswith("LUT: ") for text in found)


def test_a_report_of_the_vendor_is_laid_beside(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "csynth.xml"
    report.write_text(csynth_xml(block_design(load_accelerator(NAME)), intervals={"Array": 16}))
    assert main(["synthesize", NAME, "--against", str(report)]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[:2] == ["Array", "18"]]
    assert row.split() == ["Array", "18", "16", "35", "9"]


def test_what_is_missing_or_wrong_is_one_message(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["synthesize"]) == 2
    assert "which accelerator?" in capsys.readouterr().err
    assert main(["synthesize", NAME, "--against", str(tmp_path / "none.xml")]) == 2
    assert "none.xml" in capsys.readouterr().err
