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
from bfpga.estimate.hardware import Area, HardwareFigures, WholePath
from bfpga.synthesis.ip_figures import IpRecord, kernel_figures, read_records, write_records
from bfpga.synthesis.kept import Compiled, package_path

TINY = load_accelerator("tiny")


class Synthesis:
    """Stands in the place of a synthesis: notes of which IPs the loops were asked for and of which the whole, and finds
    a look-up table in each."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []
        self.mapped: list[set[str]] = []

    def __call__(self, accelerator: Accelerator, known: dict[str, IpRecord], **_: Any) -> HardwareFigures:
        digests = Compiled.of(accelerator).digests
        self.asked.append(digests.keys() - known.keys())
        self.mapped.append({x for x in digests if x not in known or not known[x].is_whole})
        found = {x: known.get(x) or IpRecord(x, digests[x]) for x in digests}
        return kernel_figures(accelerator, {x: whole(ip, 1) for x, ip in found.items()})


def whole(ip: IpRecord, lut: int) -> IpRecord:
    """An IP that was mapped in one piece; of so many look-up tables if it was not."""
    return replace(ip, whole=ip.whole or Area(lut=lut), path=ip.path or WholePath(3.5, "a", "b"))


@pytest.fixture
def synthesis(monkeypatch: pytest.MonkeyPatch) -> Synthesis:
    made = Synthesis()
    monkeypatch.setattr(figures, "synthesize_whole", made)
    return made


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Figures of the package; those of `post` are of other sources, all others of the present ones."""
    path = tmp_path / "tiny.json"
    shutil.copy(package_path(TINY), path)
    compiled = Compiled.of(TINY)
    read = read_records(path, compiled.files).items()
    ips = {name: replace(whole(ip, 2), sources=compiled.digests[name]) for name, ip in read}
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
        f'{{"name": "post", "sources": "{Compiled.of(TINY).digests["post"]}", "whole": {{"lut": 1}}, '
        '"path": {"delay": 3.5, "begin": "a", "end": "b"}}'
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


@pytest.mark.parametrize("missing", ["whole", "path"])
def test_an_ip_whose_loops_have_figures_is_mapped_whole(path: Path, synthesis: Synthesis, missing: str) -> None:
    """So is one whose longest path is not known."""
    compiled = Compiled.of(TINY)
    ips = read_records(path, compiled.files)
    write_records("tiny", ips | {"store": replace(ips["store"], **{missing: None})}, compiled.files, path)
    assert figures.main(["tiny"]) == 0
    assert (synthesis.asked, synthesis.mapped) == ([{"post"}], [{"post", "store"}])
    assert all(ip.is_whole for ip in read_records(path, compiled.files).values())
