"""Small ONNX networks for the compiler's tests, and a plain run of a program."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.errors import ModelError
from bfpga.formats.block_format import BlockFormat
from bfpga.program.file import load_program
from bfpga.runtime import open_device

#: 16-bit mantissas: results are close enough to float to compare values, not only statistics.
WIDE = KernelConfig(format=BlockFormat(mantissa_bits=16), accumulator_bits=48, columns=4, rows=8, lanes=2)


class Network:
    """An ONNX model put together operator by operator; weights are random and the same at every run."""

    def __init__(self, *shape: int, opset: int = 17) -> None:
        self.generator = np.random.default_rng(len(shape) * 100 + sum(shape))
        self.inputs = {"x": shape}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.opset = opset
        self.used_rows: int | None = None  # rows of images that are not zero in samples
        self.domains: list[str] = []
        self.last = "x"

    def weights(self, *shape: int, scale: float = 1.0) -> str:
        size = max(1, int(np.prod(shape[1:])))
        return self.constant(self.generator.normal(size=shape, scale=scale / np.sqrt(size)).astype(np.float32))

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """An operator on the given values, or on the last result; gives the name of its first output."""
        names = [f"v{len(self.nodes)}" + ("" if index == 0 else f"_{index}") for index in range(outputs)]
        values, name = list(inputs) or [self.last], f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, values, names, name=name, **attributes))
        self.last = names[0]
        return self.last

    def conv(self, channels: int, inputs: int, kernel: int, source: str = "", **attributes: Any) -> str:
        group = attributes.get("group", 1)
        weights = self.weights(channels, inputs // group, kernel, kernel)
        bias = self.weights(channels)
        return self.add("Conv", source or self.last, weights, bias, **attributes)

    def excitation(self, channels: int, function: str = "Relu", **attributes: Any) -> str:
        """The last image times a factor for each channel that follows from its averages."""
        image = self.last
        self.conv(channels, channels, 1, self.add("GlobalAveragePool", image))
        return self.add("Mul", image, self.add(function, **attributes))

    def model(self, *outputs: str, batch: int | str = "N", inferred: bool = True) -> onnx.ModelProto:
        """inferred: with the shapes of inner values, of networks that ONNX can infer."""
        graph = helper.make_graph(
            self.nodes,
            "small",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, *s]) for n, s in self.inputs.items()],
            [helper.make_empty_tensor_value_info(name) for name in outputs or (self.last,)],
            self.constants,
        )
        for value in graph.output:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(name, 1) for name in self.domains)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        return onnx.shape_inference.infer_shapes(model) if inferred else model

    def samples(self, count: int = 6) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(1)
        drawn = {n: generator.normal(size=(count, *s)).astype(np.float32) for n, s in self.inputs.items()}
        if self.used_rows is not None:
            for values in drawn.values():
                values[:, :, self.used_rows :] = 0
        return drawn


def recurrent_network(
    kind: str, hidden: int, bias: bool = True, directions: int = 1, steps: int = 28, **attributes: Any
) -> Network:
    """Rows of 28 pixels, one after the other, and a layer of ten classes behind the last.

    attributes: more of them; with ``clip`` the host computes the operator.
    """
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    network = Network(steps, 28)
    x = network.add("Transpose", perm=[1, 0, 2])
    tensors = [network.weights(directions, gates * hidden, 28), network.weights(directions, gates * hidden, hidden)]
    tensors += [network.weights(directions, 2 * gates * hidden)] * bias
    way = "bidirectional" if directions == 2 else "forward"
    names = ["", f"last_{kind}"]
    network.nodes.append(helper.make_node(kind, [x, *tensors], names, name=kind, hidden_size=hidden, direction=way,
                                          **attributes))  # fmt: skip
    network.add("Transpose", names[1], perm=[1, 0, 2])
    network.add("Flatten")
    network.add("Gemm", network.last, network.weights(10, directions * hidden), transB=1)
    return network


def residual_network() -> Network:
    """Strides, padding, a residual addition, pooling and a product: 9 x 11 pixels."""
    network = Network(3, 9, 11)
    first = network.add("Relu", network.conv(6, 3, 3, pads=[1, 1, 1, 1]))
    second = network.conv(6, 6, 3, pads=[1, 1, 1, 1])
    network.add("Relu", network.add("Add", first, second))
    network.conv(10, 6, 3, strides=[2, 2], pads=[0, 0, 1, 1])
    network.add("MaxPool", kernel_shape=[2, 2], strides=[1, 1])
    network.conv(10, 10, 3, group=10, pads=[1, 1, 1, 1])
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    network.add("Gemm", network.last, network.weights(7, 10), network.weights(7), transB=1)
    return network


def joined_network() -> Network:
    """A concatenation of two branches, read by another convolution: 9 x 8 pixels."""
    network = Network(3, 9, 8)
    first = network.add("Relu", network.conv(4, 3, 1))
    network.add("Concat", network.conv(6, 4, 3, pads=[1, 1, 1, 1]), network.conv(8, 4, 1, source=first), axis=1)
    network.conv(5, 14, 2)
    return network


def attention_network() -> Network:
    """Attention over six vectors: products of activations, one of them with Softmax between."""
    network = Network(6, 8)
    query, key = (network.add("MatMul", "x", network.weights(8, 6)) for _ in range(2))
    turned = network.add("Transpose", key, perm=[0, 2, 1])
    network.add("MatMul", network.add("Softmax", network.add("MatMul", query, turned), axis=-1), query)
    return network


def small_network() -> Network:
    """Two padded convolutions with ReLU and pooling between them: 18 x 5 pixels."""
    network = Network(4, 18, 5)
    network.conv(9, 4, 3, pads=[1, 1, 1, 1])
    network.add("Relu")
    network.add("MaxPool", kernel_shape=[2, 1], strides=[2, 1])
    network.conv(6, 9, 3, pads=[1, 1, 1, 1])
    return network


def compiled(
    network: Network,
    folder: Path,
    config: KernelConfig = WIDE,
    options: CompileOptions | None = None,
    calibrate: bool = True,
    outputs: tuple[str, ...] = (),
    batch: int | str = "N",
) -> Program:
    path = folder / "small.onnx"
    path.write_bytes(network.model(*outputs, batch=batch).SerializeToString())
    samples = network.samples(16) if calibrate else None
    return compile_network(path, accelerator_around(config, "test"), samples, options)


def nodes_of(program: Program) -> list[ArrayNode]:
    """The nodes that hold weights."""
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.weights is not None]


def float_outputs(network: Network, samples: dict[str, np.ndarray], outputs: tuple[str, ...] = ()) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # others would spin longer than it runs
    session = onnxruntime.InferenceSession(network.model(*outputs).SerializeToString(), options)
    return [np.asarray(value) for value in session.run(None, samples)]


def largest_error(network: Network, program: Program, outputs: tuple[str, ...] = (), least: float = 0.0) -> float:
    """The largest difference to ONNX Runtime over the largest value (1 if all are zero), on the calibration samples.

    least: that value is no smaller; where sums cancel, what is left has the error of what was added.
    """
    samples = network.samples(16)
    found = list(Emulator(program).run(samples).outputs.values())
    expected = float_outputs(network, samples, outputs)
    assert [value.shape for value in found] == [value.shape for value in expected]
    scales = [max(np.abs(e).max(), least) or 1.0 for e in expected]
    return max(float(np.abs(f - e).max() / s) for f, e, s in zip(found, expected, scales, strict=True))


def on_host(program: Program) -> Counter[str]:
    """What is left to the host, by type."""
    return Counter(kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators)


def simulates_alike(program: Program, samples: dict[str, np.ndarray]) -> bool:
    """Whether C simulation gives the bits of the emulator."""
    device = open_device("csim", program)
    found = first_mismatch(program, Emulator(program).run(samples), device.run(samples))
    device.close()
    return found is None


def check_whole(network: Network, folder: Path, most: float = 1e-3) -> Program:
    """All of a network is one start of the kernel with 16-bit mantissas, and right on emulator and simulation.

    Gives the program as its file has it.
    """
    program = compiled(network, folder)
    assert on_host(program) == Counter()
    assert len(program.steps) == 1
    assert largest_error(network, program) < most
    program.save(folder / "net.program")
    again = load_program(folder / "net.program")
    assert simulates_alike(again, network.samples(3))
    return again


def refusal(path: Path) -> str:
    """What is said of a network; empty for one that can be read."""
    try:
        read_network(path).graph()
    except ModelError as error:
        return str(error)
    return ""
