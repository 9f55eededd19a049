"""`bfpga explore`: what it writes is ready to build, and what it refuses it refuses before it works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browser import look

from bfpga.accelerator.loader import load_accelerator
from bfpga.cli import main
from bfpga.compiler.recipes import load_recipe
from bfpga.explore import search
from bfpga.explore.task import Task
from bfpga.scale.work import Work

MODELS = Path(__file__).parents[2] / "examples" / "models"
MODEL, DATA = str(MODELS / "mlp_digits.onnx"), str(MODELS / "digits_test.npz")
COMMAND = ["explore", MODEL, "--board", "rfsoc_2x2", "-d", DATA, "-n", "64", "--accuracy-drop", "2", "--seed", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a small search."""
    target = tmp_path_factory.mktemp("explore") / "found"
    assert main([*COMMAND, "--trials", "6", "-o", str(target)]) == 0
    return target


def test_accelerators_and_recipes_are_ready_to_compile(folder: Path, tmp_path: Path) -> None:
    found = json.loads((folder / "front.json").read_text())
    assert found["front"]
    for point in found["front"]:
        accelerator, recipe = (folder / name for name in point["files"])
        described = load_accelerator(accelerator)
        assert described.name == accelerator.stem
        assert accelerator.read_text().startswith("# Found by `bfpga explore` for mlp_digits on RFSoC 2x2.\n")
        assert "not modelled" in accelerator.read_text()
        assert load_recipe(recipe).remainders == point["recipe"]["remainders"]
    program = tmp_path / "best.bfpga"
    chosen = ["-a", str(accelerator), "-r", str(recipe), "-c", DATA]
    assert main(["compile", MODEL, *chosen, "-o", str(program)]) == 0
    assert program.exists()


def test_picture_and_page_need_no_network(folder: Path) -> None:
    page = (folder / "front.html").read_text()
    outside = page.split("<script>")[0]
    assert re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', outside) == []
    for point in json.loads((folder / "front.json").read_text())["front"]:
        assert Path(point["files"][0]).stem in page
    assert ElementTree.parse(folder / "front.svg").getroot().tag.endswith("svg")


def test_the_page_is_drawn_at_two_widths_light_and_dark(folder: Path, tmp_path: Path) -> None:
    """In a real browser: both charts, an empty console, nothing wider than its window; hovering names a point."""
    seen, said = look([(folder / "front.html", 390, "dark"), (folder / "front.html", 1280, "light")], tmp_path)
    assert said == []
    for page in seen:
        assert (page.charts, page.drawings, page.thin) == ("2 drawn", 2, 0)
        assert page.content <= page.width
        assert all("accelerator" in hint and "MHz" in hint for hint in page.hints)
        assert len(page.hints) == 2
    assert seen[0].ink != seen[1].ink


def test_a_study_is_resumed_on_demand_alone_and_stale_files_go(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "-o", str(folder)]) == 2
    assert "holds a study; --resume goes on with it" in capsys.readouterr().err
    assert main([*COMMAND, "--resume", "--no-static-exponents", "-o", str(folder)]) == 2
    assert "is the study of another search (space)" in capsys.readouterr().err
    assert main([*COMMAND, "--resume", "-o", str(tmp_path)]) == 2
    assert "there is no study to resume" in capsys.readouterr().err
    listed = json.loads((folder / "front.json").read_text())
    listed["front"].append({"files": ["mlp_digits_t999.yaml", "../kept_t1.yaml"]})
    (folder / "front.json").write_text(json.dumps(listed))
    stale, kept = folder / "mlp_digits_t999.yaml", folder.parent / "kept_t1.yaml"
    stale.touch()
    kept.touch()
    assert main([*COMMAND, "--trials", "6", "--resume", "-o", str(folder), "--json", str(tmp_path / "all.json")]) == 0
    assert not stale.exists()
    assert kept.exists()
    assert json.loads((tmp_path / "all.json").read_text()) == json.loads((folder / "front.json").read_text())


def test_interruption_leaves_results_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = search.attempt

    def interrupted(task: Task, given: search.Attempt) -> object:
        if given.number == 5:
            raise KeyboardInterrupt
        return tried(task, given)

    monkeypatch.setattr(search, "ATTEMPTS", Work(lambda task: task, interrupted))
    monkeypatch.setattr("sys.argv", ["bfpga", *COMMAND, "-o", "found"])
    assert main([*COMMAND, "-o", str(tmp_path / "found")]) == 130
    assert "Go on with\n  bfpga explore" in (shown := capsys.readouterr().err)
    assert shown.rstrip().endswith("-o found --resume")
    assert len(json.loads((tmp_path / "found" / "front.json").read_text())["points"]) <= 4
    assert (tmp_path / "found" / "study.sqlite3").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--objective", "speed"], "objective 'speed' is unknown; known are throughput, latency, energy"),
        (["--accuracy-drop", "101"], "is not between 0 and 100 points"),
        (["--max-clock", "2000"], "--max-clock is 2000; must be 25..333"),
        (["--max-clock", "250"], "above 187.5 MHz no synthesis has modelled a clock on RFSoC 2x2: add --synth"),
        (["--board", "ultra97"], "did you mean `ultra96_v2`?"),
        (["-o", str(MODELS / "lenet_mnist.onnx")], "is no folder"),
        (["-o", str(MODELS)], "is in the folder of the results"),
        (["-o", "missing/found"], "the directory does not exist"),
    ],
)
def test_mistakes_get_one_message_and_leave_nothing(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*COMMAND, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_drop_of_accuracy_needs_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", MODEL, "--board", "pynq_z2", "--accuracy-drop", "1"]) == 2
    assert "give them with --data" in capsys.readouterr().err
