"""Shapes of inputs on the command line, several inputs from one file, and quantized networks in reports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_networks import Network

from bfpga.cli import main
from bfpga.program.file import load_program


def two_inputs(folder: Path, height: int | str = 8) -> Path:
    """A sum of two images, a convolution and a fully connected layer of three classes."""
    network = Network(3, 8, 8)
    network.inputs["second"] = (3, 8, 8)
    network.add("Relu", network.conv(4, 3, 3, source=network.add("Add", "x", "second")))
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    network.add("Gemm", network.last, network.weights(4, 3), network.weights(3))
    model = network.model()
    if height == "H":
        for value in model.graph.input:
            value.type.tensor_type.shape.dim[2].dim_param = "H"
        del model.graph.value_info[:]
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def samples(folder: Path, **changed: np.ndarray) -> Path:
    generator = np.random.default_rng(4)
    arrays = {name: generator.normal(size=(12, 3, 8, 8)).astype(np.float32) for name in ("x", "second")}
    path = folder / "samples.npz"
    np.savez(path, **{**arrays, "y": generator.integers(0, 3, 12), **changed})
    return path


def test_commands_take_shapes_and_several_inputs(tmp_path: Path) -> None:
    path, data, result = two_inputs(tmp_path, "H"), samples(tmp_path), tmp_path / "result.json"
    shape, program = ["--input-shape", "x=1,3,8,8"], tmp_path / "program.bfpga"
    assert main(["evaluate", str(path), "-a", "tiny", "-d", str(data), *shape, "--json", str(result)]) == 0
    found = json.loads(result.read_text())
    assert found["accuracy"] is not None
    assert found["cosine"] > 0.99
    assert found["reference"] == "float"
    assert main(["run", str(path), "-a", "tiny", "-d", str(data), "-n", "3", *shape]) == 0
    assert main(["compile", str(path), "-a", "tiny", "-c", str(data), "-o", str(program), *shape]) == 0
    assert dict(load_program(program).inputs) == {"x": (3, 8, 8), "second": (3, 8, 8)}
    assert main(["estimate", "tiny", str(path), *shape]) == 0


def test_commands_take_chosen_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A classifier of scikit-learn: labels stand first in its file, and its scores are a map."""
    path = Path(__file__).parents[1] / "data" / "exported" / "sklearn_classifier.onnx"
    data, result, program = tmp_path / "samples.npz", tmp_path / "result.json", tmp_path / "program.bfpga"
    generator = np.random.default_rng(4)
    np.savez(data, x=generator.normal(size=(12, 8)).astype(np.float32), y=generator.integers(0, 3, 12))
    assert main(["evaluate", str(path), "-a", "tiny", "-d", str(data), "--json", str(result)]) == 0
    assert json.loads(result.read_text())["accuracy"] is not None
    command = ["compile", str(path), "-a", "tiny", "-o", str(program)]
    assert main([*command, "--outputs", "output_label"]) == 0
    assert list(load_program(program).outputs) == ["output_label"]
    assert main([*command, "--outputs", "labels"]) != 0
    assert "there is no value 'labels' to choose; outputs are output_label, output_proba" in capsys.readouterr().err


def test_commands_take_inner_values_with_commas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = Network(3, 8, 8)
    inner = network.add("Relu", network.conv(4, 3, 3))
    network.add("Softmax", network.add("Flatten", network.add("GlobalAveragePool", inner), axis=1), axis=1)
    path, data, program = tmp_path / "network.onnx", tmp_path / "samples.npz", tmp_path / "program.bfpga"
    path.write_bytes(network.model().SerializeToString())
    np.savez(data, **network.samples(8))
    scores = network.nodes[-1].input[0]
    chosen = ["--outputs", f"{scores}, {inner}"]
    assert main(["compile", str(path), "-a", "tiny", "-o", str(program), *chosen]) == 0
    assert list(load_program(program).outputs) == [scores, inner]
    assert main(["run", str(path), "-a", "tiny", "-d", str(data), *chosen]) == 0
    assert main(["report", str(path), "-a", "tiny", "-d", str(data), "-o", str(tmp_path / "r.html"), *chosen]) == 0
    capsys.readouterr()
    assert main(["estimate", "tiny", str(path), *chosen]) == 0
    assert "Softmax" not in capsys.readouterr().out
    assert main(["estimate", "tiny", str(path), "--outputs", f"{scores},"]) == 2
    assert "names of values with commas between them are needed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("x=1,3,H,8", "--input-shape is 'x=1,3,H,8'; sizes like image=1,3,224,224 are needed"),
        ("third=1,3,8,8", "there is no input 'third'"),
        ("1,3,8,8", "a shape is given without a name"),
    ],
)
def test_shapes_that_are_none_are_refused(
    shape: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", "tiny", str(two_inputs(tmp_path, "H")), "--input-shape", shape]) == 2
    assert message in capsys.readouterr().err


def test_a_shape_is_given_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = ["--input-shape", "x=1,3,8,8", "--input-shape", "x=1,3,9,8"]
    assert main(["estimate", "tiny", str(two_inputs(tmp_path, "H")), *twice]) == 2
    assert "--input-shape is given twice for x" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"second": np.zeros((12, 5, 8, 8))}, "a sample has shape (5, 8, 8); the network takes (3, 8, 8)"),
        ({"second": np.zeros((7, 3, 8, 8)), "y": np.zeros(7, int)}, "'y' has shape (7,)"),
        ({"second": np.zeros((12, 3, 8, 8), "U1")}, "'second' has type <U1"),
    ],
)
def test_samples_of_several_inputs_fit_together(
    changed: dict[str, np.ndarray], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = samples(tmp_path, **changed)
    assert main(["evaluate", str(two_inputs(tmp_path)), "-a", "tiny", "-d", str(data)]) == 2
    assert message in capsys.readouterr().err


def test_every_input_needs_its_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "one.npz"
    np.savez(data, x=np.zeros((4, 3, 8, 8), np.float32))
    assert main(["evaluate", str(two_inputs(tmp_path)), "-a", "tiny", "-d", str(data)]) == 2
    assert "the network has the inputs x, second; an array of each name is needed" in capsys.readouterr().err


def test_quantized_networks_are_judged_by_their_own_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = Network(3, 8, 8)
    numbers = [network.constant(np.float32(0.03)), network.constant(np.int8(0))]
    network.add("DequantizeLinear", network.add("QuantizeLinear", "x", *numbers), *numbers)
    network.conv(4, 3, 3)
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    model = network.model()
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(network.last, TensorProto.FLOAT, ["N", 4]))
    path, data, result = tmp_path / "network.onnx", tmp_path / "samples.npz", tmp_path / "result.json"
    path.write_bytes(model.SerializeToString())
    np.savez(data, **network.samples(8), y=np.arange(8) % 4)
    assert main(["evaluate", str(path), "-a", "tiny", "-d", str(data), "--json", str(result)]) == 0
    assert json.loads(result.read_text())["reference"] == "the quantized network"
    assert "same largest output as the quantized network" in capsys.readouterr().out
