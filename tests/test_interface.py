"""The package as a new user meets it: what it lists, what it takes, how results show themselves."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bfpga
from bfpga.api import building, deploying
from bfpga.cli import main
from bfpga.data import InputSamples
from bfpga.deploy.request import Request
from bfpga.devices.emulator import Emulator
from bfpga.devices.input_ranges import range_warning
from bfpga.errors import ConfigurationError, DataError, DeviceError, ProgramError, RangeWarning
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.pipeline import BuildReport, StageOutcome

MODELS = Path(__file__).parents[1] / "examples" / "models"
MODEL, TEST, CALIBRATION = (
    str(MODELS / name) for name in ("mlp_digits.onnx", "digits_test.npz", "digits_calibration.npz")
)
HOSTILE = "</table><script>alert(1)</script>"


@pytest.fixture(scope="module")
def program() -> bfpga.Program:
    return bfpga.compile(MODEL, "tiny", CALIBRATION)


@pytest.fixture(scope="module")
def samples() -> bfpga.Samples:
    return bfpga.load_samples(TEST)


def same(first: bfpga.Program, second: bfpga.Program, folder: Path) -> bool:
    """Programs hold arrays, so their files are compared."""
    one, other = (program.save(folder / name).read_bytes() for program, name in ((first, "one"), (second, "other")))
    return one == other


# What is listed


def test_the_package_lists_what_it_has_and_says_what_each_is() -> None:
    assert dir(bfpga) == sorted([*bfpga.__all__, "__version__"])
    for name in bfpga.__all__:
        item = getattr(bfpga, name)
        assert len(inspect.getdoc(item) or "") > 20, name
        assert inspect.isclass(item) or inspect.signature(item).return_annotation != inspect.Signature.empty, name
    with pytest.raises(AttributeError, match=r"no attribute 'predikt'; it has .*predict"):
        _ = bfpga.predikt  # type: ignore[attr-defined]


def test_type_checkers_see_the_names_that_are_loaded_later() -> None:
    tree = ast.parse(Path(str(bfpga.__file__)).read_text())
    seen = {
        (item.asname or item.name): (node.module, item.name)
        for block in tree.body if isinstance(block, ast.If)
        for node in block.body if isinstance(node, ast.ImportFrom)
        for item in node.names
    }  # fmt: skip
    assert seen == {name: (bfpga._MODULES[name], bfpga._NAMES_THERE.get(name, name)) for name in bfpga.__all__}
    assert (Path(str(bfpga.__file__)).parent / "py.typed").exists()


def test_importing_the_package_loads_nothing_and_overlays_need_no_pynq() -> None:
    script = (
        "import sys; sys.modules['pynq'] = None\n"
        "import bfpga; dir(bfpga); print('numpy' in sys.modules, bfpga.Overlay.__name__)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "BoardOverlay"]


@pytest.mark.parametrize("name", ["explore", "report", "estimate", "deploy"])
def test_packages_of_the_same_name_leave_the_functions_in_place(name: str) -> None:
    package = import_module(f"bfpga.{name}")
    setattr(bfpga, name, package)  # as Python does when it imports the package
    assert inspect.isfunction(getattr(bfpga, name))


# What is taken


def test_samples_are_taken_in_every_form(
    program: bfpga.Program, samples: bfpga.Samples, tmp_path: Path
) -> None:
    file = program.save(tmp_path / "digits.bfpga")
    forms: list[Any] = [
        TEST, Path(TEST), samples, samples.x, samples.x.tolist(), {"input": samples.x},
        InputSamples({"input": samples.x}, samples.y), samples.x.reshape(-1, 1, 8, 8),
    ]  # fmt: skip
    expected = bfpga.run(program, samples.x).outputs["logits"]
    for form in forms:
        assert (bfpga.predict(file, form) == expected).all()
    assert (bfpga.run(str(file), samples.first(3)).outputs["logits"] == expected[:3]).all()
    assert bfpga.compare(file, samples.first(3), "emulator").bit_exact
    for form in (TEST, samples, InputSamples({"input": samples.x}, samples.y)):
        assert bfpga.evaluate(file, MODEL, form, traced=8).accuracy == pytest.approx(0.9567, abs=0.01)
    labels = [int(label) for label in samples.y]  # type: ignore[union-attr]
    assert bfpga.evaluate(program, MODEL, samples.x, labels, traced=8).accuracy == pytest.approx(0.9567, abs=0.01)
    assert bfpga.evaluate(program, MODEL, samples.x, traced=8).accuracy is None


def test_calibration_and_recipes_are_taken_in_every_form(program: bfpga.Program, tmp_path: Path) -> None:
    given = bfpga.load_samples(CALIBRATION)
    for form in (given, given.x, {"input": given.x}):
        assert same(bfpga.compile(MODEL, "tiny", form), program, tmp_path)
    adaptive = bfpga.compile(MODEL, bfpga.load_accelerator("tiny"), given, "adaptive")
    assert not same(adaptive, program, tmp_path)


def test_an_emulator_takes_an_array(program: bfpga.Program, samples: bfpga.Samples) -> None:
    x = samples.x[:4].reshape(4, 64)
    assert (Emulator(program).run(x).outputs["logits"] == bfpga.predict(program, x)).all()
    with pytest.raises(DataError, match=r"has shape \(4, 63\); the program takes \(samples, 64\)"):
        Emulator(program).run(x[:, 1:])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((4, 63)), r"a sample has shape \(63,\); the network takes \(64,\)"),
        (np.zeros(64), r"has shape \(64,\); \(samples, 64\) is needed; x\[None\] makes one sample a batch"),
        (np.zeros((0, 64)), "one sample at least"),
        (7.5, r"has shape \(\)"),
        ([[1.0], [1.0, 2.0]], "is no array"),
        (np.array([["a"] * 64]), "has type <U1; numbers are needed"),
        ({"image": np.zeros((4, 64))}, "input 'input' is missing; the network takes input"),
        ({"input": np.zeros((4, 64)), "mask": 1}, "input 'mask' is unknown; the network takes input"),
        ("nowhere.npz", "nowhere.npz: there is no such file"),
    ],
)
def test_samples_that_do_not_fit_are_refused_in_words(program: bfpga.Program, given: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        bfpga.predict(program, given)


def test_wrong_labels_outputs_and_programs_are_refused_in_words(
    program: bfpga.Program, samples: bfpga.Samples
) -> None:
    with pytest.raises(DataError, match=r"labels have shape \(3,\) .*; 300 whole numbers are needed"):
        bfpga.evaluate(program, MODEL, samples, [1, 2, 3])
    with pytest.raises(DataError, match="has no output 'scores'; it has logits"):
        bfpga.predict(program, samples, output="scores")
    with pytest.raises(ProgramError, match="cannot read the program file"):
        bfpga.predict("nowhere.bfpga", samples)
    with pytest.raises(ProgramError, match="was compiled for accelerator tiny"):
        bfpga.estimate("pynq_z2_dense", program)


# How results show themselves


def shown(program: bfpga.Program, samples: bfpga.Samples) -> list[Any]:
    result = bfpga.run(program, samples.first(4))
    evaluation = bfpga.evaluate(program, MODEL, samples, traced=8)
    return [program, result, evaluation, bfpga.estimate("tiny", program), bfpga.load_accelerator("tiny"),
            bfpga.load_board("pynq_z2")]  # fmt: skip


def test_results_are_a_line(program: bfpga.Program, samples: bfpga.Samples) -> None:
    for item in shown(program, samples):
        text = repr(item)
        assert len(text) < 200, text
        assert "\n" not in text
        assert any(char.isdigit() for char in text)
    assert "mlp_digits for tiny: 2 layers, 2.37 k MAC; input (64,) -> logits (10,)" in repr(program)
    long = replace(program, name="n" * 500, inputs={"i\x1b" * 500: (1,) * 64}, outputs={"o" * 500: (2,) * 64})
    assert len(repr(long)) < 200
    assert "\x1b" not in repr(long)


def test_results_are_a_table_and_a_chart_in_a_notebook(program: bfpga.Program, samples: bfpga.Samples) -> None:
    for item in shown(program, samples)[:4]:
        page = item._repr_html_()
        assert "<table>" in page
        assert "<svg " in page
        assert "<rect " in page
        assert "script" not in page


def test_names_are_escaped_in_a_notebook(program: bfpga.Program, samples: bfpga.Samples) -> None:
    """Names come from network files, which may be anybody's."""
    nodes = [replace(node, name=f"{HOSTILE}{index}") for index, node in enumerate(program.nodes)]
    setup = replace(program.setup, operations=[])
    hostile = replace(program, name=HOSTILE, nodes=nodes, setup=setup, steps=[], notes=[HOSTILE])
    result = bfpga.run(program, samples.first(2))
    for layer in result.layers:
        layer.name = HOSTILE
    result.outputs = {HOSTILE: result.outputs["logits"]}
    evaluation = replace(bfpga.evaluate(program, MODEL, samples, traced=8), sqnr_db={HOSTILE: 30.0}, note=HOSTILE)
    estimate = bfpga.estimate("tiny", program)
    assert estimate.sample is not None
    for layer in estimate.sample.program.layers:
        layer.name = HOSTILE
    for item in (hostile, result, evaluation, estimate):
        page = item._repr_html_()
        assert "&lt;script&gt;" in page
        assert "<script" not in page


def test_a_program_prints_and_saves_itself(
    program: bfpga.Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert same(bfpga.load_program(program.save(tmp_path / "digits.bfpga")), program, tmp_path)
    assert main(["compile", MODEL, "-a", "tiny", "-c", CALIBRATION, "-o", str(tmp_path / "other.bfpga")]) == 0
    assert capsys.readouterr().out.startswith(program.summary())
    assert (tmp_path / "other.bfpga").read_bytes() == (tmp_path / "digits.bfpga").read_bytes()
    with pytest.raises(ProgramError, match="cannot write there"):
        program.save(tmp_path / "nowhere" / "digits.bfpga")


# Samples out of range


def test_samples_far_outside_of_the_calibrated_range_are_named(
    program: bfpga.Program, samples: bfpga.Samples
) -> None:
    low, high = program.input_ranges["input"]
    assert (low, high) == (0.0, 1.0)
    calls = (
        lambda x: bfpga.run(program, x),
        lambda x: bfpga.predict(program, x),
        lambda x: bfpga.compare(program, x, "emulator"),
        lambda x: bfpga.evaluate(program, MODEL, x),
    )
    for call in calls:
        with pytest.warns(RangeWarning, match=r"0 to 255.* calibrated with 0 to 1.*scale 0.003922") as found:
            call(np.round(255 * samples.x[:8]))
        assert len(found) == 1
        assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in calls:
            call(samples.x[:8])
            call(2 * samples.x[:8])


def test_what_is_far_outside(program: bfpga.Program, samples: bfpga.Samples) -> None:
    x = samples.x[:8]
    assert "scale" in range_warning(program, {"input": x / 255})
    assert range_warning(program, {"input": np.zeros_like(x)}) == ""
    outlier = x.copy()
    outlier[0] = 200
    assert range_warning(program, {"input": outlier}) == ""
    assert range_warning(program, {"input": (255 * x).astype(np.uint8)}) != ""
    assert range_warning(replace(program, input_ranges={}), {"input": 255 * x}) == ""


def test_the_command_line_warns_in_a_line(
    samples: bfpga.Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "raw.npz", x=np.round(255 * samples.x[:8]), y=samples.y[:8])  # type: ignore[index]
    for command in ("run", "evaluate"):
        data = ["-d", str(tmp_path / "raw.npz"), "-c", CALIBRATION]
        assert main([command, MODEL, "-a", "tiny", *data]) == 0
        said = capsys.readouterr().err
        assert said.startswith("bfpga: warning: input 'input' gets values of 0 to 255, and")
        assert said.count("\n") == 1


def test_ranges_of_a_program_file_are_checked(program: bfpga.Program, tmp_path: Path) -> None:
    for ranges in ({"other": (0.0, 1.0)}, {"input": (1.0, 0.0)}, {"input": (0.0,)}):
        damaged = replace(program, input_ranges=ranges)
        with pytest.raises(ProgramError, match="calibrated range of input"):
            bfpga.load_program(damaged.save(tmp_path / "digits.bfpga"))


# The other functions: what they compute is tested with the commands


def test_estimates_have_figures_with_and_without_a_network(program: bfpga.Program) -> None:
    bare, whole = bfpga.estimate("tiny"), bfpga.estimate("tiny", MODEL, CALIBRATION)
    assert bare.latency is bare.images_per_second is None
    assert whole.latency == bfpga.estimate("tiny", program).latency
    assert 0 < bare.shares["dsp"] < 1
    assert "GMAC/s" in repr(bare)


def test_pruning_gives_a_network_that_compiles(tmp_path: Path) -> None:
    found = bfpga.prune(MODEL, 0.5, TEST, tmp_path / "pruned.onnx", epochs=0)
    assert found.sparsity == pytest.approx(0.5, abs=0.01)
    assert repr(found).startswith("Pruned(50.0")
    assert bfpga.compile(tmp_path / "pruned.onnx", "tiny").inputs == {"input": (64,)}
    with pytest.raises(OSError, match="is an input of this command"):
        bfpga.prune(MODEL, 0.5, TEST, TEST, epochs=0)
    with pytest.raises(ConfigurationError, match="rate is 0"):
        bfpga.prune(MODEL, 0.5, TEST, rate=0)


def test_explore_refuses_before_it_works(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no study to resume"):
        bfpga.explore(MODEL, "pynq_z2", TEST, folder=tmp_path, resume=True)
    with pytest.raises(ConfigurationError, match="pynq_z3"):
        bfpga.explore(MODEL, "pynq_z3")
    with pytest.raises(ConfigurationError, match=r"must be .* on TUL PYNQ-Z2"):
        bfpga.explore(MODEL, "pynq_z2", max_clock=9000)


def test_a_build_that_stops_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run_build(build: Any, reporter: object, until: str, redo_from: str | None) -> BuildReport:
        asked.append((build.settings, until, redo_from))
        if until == "hls":
            return BuildReport([StageOutcome("hls", "failed")], BuildError("missing_tool", "no vitis_hls"))
        return BuildReport([StageOutcome("package", "done")], None, tmp_path / "tiny")

    monkeypatch.setattr(building, "run_build", run_build)
    assert bfpga.build("tiny", directory=tmp_path, hours=2, jobs=3).overlay == tmp_path / "tiny"
    settings, until, _ = asked[0]
    assert (settings.limit_seconds, settings.jobs, until) == (7200, 3, "package")
    assert settings.directory.parent == tmp_path
    with pytest.raises(BuildError, match="no vitis_hls"):
        bfpga.build("tiny", until="hls", directory=tmp_path)
    for options in ({"until": "nothing"}, {"accept": ["nothing"]}):
        with pytest.raises(ConfigurationError, match="nothing"):
            bfpga.build("tiny", directory=tmp_path, **options)  # type: ignore[arg-type]


def test_deploy_writes_programs_and_raises_for_a_failed_self_test(
    program: bfpga.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, seen = [True], []

    def prepare(request: Request, note: object, dry_run: bool) -> Request:
        seen.append((request, bfpga.load_program(request.programs[0])))
        return request

    monkeypatch.setattr(deploying, "prepare", prepare)
    monkeypatch.setattr(deploying, "perform", lambda *given: {"passed": passed[0]})
    assert bfpga.deploy("pynq", program, port=22, timeout=60) == {"passed": True}
    request, read = seen[0]
    assert (request.address.host, request.address.port, request.options.test_seconds) == ("pynq", 22, 60)
    assert same(read, program, tmp_path)
    passed[0] = False
    with pytest.raises(DeviceError, match="the self-test failed"):
        bfpga.deploy("pynq", program)


def test_the_page_for_users_of_other_toolkits_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python in its order; a build and a board have stand-ins, which get what the page asks for."""
    pytest.importorskip("pynq")
    asked: list[str] = []

    def run_build(build: Any, reporter: object, until: str, redo_from: str | None) -> BuildReport:
        asked.append(until)
        return BuildReport([StageOutcome(until, "done")])

    def perform(request: Request, bundle: object, say: Any, show: Any) -> dict[str, Any]:
        asked.append(request.address.host)
        return {"passed": True}

    monkeypatch.setattr(building, "run_build", run_build)
    monkeypatch.setattr(deploying, "prepare", lambda request, note, dry_run: None)
    monkeypatch.setattr(deploying, "perform", perform)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(MODELS.parent)
    page = (MODELS.parents[1] / "docs" / "how-to" / "coming-from.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "coming-from.md", "exec"), names)
    assert len(blocks) == 9
    assert asked == ["192.168.2.99", "render"]
    assert names["comparison"].bit_exact
    assert b"mlp_digits on tiny" in (tmp_path / "report.html").read_bytes()
