"""QONNX files as they are found in public, against QONNX's own executor (benchmarks/training/qonnx_files.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.program import HostNode
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork
from bfpga.errors import ModelError
from bfpga.runtime import run

FOLDER = Path(__file__).parents[1] / "data" / "qonnx"
NAMES = ("residual", "signs", "channels_last")


def recorded(name: str) -> tuple[Network, np.ndarray, np.ndarray]:
    with np.load(FOLDER / "answers.npz") as answers:
        return read_network(FOLDER / f"{name}.onnx"), answers[f"{name}_x"], answers[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_repeats_the_executor_of_qonnx(name: str) -> None:
    """Domains that the files do not import, 32-bit biases, opset 9, channels last."""
    network, x, wanted = recorded(name)
    (found,) = FloatNetwork(network, quantized=True).run({"x": x}).values()
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_wide_mantissas_repeat_the_network(name: str) -> None:
    """Signed values saturate, and sums of a coarse and a fine value keep the fine one; as in the simulation."""
    network, x, wanted = recorded(name)
    program = compile_network(network, load_accelerator("pynq_z2_bfp16"))
    (found,) = Emulator(program).run({"x": x}).outputs.values()
    error = np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean())
    assert error < 0.01
    assert not any(isinstance(node, HostNode) and "Transpose" in node.operators for node in program.nodes)
    np.testing.assert_array_equal(next(iter(run(program, x[:1], "csim").outputs.values())), found[:1])


@pytest.mark.parametrize("calibrated", [False, True])
def test_signed_values_of_many_steps_saturate_on_wide_mantissas(calibrated: bool, tmp_path: Path) -> None:
    """x + 0 limited to -2 ... 1.98, by a quantizer of 8 bits; the limit is all that its reader sees."""
    numbers = {"scale": 2.0**-6, "zero": 0.0, "bits": 8.0, "two": 2.0}
    constants = [onnx.numpy_helper.from_array(np.float32(value), name) for name, value in numbers.items()]
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["double"]),
        helper.make_node("Quant", ["double", "scale", "zero", "bits"], ["q"], domain="qonnx.custom_op.general",
                         signed=1, narrow=0, rounding_mode="ROUND"),
        helper.make_node("Mul", ["q", "two"], ["y"]),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8]) for name in ("x", "y")]
    path = tmp_path / "network.onnx"
    imports = [helper.make_opsetid("", 13)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=imports), path)
    x = np.linspace(-4, 4, 32, dtype=np.float32).reshape(4, 8)
    program = compile_network(path, load_accelerator("pynq_z2_bfp16"), x if calibrated else None)
    (found,) = Emulator(program).run({"x": x}).outputs.values()
    np.testing.assert_allclose(found, 2 * np.clip(np.round(2 * x * 64), -128, 127) / 64, atol=2.1 * 2.0**-6)


def test_an_operator_of_the_domain_that_is_not_known_is_named(tmp_path: Path) -> None:
    model = onnx.load(FOLDER / "channels_last.onnx")
    next(node for node in model.graph.node if node.op_type == "MaxPool").op_type = "AveragePool"
    path = tmp_path / "network.onnx"
    onnx.save(model, path)
    with pytest.raises(ModelError, match="channels_last is unknown; known are Conv, MaxPool, BatchNormalization"):
        read_network(path)
