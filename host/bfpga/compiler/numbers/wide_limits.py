"""Limits of quantizers on arrays whose mantissas are wider: passes of their own limit values, and round them.

A mantissa that is as wide as a quantizer's integers does both at the exponent of its step. A wider one does not reach
its limit there; at the exponent where it does, it is finer than the step, and its largest value is rounded to a step
beyond the limit. So the distance from the least value is clipped, by the layer itself where it has weights, and the
next pass takes the distance back. Where the array cannot clip, a layer saturates, and a pass after it rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bfpga.compiler.lower.layers import ArrayTensor, Layer, Lowered
from bfpga.compiler.numbers.calibrate import Histogram
from bfpga.compiler.read.grids import Grid, Grids
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function
from bfpga.contract.program import Window
from bfpga.formats.block_format import BlockFormat

SATURATED, CLIPPED, FINER = "/saturated", "/clipped", "/finer"


def with_limits(
    lowered: Lowered, grids: Grids, histograms: Mapping[str, Histogram], config: KernelConfig
) -> tuple[Lowered, Grids]:
    """The layers with passes after each that a quantizer limits and nothing else does, and the grids of their values.

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
        clips = Function.CLIP.key in config.known_functions and _resolves(grid, grid.high - grid.low, form)
        if not clips and grid.power is None:
            continue
        found[name] = replace(grid, saturates=False)
        if clips and not _can_clip(layer):
            found[name + SATURATED] = grid
            layer = _following_pass(layer, SATURATED, tensors)
            layers.append(layer)
        second = _following_pass(layer, CLIPPED if clips else SATURATED, tensors)
        if clips:
            _clip(layer, grid)
            _weigh(second, grid.low)
        found[layer.output] = Grid(grid.step, 0, grid.high - grid.low, rounds=True) if clips else grid
        layers.append(second)
    result = replace(lowered, layers=[], tensors=tensors)
    for layer in layers:
        result.layers += [*_finer_operands(layer, result, found, form), layer]
    return result, found


def _following_pass(layer: Layer, suffix: str, tensors: dict[str, ArrayTensor]) -> Layer:
    """A pass that writes what the layer did; the layer's own result has the suffix from now on."""
    name, tensor = layer.output, tensors[layer.output]
    layer.output = name + suffix
    tensors[layer.output] = ArrayTensor(layer.output, tensor.onnx_shape, tensor.layout)
    window = Window(output_height=tensor.height, output_width=tensor.width)
    end = "rounded" if suffix == SATURATED else "signed"
    return Layer(f"{layer.name}/{end}", "sum", (layer.output,), name, tensor.channels, window)


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


def _can_clip(layer: Layer) -> bool:
    return layer.kind == "gemm" and layer.function == Function.NONE and not layer.uniform_weights


def _clip(layer: Layer, grid: Grid) -> None:
    """The layer's distance from the least value, limited and rounded."""
    if layer.kind != "gemm":
        _weigh(layer, 0.0)
    layer.bias = np.full(layer.channels, -grid.low) + (0.0 if layer.bias is None else layer.bias)
    layer.function, layer.argument = Function.CLIP, grid.high - grid.low


def _weigh(layer: Layer, offset: float) -> None:
    """Make a pass of one operand a layer with weights, which can add a number."""
    layer.kind, layer.groups = "gemm", layer.channels
    layer.weights = np.ones((layer.channels, 1, 1, 1))
    layer.bias = np.full(layer.channels, offset)
    layer.macs = layer.channels * layer.pixels


def _open(name: str, grids: Grids, histograms: Mapping[str, Histogram], form: BlockFormat) -> bool:
    """Whether values may exceed their quantizer's range, and mantissas that resolve its steps would hold them.

    Without samples, steps that are no power of two are taken to reach as far as values do, as calibration makes them.
    """
    grid = grids.get(name)
    if grid is None or not grid.saturates:
        return False
    sampled = name in histograms
    exceeds = histograms[name].largest > grid.largest if sampled else grid.power is not None
    return exceeds and _resolves(grid, grid.largest + grid.step, form)


def _resolves(grid: Grid, largest: float, form: BlockFormat) -> bool:
    """Whether mantissas reach further than a value at a quantizer's step."""
    return form.mantissa_max * grid.step > largest
