"""`bfpga run` on an accelerator of several cores: what it prints of each, and what of one that fails."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("pynq")
pytest.importorskip("pydantic")

from board_fixtures import MODELS

from bfpga.accelerator.loader import accelerator_path
from bfpga.board.local import VirtualTarget
from bfpga.board.virtual.faults import KernelNeverDone
from bfpga.cli import main


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """A run of 40 samples on `tiny` with three cores, the kernel of test_cores.py."""
    path, _ = accelerator_path("tiny")
    (tmp_path / "three.yaml").write_text(path.read_text().replace("name: tiny", "name: tiny\ncores: 3"))
    files = [str(MODELS / "mlp_digits.onnx"), "-a", str(tmp_path / "three.yaml"), "-d", str(MODELS / "digits_test.npz")]
    return ["run", *files, "-n", "40", "--device", "virtual", "--compare", "--json", str(tmp_path / "run.json")]


def test_run_reports_each_core(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert "bit-exact: virtual and emulator agree" in shown.out
    assert "core 1" in shown.out
    assert re.search(r"^3 cores: about [\d,]+ images/s in a stream", shown.out, re.MULTILINE)
    cores = json.loads((tmp_path / "run.json").read_text())["cores"]
    assert [core["name"] for core in cores] == ["core 0", "core 1", "core 2"]
    assert sum(core["samples"] for core in cores) == 40
    assert "warning" not in shown.err


def test_core_that_fails_is_one_line_of_warning(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = VirtualTarget.__init__

    def faulty(self: VirtualTarget, *given: object, **more: object) -> None:
        made(self, *given, **more)  # type: ignore[arg-type]
        configure = self.board.configure

        def configured(*design: object) -> None:
            configure(*design)  # type: ignore[arg-type]
            # The probe and the weights end, the first samples do not.
            self.board.faults.inject(KernelNeverDone(kernel="accelerator_1", after=2, sticky=True))

        self.board.configure = configured  # type: ignore[method-assign]

    monkeypatch.setattr(VirtualTarget, "__init__", faulty)
    assert main(arguments) == 0
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if "warning" in line]
    assert len(lines) == 1
    assert lines[0].startswith("bfpga: warning: core 1 of 3 is taken out")
    assert "bit-exact" in shown.out


def test_samples_side_by_side_go_to_the_cores_as_whole_starts(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """39 samples, two in a start: the last start has one of them."""
    arguments[arguments.index("40")] = "39"
    assert main([*arguments, "--side-by-side", "2"]) == 0
    assert "bit-exact: virtual and emulator agree" in capsys.readouterr().out
    cores = json.loads((tmp_path / "run.json").read_text())["cores"]
    assert sum(core["samples"] for core in cores) == 20
    assert all(core["samples"] for core in cores)
