"""The command line: help with examples, JSON for machines, one message for every error."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest

from bfpga.cli import doctor, main, output, work
from bfpga.cli.application import app, research
from bfpga.compiler.policy_names import POLICIES, PolicyName
from bfpga.compiler.read import importer
from bfpga.devices.comparison import Comparison, Mismatch
from bfpga.errors import DeviceError, ModelError
from bfpga.program.file import load_program

ROOT = Path(__file__).parents[2]
COMMANDS = ["run", "compile", "evaluate", "verify", "render", "estimate", "boards", "accelerators", "operators"]
COMMANDS += ["advise", "init", "models", "doctor", "schema", "report", "compare", "explore", "prune"]
COMMANDS += ["lint-hls", "rtl", "synthesize", "overlay", "check-tcl", "build", "deploy"]
RESEARCH = [
    f"research {name}"
    for name in ("blocks", "report-partition", "position-times", "position-choice", "position-measure")
]
#: Packages that take longer to load than `--help` may take.
HEAVY = {"numpy", "onnx", "onnxruntime", "onnxslim", "pydantic", "yaml", "jinja2", "rich", "matplotlib"}
MODEL = str(ROOT / "examples/models/mlp_digits.onnx")
DATA = str(ROOT / "examples/models/digits_test.npz")
#: Keys that the reports of `run` and `evaluate` hold at least (architecture 3.8).
REPORT_KEYS = {"model", "accelerator", "device", "samples", "accuracy", "cycles_total", "latency_s", "layers"}


def test_every_command_of_the_architecture_exists() -> None:
    assert {command.name for command in app.registered_commands} == set(COMMANDS)
    assert {f"research {command.name}" for command in research.registered_commands} == set(RESEARCH)


@pytest.mark.parametrize("command", COMMANDS + RESEARCH)
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    assert re.search(rf"Examples?:\n\s+bfpga {command} ?", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["boards"], "boards"),
        (["accelerators"], "accelerators"),
        (["operators"], "operators"),
        (["estimate", "tiny"], "roofline"),
    ],
)
def test_json_holds_what_the_table_shows(arguments: list[str], key: str, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    assert main([*arguments, "--json", str(target)]) == 0
    assert json.loads(target.read_text())[key]
    assert list(tmp_path.iterdir()) == [target]


def test_schema_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["schema", "--output", str(tmp_path / "schema.json")]) == 0
    assert json.loads((tmp_path / "schema.json").read_text()) == printed


@pytest.mark.parametrize(
    "arguments",
    [
        ["estimate", "nowhere.yaml"],
        ["estimate", "/"],
        ["estimate", "pynq_z2_danse"],
        ["estimate", "tiny", "--json", "/nowhere/at/all.json"],
        ["estimate", "tiny", "--json", "/"],
        ["boards", "--frobnicate"],
        ["frobnicate"],
    ],
)
def test_wrong_use_ends_with_2_and_a_message(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.strip()
    assert "Traceback" not in message


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "nowhere.yaml", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    script = "import sys; from bfpga.cli import main; sys.exit(main(['schema']))"
    result = subprocess.run(
        [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert result.stderr == ""


def test_help_answers_without_loading_numerics() -> None:
    """Typer itself loads pydantic for the options of a command; the list of commands does without."""
    say = f"print(sorted({HEAVY} & set(sys.modules)), file=sys.stderr)\n"
    script = "import sys\nfrom bfpga.cli import main\nmain(['--help'])\n" + say
    script += "".join(f"main({[*command.split(), '--help']})\n" for command in [*COMMANDS, "research", *RESEARCH]) + say
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stderr.splitlines()[0] == "[]"
    assert result.stderr.splitlines()[1] in ("[]", "['pydantic']")
    assert result.stdout.count("Usage: bfpga") == len(COMMANDS + RESEARCH) + 2


#: Packages of extras, which a plain installation lacks.
EXTRAS = ("clang", "dask", "distributed", "hls4ml", "llvmlite", "matplotlib", "optuna", "pynq", "torch", "vl_convert")


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command where no package of an extra is installed."""
    program = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"
    program += f"from bfpga.cli import main\nsys.exit(main({list(arguments)}))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_a_plain_installation_estimates_without_color_and_progress_in_a_pipe() -> None:
    """Machines read pipes: no escape codes, nothing on standard error."""
    found = without_extras("estimate", "tiny", str(MODEL))
    assert (found.returncode, found.stderr) == (0, "")
    assert "\x1b" not in found.stdout


def test_a_synthesis_without_its_packages_says_how_to_get_them() -> None:
    found = without_extras("synthesize", "tiny", "--loop", "Array", "--no-count")
    assert found.returncode == 2
    assert "pip install 'bfpga[synthesis]'" in found.stderr
    assert "Traceback" not in found.stderr


def test_the_package_is_a_command_that_says_its_version() -> None:
    expected = f"bfpga {importlib.metadata.version('bfpga')}\n"
    for command in ([sys.executable, "-m", "bfpga"], [sys.executable, "-c", "from bfpga.cli import main; main()"]):
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert result.stdout == expected


@pytest.mark.parametrize("command", ["compile", "run", "evaluate"])
def test_help_lists_policies_with_what_they_are_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(POLICIES) == set(get_args(PolicyName))
    assert main([command, "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert set(lines) >= {f"{name}: {purpose}" for name, purpose in POLICIES.items()}


@pytest.mark.parametrize("device", ["fpga", "csim:float", "virtual:nowhere", "boards", "remote:", "remote:host:0"])
def test_an_unknown_device_is_refused_before_anything_is_read(
    device: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(work, "prepare", lambda *_: pytest.fail("the network was compiled"))
    assert main(["run", MODEL, "-a", "tiny", "-d", DATA, "--device", device]) == 2
    assert device in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["run", "--side-by-side", "2"], ["evaluate"], ["compile"], ["estimate"]])
def test_a_network_is_read_and_simplified_once(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    for module, name in ((importer, "read_model"), (importer, "simplify"), (onnx, "load")):
        counted = partial(lambda name, real, *given: done.append(name) or real(*given), name, getattr(module, name))
        monkeypatch.setattr(module, name, counted)
    command, *more = arguments
    calibration = ["-c", str(ROOT / "examples/models/digits_calibration.npz")]
    if command == "estimate":
        rest = ["tiny", MODEL]
    else:
        rest = [MODEL, "-a", "tiny"]
        rest += ["-o", str(tmp_path / "program"), *calibration] if command == "compile" else ["-d", DATA, "-n", "20"]
    assert main([command, *rest, *more]) == 0
    assert done == ["read_model", "simplify"]


def test_json_is_complete_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    with pytest.raises(TypeError):
        output.write_json(target, {"x": object()})
    assert list(tmp_path.iterdir()) == []
    output.write_json(target, {"count": np.int64(3), "mean": np.float32(0.5), "none": float("nan"), "t": (1, 2)})
    assert json.loads(target.read_text()) == {"count": 3, "mean": 0.5, "none": None, "t": [1, 2]}


def test_doctor_says_what_each_tool_is_for_and_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    checks = report(tmp_path, "doctor")["checks"]
    tools = {"Python", "g++", "ap_int headers", "exact integers", "pynq", "Vitis HLS", "Vivado", "board"}
    assert {check["name"] for check in checks} >= tools
    assert not [check for check in checks if not (check["needed_for"] and check["remedy"] and check["detail"])]


def test_unexpected_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only errors that are the user's to mend become a message; a defect keeps its traceback."""

    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("bfpga.accelerator.boards.load_boards", broken)
    with pytest.raises(ZeroDivisionError):
        main(["boards"])


def test_errors_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise ModelError("x.onnx: not an ONNX file")

    monkeypatch.setattr("bfpga.accelerator.boards.load_boards", refuse)
    assert main(["boards"]) == 2
    assert capsys.readouterr().err == "bfpga: x.onnx: not an ONNX file\n"


def report(folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON of a command that succeeds."""
    target = folder / "report.json"
    assert main([*arguments, "--json", str(target)]) == 0
    return dict(json.loads(target.read_text()))


def test_run_reports_accuracy_cycles_and_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = report(tmp_path, "run", MODEL, "-a", "pynq_z2_dense", "-d", DATA, "--samples", "200")
    assert set(content) >= REPORT_KEYS
    assert (content["model"], content["accelerator"], content["device"]) == ("mlp_digits", "pynq_z2_dense", "emulator")
    assert content["samples"] == 200
    assert content["accuracy"] > 0.9
    assert content["latency_s"] >= content["cycles_total"] / 142e6
    layers = content["layers"]
    assert all(set(layer) >= {"name", "engine", "macs", "cycles"} for layer in layers)
    assert sum(layer["macs"] for layer in layers) == 64 * 32 + 32 * 10
    assert sum(layer["cycles"] for layer in layers) == content["cycles_total"]
    assert "first 64 samples of those judged" in capsys.readouterr().out
    assert (content["calibrated_on"], content["calibration_samples"]) == ("judged samples", 64)


def test_one_line_says_that_numpy_computes_layers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 15: the fallback is never silent."""
    monkeypatch.setenv("BFPGA_NATIVE", "numpy")
    report(tmp_path, "run", MODEL, "-a", "pynq_z2_dense", "-d", DATA, "--samples", "20")
    printed = capsys.readouterr()
    lines = [line for line in (printed.out + printed.err).splitlines() if "engines in numpy" in line]
    assert len(lines) == 1
    assert "compute all layers, as asked for" in lines[0]


def test_evaluate_reports_float_accuracy_and_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibration = str(ROOT / "examples/models/digits_calibration.npz")
    content = report(tmp_path, "evaluate", MODEL, "-a", "pynq_z2_bfp16", "-d", DATA, "-c", calibration)
    assert set(content) >= REPORT_KEYS | {"float_accuracy"}
    assert abs(content["accuracy"] - content["float_accuracy"]) <= 0.001
    assert min(layer["sqnr_db"] for layer in content["layers"]) > 60
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["run", "evaluate"])
def test_saturated_samples_are_shown_with_a_remedy(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Calibrated on dark digits, the network meets bright ones."""
    with np.load(DATA) as file:
        scaling = {key: file[key] for key in ("x_scale", "x_offset") if key in file}
        np.savez(tmp_path / "dark.npz", x=file["x"][:64] * np.float32(0.25), **scaling)
    content = report(tmp_path, command, MODEL, "-a", "pynq_z2_dense", "-d", DATA, "-c", str(tmp_path / "dark.npz"))
    text = capsys.readouterr().out
    assert content["calibrated_on"] == "own samples"
    rows = [*content["inputs"], *content["layers"]]
    assert any(row["saturated_samples"] > 100 and row["saturation_warning"] for row in rows)
    assert all(row["saturated_samples"] <= row["counted_samples"] for row in rows)
    worst = max(rows, key=lambda row: row["saturated_samples"] / row["counted_samples"])
    assert f"saturates in {worst['saturated_samples']} of {worst['counted_samples']} samples" in text
    assert all(layer["saturated_values"] >= layer["saturated_samples"] for layer in content["layers"])
    assert "saturated samples / values" in text
    assert all(remedy in text for remedy in ("warning: ", "more samples", "--policy dynamic", "--recipe adaptive"))
    assert "calibrated on the first" not in text


def test_no_warning_where_calibration_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibration = str(ROOT / "examples/models/digits_calibration.npz")
    report(tmp_path, "evaluate", MODEL, "-a", "pynq_z2_dense", "-d", DATA, "-c", calibration)
    assert "warning" not in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is needed for the C simulation")
def test_compare_reports_bit_exactness(tmp_path: Path) -> None:
    arguments = ["run", MODEL, "-a", "tiny", "-d", DATA, "-n", "5", "--device", "csim", "--compare"]
    content = report(tmp_path, *arguments)
    assert content["bit_exact"] is True
    assert content["comparison"]["cycles"]["expected"] == content["comparison"]["cycles"]["got"]


def test_a_difference_ends_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    original = work.compare

    def differing(job: work.Job, device: str, batch: int) -> Comparison:
        mismatch = Mismatch("mantissa", "layer1", "t1", (0, 0, 0, 3), 5, 6)
        return replace(original(job, device, batch), mismatch=mismatch)

    monkeypatch.setattr(work, "compare", differing)
    assert main(["run", MODEL, "-a", "tiny", "-d", DATA, "-n", "2", "--compare"]) == 1
    assert "NOT bit-exact: emulator differs from emulator: layer layer1, tensor t1" in capsys.readouterr().out


def test_compile_writes_a_program_and_its_listing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "digits.bfpga"
    assert main(["compile", MODEL, "-a", "tiny", "-o", str(program)]) == 0
    assert load_program(program).accelerator == "tiny"
    assert "multiply-accumulates 2,368" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [program]


def test_estimate_of_a_network_names_limits(tmp_path: Path) -> None:
    content = report(tmp_path, "estimate", "pynq_z2_dense", MODEL)["program"]
    assert content["cycles_total"] == sum(content["limits"].values())
    assert all(layer["limit"] in layer["limits"] for layer in content["layers"])
    assert 0 < content["latency_compute_s"] < content["latency_s"]


def test_render_refuses_a_directory_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    assert main(["render", "tiny", "-o", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err


def test_readme_and_scripts_name_commands_and_files_that_exist() -> None:
    overview = (ROOT / "docs/commands.md").read_text()
    templates = ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")
    texts = [path.read_text() for path in (ROOT / "README.md", ROOT / "scripts/quickstart.sh", *templates)]
    text = "\n".join([overview, *texts])
    assert {*COMMANDS, "research"} <= set(re.findall(r"`bfpga ([a-z][a-z-]*)", overview))
    assert set(re.findall(r"bfpga ([a-z]+[a-z-]*)", text)) >= {"run", "evaluate", "estimate"}
    for command in re.findall(r"`bfpga ([a-z][a-z-]*)", text):
        assert command in [*COMMANDS, "research"], command
    for path in re.findall(r"(?:examples|docs|configs)/[\w/.-]+\.\w+", text):
        assert (ROOT / path).exists(), path


SCRIPTS = [*sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("scripts/*.sh")), ".ci/run"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_valid_bash(script: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


@pytest.mark.parametrize(("version", "said"), [((3, 13, 1), "cannot be installed for Python 3.13"), ((3, 12, 0), "")])
def test_doctor_says_where_pynq_cannot_be_installed(
    version: tuple[int, int, int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bfpga.board.virtual import pynq_internals
    monkeypatch.setattr(pynq_internals.sys, "version_info", version)
    monkeypatch.setattr(doctor, "package", lambda *_, remedy, **__: remedy)  # what its trial finds is the same
    remedy = str(doctor.pynq())
    assert said in remedy
    assert ("make an environment of Python 3.10 to 3.12" in remedy) == bool(said)
    monkeypatch.setattr(pynq_internals.np, "__version__", "2.1.0")
    with pytest.raises(DeviceError, match=said or "pip install"):
        pynq_internals.import_pynq()
