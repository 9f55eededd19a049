"""Malformed networks: each gives one clear message and exit code 2, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bfpga.cli import main

Shape = list[int | str | None]


def network(
    *,
    shape: Shape | None = None,
    opset: int = 17,
    weights: np.ndarray | None = None,
    operator: str = "Conv",
    domain: str = "",
    input_type: int = TensorProto.FLOAT,
    **attributes: object,
) -> onnx.ModelProto:
    """One convolution of 3 channels, with one thing changed."""
    given: Shape = ["N", 3, 8, 8] if shape is None else shape
    values = np.full((4, 3, 3, 3), 0.25, np.float32) if weights is None else weights
    node = helper.make_node(operator, ["x", "w"], ["y"], name="layer", domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "network",
        [helper.make_tensor_value_info("x", input_type, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "c", "h", "w"])],
        [numpy_helper.from_array(values, "w")],
    )
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def with_value(value: float) -> np.ndarray:
    weights = np.full((4, 3, 3, 3), 0.25, np.float32)
    weights[1, 2, 0, 1] = value
    return weights


def without_nodes() -> onnx.ModelProto:
    model = network()
    del model.graph.node[:]
    return model


def without_input() -> onnx.ModelProto:
    model = network()
    del model.graph.input[:]
    return model


def with_missing_weights() -> onnx.ModelProto:
    model = network()
    del model.graph.initializer[:]
    return model


def with_cycle() -> onnx.ModelProto:
    model = network()
    model.graph.node.append(helper.make_node("Relu", ["y"], ["x2"], name="after"))
    model.graph.node[0].input[0] = "x2"
    return model


def with_external_data() -> onnx.ModelProto:
    model = network()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../secret.bin")
    return model


def quantized_by_a_computed_scale() -> onnx.ModelProto:
    """A quantizer of QONNX whose scale is the network's input."""
    model = network(operator="Quant", domain="qonnx.custom_op.general")
    model.graph.node[0].input[:] = ["w", "x", "w", "w"]
    return model


MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "opset 0": (lambda: network(opset=0), "opset 0 is unknown to the installed onnx"),
    "opset 9999": (lambda: network(opset=9999), "opset 9999"),
    "dynamic height": (lambda: network(shape=["N", 3, "H", 8]), "--input-shape x=1,3,224,8"),
    "unknown width": (lambda: network(shape=["N", 3, 8, None]), "dynamic"),
    "no shape": (lambda: network(shape=[]), "axes"),
    "six axes": (lambda: network(shape=["N", 3, 2, 4, 8, 8]), "its input has 6"),
    "one axis": (lambda: network(shape=["N"]), "its input has 1"),
    "zero channels": (lambda: network(shape=["N", 0, 8, 8]), "axis 1"),
    "NaN weights": (lambda: network(weights=with_value(np.nan)), "weights w"),
    "infinite weights": (lambda: network(weights=with_value(np.inf)), "weights w"),
    "weights beyond float32": (lambda: network(weights=with_value(1).astype(np.float64) * 1e300), "weights w"),
    "unknown domain": (lambda: network(domain="my.company"), "my.company"),
    "unknown operator": (lambda: network(operator="Convolve"), "Convolve"),
    "unknown attribute": (lambda: network(speed=3), "speed"),
    "wrong channels": (lambda: network(shape=["N", 5, 8, 8]), "shapes do not fit"),
    "kernel larger than the image": (lambda: network(shape=["N", 3, 2, 2]), ""),
    "text input": (lambda: network(input_type=TensorProto.STRING), "STRING"),
    "complex input": (lambda: network(input_type=TensorProto.COMPLEX64), "COMPLEX64"),
    "empty graph": (without_nodes, "empty"),
    "no input": (without_input, ""),
    "missing weights": (with_missing_weights, ""),
    "cycle": (with_cycle, ""),
    "external data outside": (with_external_data, "external"),
    "quantizer of a computed scale": (quantized_by_a_computed_scale, "quantizer layer (Quant): x is computed"),
}

RAW: dict[str, bytes] = {
    "empty file": b"",
    "text": b"this is not a network\n",
    "zeros": bytes(5000),
    "binary": bytes(range(256)) * 20,
    "archive": b"PK\x03\x04" + bytes(200),
}


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Message of a compilation that must be refused, with exit code 2 and no file left."""
    before = sorted(path.parent.rglob("*"))
    arguments = ["compile", str(path), "-a", "tiny", "-o", str(path.parent / "program.bfpga")]
    assert main([*arguments, "--json", str(path.parent / "result.json")]) == 2
    message = capsys.readouterr().err
    assert message.count("bfpga: ") == 1
    assert "Traceback" not in message
    assert str(path) in message
    assert sorted(path.parent.rglob("*")) == before
    return message


def test_the_unchanged_network_compiles(tmp_path: Path) -> None:
    onnx.save(network(), str(tmp_path / "good.onnx"))
    assert main(["compile", str(tmp_path / "good.onnx"), "-a", "tiny", "-o", str(tmp_path / "good.bfpga")]) == 0
    assert (tmp_path / "good.bfpga").exists()


@pytest.mark.parametrize("name", MODELS)
def test_malformed_network_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build, part = MODELS[name]
    path = tmp_path / "network.onnx"
    path.write_bytes(build().SerializeToString())
    assert part in refused(path, capsys)


@pytest.mark.parametrize("name", RAW)
def test_file_that_is_no_network_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(RAW[name])
    refused(path, capsys)


@pytest.mark.parametrize("share", [0.02, 0.25, 0.5, 0.75, 0.9, 0.99])
def test_truncated_network_is_refused(share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = network().SerializeToString()
    path = tmp_path / "network.onnx"
    path.write_bytes(content[: int(share * len(content))])
    refused(path, capsys)


def test_missing_file_and_directory_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(tmp_path / "nowhere.onnx", capsys)
    (tmp_path / "folder.onnx").mkdir()
    refused(tmp_path / "folder.onnx", capsys)


@pytest.mark.parametrize("policy", ["", "best", "Static", "static,max"])
def test_unknown_policy_is_refused(policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(network(), str(path))
    arguments = ["compile", str(path), "-a", "tiny", "-o", str(tmp_path / "program.bfpga"), "--policy", policy]
    assert main(arguments) == 2
    assert "known are auto, static, max" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]
