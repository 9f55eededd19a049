"""`bfpga research`: `position-times` with its picture, and `position-choice` (FP R33-R36, FP 5.1)."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import some_of
from reference import load_vectors
from refusals import refused

from bfpga.cli import main
from bfpga.engines.positions.sampling import SampleFraction
from bfpga.engines.positions.times import FLOWS, LayerTimes, TimeModel
from bfpga.engines.positions.times_picture import draw_flow_times
from bfpga.errors import ToolError

#: Names of the vectors' choices.
FLOW = {"two_pass": "two_pass_sampled", "keep": "keep_sampled"}


def test_the_published_times_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FP R36: 2.1, 4.1, 2.35, 15.7 and 3.8 ms without any option, and from where keeping is faster."""
    target = tmp_path / "times.json"
    assert main(["research", "position-times", "--json", str(target)]) == 0
    content = json.loads(target.read_text())
    assert [content["times_ms"][flow] for flow in FLOWS] == pytest.approx([2.1, 4.1, 2.35, 15.7, 3.8, 2.1])
    assert (content["choice"], content["break_even_compute_ms"]) == ("two_pass_sampled", pytest.approx(8.5))
    printed = capsys.readouterr().out
    for number, shown in enumerate(["2.1", "4.1", "2.35", "15.7", "3.8"]):
        line = next(line for line in printed.splitlines() if line.split()[:2] == [str(number), FLOWS[number]])
        assert line.split()[-2] == shown


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        (["--on-chip"], "keep_sampled"),
        (["--compute", "10"], "keep_sampled"),
        (["--compute", "8", "--sample", "1/5"], "two_pass_sampled"),
        (["--duplex", "--launch", "0.1"], "two_pass_sampled"),
    ],
)
def test_options_reach_the_model(options: list[str], choice: str, tmp_path: Path) -> None:
    """FP R36: settings of the vectors, by the command."""
    target = tmp_path / "times.json"
    assert main(["research", "position-times", *options, "--json", str(target)]) == 0
    assert json.loads(target.read_text())["choice"] == choice


@pytest.mark.parametrize("suffix", some_of([".png", ".svg"], ".svg"))
def test_the_picture_is_written(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"times{suffix}"
    assert main(["research", "position-times", "-o", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert list(tmp_path.iterdir()) == [picture]


def test_the_picture_shows_five_flows_from_transfer_bound_to_compute_bound() -> None:
    """FP R36: lines 0 to 4 cross at the break-even; at its ends layers wait for memory, or for the array."""
    pytest.importorskip("matplotlib")
    figure = draw_flow_times(LayerTimes(2.0, 0.4, 1.7), TimeModel(), SampleFraction())
    for axes in figure.axes:
        delayed, two_pass, two_pass_sampled, keep, keep_sampled = (
            np.array(line.get_ydata()) for line in axes.lines[:5]
        )
        assert keep[0] > two_pass[0]
        assert keep_sampled[0] > two_pass_sampled[0]
        assert keep[-1] < two_pass[-1]
        assert delayed[-1] < keep_sampled[-1] < two_pass_sampled[-1]
    assert {label.get_text() for label in figure.axes[1].get_legend().get_texts()} >= {
        "0 delayed", "1 two pass", "4 keep sampled", "keeping wins from 8.5 ms",
    }  # fmt: skip


def test_the_picture_of_a_memory_that_always_keeps() -> None:
    """FP R36: no break-even to mark; times of 0 are no trouble."""
    pytest.importorskip("matplotlib")
    on_chip = draw_flow_times(LayerTimes(2.0, 0.4, 1.7), TimeModel(on_chip=True), SampleFraction())
    assert not any("keeping" in text.get_text() for text in on_chip.axes[1].get_legend().get_texts())
    draw_flow_times(LayerTimes(0, 0, 0), TimeModel(duplex=True, launch=0.1), SampleFraction(1, 1))


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ToolError, match="pip install matplotlib"):
        draw_flow_times(LayerTimes(2.0, 0.4, 1.7), TimeModel(), SampleFraction())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample", "0/8"], "a block of 1 to 8 of every 8"),
        (["--sample", "12.5"], "a fraction like 1/8"),
        (["--write", "-1"], "'--write'"),
        (["--compute", "inf"], "layer.compute is inf"),
        (["--wide-ratio", "nan"], "'--wide-ratio'"),
        (["-o", "times.txt"], "must end with"),
        (["--json", "/nowhere/times.json"], "does not exist"),
    ],
)
def test_mistakes_are_named(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["research", "position-times", *options]) == 2
    assert message in capsys.readouterr().err


def write(path: Path, layers: object) -> str:
    path.write_text(json.dumps({"layers": layers}))
    return str(path)


def layer(name: str = "conv", **values: Any) -> dict[str, Any]:
    return {"name": name, "operation": "conv", **values}


@pytest.mark.parametrize("case", load_vectors("fixed_point_control.json")["selection"], ids=lambda case: case["id"])
def test_flows_are_chosen_from_a_file(case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FP R33, R34, R35: the vectors as a file, with one more layer that passes its position through."""
    layers = [
        layer(item["name"], operation=item["op"], clocks={flow: item[f"{key}_ms"] for key, flow in FLOW.items()})
        for item in case["layers"]
    ]
    layers.append(layer("relu1", operation="relu", updates_position=False))
    target = tmp_path / "choice.json"
    by = "operation" if case["by"] == "op" else "layer"
    clocks = write(tmp_path / "clocks.json", layers)
    command = ["research", "position-choice", clocks, "--by", by, "--json", str(target)]
    assert main(command) == 0
    expected: dict[str, str | None] = {name: FLOW[flow] for name, flow in case["choice"].items()}
    assert json.loads(target.read_text()) == {"by": by, "choices": {**expected, "relu1": None}}
    printed = capsys.readouterr().out
    assert "mean cycles of up to 2 iterations" in printed
    assert "passes through" in printed


def test_a_file_may_compare_other_flows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FP R36: what the file names is compared."""
    layers = [layer(clocks={"keep": [9], "static": [5], "two_pass": [7]})]
    assert main(["research", "position-choice", write(tmp_path / "clocks.json", layers)]) == 0
    row = next(line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["conv"])
    assert row[2:6] == ["7", "9", "5", "static"]
    assert main(["research", "position-choice", str(tmp_path / "clocks.json"), "--by", "network"]) == 2
    assert "layer or operation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "'layers' is missing"),
        ([{}], "layer 0 has no 'name'"),
        ([{"name": "a"}], "'operation' is missing"),
        ([layer(time=[1])], "'time' is no key"),
        ([layer(updates_position="no")], "true or false"),
        ([layer(clocks=[1, 2])], "'clocks' is no object"),
        ([layer(clocks={"fast": [1]})], "'fast' is no flow"),
        ([layer(clocks={"keep": [1, "2"]})], "a list of numbers"),
        ([layer(clocks={"keep": [-1]})], "0 or more"),
        ([layer(clocks={"keep": [10**400]})], "at most are possible"),
        ([layer(), layer()], "two layers are named 'conv'"),
        ([layer(updates_position=False, clocks={"keep": [1]})], "passes its position through"),
    ],
)
def test_mistakes_in_a_file_are_named(
    layers: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["research", "position-choice", write(tmp_path / "clocks.json", layers)]
    refused(command, tmp_path, capsys, message, "clocks.json")


def test_the_document_shows_what_the_commands_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FP R36: the published table, and a file of clocks that can be read."""
    text = (Path(__file__).parents[2] / "docs/dynamic-positions.md").read_text()
    assert main(["research", "position-times"]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = [
        row.replace("`", "").replace("|", " ").split() for row in re.findall(r"^\| [0-4] \| `.*$", text, re.MULTILINE)
    ]
    assert [row for row in rows if row in printed] == rows
    assert len(rows) == 5
    block = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert block
    clocks = tmp_path / "clocks.json"
    clocks.write_text(block[1])
    assert main(["research", "position-choice", str(clocks)]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"layers": [{"name": "a", "operation": "conv", "clocks": {"keep": [1e400]}}]}', "inf clocks under keep"),
        ('{"layers": [{"name": "a", "operation": "conv", "clocks": {"keep": [NaN]}}]}', "NaN is no number"),
        ('{"layers": [{"name": "a", "operation": "conv", "clocks": {"keep": [-Infinity]}}]}', "Infinity is no number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"layers": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ("1" * 10_000, "is no JSON"),
        ("layers: []", "is no JSON"),
        (None, "No such file"),
    ],
)
def test_numbers_and_nesting_beyond_json_are_named(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "clocks.json").write_text(text)
    refused(["research", "position-choice", str(tmp_path / "clocks.json")], tmp_path, capsys, message)


def test_names_that_would_steer_a_terminal_are_shown_as_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "a\x1b]0;title\x07\nb\u202e"
    layers = [layer() | {"name": name}, layer() | {"name": "lone \ud800 surrogate"}]
    assert main(["research", "position-choice", write(tmp_path / "clocks.json", layers)]) == 0
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x07\u202e\ud800")
    assert "\\x1b]0;title\\x07\\x0ab\\u202e" in shown.replace("\n", "")
