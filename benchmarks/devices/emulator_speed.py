"""Speed of the emulator against ONNX Runtime in float32, both in one run.

    python -m benchmarks.devices.emulator_speed [--threads N] [--repeats N] [--json FILE]

Candidates are interleaved and medians compared, so other load on the machine meets both. Networks have random weights
and the shapes of the published ones; with BFPGA_MODELS set, the real MobileNetV1-0.25 is measured too. Ratios above 1
mean that the emulator is faster than float. A second table compares arrays of shift units with the dense array.
"""

# ruff: noqa: E402 - the environment is set before numpy is loaded
from __future__ import annotations

import os

# Preset core types hide the CPU's real instructions from OpenBLAS: it must find them itself.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)

import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from threadpoolctl import threadpool_limits

import bfpga
from benchmarks.common.command import command, models_folder
from benchmarks.common.report import write_json
from benchmarks.common.timing import Work, medians
from bfpga.compiler.options import CompileOptions
from bfpga.data import load_samples
from bfpga.devices import graph_route
from bfpga.devices.emulator import Emulator
from bfpga.engines.array.products import certified_product
from bfpga.formats.block_float import encode_rows, encode_samples
from bfpga.formats.block_format import BlockFormat

#: An array whose multipliers are shift units, as large as the dense one it is compared with.
SHIFT_ACCELERATOR = "pynq_z2_shift"


def session(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    """Idle threads must not spin: they would take the other candidate's cores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


# Networks


class Network:
    """A network under construction; weights are random."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rng = np.random.default_rng(0)
        self.shape = shape
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, *shape: int) -> str:
        name = f"c{len(self.constants)}"
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        self.constants.append(numpy_helper.from_array(self.rng.normal(0, scale, shape).astype(np.float32), name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def convolution(self, source: str, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> str:
        pads = [kernel // 2] * 4
        weights, bias = self.constant(outputs, inputs, kernel, kernel), self.constant(outputs)
        return self.add("Conv", source, weights, bias, pads=pads, strides=[stride, stride])

    def write(self, path: Path, last: str, outputs: int) -> Path:
        graph = helper.make_graph(
            self.nodes, path.stem, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *self.shape])],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["N", outputs])], self.constants,
        )  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
        return path


def resnet8(folder: Path) -> Path:
    """The shapes of the MLPerf Tiny image classification network: 12.5 M MAC."""
    net = Network((3, 32, 32))
    value, channels = net.add("Relu", net.convolution("x", 3, 16)), 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        inner = net.add("Relu", net.convolution(value, channels, outputs, stride=stride))
        inner = net.convolution(inner, outputs, outputs)
        shortcut = value if stride == 1 else net.convolution(value, channels, outputs, kernel=1, stride=stride)
        value, channels = net.add("Relu", net.add("Add", inner, shortcut)), outputs
    pooled = net.add("Flatten", net.add("GlobalAveragePool", value))
    return net.write(folder / "resnet8.onnx", net.add("Gemm", pooled, net.constant(64, 10), net.constant(10)), 10)


def perceptron(folder: Path) -> Path:
    """784-128-64-10."""
    net = Network((784,))
    value = "x"
    for inputs, outputs in ((784, 128), (128, 64), (64, 10)):
        value = net.add("Gemm", value, net.constant(inputs, outputs), net.constant(outputs))
        value = net.add("Relu", value) if outputs > 10 else value
    return net.write(folder / "mlp.onnx", value, 10)


def network_speed(model: Path, x: np.ndarray, batches: list[int], threads: int, repeats: int) -> list[dict[str, Any]]:
    """Images a second of float32 and of the emulator, fast route and counting route, for each batch size."""
    program = bfpga.compile(model, "pynq_z2_dense", x[:64])
    name = next(iter(program.inputs))
    emulator = Emulator(program)
    reference = session(model.read_bytes(), threads)
    rows = []
    for batch in batches:
        data = {name: np.ascontiguousarray(np.resize(x, (batch, *x.shape[1:])))}
        counted, fast = emulator.run(data), emulator.run(data)
        if any(not np.array_equal(counted.outputs[key], fast.outputs[key]) for key in counted.outputs):
            raise SystemExit(f"{model.name}: the fast route differs from the engines")
        candidates: dict[str, Work] = {
            "float": lambda data=data: reference.run(None, data),  # type: ignore[misc]
            "emulator": lambda data=data: emulator.run(data),  # type: ignore[misc]
        }
        found = medians(candidates, max(repeats, 200 // batch))
        start = time.perf_counter()
        emulator.run(data)
        rows.append(
            {
                "work": f"{model.stem}, batch {batch}, 8 bit",
                "unit": "images/s",
                "float": batch / found["float"],
                "emulator": batch / found["emulator"],
                "with_counters": batch / (time.perf_counter() - start),
                "ratio": found["float"] / found["emulator"],
            }
        )
    return rows


def shift_speed(model: Path, x: np.ndarray, repeats: int) -> list[dict[str, Any]]:
    """Images a second of arrays with shift units, each format of theirs, against the dense array, on both routes."""
    arrays = {"dense": ("pynq_z2_dense", CompileOptions())}
    for formats in ("two_hot", "power_of_two"):
        arrays[formats] = (SHIFT_ACCELERATOR, CompileOptions(formats=formats))  # type: ignore[arg-type]
    emulators = {
        name: Emulator(bfpga.compile(model, accelerator, x[:64], options))
        for name, (accelerator, options) in arrays.items()
    }
    data = {next(iter(emulators["dense"].program.inputs)): x}
    rows = []
    for route, counting in (("graph", False), ("counting", True)):
        candidates: dict[str, Work] = {
            name: partial(emulator.run, data, statistics=counting) for name, emulator in emulators.items()
        }
        found = medians(candidates, repeats)
        rows += [
            {
                "work": f"{model.stem}, batch {len(x)}, {name}, {route} route",
                "unit": "images/s",
                "dense": len(x) / found["dense"],
                "shift": len(x) / found[name],
                "ratio": found["dense"] / found[name],
            }
            for name in ("two_hot", "power_of_two")
        ]
    return rows


# Matrix products


def product_candidates(bits: int, a: np.ndarray, w: np.ndarray) -> dict[str, Work]:
    """Encoding of the activations and the exact product; weights are encoded once."""
    fmt = BlockFormat(mantissa_bits=bits)
    weights, _ = encode_rows(w, fmt)
    product = certified_product(weights.T, fmt.mantissa_max)

    return {f"row exponents, {bits} bit": lambda: product(encode_samples(a, fmt)[0])}


def product_speed(size: int, threads: int, repeats: int) -> list[dict[str, Any]]:
    """Seconds of size**3 products relative to float32."""
    rng = np.random.default_rng(0)
    a, w = (rng.normal(size=(size, size)).astype(np.float32) for _ in range(2))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "w"], ["y"])], "product",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", size])],
        [numpy_helper.from_array(np.ascontiguousarray(w.T), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    reference = session(model, threads)
    candidates: dict[str, Work] = {"float": lambda: reference.run(None, {"a": a})}
    for bits in (8, 16):
        candidates.update(product_candidates(bits, a, w))
    found = medians(candidates, repeats)
    macs = size**3 / 1e9
    return [
        {"work": f"{size}^3 product, {name}", "unit": "GMAC/s", "float": macs / found["float"],
         "emulator": macs / seconds, "with_counters": None, "ratio": found["float"] / seconds}
        for name, seconds in found.items() if name != "float"
    ]  # fmt: skip


def measure_shift(repeats: int) -> list[dict[str, Any]]:
    """Rows of the table of arrays with shift units."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = shift_speed(resnet8(Path(folder)), rng.random((64, 3, 32, 32), np.float32), repeats)
        return rows + shift_speed(perceptron(Path(folder)), rng.random((4096, 784), np.float32), repeats)


def measure(threads: int, repeats: int) -> list[dict[str, Any]]:
    """All rows of the table."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = network_speed(resnet8(Path(folder)), rng.random((64, 3, 32, 32), np.float32), [64, 1], threads, repeats)
        rows += network_speed(perceptron(Path(folder)), rng.random((4096, 784), np.float32), [4096], threads, repeats)
    models = models_folder()
    if models:
        samples = load_samples(models / "data" / "vww_shared.npz").x
        path = models / "models" / "mobilenetv1_025_vww.onnx"
        rows += network_speed(path, samples, [64], threads, repeats)
    return rows + product_speed(1024, threads, repeats)


def main(given: Sequence[str] | None = None) -> int:
    """Print the table; write it as JSON on request."""
    parser = command(__doc__, "--json")
    parser.add_argument("--threads", type=int, default=1, help="threads of every candidate (default 1)")
    parser.add_argument("--repeats", type=int, default=9, help="measurements of every candidate (default 9)")
    arguments = parser.parse_args(given)
    threads = arguments.threads
    graph_route.onnx_session = lambda model, _=0: session(model, threads)
    with threadpool_limits(threads):
        rows = measure(threads, arguments.repeats)
        shift_rows = measure_shift(arguments.repeats)
    print(f"{platform.processor() or platform.machine()}, {threads} threads, onnxruntime {onnxruntime.__version__}, "
          f"numpy {np.__version__}; medians of {arguments.repeats}, interleaved")  # fmt: skip
    print(f"{'work':<44}{'unit':>10}{'float32':>12}{'emulator':>12}{'counting':>12}{'ratio':>8}")
    for row in rows:
        counted = f"{row['with_counters']:12,.0f}" if row["with_counters"] else f"{'':>12}"
        print(
            f"{row['work']:<44}{row['unit']:>10}{row['float']:12,.0f}{row['emulator']:12,.0f}{counted}{row['ratio']:8.2f}"
        )
    print(f"\n{'arrays of shift units':<54}{'unit':>10}{'dense':>12}{'shift':>12}{'ratio':>8}")
    for row in shift_rows:
        print(f"{row['work']:<54}{row['unit']:>10}{row['dense']:12,.0f}{row['shift']:12,.0f}{row['ratio']:8.2f}")
    content = {"threads": threads, "repeats": arguments.repeats, "rows": rows, "shift": shift_rows}
    write_json(arguments.json, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
