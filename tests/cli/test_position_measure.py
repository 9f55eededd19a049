"""`bfpga research position-measure`: both flows on a device, the faster one of each layer, a recipe (FP R33, R34)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.api import flow_measuring
from bfpga.api.flow_measuring import FlowTask, LayerStarter, MeasuredFlows, measure_flows
from bfpga.cli import main
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import ArrayNode, Program
from bfpga.data import load_inputs
from bfpga.devices.layer_kernels import LayerRun
from bfpga.errors import DeviceError

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples" / "models"
MODEL, DATA = str(MODELS / "lenet_mnist.onnx"), str(MODELS / "mnist_test.npz")
#: With a collector and a keep buffer, which LeNet's first layer does not fit whole.
ACCELERATOR = "pynq_z2_flows"
MEASURED = ["/c1/Conv", "/c2/Conv", "/f1/Gemm", "/f2/Gemm"]
FIRST, SECOND = "two_pass_sampled", "keep_sampled"
COMMAND = ["research", "position-measure", MODEL, "-a", ACCELERATOR, "-d", DATA]


def measured_by(device: str, folder: Path, *more: str) -> dict[str, Any]:
    target = folder / "measured.json"
    assert main([*COMMAND, "--device", device, "--json", str(target), *more]) == 0
    content: dict[str, Any] = json.loads(target.read_text())
    return content


def _mean(clocks: Mapping[str, list[int]], flow: str) -> float:
    return mean(clocks[flow])


def test_a_device_measures_both_flows_and_the_recipe_repeats_the_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FP R33: each layer's clocks from the compiled kernel, eight times by both flows; the smaller mean is chosen."""
    recipe, listed = tmp_path / "flows.yaml", tmp_path / "compiled.json"
    content = measured_by("csim", tmp_path, "--save-recipe", str(recipe))
    assert "iteration 9" in capsys.readouterr().out
    clocks = {layer["name"]: layer["clocks"] for layer in content["layers"] if "clocks" in layer}
    assert list(clocks) == MEASURED
    assert {len(counted) for of_layer in clocks.values() for counted in of_layer.values()} == {8}
    expected = {name: min((FIRST, SECOND), key=partial(_mean, clocks[name])) for name in MEASURED}
    assert set(expected.values()) == {FIRST, SECOND}
    assert content["choices"] == {**expected, "/MaxPool": None, "/MaxPool_1": None}
    # From the ninth iteration on: what the chosen flow took before.
    assert content["chosen_clocks"] == {name: mean(clocks[name][flow]) for name, flow in expected.items()}
    emulated = measured_by("emulator", tmp_path, "--iterations", "1")  # FP R48
    for layer in emulated["layers"]:
        first = {flow: counted[:1] for flow, counted in clocks.get(layer["name"], {}).items()}
        assert layer.get("clocks", {}) == first
    arguments = [MODEL, "-a", ACCELERATOR, "-r", str(recipe), "-o", str(tmp_path / "lenet.bfpga")]
    assert main(["compile", *arguments, "--json", str(listed)]) == 0
    repeated = {choice["layer"]: choice["flow"] for choice in json.loads(listed.read_text())["flow_choices"]}
    assert repeated == expected


def test_the_page_shows_the_measured_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FP R33: docs/dynamic-positions.md has what the command prints; its JSON is a file for `position-choice`."""
    monkeypatch.setenv("BFPGA_COLUMNS", "140")
    content = measured_by("virtual", tmp_path)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    shown = (ROOT / "docs" / "dynamic-positions.md").read_text().splitlines()
    assert len(printed) > 7
    assert [line for line in printed if line not in shown] == []
    target = tmp_path / "choice.json"
    assert main(["research", "position-choice", str(tmp_path / "measured.json"), "--json", str(target)]) == 0
    assert json.loads(target.read_text())["choices"] == content["choices"]


# The choice follows what was measured


def task(accelerator: str = ACCELERATOR, options: CompileOptions | None = None) -> FlowTask:
    network = read_network(Path(MODEL))
    samples = load_inputs(Path(DATA), network.inputs, 4)
    return FlowTask(network, load_accelerator(accelerator), samples, samples.inputs, options or CompileOptions())


class FakeStarter(LayerStarter):
    """A device whose layers take the clocks that a test says, by layer and flow; notes the programs that it ran."""

    clocks: Mapping[tuple[str, str], int] = {}
    ran: list[Program]

    def __init__(self, device: str, program: Program) -> None:
        FakeStarter.ran = []

    def run(self, program: Program, sample: Mapping[str, Any]) -> dict[str, LayerRun]:
        self.ran.append(program)
        nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
        return {node.name: LayerRun(-3, 1, self.clocks.get((node.name, node.policy.flow), 50)) for node in nodes}

    def close(self) -> None:
        pass


def faked(
    monkeypatch: pytest.MonkeyPatch, clocks: Mapping[tuple[str, str], int], **options: Any
) -> tuple[MeasuredFlows, list[dict[str, str]]]:
    """What is chosen by these clocks, and the flows of each program that ran."""
    monkeypatch.setattr(flow_measuring, "LayerStarter", FakeStarter)
    monkeypatch.setattr(FakeStarter, "clocks", clocks)
    measured = measure_flows(task(), **options)
    flows = [
        {node.name: node.policy.flow for node in program.nodes if node.name in MEASURED}  # type: ignore[union-attr]
        for program in FakeStarter.ran
    ]
    return measured, flows


def test_both_flows_run_in_every_iteration_and_one_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """FP R33: A times both, then what was chosen; clocks of the counter go before counted work, a tie takes flow 2."""
    clocks = {("/c1/Conv", FIRST): 70, ("/f1/Gemm", FIRST): 49, ("/f2/Gemm", SECOND): 49}
    measured, flows = faked(monkeypatch, clocks, iterations=3)
    chosen = {"/c1/Conv": SECOND, "/c2/Conv": FIRST, "/f1/Gemm": FIRST, "/f2/Gemm": SECOND}
    twice, kept = dict.fromkeys(MEASURED, FIRST), dict.fromkeys(MEASURED, SECOND)
    assert flows == [twice, kept] * 3 + [chosen]
    assert {name: measured.chooser.choice(name) for name in MEASURED} == chosen
    assert measured.chosen == {"/c1/Conv": 50, "/c2/Conv": 50, "/f1/Gemm": 49, "/f2/Gemm": 49}


def test_layers_of_one_operation_share_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """FP R34: by itself c2 would take flow 2; convolutions together are faster with flow 4."""
    clocks = {("/c1/Conv", FIRST): 70, ("/c2/Conv", FIRST): 45, ("/f1/Gemm", FIRST): 45}
    _, alone = faked(monkeypatch, clocks, iterations=1)
    assert alone[-1] == {"/c1/Conv": SECOND, "/c2/Conv": FIRST, "/f1/Gemm": FIRST, "/f2/Gemm": FIRST}
    measured, together = faked(monkeypatch, clocks, iterations=1, by="operation")
    assert together[-1] == {"/c1/Conv": SECOND, "/c2/Conv": SECOND, "/f1/Gemm": FIRST, "/f2/Gemm": FIRST}
    assert [layer.operation for layer in measured.chooser.layers] == [
        "convolution", "maximum", "convolution", "maximum", "fully connected", "fully connected",
    ]  # fmt: skip


def test_under_a_rule_that_bears_no_sample_everything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """FP R33, 2.3: `max` needs the largest value, so full passes are compared; who cannot keep has no choice."""
    monkeypatch.setattr(flow_measuring, "LayerStarter", FakeStarter)
    given = CompileOptions(rule="max", layers={"/c2/Conv": {"flow": "keep_sampled", "margin": 1}})
    asked = task(options=given)
    assert asked.candidates == ("two_pass", "keep")
    measured = measure_flows(asked, iterations=1)
    kinds = {layer.name: layer.operation for layer in measured.chooser.layers}
    assert kinds["/c1/Conv"] == "convolution, keeps nothing"
    assert kinds["/c2/Conv"] == "convolution"
    assert set(measured.chooser.clocks("/c1/Conv")) == {"two_pass"}
    assert set(measured.chooser.clocks("/c2/Conv")) == {"two_pass", "keep"}
    assert measured.options.layers["/c2/Conv"] == {"margin": 1}


def test_flows_that_disagree_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """FP R26: the same sample gives the same exponent, however it is kept."""

    class Wrong(FakeStarter):
        def run(self, program: Program, sample: Mapping[str, Any]) -> dict[str, LayerRun]:
            runs = super().run(program, sample)
            runs["/c2/Conv"] = LayerRun(len(self.ran), 1)
            return runs

    monkeypatch.setattr(flow_measuring, "LayerStarter", Wrong)
    with pytest.raises(DeviceError, match="layer /c2/Conv: exponent 1 by flow two_pass_sampled, 2 by keep_sampled"):
        measure_flows(task(), iterations=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-a", "pynq_z2_dense"], "no layer of lenet_mnist.onnx has a choice"),
        (["--by", "network"], "layer or operation"),
        (["--device", "nowhere"], "nowhere"),
        (["--device", "virtual,virtual"], "layers are started one by one on a single kernel"),
        (["--rule", "best"], "rule 'best' is unknown"),
    ],
)
def test_mistakes_are_one_clear_error(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, *arguments]) == 2
    shown = capsys.readouterr().err
    assert message in " ".join(shown.split())
    assert "Traceback" not in shown
