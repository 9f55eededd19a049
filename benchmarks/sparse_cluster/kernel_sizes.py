"""Clocks of layers whose kernels a sparse cluster computes in parts, against the dense array of a ZCU104.

    python -m benchmarks.sparse_cluster.kernel_sizes [--cluster ACCELERATOR] [--dense ACCELERATOR] [--markdown FILE]

A convolution by itself, of seeded maps with so many zeros, on which it is calibrated; clocks of the start by the
schedule, with the load of its input and the store of its result.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.common.command import command
from benchmarks.common.report import finish, table
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.contract.program import ArrayNode
from bfpga.engines.sparse_cluster.kernel_parts import kernel_parts
from bfpga.program.cycles import sample_starts
from bfpga.program.schedule import schedule

DENSITIES = (1.0, 0.5, 0.1)
SAMPLES = 8


@dataclass(frozen=True)
class Case:
    """A convolution of a square map: channels, lines of the map, kernels, lines of a kernel, stride; padded to fit."""

    channels: int
    lines: int
    kernels: int
    size: int
    stride: int = 1

    def __str__(self) -> str:
        step = f"/{self.stride}" if self.stride > 1 else ""
        return f"{self.size}x{self.size}{step}, {self.lines}x{self.lines}x{self.channels} to {self.kernels}"

    def model(self) -> onnx.ModelProto:
        shape = (self.kernels, self.channels, self.size, self.size)
        weights = np.random.default_rng(1).normal(0, 0.1, shape).astype(np.float32)
        pads, strides = [self.size // 2] * 4, [self.stride] * 2
        node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=pads, strides=strides)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", self.channels, self.lines, self.lines])
        outputs = [helper.make_empty_tensor_value_info("y")]
        graph = helper.make_graph([node], "layer", [x], outputs, [numpy_helper.from_array(weights, "w")])
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        )

    def clocks(self, accelerator: Accelerator, density: float, folder: Path) -> tuple[int, str]:
        """Clocks of the layer's start, and its parts."""
        path, rng = folder / "layer.onnx", np.random.default_rng(2)
        onnx.save(self.model(), path)
        maps = rng.normal(size=(SAMPLES, self.channels, self.lines, self.lines))
        maps *= rng.random(maps.shape) < density
        program = compile_network(path, accelerator, maps.astype(np.float32))
        node = next(node for node in program.nodes if isinstance(node, ArrayNode))
        starts = [start.operations for start in sample_starts(program)]
        return sum(schedule(program.config, start).clocks for start in starts), str(
            kernel_parts(node.window, program.config)
        )


CASES = (
    Case(32, 16, 32, 3), Case(32, 16, 32, 5), Case(32, 16, 32, 7), Case(16, 24, 16, 11), Case(6, 12, 16, 5),
    Case(3, 32, 32, 7, 2),
)  # fmt: skip


def row(case: Case, dense: Accelerator, cluster: Accelerator, folder: Path) -> list[str]:
    """A line of the table."""
    array, _ = case.clocks(dense, 1.0, folder)
    found = [case.clocks(cluster, density, folder) for density in DENSITIES]
    return [str(case), found[0][1], f"{array:,}", *(f"{clocks:,}" for clocks, _ in found)]


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--cluster", default="zcu104_cluster")
    parser.add_argument("--dense", default="zcu104_dense")
    arguments = parser.parse_args(given)
    dense, cluster = load_accelerator(arguments.dense), load_accelerator(arguments.cluster)
    head = ["layer", "parts", dense.name, *(f"{cluster.name}, density {density:g}" for density in DENSITIES)]
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(case, dense, cluster, Path(folder)) for case in CASES]
    return finish(table(head, rows) + "\n", arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
