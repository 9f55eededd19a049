"""Small networks as QONNX files are found in public, with the results of QONNX's own executor.

    python -m benchmarks.training.qonnx_files [-o FOLDER]

Needs the package qonnx (1.0.0 here), which nothing else needs. It made the files of tests/data/qonnx: domains that are
not imported, biases of 16 and 32 bits, channels last, signs, values that saturate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.common.command import ROOT

FOLDER = ROOT / "tests" / "data" / "qonnx"
GENERAL, BREVITAS, LAST = "qonnx.custom_op.general", "onnx.brevitas", "qonnx.custom_op.channels_last"
SAMPLES = 4


class Builder:
    """A network put together operator by operator."""

    def __init__(self, domain: str, opset: int, shape: Sequence[int]) -> None:
        self.generator = np.random.default_rng(7)
        self.domain, self.opset, self.shape = domain, opset, shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.infos: list[onnx.ValueInfoProto] = []

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], f"{kind}_{name}", domain=domain, **attributes))
        return name

    def quant(self, value: str, scale: float, bits: int, signed: bool = True, narrow: bool = False) -> str:
        numbers = [self.constant(number) for number in (scale, 0, bits)]
        return self.add("Quant", value, *numbers, domain=self.domain, signed=int(signed), narrow=int(narrow),
                        rounding_mode="ROUND")  # fmt: skip

    def sign(self, value: str, scale: float) -> str:
        return self.add("BipolarQuant", value, self.constant(scale), domain=self.domain)

    def shaped(self, value: str, *shape: int) -> str:
        """A value whose shape the file states: QONNX does not infer those of its operators for channels last."""
        self.infos.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, shape))
        return value

    def weights(self, *shape: int) -> str:
        return self.constant(self.generator.normal(size=shape))

    def conv(self, value: str, outputs: int, inputs: int, scale: float, bits: int, bias_bits: int) -> str:
        weights = self.quant(self.weights(outputs, inputs, 3, 3), scale, bits, narrow=True)
        bias = self.quant(self.weights(outputs), scale / 64, bias_bits)
        return self.add("Conv", value, weights, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    def model(self, result: str, *output: int) -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
                for name, shape in (("x", self.shape), (result, output))]  # fmt: skip
        graph = helper.make_graph(self.nodes, "qonnx", ends[:1], ends[1:], self.constants, value_info=self.infos)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=7)


def residual() -> onnx.ModelProto:
    """Steps that are powers of two, signed results that saturate, biases of 16 and 32 bits (as NN2FPGA's networks)."""
    net = Builder(GENERAL, 13, (1, 3, 8, 8))
    x = net.quant("x", 2**-6, 8)
    first = net.quant(net.add("Relu", net.quant(net.conv(x, 8, 3, 2**-5, 8, 16), 2**-5, 8)), 2**-4, 4, signed=False)
    second = net.quant(net.conv(first, 8, 8, 2**-5, 8, 32), 2**-5, 8)
    y = net.quant(net.add("Relu", net.add("Add", second, first)), 2**-3, 4, signed=False)
    y = net.add("Flatten", net.add("GlobalAveragePool", y))
    return net.model(net.add("Gemm", y, net.quant(net.weights(8, 5), 2**-4, 4)), 1, 5)


def signs() -> onnx.ModelProto:
    """Weights and values of one bit, batch normalization, opset 9 (as the zoo's TFC and LFC)."""
    net = Builder(BREVITAS, 9, (1, 16))
    value = net.sign("x", 1.0)
    for inputs, outputs in ((16, 24), (24, 12)):
        value = net.add("MatMul", value, net.sign(net.weights(inputs, outputs), 0.25))
        numbers = [net.constant(net.generator.uniform(low, 2, outputs)) for low in (0.5, -1, -1, 0.5)]
        value = net.sign(net.add("BatchNormalization", value, *numbers), 1.0)
    return net.model(net.add("MatMul", value, net.sign(net.weights(12, 4), 0.5)), 1, 4)


def channels_last() -> onnx.ModelProto:
    """Separable convolutions, a maximum, pixels doubled, a concatenation, channels behind the pixels (as hls4ml's)."""
    net = Builder(GENERAL, 13, (1, 8, 8, 4))
    x = net.shaped(net.quant("x", 2**-5, 8), 1, 8, 8, 4)

    def conv(value: str, outputs: int, inputs: int, size: int, group: int = 1, pixels: int = 8) -> str:
        shape = outputs, size, size, inputs // group
        weights = net.shaped(net.quant(net.weights(*shape), 2**-4, 6), *shape)
        bias = net.shaped(net.quant(net.weights(outputs), 2**-8, 16), outputs)
        result = net.add("Conv", value, weights, bias, domain=LAST, kernel_shape=[size, size], group=group,
                         pads=[size // 2] * 4, strides=[1, 1], dilations=[1, 1])  # fmt: skip
        result = net.quant(net.add("LeakyRelu", result, alpha=0.25), 2**-4, 8)
        return result if outputs == 2 else net.shaped(result, 1, pixels, pixels, outputs)

    wide = conv(conv(x, 4, 4, 3, group=4), 8, 4, 1)
    small = net.add("MaxPool", wide, domain=LAST, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])
    net.shaped(small, 1, 4, 4, 8)
    scales = net.constant([1, 2, 2, 1])
    middle = conv(small, 8, 8, 1, pixels=4)
    large = net.add("Resize", middle, net.constant([]), scales, mode="nearest", nearest_mode="floor",
                    coordinate_transformation_mode="asymmetric")  # fmt: skip
    joined = net.shaped(net.add("Concat", net.shaped(large, 1, 8, 8, 8), wide, axis=-1), 1, 8, 8, 16)
    return net.model(conv(joined, 2, 16, 1), 1, 8, 8, 2)


def float_weights() -> onnx.ModelProto:
    """Weights in floating-point formats of 8, 6 and 4 bits (Brevitas' FloatQuant)."""
    net, value = Builder(GENERAL, 13, (1, 12)), "x"
    for exponent, mantissa, largest in ((4, 3, 448.0), (2, 3, 7.5), (2, 1, 6.0)):
        numbers = [net.constant(number) for number in (0.125, exponent, mantissa, 2 ** (exponent - 1) - 1, largest)]
        weights = net.add("FloatQuant", net.weights(12, 12), *numbers, domain=GENERAL, has_inf=0, has_nan=0,
                          has_subnormal=1, saturation=1, rounding_mode="ROUND")  # fmt: skip
        value = net.add("Relu", net.add("MatMul", value, weights))
    return net.model(value, 1, 12)


NETWORKS = {"residual": residual, "signs": signs, "channels_last": channels_last, "float_weights": float_weights}


def own_results(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What QONNX's executor makes of samples, one by one; it needs the imports that the files leave out."""
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.util.cleanup import cleanup_model

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.opset_import.append(helper.make_opsetid(LAST, 13))
    for node in copy.graph.node:
        node.domain = GENERAL if node.domain == BREVITAS else node.domain
    wrapped = cleanup_model(ModelWrapper(copy))
    name = wrapped.graph.input[0].name
    return np.concatenate([next(iter(execute_onnx(wrapped, {name: x[k : k + 1]}).values())) for k in range(len(x))])


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    folder = parser.parse_args(given).output
    folder.mkdir(parents=True, exist_ok=True)
    answers = {}
    for name, build in NETWORKS.items():
        model = build()
        x = np.random.default_rng(3).uniform(-1.9, 1.9, (SAMPLES, *_shape(model)[1:])).astype(np.float32)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        answers |= {f"{name}_x": x, name: own_results(model, x)}
    np.savez_compressed(folder / "answers.npz", **answers)
    return 0


def _shape(model: onnx.ModelProto) -> list[int]:
    return [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]


if __name__ == "__main__":
    sys.exit(main())
