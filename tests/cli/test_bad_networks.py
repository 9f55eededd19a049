"""Malformed networks: each gives one clear message and exit code 2, and leaves nothing behind.

Here are those that one convolution shows; others are read, and refused, in tests/compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from refusals import refused

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


MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
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
    "complex input": (lambda: network(input_type=TensorProto.COMPLEX64), "COMPLEX64"),
    "empty graph": (without_nodes, "empty"),
    "no input": (without_input, ""),
}

RAW: dict[str, bytes] = {
    "empty file": b"",
    "text": b"this is not a network\n",
    "zeros": bytes(5000),
    "binary": bytes(range(256)) * 20,
    "archive": b"PK\x03\x04" + bytes(200),
}


def test_the_unchanged_network_compiles(tmp_path: Path) -> None:
    onnx.save(network(), str(tmp_path / "good.onnx"))
    assert main(["compile", str(tmp_path / "good.onnx"), "-a", "tiny", "-o", str(tmp_path / "good.bfpga")]) == 0
    assert (tmp_path / "good.bfpga").exists()


WHOLE = network().SerializeToString()


def files() -> Iterator[tuple[str, bytes, str]]:
    """Name, content, and a part of the message."""
    for name, (build, part) in MODELS.items():
        yield name, build().SerializeToString(), part
    for name, content in RAW.items():
        yield name, content, ""
    for share in (0.02, 0.25, 0.5, 0.75, 0.9, 0.99):
        yield f"truncated at {share}", WHOLE[: int(share * len(WHOLE))], ""


def compile_command(path: Path) -> list[str]:
    return ["compile", str(path), "-a", "tiny", "-o", str(path.parent / "program.bfpga")]


@pytest.mark.parametrize(("content", "part"), [pytest.param(*case, id=name) for name, *case in files()])
def test_malformed_network_is_refused(
    content: bytes, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(content)
    refused(compile_command(path), tmp_path, capsys, str(path), part)


def test_missing_file_and_directory_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.onnx").mkdir()
    for name in ("nowhere.onnx", "folder.onnx"):
        refused(compile_command(tmp_path / name), tmp_path, capsys, name)
