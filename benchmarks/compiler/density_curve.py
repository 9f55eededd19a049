"""How fast layers are at every share of zeros: clocks on accelerators that skip zeros, relative to the dense array.

    python -m benchmarks.compiler.density_curve [--accelerator NAME ...] [--baseline NAME] [--density PERCENT ...]
        [--markdown FILE] [--picture FILE]

Layers are typical ones, each compiled as a network of its own, with zeros scattered at random: in the weights for an
accelerator that skips zero weights, in the input for one that skips zero activations. Clocks are those that the layer
adds to a start with everything in memory: the schedule of operations that follow each other, with the weights that do
not stay on the chip, without the loads and stores of its tensors.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.common.command import command
from benchmarks.common.report import finish, table, write_file
from bfpga import runtime
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import KernelOperation, LaunchStep, Program
from bfpga.program.schedule import schedule
from bfpga.report.page import svg

BASELINE = "pynq_z2_dense"
ACCELERATORS = ("pynq_z2_zero_skip", "pynq_z2_sparse")
#: Shares of what is not zero, in percent.
DENSITIES = (100, 80, 60, 50, 40, 30, 20, 10, 5)
#: Samples that calibrate, and those of two schedules whose difference tells what one of them takes.
SAMPLES, FEW, MANY = 4, 2, 6
MOVES = (Operation.LOAD, Operation.STORE)
#: Columns of small charts in the picture, and the size of each.
ACROSS, WIDTH, HEIGHT = 4, 150, 120
COLOURS = ("#2a6fb0", "#c8553d", "#3c7a3c", "#8a5fb0")

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class CurveLayer:
    """A convolution with ReLU that keeps the size of a square map; of one pixel it is a fully connected layer."""

    name: str
    outputs: int
    inputs: int
    size: int
    kernel: int = 1
    groups: int = 1

    def weights(self, density: float) -> Float32Array:
        """Weights of which a share of ``density`` is not zero."""
        shape = (self.outputs, self.inputs // self.groups, self.kernel, self.kernel)
        return scattered(np.random.default_rng(1), shape, density, signed=True)

    def samples(self, density: float) -> Float32Array:
        """Inputs as a layer with ReLU gives them, of which a share of ``density`` is not zero."""
        shape = (SAMPLES, self.inputs, self.size, self.size)
        return scattered(np.random.default_rng(2), shape, density, signed=False)

    def model(self, density: float) -> onnx.ModelProto:
        """The layer as a network. density: of its weights."""
        constants = [numpy_helper.from_array(self.weights(density), "w"),
                     numpy_helper.from_array(np.full(self.outputs, 0.1, np.float32), "b")]  # fmt: skip
        nodes = [
            helper.make_node("Conv", ["x", "w", "b"], ["sums"], group=self.groups, pads=[self.kernel // 2] * 4),
            helper.make_node("Relu", ["sums"], ["y"]),
        ]
        shape = ["N", self.inputs, self.size, self.size]
        graph = helper.make_graph(
            nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_empty_tensor_value_info("y")], constants,
        )  # fmt: skip
        graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


#: What small networks consist of.
LAYERS = (
    CurveLayer("3x3, 16, 32x32", 16, 16, 32, 3),
    CurveLayer("3x3, 32, 16x16", 32, 32, 16, 3),
    CurveLayer("3x3, 64, 8x8", 64, 64, 8, 3),
    CurveLayer("1x1, 64, 16x16", 64, 64, 16),
    CurveLayer("1x1, 128, 8x8", 128, 128, 8),
    CurveLayer("1x1, 64 to 16, 32x32", 16, 64, 32),
    CurveLayer("depthwise 3x3, 64, 16x16", 64, 64, 16, 3, 64),
    CurveLayer("fully connected, 256 to 128", 128, 256, 1),
)


def scattered(rng: np.random.Generator, shape: tuple[int, ...], density: float, signed: bool) -> Float32Array:
    """Values of 1/4 to 1, so that none of them rounds to zero, of which a share of ``density`` is left."""
    values = rng.uniform(0.25, 1, shape)
    if signed:
        values *= rng.choice([-1, 1], shape)
    kept = np.zeros(values.size, np.bool_)
    kept[rng.permutation(values.size)[: round(density * values.size)]] = True
    return np.where(kept.reshape(shape), values, 0).astype(np.float32)


def skipped_zeros(config: KernelConfig) -> str:
    """Which zeros take no time on an accelerator: those of `weights`, of `activations`, or of `nothing`."""
    return config.array.zeros if config.array.skip_groups(config) else "nothing"


def layer_clocks(accelerator: Accelerator, layer: CurveLayer, density: float) -> float:
    """Clocks that a layer adds to a start, the zeros being where they may pay."""
    zeros = skipped_zeros(accelerator.config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.onnx"
        onnx.save(layer.model(density if zeros == "weights" else 1.0), str(path))
        samples = layer.samples(density if zeros == "activations" else 1.0)
        program = runtime.compile(read_network(path), accelerator, {"x": samples}, CompileOptions())
    operations = inner_operations(program)
    few, many = (schedule(program.config, operations, samples).clocks for samples in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def inner_operations(program: Program) -> list[KernelOperation]:
    """The operations of a sample but those that move its tensors."""
    steps = [step for step in program.steps if isinstance(step, LaunchStep)]
    operations = [operation for step in steps for operation in step.operations]
    return [operation for operation in operations if operation.descriptor.operation not in MOVES]


@dataclass(frozen=True)
class Curve:
    """Clocks of a layer on an accelerator at each density, and those on the dense array."""

    layer: CurveLayer
    accelerator: str
    zeros: str
    dense: float
    clocks: dict[int, float]

    @property
    def relative(self) -> dict[int, float]:
        """Clocks over those of the dense array; accelerators of one board have one clock."""
        return {density: clocks / self.dense for density, clocks in self.clocks.items()}


def curves(
    layers: Sequence[CurveLayer], baseline: str, accelerators: Sequence[str], densities: Sequence[int]
) -> list[Curve]:
    """All curves, by accelerator."""
    dense = [layer_clocks(load_accelerator(baseline), layer, 1.0) for layer in layers]
    found = []
    for name in accelerators:
        accelerator = load_accelerator(name)
        zeros = skipped_zeros(accelerator.config)
        for layer, clocks in zip(layers, dense, strict=True):
            counted = {density: layer_clocks(accelerator, layer, density / 100) for density in densities}
            found.append(Curve(layer, name, zeros, clocks, counted))
            print(f"{name}: {layer.name}", file=sys.stderr)
    return found


def markdown(found: Sequence[Curve], baseline: str) -> str:
    """A table for each accelerator: what is faster than the dense array is bold."""
    parts = []
    for name in dict.fromkeys(curve.accelerator for curve in found):
        own = [curve for curve in found if curve.accelerator == name]
        head = [f"`{name}`: layer", "cycles, dense", *(f"{density} %" for density in own[0].clocks)]
        rows = [
            [curve.layer.name, f"{curve.dense:,.0f}", *map(_cell, curve.relative.values())] for curve in own
        ]
        title = f"Clocks over those of `{baseline}`, by the share of the {own[0].zeros} that is not zero:"
        parts.append(f"{title}\n\n{table(head, rows)}\n")
    return "\n".join(parts)


def _cell(ratio: float) -> str:
    return f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}"


def picture(found: Sequence[Curve]) -> dict[str, Any]:
    """Small charts, one for each layer: clocks over those of the dense array by the share that is not zero."""
    names = list(dict.fromkeys(curve.accelerator for curve in found))
    titles = [f"{name} ({next(curve.zeros for curve in found if curve.accelerator == name)})" for name in names]
    values = [
        {"layer": curve.layer.name, "accelerator": titles[names.index(curve.accelerator)], "density": density,
         "ratio": round(ratio, 3)}
        for curve in found for density, ratio in curve.relative.items()
    ]  # fmt: skip
    most = max(2.0, *(value["ratio"] for value in values if isinstance(value["ratio"], float)))
    x = {"field": "density", "type": "quantitative", "title": "not zero, %", "scale": {"domain": [0, 100]}}
    y = {"field": "ratio", "type": "quantitative", "title": "clocks / dense", "scale": {"domain": [0, min(most, 4)]}}
    colour = {"field": "accelerator", "type": "nominal", "title": None, "sort": titles,
              "scale": {"domain": titles, "range": list(COLOURS[: len(titles)])},
              "legend": {"orient": "top"}}  # fmt: skip
    line = {
        "mark": {"type": "line", "point": {"size": 18}, "strokeWidth": 1.8, "clip": True},
        "encoding": {"x": x, "y": y, "color": colour},
    }
    even = {"mark": {"type": "rule", "strokeDash": [4, 3], "color": "#555"}, "encoding": {"y": {"datum": 1}}}
    order = list(dict.fromkeys(curve.layer.name for curve in found))
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "#ffffff",
        "data": {"values": values},
        "facet": {"field": "layer", "type": "nominal", "sort": order, "header": {"title": None, "labelFontSize": 11}},
        "columns": ACROSS,
        "spec": {"width": WIDTH, "height": HEIGHT, "layer": [even, line]},
        "config": {"font": "sans-serif", "axis": {"gridOpacity": 0.4, "labelFontSize": 10, "titleFontSize": 10,
                                                      "titleFontWeight": "normal"}},
    }


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--accelerator", nargs="+", default=list(ACCELERATORS), metavar="NAME")
    parser.add_argument("--baseline", default=BASELINE, metavar="NAME", help="the dense array")
    parser.add_argument("--density", nargs="+", type=int, default=list(DENSITIES), metavar="PERCENT")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write the curves to FILE as SVG")
    arguments = parser.parse_args(given)
    found = curves(LAYERS, arguments.baseline, arguments.accelerator, arguments.density)
    if arguments.picture is not None:
        write_file(arguments.picture, svg(picture(found)))
    return finish(markdown(found, arguments.baseline), arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
