"""A recipe's layers are those of the network: no exception for a layer is lost in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import Program
from bfpga.errors import ConfigurationError

LENET = Path(__file__).parents[2] / "examples" / "models" / "lenet_mnist.onnx"


def compiled(**layers: dict[str, Any]) -> Program:
    return compile_network(LENET, load_accelerator("pynq_z2_dense"), options=CompileOptions(layers=layers))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("/c1/Con", {"policy": "max"}, r"layer /c1/Con: .*lenet_mnist.onnx has nothing .*; did you mean /c1/Conv\?"),
        ("x3", {"policy": "max"}, "layer x3: .* has nothing of that name; `bfpga compile` lists the layers"),
        ("input", {"policy": "max"}, "layer input: policy = 'max' cannot be: it is an input of the network"),
    ],
)  # fmt: skip
def test_what_the_network_does_not_have_is_refused(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        compiled(**{name: values})


@pytest.mark.parametrize(("name", "said"), [("/Relu", True), ("/c1/Conv/part", True), ("/c1/Conv", False)])
def test_what_is_no_layer_of_its_own_is_said(name: str, said: bool) -> None:
    """A function is a part of the layer before it; `part` stands for what some arrays make of a layer."""
    notes = compiled(**{name: {"history": 2}}).notes
    assert any(f"layer {name}: what the recipe says has no effect" in note for note in notes) == said
