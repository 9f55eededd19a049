"""Choices side by side: `bfpga compare` (issue 18: compare)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import bfpga
from bfpga.cli import main
from bfpga.report.accuracy import Accuracy, Share
from bfpga.report.comparison import Entry, best, content

ROOT = Path(__file__).parents[2]
PROCESSES = "tiny"
MODEL, DATA = str(ROOT / "examples/models/mlp_digits.onnx"), str(ROOT / "examples/models/digits_test.npz")


def test_every_accelerator_is_compared_with_every_recipe(comparison_page: Path) -> None:
    found = json.loads((comparison_page.parent / "comparison.json").read_text())
    names = [item["name"] for item in found["entries"]]
    assert names == [
        f"{name}, {recipe}"
        for name in ("tiny", "zcu104_cluster")
        for recipe in ("adaptive", "uncalibrated")
    ]
    text = comparison_page.read_text()
    assert all(name in text for name in names)
    assert all(item["joules_estimated"] > item["watts_estimated"] * item["latency_s"] for item in found["entries"])


def test_figures_are_those_of_the_other_commands(comparison_page: Path, tmp_path: Path) -> None:
    """Accuracy, cycles, latency and resources are what `evaluate` and `estimate` say of the same choice."""
    found = json.loads((comparison_page.parent / "comparison.json").read_text())["entries"][0]
    target, other = tmp_path / "one.json", tmp_path / "other.json"
    assert (
        main(["evaluate", MODEL, "-a", PROCESSES, "-r", "adaptive", "-d", DATA, "-n", "40", "--json", str(target)]) == 0
    )
    assert main(["estimate", PROCESSES, "--json", str(other)]) == 0
    one, resources = json.loads(target.read_text()), json.loads(other.read_text())["resources"]["total"]
    assert found["accuracy"]["value"] == one["accuracy"]
    assert found["agreement"]["value"] == one["agreement"]
    for key in ("cycles_total", "cycles_compute", "cycles_schedule", "latency_s", "images_per_second"):
        assert found[key] == pytest.approx(one[key]), key
    assert found["cosine"] == pytest.approx(one["cosine"])
    assert found["resources"] == {kind: resources[kind] for kind in ("dsp", "bram36", "lut", "ff")}


def test_python_compares_as_the_command_does(comparison_page: Path, tmp_path: Path) -> None:
    """The same figures, one line as text, a table for notebooks, and the page."""
    samples = bfpga.load_samples(DATA)
    target = tmp_path / "python.html"
    found = bfpga.compare_accelerators(
        MODEL, ["tiny", "zcu104_cluster"], samples.first(40), recipes=["adaptive"], path=target
    )
    command = json.loads((comparison_page.parent / "comparison.json").read_text())
    wanted = [item for item in command["entries"] if item["recipe"] == "adaptive"]
    assert [{**item, "accuracy": None, "agreement": None} for item in content(found)["entries"]] == [
        {**item, "accuracy": None, "agreement": None} for item in wanted
    ]
    assert repr(found).startswith("Comparison(mlp_digits: 2 choices, fastest tiny, adaptive")
    assert "\n" not in repr(found)
    assert len(repr(found)) < 200
    assert "zcu104_cluster, adaptive" in found._repr_html_()
    assert "Side by side" in target.read_text()
    refusal = bfpga.compare_accelerators(MODEL, ["tiny", "pynq_z2_mixed"], recipes=["two_hot"])
    assert "1 choice, 1 refused" in repr(refusal)
    assert "tiny, two_hot: " in refusal._repr_html_()
    with pytest.raises(OSError, match="must end with"):
        bfpga.compare_accelerators(MODEL, ["tiny"], path=tmp_path / "comparison.pdf")


def test_choices_that_do_not_work_are_told_with_their_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", MODEL, "-a", "tiny", "-a", "pynq_z2_mixed", "-r", "two_hot"]
    target = tmp_path / "comparison.json"
    assert main([*words, "--json", str(target)]) == 0
    found: dict[str, Any] = json.loads(target.read_text())
    assert [item["accelerator"] for item in found["entries"]] == ["pynq_z2_mixed"]
    assert found["entries"][0]["accuracy"] is None
    [refused] = found["refused"]
    assert refused["name"] == "tiny, two_hot"
    assert f"not for tiny, two_hot: {refused['reason']}" in capsys.readouterr().out
    assert main(["compare", MODEL, "-a", "tiny", "-r", "two_hot"]) == 2
    assert refused["reason"] in capsys.readouterr().err


def test_the_picture_is_one_file_of_svg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "comparison.svg"
    assert main(["compare", MODEL, "-a", "tiny", "-d", DATA, "-n", "10", "-o", str(target)]) == 0
    assert ElementTree.parse(target).getroot().tag.endswith("svg")
    assert "accuracy, measured" in target.read_text()
    assert main(["compare", MODEL, "-a", "tiny", "-o", str(tmp_path / "comparison.pdf")]) == 2
    assert "must end with .html or .svg" in capsys.readouterr().err


def choice(name: str, right: int, seconds: float) -> Entry:
    used = dict.fromkeys(("dsp", "bram36", "lut", "ff"), right)
    accuracy = Accuracy(100, "float", Share(right, 100))
    return Entry(
        name, None, "board", 100.0, 10, 5, None, 0.5, seconds, True, 1, used, dict.fromkeys(used, 200), 2.0,
        2.0 * seconds, accuracy,
    )  # fmt: skip


def test_each_question_has_its_best_choice() -> None:
    """Of equally accurate choices the faster one; of a single choice nothing is said."""
    slow, fast, poor = choice("slow", 90, 2.0), choice("fast", 90, 1.0), choice("poor", 50, 0.5)
    found = {question: item.name for question, item in best([slow, fast, poor]).items()}
    assert found == {
        "shortest latency": "poor",
        "least energy": "poor",
        "smallest share of its board": "poor",
        "highest accuracy": "fast",
    }
    assert best([slow]) == {}
