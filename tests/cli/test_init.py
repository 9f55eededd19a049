"""`bfpga init`: a folder whose script runs, or one message and nothing written."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from bfpga.accelerator.loader import load_accelerator
from bfpga.cli import init, main, project
from bfpga.compiler.recipes import load_recipe

MODELS = Path(__file__).parents[2] / "examples" / "models"
DIGITS = ["--model", str(MODELS / "mlp_digits.onnx"), "-d", str(MODELS / "digits_test.npz")]


def run_script(folder: Path, *arguments: str) -> str:
    """What the script of a folder prints; run from elsewhere."""
    command = [sys.executable, str(folder / project.SCRIPT), *arguments]
    result = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_script_compiles_judges_compares_and_says_what_is_next(tmp_path: Path) -> None:
    folder = tmp_path / "Mine 2"
    assert main(["init", str(folder), "--model", "digits", "--accelerator", "tiny"]) == 0
    assert sorted(os.listdir(folder)) == ["mine_2.yaml", "run.py"]
    printed = run_script(folder)
    assert "accuracy 95." in printed
    assert "bit-exact: csim and emulator agree" in printed
    assert "next: bfpga estimate mine_2.yaml digits" in printed
    assert (folder / "mlp_digits.bfpga").is_file()


def test_the_copy_is_the_accelerator_with_a_meaning_for_every_key(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path / "own"), "--model", "digits", "--accelerator", "tiny"]) == 0
    text = (tmp_path / "own" / "own.yaml").read_text()
    copied, tiny = load_accelerator(tmp_path / "own" / "own.yaml"), load_accelerator("tiny")
    assert (copied.name, copied.digest) == ("own", tiny.digest)
    lines = text.splitlines()
    for key in yaml.safe_load(text)["engines"][0].keys() - {"kind"}:
        place = next(index for index, line in enumerate(lines) if line.strip().startswith(f"{key}:"))
        assert "# " in lines[place] or lines[place - 1].lstrip().startswith("# "), key


def test_a_network_file_is_run_with_the_samples_and_the_recipe_that_were_found(tmp_path: Path) -> None:
    """Fully connected from end to end: several samples side by side make it faster."""
    folder = tmp_path / "fast"
    assert main(["init", str(folder), *DIGITS, "--accelerator", "tiny", "--goal", "throughput"]) == 0
    assert load_recipe(folder / project.RECIPE).side_by_side > 1
    assert "bit-exact" in run_script(folder, "emulator")


@pytest.mark.parametrize(
    ("goal", "least"),
    [("throughput", lambda found: found.figures.seconds), ("latency", lambda found: found.figures.latency),
     ("smallest", lambda found: found.share), ("accuracy", lambda found: -found.bits)],
)  # fmt: skip
def test_the_accelerator_is_the_best_for_the_goal(
    goal: str, least: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "accelerator_names", lambda: ["pynq_z2_dense", "pynq_z2_bfp16", "tiny"])
    seen: list[project.Choice] = []
    choices = project._choices

    def watched(*arguments: object) -> object:
        found, refused = choices(*arguments)  # type: ignore[arg-type]
        seen.extend(found)
        return found, refused

    monkeypatch.setattr(project, "_choices", watched)
    plan = project.planned(project.Wish("pynq_z1", "digits", goal, None))
    assert len(seen) == 3
    best = min(seen, key=least)  # type: ignore[arg-type]
    assert plan.choice.accelerator.name == best.accelerator.name
    assert plan.choice.accelerator.board.name == "pynq_z1"


def test_eight_bits_get_a_recipe_of_two_mantissas_for_accuracy(tmp_path: Path) -> None:
    folder = tmp_path / "fine"
    wish = ["--model", "digits", "-a", "tiny", "--board", "pynq_z1", "--goal", "accuracy"]
    assert main(["init", str(folder), *wish]) == 0
    assert load_recipe(folder / project.RECIPE).result_parts == 2
    assert load_accelerator(folder / "fine.yaml").board.name == "pynq_z1"


class Terminal(io.StringIO):
    """Someone who types."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_asked_for_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "accelerator_names", lambda: ["pynq_z2_dense", "tiny"])
    monkeypatch.setattr(sys, "stdin", Terminal("digits\n\nsmallest\n"))
    assert main(["init", str(tmp_path / "asked")]) == 0
    assert load_accelerator(tmp_path / "asked" / "asked.yaml").digest == load_accelerator("tiny").digest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --model, --board, --goal, or --yes for lenet, pynq_z2, throughput"),
        (["--board", "pynq_z2", "--model", "digits"], "give --goal, or --yes"),
        (["--yes", "--goal", "fastest"], "goals: throughput, latency, smallest, accuracy"),
        (["--yes", "--board", "pynq_z9"], "known boards"),
        (["--yes", "--model", "digitz"], "did you mean `digits`?"),
        (["--yes", "--model", str(MODELS / "mlp_digits.onnx")], "--data is missing"),
        (["--model", "digits", "-a", "tiny", "--board", "zcu104"], "tiny does not fit AMD ZCU104"),
    ],
)
def test_what_is_wrong_or_missing_is_one_message_and_nothing_is_written(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["init", str(tmp_path / "x"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_board_that_no_accelerator_fits_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "accelerator_names", lambda: ["zcu104_dense"])
    words = ["--yes", "--board", "ultra96_v2", "--model", "digits"]
    assert main(["init", str(tmp_path / "x"), *words]) == 2
    assert "bfpga explore MODEL --board ultra96_v2 searches for some" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["init", str(tmp_path), "--model", "digits", "-a", "tiny"]) == 2
    assert "is not empty (mine.txt)" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["mine.txt"]


@pytest.mark.parametrize("there", [False, True])
def test_nothing_is_left_of_a_folder_that_could_not_be_written(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "above" / "mine"
    if there:
        folder.mkdir(parents=True)

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(project, "script_text", full)
    assert main(["init", str(folder), "--model", "digits", "-a", "tiny"]) == 2
    assert [path.name for path in tmp_path.rglob("*")] == (["above", "mine"] if there else [])


def test_the_current_folder_may_be_the_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "few.npz", x=np.zeros((4, 64), np.float32))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["init", "--model", "digits", "-a", "tiny", "-d", "../few.npz"]) == 0
    assert "HERE / '../few.npz'" in (folder / project.SCRIPT).read_text()
    assert init.GOALS.keys() == project.ORDER.keys()
