"""No command writes over a file that it reads, by whatever spelling or link, and none of them begins to work."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from bfpga.accelerator.boards import config_folder
from bfpga.cli import guard, main
from bfpga.cli.application import COMMANDS, RESEARCH

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples" / "models"
CLOCKS = {"layers": [{"name": "a", "operation": "conv", "clocks": {"keep": [1], "two_pass": [2]}}]}
RUN = ["-a", "a.yaml", "-d", "d.npz", "-c", "c.npz", "-r", "r.yaml"]
#: A command without its outputs, the options that name these, and the files that it reads.
COMMANDS_WITH_INPUTS: list[tuple[list[str], list[str], list[str]]] = [
    (["compile", "m.onnx", "-a", "a.yaml", "-c", "c.npz", "-r", "r.yaml"],
     ["-o", "--json", "--save-recipe"],
     ["m.onnx", "weights.bin", "a.yaml", "b.yaml", "c.npz", "r.yaml"]),
    (["run", "m.onnx", *RUN], ["--json", "--report", "--save-recipe"],
     ["m.onnx", "weights.bin", "a.yaml", "b.yaml", "d.npz", "c.npz", "r.yaml"]),
    (["evaluate", "m.onnx", *RUN], ["--json", "--report", "--save-recipe"],
     ["m.onnx", "a.yaml", "b.yaml", "d.npz", "c.npz", "r.yaml"]),
    (["report", "m.onnx", *RUN], ["-o", "--json"], ["m.onnx", "weights.bin", "a.yaml", "d.npz", "c.npz", "r.yaml"]),
    (["compare", "m.onnx", *RUN], ["-o", "--json"], ["m.onnx", "weights.bin", "a.yaml", "d.npz", "c.npz", "r.yaml"]),
    (["estimate", "a.yaml", "m.onnx", "-c", "c.npz"], ["--json"], ["a.yaml", "b.yaml", "m.onnx", "c.npz"]),
    (["explore", "m.onnx", "--board", "b.yaml", "-d", "d.npz", "-c", "c.npz"], ["--json"],
     ["m.onnx", "weights.bin", "b.yaml", "d.npz", "c.npz"]),
    (["advise", "m.onnx", "--board", "b.yaml", "-d", "d.npz", "-c", "c.npz"], ["--json"],
     ["b.yaml", "m.onnx", "weights.bin", "d.npz", "c.npz"]),
    (["prune", "m.onnx", "--sparsity", "0.5", "-d", "d.npz", "--held-out", "c.npz"], ["-o", "--json"],
     ["m.onnx", "weights.bin", "d.npz", "c.npz"]),
    (["verify", "a.yaml"], ["--json"], ["a.yaml", "b.yaml"]),
    (["check-tcl", "tiny", "a.yaml"], ["--json"], ["a.yaml", "b.yaml"]),
    (["lint-hls", "a.yaml", "sources"], ["--json"], ["a.yaml", "sources/kernel.cpp"]),
    (["synthesize", "a.yaml", "--no-count", "--against", "clocks.json"], ["--json"],
     ["a.yaml", "b.yaml", "clocks.json"]),
    (["build", "a.yaml", "--dry-run"], ["--json"], ["a.yaml", "b.yaml"]),
    (["deploy", "pynq", "--overlay", "./overlay", "--program", "p.bfpga", "--identity", "key", "--dry-run"], ["--json"],
     ["overlay/overlay.yaml", "p.bfpga", "key"]),
    (["research", "blocks", "m.onnx", *RUN[:-2]], ["--json"], ["m.onnx", "weights.bin", "a.yaml", "d.npz", "c.npz"]),
    (["research", "position-choice", "clocks.json"], ["--json"], ["clocks.json"]),
    (["research", "position-measure", "m.onnx", *RUN], ["--json", "--save-recipe"],
     ["m.onnx", "weights.bin", "a.yaml", "b.yaml", "d.npz", "c.npz", "r.yaml"]),
    (["research", "report-partition", "d.npz"], ["--json", "-o"], ["d.npz"]),
]  # fmt: skip
#: Each output and each input of a command once at least.
CASES = [
    (command, options[number % len(options)], names[number % len(names)])
    for command, options, names in COMMANDS_WITH_INPUTS
    for number in range(max(len(options), len(names)))
]
LINKS: dict[str, Callable[[Path], str]] = {
    "same": str,
    "relative": lambda path: f"sources/../{path}",
    "absolute": lambda path: str(path.absolute()),
    "symbolic link": lambda path: linked(path, os.symlink),
    "hard link": lambda path: linked(path, os.link),
}


def linked(path: Path, link: Callable[[Path, str], None]) -> str:
    link(path.absolute(), "linked.png")
    return "linked.png"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One file of each kind that a command reads."""
    monkeypatch.chdir(tmp_path)
    model = onnx.load(MODELS / "mlp_digits.onnx")
    onnx.save(model, "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    for name in ("c.npz", "d.npz"):
        shutil.copy(MODELS / "digits_calibration.npz", name)
    accelerator = (config_folder("accelerators") / "tiny.yaml").read_text()
    board = next(line for line in accelerator.splitlines() if line.startswith("board:"))
    Path("a.yaml").write_text(accelerator.replace(board, "board: b.yaml"))
    shutil.copy(config_folder("boards") / f"{board.split()[1]}.yaml", "b.yaml")
    shutil.copy(next(config_folder("networks").glob("*.yaml")), "r.yaml")
    Path("clocks.json").write_text(json.dumps(CLOCKS))
    for name in ("sources/kernel.cpp", "overlay/overlay.yaml", "p.bfpga", "key"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("content")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def outputs_of(command: list[str], but: str) -> list[str]:
    """The output that a command needs, unless it is the one that is tried."""
    return ["-o", "out"] if command[0] in ("compile", "report") and but != "-o" else []


@pytest.mark.parametrize(("command", "option", "name"), CASES)
def test_output_that_is_an_input_is_refused(
    files: Path, command: list[str], option: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(files)
    assert main([*command, option, name, *outputs_of(command, option)]) == 2
    shown = capsys.readouterr()
    assert shown.err == f"bfpga: {name}: is an input of this command; give another file to write\n"
    assert shown.out == ""
    assert contents(files) == before


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("command", "option", "name"), CASES[::12])
def test_links_and_spellings_hide_no_input(
    files: Path, command: list[str], option: str, name: str, link: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = LINKS[link](Path(name))
    before = contents(files)
    assert main([*command, option, output, *outputs_of(command, option)]) == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert contents(files) == before


def test_every_command_with_an_output_and_an_input_is_tried() -> None:
    """A new command is guarded where it is registered; here it is written down with its files."""
    tried = {command[1] if command[0] == "research" else command[0] for command, _, _ in COMMANDS_WITH_INPUTS}
    without_input_files = {"boards", "accelerators", "operators", "schema", "doctor", "position-times", "render", "rtl"}
    without_input_files |= {"overlay", "models", "init"}  # init writes into an empty folder only
    assert tried | without_input_files == {*COMMANDS, *RESEARCH}


def test_a_ready_accelerator_is_an_input_too(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = config_folder("accelerators") / "tiny.yaml"
    before = shipped.read_bytes()
    assert main(["estimate", "tiny", "--json", str(shipped)]) == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert shipped.read_bytes() == before


def test_overlay_does_not_replace_the_accelerator_that_it_describes(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("a.yaml").read_text().replace("b.yaml", str(files / "b.yaml"))
    Path("tiny").mkdir()
    Path("tiny/overlay.yaml").write_text(text)
    assert main(["overlay", "tiny/overlay.yaml", "-o", "."]) == 2
    assert "tiny/overlay.yaml: is an input of this command" in capsys.readouterr().err
    assert [path.read_text() for path in Path("tiny").iterdir()] == [text]


def test_two_results_do_not_go_into_one_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "m.onnx", "-a", "a.yaml", "-o", "out", "--json", "sources/../out"]) == 2
    assert "is named for two results" in capsys.readouterr().err
    assert not Path("out").exists()


def test_results_do_not_replace_a_device_or_a_pipe(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    assert main(["boards", "--json", "pipe"]) == 2
    assert "pipe: is no regular file" in capsys.readouterr().err
    assert Path("pipe").is_fifo()


def test_an_old_result_is_replaced(files: Path) -> None:
    for _ in range(2):
        assert main(["estimate", "a.yaml", "--json", "result.json"]) == 0
    assert json.loads(Path("result.json").read_text())
    assert np.load("d.npz")


def test_input_files_of_options_that_are_no_files() -> None:
    assert guard.input_files("sample", 3) == []
    assert guard.input_files("calibration", None) == []
