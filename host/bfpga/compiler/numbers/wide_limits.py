"""Limits of quantizers on arrays whose mantissas are wider: a layer saturates, and a pass behind it rounds.

A mantissa that is as wide as a quantizer's integers does both at the exponent of its step. A wider one does not reach
its limit there; at the exponent where it does, it is finer than the step. Networks are trained with both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, Layer, Lowered
from bfpga.compiler.numbers.calibrate import Histogram
from bfpga.compiler.read.grids import Grid, Grids
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.functions import Function
from bfpga.contract.program import Window
from bfpga.formats.block_format import BlockFormat

SUFFIX, FINER = "/saturated", "/finer"


def with_limits(
    lowered: Lowered, grids: Grids, histograms: Mapping[str, Histogram], config: SystolicConfig
) -> tuple[Lowered, Grids]:
    """The layers with a pass behind each that a quantizer limits and nothing else does, and the grids of its values.

    histograms: of samples by tensor; where they stay within the limits, no pass is needed.
    """
    form, parts = config.format, Counter(layer.output for layer in lowered.layers)
    found: dict[str, Grid] = dict(grids)
    layers: list[Layer] = []
    tensors = dict(lowered.tensors)
    for layer in lowered.layers:
        name = layer.output
        layers.append(layer)
        tensor = tensors[name]
        if parts[name] > 1 or tensor.parts > 1 or tensor.remainder or not _open(name, grids, histograms, form):
            continue
        grid = grids[name]
        tensors[name + SUFFIX] = ArrayTensor(name + SUFFIX, tensor.onnx_shape, tensor.layout)
        layer.output = name + SUFFIX
        window = Window(output_height=tensor.height, output_width=tensor.width)
        second = Layer(f"{layer.name}/rounded", "sum", (layer.output,), name, tensor.channels, window)
        if _can_clip(layer, config) and form.mantissa_max * grid.step > grid.high - grid.low:
            _clip(layer, second, grid)
            found[layer.output] = Grid(grid.step, 0, grid.high - grid.low, rounds=True)
        else:
            found[layer.output] = grid
        found[name] = replace(grid, saturates=False)
        layers.append(second)
    result = replace(lowered, layers=[], tensors=tensors)
    for layer in layers:
        result.layers += [*_finer_operands(layer, result, found, form), layer]
    return result, found


def _finer_operands(layer: Layer, lowered: Lowered, grids: dict[str, Grid], form: BlockFormat) -> list[Layer]:
    """Passes in front of a sum for operands of larger steps than the other's: it adds in units of the larger one."""
    if layer.kind != "sum" or len(layer.inputs) != 2:
        return []
    steps = [grids[name].step if name in grids and grids[name].power is not None else 0.0 for name in layer.inputs]
    made: list[Layer] = []
    for name, step in zip(layer.inputs, steps, strict=True):
        grid = grids.get(name)
        if grid is None or step <= min(steps) or form.mantissa_max * step < 4 * grid.largest:
            continue
        tensor, finer = lowered.tensors[name], f"{name}{FINER}"
        if finer not in lowered.tensors:
            lowered.tensors[finer] = ArrayTensor(finer, tensor.onnx_shape, tensor.layout)
            window = Window(output_height=tensor.height, output_width=tensor.width)
            made.append(Layer(f"{layer.name}/{name}", "sum", (name,), finer, tensor.channels, window))
            grids[finer] = replace(grid, rounds=False, saturates=True)
        layer.inputs = (finer if layer.inputs[0] == name else layer.inputs[0],
                        finer if layer.inputs[1] == name else layer.inputs[1])  # fmt: skip
    return made


def _can_clip(layer: Layer, config: SystolicConfig) -> bool:
    free = layer.kind == "gemm" and layer.function == Function.NONE and not layer.uniform_weights
    return free and Function.CLIP.key in config.functions


def _clip(layer: Layer, second: Layer, grid: Grid) -> None:
    """The layer's distance from the least value, limited and rounded; the pass behind it takes the distance back."""
    layer.bias = np.full(layer.channels, -grid.low) + (0.0 if layer.bias is None else layer.bias)
    layer.function, layer.argument = Function.CLIP, grid.high - grid.low
    second.kind, second.groups = "gemm", second.channels
    second.weights = np.ones((second.channels, 1, 1, 1))
    second.bias = np.full(second.channels, grid.low)
    second.macs = second.pixels * second.channels


def _open(name: str, grids: Grids, histograms: Mapping[str, Histogram], form: BlockFormat) -> bool:
    """Whether values may exceed their quantizer's range, and mantissas at its step would hold them."""
    grid = grids.get(name)
    if grid is None or not grid.saturates or grid.power is None:
        return False
    exceeds = name not in histograms or histograms[name].largest > grid.largest
    return exceeds and form.mantissa_max * grid.step > grid.largest + grid.step
