"""`--accuracy-drop`: the search for the precision of each layer, and what the commands make of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from shift_arrays import SHIFT
from small_networks import Network

from bfpga.accelerator.variants import accelerator_around
from bfpga.cli import main
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.compiler.recipes import load_recipe, save_recipe
from bfpga.errors import ConfigurationError
from bfpga.precision.judge import Judge
from bfpga.precision.search import Found, search
from bfpga.precision.steps import Step, applied, steps_of

ARRAY = accelerator_around(SHIFT, "test")


def classifier() -> Network:
    """Three layers, five classes that lie close together."""
    network = Network(2, 5, 5)
    network.generator = np.random.default_rng(3)
    network.add("Relu", network.conv(5, 2, 3, pads=[1, 1, 1, 1]))
    network.add("Relu", network.conv(5, 5, 1))
    network.add("GlobalAveragePool")
    network.add("Flatten")
    network.add("Gemm", network.last, network.weights(5, 5), transB=1)
    return network


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(classifier().model().SerializeToString())
    return path


def searched(model: Path, drop: float) -> Found:
    network = read_network(model)
    samples = classifier().samples(48)
    return search(network, ARRAY, samples, Judge(network, samples), drop, CompileOptions(formats="two_hot"))


def test_the_search_is_deterministic_and_keeps_what_it_promises(model: Path) -> None:
    first = searched(model, 0.0)
    assert first.start.lost > 0, "two-hot weights must change some class here, or nothing is searched"
    assert first.met
    assert first.score.lost == 0
    assert first.score.noise < first.start.noise
    again = searched(model, 0.0)
    assert again.options == first.options
    assert [item.gain_db for item in again.sensitivities] == [item.gain_db for item in first.sensitivities]
    taken = [item.step for item in first.sensitivities if item.taken]
    assert taken
    assert first.options == applied(CompileOptions(formats="two_hot"), taken)
    program = compile_network(model, ARRAY, classifier().samples(48), first.options)
    assert Judge(read_network(model), classifier().samples(48)).score(program) == first.score


def test_nothing_is_made_finer_where_the_loss_is_allowed_already(model: Path) -> None:
    found = searched(model, 100.0)
    assert found.met
    assert found.score.cycles <= found.start.cycles
    assert not any(item.taken and item.extra_cycles > 0 for item in found.sensitivities)
    assert len(found.sensitivities) > 5, "the table of sensitivities is made all the same"


def test_a_loss_that_cannot_be_kept_is_said_to_be(model: Path) -> None:
    """Outputs that are compared as numbers are never without an error; the finest that was found is given."""
    network = Network(4, 3, 3)
    network.add("Relu", network.conv(4, 4, 1))
    network.conv(4, 4, 1)
    model.write_bytes(network.model().SerializeToString())
    read, samples = read_network(model), network.samples(24)
    found = search(read, ARRAY, samples, Judge(read, samples), 0.0, CompileOptions(formats="two_hot"))
    assert not found.met
    assert 0 < found.score.lost < found.start.lost


def test_steps_are_what_the_layers_allow(model: Path) -> None:
    samples = classifier().samples(16)
    program = compile_network(model, ARRAY, samples, CompileOptions(formats="two_hot"))
    steps = steps_of(program, CompileOptions(formats="two_hot"))
    assert Step("x", "result_parts", 2) in steps
    assert Step("Conv_0", "result_parts", 4) in steps
    assert Step("Conv_2", "weight_parts", 2) in steps
    assert Step("Conv_0", "weight_parts", 2) not in steps  # 3 x 3
    assert Step("Gemm_6", "result_parts", 2) not in steps  # leaves the array
    for step in steps:
        compile_network(model, ARRAY, samples, applied(CompileOptions(formats="two_hot"), [step]))


def test_judges_take_the_metric_that_fits(model: Path) -> None:
    network, samples = read_network(model), classifier().samples(8)
    assert Judge(network, samples).metric == "agreement"
    assert Judge(network, samples, np.zeros(8, np.int64)).metric == "accuracy"
    same = Network(4, 3, 3)
    same.conv(4, 4, 1)
    path = model.with_name("same.onnx")
    path.write_bytes(same.model().SerializeToString())
    judge = Judge(read_network(path), same.samples(8))
    assert judge.metric == "noise"
    assert judge.score(compile_network(path, ARRAY, same.samples(8))).lost > 0


def test_a_recipe_is_written_as_it_is_read(tmp_path: Path) -> None:
    layers = {"a: b": {"result_parts": 2}, "c": {"formats": "two_hot", "weight_parts": 2}}
    options = CompileOptions(formats="two_hot", remainders="always", layers=layers)
    save_recipe(options, tmp_path / "r.yaml", "for a test")
    assert load_recipe(tmp_path / "r.yaml") == options
    save_recipe(CompileOptions(), tmp_path / "r.yaml")
    assert load_recipe(tmp_path / "r.yaml") == CompileOptions()
    with pytest.raises(ConfigurationError, match="cannot write the recipe there"):
        save_recipe(options, tmp_path / "none" / "r.yaml")


def test_commands_print_the_table_and_write_the_recipe(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = classifier().samples(80)["x"]
    np.savez(tmp_path / "d.npz", x=samples)
    recipe, report = tmp_path / "found.yaml", tmp_path / "report.json"
    command = [str(model), "-a", "tiny", "--accuracy-drop", "2.5"]
    written = ["--save-recipe", str(recipe), "--json", str(report)]
    assert main(["evaluate", *command, "-d", str(tmp_path / "d.npz"), *written]) == 0
    shown = capsys.readouterr().out
    assert "Sensitivities on 40 samples" in shown
    assert "lost on 40 samples that were not searched on" in shown
    content = json.loads(report.read_text())
    assert content["samples"] == 40
    assert content["precision"]["metric"] == "agreement"
    assert content["precision"]["steps"]
    assert main(["evaluate", str(model), "-a", "tiny", "-d", str(tmp_path / "d.npz"), "-r", str(recipe)]) == 0
    program = tmp_path / "net.bfpga"
    assert main(["compile", *command, "-c", str(tmp_path / "d.npz"), "-o", str(program)]) == 0
    assert program.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--accuracy-drop", "-1"], "--accuracy-drop is -1; it is the points .* from 0 to 100"),
        (["--accuracy-drop", "nan"], "--accuracy-drop is nan; .* from 0 to 100"),
        (["--accuracy-drop", "101"], "--accuracy-drop is 101; .* from 0 to 100"),
        (["--accuracy-drop", "little"], "--accuracy-drop.*should be a valid number"),
        (["--accuracy-drop", "1"], "--accuracy-drop needs samples .* --calibration"),
        (["--save-recipe", "r.yaml"], "--save-recipe writes the recipe that --accuracy-drop finds"),
    ],
)
def test_values_that_mean_nothing_are_explained(
    arguments: list[str], message: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "a.bfpga"
    assert main(["compile", str(model), "-a", "tiny", "-o", str(target), *arguments]) == 2
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert re.search(message, error), error
    assert not target.exists()
