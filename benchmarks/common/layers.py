"""Programs of one convolution whose integers are known, for benchmarks of single engines."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import Program
from bfpga.formats.arrays import IntArray


def layer_program(config: SystolicConfig, engine: EngineName, weights: IntArray, x: npt.NDArray[np.float32]) -> Program:
    """A convolution ``layer`` from ``x`` to ``y`` on an engine, padded so that maps keep their size.

    weights: (output channels, input channels, rows, columns), 128 times the float ones. x: calibration samples.
    Ends the benchmark if a weight that is not zero becomes zero.
    """
    pads = [weights.shape[2] // 2, weights.shape[3] // 2] * 2
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="layer", pads=pads)
    graph = helper.make_graph(
        [node], "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *x.shape[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", len(weights), *x.shape[2:]])],
        [numpy_helper.from_array((weights / 128).astype(np.float32), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = CompileOptions(engine=engine, weights="max", equalize=False, bias_correction=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.onnx"
        onnx.save(model, path)
        program = compile_network(path, accelerator_around(config), {"x": x}, options)
    if np.count_nonzero(program.nodes[0].weights) != np.count_nonzero(weights):  # type: ignore[union-attr]
        raise SystemExit("weights were rounded to zero: their share of zeros is not what it should be")
    return program
