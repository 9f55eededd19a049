"""`python -m benchmarks.synthesis.figures` synthesizes what has changed and keeps the rest."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.synthesis import figures
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.errors import ConfigurationError
from bfpga.estimate.hardware import HardwareFigures
from bfpga.synthesis.ip_figures import IpRecord, kernel_figures, read_records, write_records
from bfpga.synthesis.kept import Compiled, package_path

TINY = load_accelerator("tiny")


class Synthesis:
    """Stands in the place of a synthesis: notes which IPs it was asked for, and finds nothing in them."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []

    def __call__(self, accelerator: Accelerator, known: dict[str, IpRecord], **_: Any) -> HardwareFigures:
        digests = Compiled.of(accelerator).digests
        self.asked.append(digests.keys() - known.keys())
        return kernel_figures(accelerator, {x: known.get(x) or IpRecord(x, digests[x]) for x in digests})


@pytest.fixture
def synthesis(monkeypatch: pytest.MonkeyPatch) -> Synthesis:
    made = Synthesis()
    monkeypatch.setattr(figures, "synthesize", made)
    return made


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Figures of the package; those of `post` are of other sources, all others of the present ones."""
    path = tmp_path / "tiny.json"
    shutil.copy(package_path(TINY), path)
    compiled = Compiled.of(TINY)
    ips = {name: replace(ip, sources=compiled.digests[name]) for name, ip in read_records(path, compiled.files).items()}
    write_records("tiny", ips | {"post": replace(ips["post"], sources="another")}, compiled.files, path)
    for module in ("benchmarks.synthesis.figures", "bfpga.synthesis.kept"):
        monkeypatch.setattr(f"{module}.package_path", lambda _: path)
    return path


def test_ips_that_have_changed_are_synthesized(
    path: Path, synthesis: Synthesis, capsys: pytest.CaptureFixture[str]
) -> None:
    before = path.read_text().splitlines()
    assert figures.main(["tiny", "--list"]) == 0
    assert "tiny: post in" in capsys.readouterr().out
    assert synthesis.asked == []
    assert figures.main(["tiny"]) == 0
    assert synthesis.asked == [{"post"}]
    after = path.read_text().splitlines()
    assert [line for line in after if line not in before] == [
        f'{{"name": "post", "sources": "{Compiled.of(TINY).digests["post"]}"}}'
    ]
    assert figures.main(["tiny"]) == 0
    assert synthesis.asked == [{"post"}]
    assert "tiny: nothing in" in capsys.readouterr().out


def test_one_ip_is_synthesized_and_others_stay_as_they_are(path: Path, synthesis: Synthesis) -> None:
    assert figures.main(["tiny", "--ip", "store"]) == 0
    assert synthesis.asked == [{"store"}]
    assert Compiled.of(TINY).digests.keys() - Compiled.of(TINY).records(path).keys() == {"post"}
    with pytest.raises(ConfigurationError, match="tiny has no IP stor: sequencer, "):
        figures.main(["tiny", "--ip", "stor"])
