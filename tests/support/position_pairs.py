"""Networks of fully connected layers for pairs of kernels, and what runs of them have in common (FP 3.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from array_layers import PlainKernel, gemm
from position_programs import POSITIONS, compiled_kernel, dynamic, scheduled
from small_networks import Network

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Function
from bfpga.contract.program import Program, TensorSpec, Window
from bfpga.devices.layer_kernels import KernelLayers, LayerMachine
from bfpga.devices.position_pair import PairRun
from bfpga.engines.positions.closure import batch_sample
from bfpga.engines.positions.pipeline_events import Side
from bfpga.engines.positions.pipeline_run import Turn
from bfpga.engines.positions.sampling import SampleFraction, Sampling
from bfpga.formats.wide_statistics import StatisticsKind

#: The small accelerator of embodiment 7: the same format, a third of the columns.
SMALL = replace(POSITIONS, columns=1)
WIDTHS = (6, 9, 7, 4)
BATCH, FRACTION = 16, SampleFraction(1, 4)
SAMPLE = batch_sample(Sampling.along("B", FRACTION), BATCH)
RNG = np.random.default_rng(3)
WEIGHTS = [RNG.integers(-127, 128, (rows, terms)) for terms, rows in pairwise(WIDTHS)]
X = RNG.integers(-127, 128, (BATCH, WIDTHS[0])).astype(np.float32)

#: Of the integer pipeline: what all rules need.
KIND = StatisticsKind(lsb="minimum")

Machine = Callable[[Program], LayerMachine]


def network(
    items: int, config: KernelConfig = POSITIONS, rich: bool = False, weights: Any = None, **policy: Any
) -> Program:
    """Three fully connected layers on ``items`` rows; rich: with biases, row exponents and a function."""
    rng, matrices = np.random.default_rng(5), weights or WEIGHTS
    widths = [matrices[0].shape[1], *map(len, matrices)]
    specs = [TensorSpec(f"t{n}", items, 1, width, None, (items, width), (0, 1)) for n, width in enumerate(widths)]
    nodes = []
    for number, matrix in enumerate(matrices):
        fields: dict[str, Any] = {}
        if rich:
            fields = {
                "weight_exponents": rng.integers(-9, -4, len(matrix)).astype(np.int32), "bias_exponent": -6,
                "bias": rng.integers(-9999, 9999, len(matrix)).astype(np.int32),
                "function": Function.RELU if number < 2 else Function.NONE,
            }  # fmt: skip
        nodes.append(
            gemm(
                matrix, Window(output_height=items), name=f"fc{number}", inputs=(f"t{number}",),
                output=f"t{number + 1}", policy=dynamic(**policy), **fields,
            )
        )  # fmt: skip
    return scheduled(config, specs, nodes)


def on_plain_integers(program: Program) -> LayerMachine:
    return KernelLayers(program, PlainKernel(program.config))


def on_csim(program: Program) -> LayerMachine:
    return KernelLayers(program, compiled_kernel(program.config))


def turns(seed: int) -> Turn:
    """Sides in any order: what stalls of either of them do."""
    generator = np.random.default_rng(seed)
    share = generator.uniform(0.05, 0.95)

    def turn() -> Side:
        return "preceding" if generator.random() < share else "main"

    return turn


def same(first: PairRun, second: PairRun, clocks: bool = True) -> bool:
    """Outputs, exponents and, unless told otherwise, clocks."""
    equal = all(np.array_equal(value, second.outputs[name]) for name, value in first.outputs.items())
    exponents = [[batch.exponents for batch in run.batches] for run in (first, second)]
    return equal and exponents[0] == exponents[1] and (not clocks or first.batches == second.batches)


def small_model(folder: Path, softmax: bool = True) -> Path:
    """Two layers with biases, a ReLU between them, and an operator of the host behind them."""
    model = Network(6)
    for inputs, outputs in ((6, 9), (9, 4)):
        model.add("Gemm", model.last, model.weights(inputs, outputs), model.weights(outputs))
        if inputs == 6:
            model.add("Relu")
    if softmax:
        model.add("Softmax", axis=1)
    path = folder / "small.onnx"
    path.write_bytes(model.model().SerializeToString())
    return path
