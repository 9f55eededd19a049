"""Bias correction: the mean error that rounded weights cause on sample data is taken out of the biases."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.numbers.quantize import quantize_bias
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.simplify import captured_values
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode

#: Samples whose mean activations are taken.
SAMPLES = 128


def correct_biases(
    graph: Graph,
    lowered: Lowered,
    nodes: list[ArrayNode],
    config: SystolicConfig,
    samples: dict[str, npt.NDArray[np.float32]],
    scales: Mapping[str, npt.NDArray[np.float64]],
) -> None:
    """Change the biases of convolutions and fully connected nodes. scales: binary logarithms of what channels are
    stored times.

    Away from the border, the mean of a weight's error times its input is the weight's error times the mean of its
    input channel: one mean for each input channel is enough.
    """
    layers = {layer.name: layer for layer in lowered.layers if layer.kind == "gemm" and not layer.uniform_weights}
    means = _channel_means(graph, lowered, sorted({layer.inputs[0] for layer in layers.values()}), samples, scales)
    for node in nodes:
        if node.name in layers:
            _correct(node, layers[node.name], means[layers[node.name].inputs[0]], config)


def _channel_means(
    graph: Graph,
    lowered: Lowered,
    names: list[str],
    samples: dict[str, npt.NDArray[np.float32]],
    scales: Mapping[str, npt.NDArray[np.float64]],
) -> dict[str, npt.NDArray[np.float64]]:
    """The mean of every element as it is stored, in memory order (height, width, channels)."""
    sums = {name: np.zeros(lowered.tensors[name].layout.size) for name in names}
    part = {name: array[:SAMPLES] for name, array in samples.items()}
    total = len(next(iter(part.values())))
    for values in captured_values(graph.model, part, names):
        for name in names:
            sums[name] += values[name].reshape(len(values[name]), -1).sum(axis=0, dtype=np.float64)
    means = {name: sums[name][lowered.tensors[name].layout] / total for name in names}
    return {name: mean * np.exp2(scales[name]) if name in scales else mean for name, mean in means.items()}


def _correct(node: ArrayNode, layer: Layer, mean: npt.NDArray[np.float64], config: SystolicConfig) -> None:
    assert node.weights is not None
    assert node.weight_exponents is not None
    assert layer.weights is not None
    scale = np.exp2(node.weight_exponents.astype(np.float64))
    error = node.weights * scale[:, None, None, None] - layer.weights
    outputs, inputs = node.channels // node.groups, error.shape[3]
    if error.shape[1:3] == mean.shape[:2] and node.groups == 1:
        shift = np.einsum("mhwc,hwc->m", error, mean)
    else:
        channel = mean.mean(axis=(0, 1))
        group = np.arange(node.channels) // outputs
        picked = channel[group[:, None] * inputs + np.arange(inputs)]
        shift = (error.sum(axis=(1, 2)) * picked).sum(axis=1)
    bias = np.zeros(node.channels) if layer.bias is None else layer.bias
    node.bias, node.bias_exponent = quantize_bias(bias - shift, config)
