"""`bfpga research report-partition` and the picture of a partition. SC R25, SC R33."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from effort import some_of

from bfpga.cli import main
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import overlap_add_geometry
from bfpga.engines.sparse_cluster.partition.picture import draw_partition
from bfpga.errors import ToolError


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    """Two samples of three channels, 24 x 32, most values in one corner."""
    generator = np.random.default_rng(1)
    draw = generator.random((2, 3, 24, 32))
    x = np.where(draw < np.linspace(0.8, 0, 32), 1.0, 0.0).astype(np.float32)
    path = tmp_path / "maps.npz"
    np.savez(path, x=x)
    return path


def test_the_report_says_what_each_unit_gets(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = maps.parent / "report.json"
    command = [
        "research",
        "report-partition",
        str(maps),
        "--grid",
        "2x2",
        "--sample",
        "1",
        "--channel",
        "2",
        "--mode",
        "overlap_add",
        "--tau",
        "5",
    ]
    assert main([*command, "--json", str(target)]) == 0
    content = json.loads(target.read_text())
    with np.load(maps) as arrays:
        total = int(np.count_nonzero(arrays["x"][1, 2]))
    assert sum(content["loads"]["balanced"]) == sum(content["loads"]["equal"]) == total
    assert content["reached"]
    assert content["imbalance"]["balanced"] < 1.2 < content["imbalance"]["equal"]
    assert content["row_limits"][-1] == 24
    printed = capsys.readouterr().out
    assert f"{content['moves']} moves, spread" in printed
    assert "threshold met" in printed
    assert "largest / mean work" in printed


def test_a_threshold_out_of_reach_is_no_failure(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["research", "report-partition", str(maps), "--tau", "0"]) == 0
    assert "threshold not reached" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", some_of([".png", ".svg"], ".svg"))
def test_the_picture_is_written(maps: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    picture = maps.parent / f"partition{suffix}"
    assert main(["research", "report-partition", str(maps), "-o", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert sorted(path.name for path in maps.parent.iterdir()) == ["maps.npz", picture.name]


def test_the_picture_shows_both_partitions() -> None:
    pytest.importorskip("matplotlib")
    mask = np.triu(np.ones((12, 12), bool))
    settings = PartitionSettings((2, 2))
    geometry = overlap_add_geometry(12, 12)
    after = balance(work_map(mask, "nnz"), geometry, settings)
    before = balance(work_map(mask, "nnz"), geometry, settings.without_moves())
    figure = draw_partition(mask, before, after)
    assert len(figure.axes) == 3
    for axes, result in zip(figure.axes[:2], (before, after), strict=True):
        assert [text.get_text() for text in axes.texts] == [f"{load:,}" for load in result.loads]
    assert [patch.get_height() for patch in figure.axes[2].patches] == [*before.loads, *after.loads]


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    mask = np.ones((4, 4), bool)
    result = balance(work_map(mask, "nnz"), overlap_add_geometry(4, 4), PartitionSettings((2, 2)))
    with pytest.raises(ToolError, match="pip install matplotlib"):
        draw_partition(mask, result, result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--grid", "2by2"], "two numbers like 2x4"),
        (["--mode", "both"], "halo or overlap_add"),
        (["--sample", "7"], "no sample 7"),
        (["--channel", "3"], "no channel 3"),
        (["--grid", "99x1"], "cannot be cut"),
        (["-o", "picture.txt"], "must end with"),
        (["--kernel", "99x99"], "does not fit"),
    ],
)
def test_mistakes_are_named(maps: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["research", "report-partition", str(maps), *arguments]) == 2
    assert message in capsys.readouterr().err
