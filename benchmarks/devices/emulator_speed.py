"""Speed of the emulator, all counters on, against ONNX Runtime in float32, both in one run.

    python -m benchmarks.devices.emulator_speed [--threads N ...] [--sets NAME ...] [--clock cpu] [--repeats N]
        [--json FILE]

Candidates are interleaved and medians compared, so other load on the machine meets all of them. Networks have random
weights and the shapes of the published ones; with BFPGA_MODELS set, the real MobileNetV1-0.25 and a layer of MiniLM
are measured too. Ratios above 1 mean that the emulator is faster than float. Every instruction set that is asked for
is a candidate: by default the best one of this machine and AVX2. `--clock cpu` counts processor time, which tells
more about one thread on a busy machine. A second table compares arrays of shift units with the dense array.
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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import bfpga
from benchmarks.common.command import command, models_folder
from benchmarks.common.report import write_json
from benchmarks.common.timing import Work, medians
from bfpga.compiler.options import CompileOptions
from bfpga.data import load_samples
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import available_sets
from bfpga.formats.onnx_runtime import onnxruntime

#: Ratios that are wanted at least: one thread with the best instruction set, with AVX2 alone.
TARGETS = {
    "resnet8, batch 64": (2.2, 1.4), "resnet8, batch 1": (1.5, 1.0), "mobilenetv1_025_vww, batch 64": (1.7, 1.1),
    "mlp, batch 4096": (2.8, 1.3), "resnet8, max, batch 64": (1.8, 1.2),
    "minilm_layer0, batch 16": (1.5, None), "1024^3 product, 8 bit": (2.8, 1.3), "1024^3 product, 16 bit": (0.9, None),
}  # fmt: skip
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
#: An array whose multipliers are shift units, as large as the dense one it is compared with.
SHIFT_ACCELERATOR = "pynq_z2_shift"
#: An array whose kernel computes attention, Softmax and normalizations.
ROWS_ACCELERATOR = "pynq_z2_transformer"


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


def product(folder: Path, size: int = 1024) -> Path:
    """A matrix product: each sample is a row."""
    net = Network((size,))
    return net.write(folder / "product.onnx", net.add("MatMul", "x", net.constant(size, size)), size)


class Speed:
    """Measures works with the same threads and instruction sets."""

    def __init__(self, threads: int, sets: Sequence[str], repeats: int, clock: Callable[[], float]) -> None:
        self.threads = threads
        self.sets = sets
        self.repeats = repeats
        self.clock = clock
        self.rows: list[dict[str, Any]] = []

    def network(
        self, work: str, model: Path, x: np.ndarray, batches: list[int], accelerator: str = "pynq_z2_dense",
        options: CompileOptions | None = None,
    ) -> None:  # fmt: skip
        """Rows of a network: samples a second in float and with every instruction set, for each batch size."""
        program = bfpga.compile(model, accelerator, x[:64], options)
        name = next(iter(program.inputs))
        reference = session(model.read_bytes(), self.threads)
        wide = program.config.format.mantissa_bits > 8
        emulators = {item: Emulator(program, item, self.threads) for item in self.sets if not (wide and item == "avx2")}
        for batch in batches:
            data = {name: np.ascontiguousarray(np.resize(x, (batch, *x.shape[1:])))}
            candidates: dict[str, Work] = {"float": partial(reference.run, None, data)}
            candidates |= {item: partial(emulator.run, data) for item, emulator in emulators.items()}
            for item, emulator in emulators.items():
                emulator.run(data)
                if emulator.note:
                    raise SystemExit(f"{work} with {item}: {emulator.note}")
            found = medians(candidates, max(self.repeats, 300 // batch), self.clock)
            self.rows.append(
                {
                    "work": work if batches == [1024] else f"{work}, batch {batch}",
                    "threads": self.threads,
                    "samples_s": {key: batch / seconds for key, seconds in found.items()},
                    "ratios": {item: found["float"] / found[item] for item in emulators},
                }
            )

    def all(self) -> list[dict[str, Any]]:
        """All rows."""
        rng = np.random.default_rng(1)
        with tempfile.TemporaryDirectory() as name:
            folder, images = Path(name), rng.random((64, 3, 32, 32), np.float32)
            self.network("resnet8", resnet8(folder), images, [64, 1])
            self.network("resnet8, max", resnet8(folder), images, [64], options=CompileOptions(policy="max"))
            self.network("mlp", perceptron(folder), rng.random((4096, 784), np.float32), [4096])
            rows = rng.normal(size=(1024, 1024)).astype(np.float32)
            for bits, accelerator in ((8, "pynq_z2_dense"), (16, "pynq_z2_bfp16")):
                options = CompileOptions(policy="max", equalize=False)
                self.network(f"1024^3 product, {bits} bit", product(folder), rows, [1024], accelerator, options)
        models = models_folder()
        if models:
            samples = load_samples(models / "data" / "vww_shared.npz").x
            self.network("mobilenetv1_025_vww", models / "models" / "mobilenetv1_025_vww.onnx", samples, [64])
            tokens = load_samples(models / "data" / "minilm_layer0_hidden.npz").x
            layer = models / "models" / "minilm_layer0.onnx"
            self.network("minilm_layer0", layer, tokens, [16], ROWS_ACCELERATOR)
        return self.rows


def shift_speed(model: Path, x: np.ndarray, repeats: int) -> list[dict[str, Any]]:
    """Images a second of arrays with shift units, each format of theirs, against the dense array."""
    arrays = {"dense": ("pynq_z2_dense", CompileOptions())}
    for formats in ("two_hot", "power_of_two"):
        arrays[formats] = (SHIFT_ACCELERATOR, CompileOptions(formats=formats))  # type: ignore[arg-type]
    data = {"x": x}
    candidates: dict[str, Work] = {
        name: partial(Emulator(bfpga.compile(model, accelerator, x[:64], options)).run, data)
        for name, (accelerator, options) in arrays.items()
    }
    found = medians(candidates, repeats)
    return [
        {
            "work": f"{model.stem}, batch {len(x)}, {name}",
            "dense": len(x) / found["dense"],
            "shift": len(x) / found[name],
            "ratio": found["dense"] / found[name],
        }
        for name in ("two_hot", "power_of_two")
    ]


def measure_shift(repeats: int) -> list[dict[str, Any]]:
    """Rows of the table of arrays with shift units."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = shift_speed(resnet8(Path(folder)), rng.random((64, 3, 32, 32), np.float32), repeats)
        return rows + shift_speed(perceptron(Path(folder)), rng.random((4096, 784), np.float32), repeats)


def report(rows: list[dict[str, Any]], sets: Sequence[str]) -> None:
    """The table, with the ratios that are wanted of one thread."""
    titles = "".join(f"{f'{name}: x float (wanted)':>36}" for name in sets)
    print(f"{'work':<32}{'threads':>8}{'float32/s':>12}{titles}")
    for row in rows:
        wanted = TARGETS.get(row["work"], (None, None)) if row["threads"] == 1 else (None, None)
        cells = ""
        for name in sets:
            target = wanted[1] if name == "avx2" else wanted[0] if name == sets[0] else None
            ratio = row["ratios"].get(name)
            text = "" if ratio is None else f"{row['samples_s'][name]:,.0f}/s {ratio:.2f}"
            cells += f"{text + (f' ({target})' if target and ratio else ''):>36}"
        print(f"{row['work']:<32}{row['threads']:>8}{row['samples_s']['float']:12,.0f}{cells}")


def main(given: Sequence[str] | None = None) -> int:
    """Print the tables; write them as JSON on request."""
    available = [item.name for item in available_sets()]
    usual = [name for name in available if name in (available[0], "avx2")]
    parser = command(__doc__, "--json")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads of all candidates (1 2)")
    parser.add_argument("--sets", nargs="+", default=usual, choices=available, help="instruction sets to measure")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="time of the wall or of the processor")
    parser.add_argument("--repeats", type=int, default=15, help="measurements of every candidate (default 15)")
    arguments = parser.parse_args(given)
    clock = CLOCKS[arguments.clock]
    speeds = [Speed(threads, arguments.sets, arguments.repeats, clock) for threads in arguments.threads]
    rows = [row for speed in speeds for row in speed.all()]
    shift_rows = measure_shift(arguments.repeats)
    machine = platform.processor() or platform.machine()
    how = f"medians of {arguments.repeats}, {arguments.clock} clock, interleaved"
    print(f"{machine}, onnxruntime {onnxruntime.__version__}; {how}")
    report(rows, arguments.sets)
    print(f"\n{'arrays of shift units':<54}{'dense/s':>12}{'shift/s':>12}{'ratio':>8}")
    for row in shift_rows:
        print(f"{row['work']:<54}{row['dense']:12,.0f}{row['shift']:12,.0f}{row['ratio']:8.2f}")
    write_json(arguments.json, {"repeats": arguments.repeats, "rows": rows, "shift": shift_rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
