"""Bias correction: the mean error that rounded weights cause on sample data is taken out of the biases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import ArrayTensor, Layer
from bfpga.compiler.numbers.quantize import quantize_bias
from bfpga.compiler.numbers.values import Float32Array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode

Floats = npt.NDArray[np.float64]
#: Samples whose mean activations are taken.
SAMPLES = 128


class InputMeans:
    """The mean of every element of the tensors that the layers read. count: of the calibration samples."""

    def __init__(self, tensors: Mapping[str, ArrayTensor], layers: Iterable[Layer], count: int) -> None:
        self._tensors = tensors
        self.names = sorted({layer.inputs[0] for layer in layers})
        self.samples = min(SAMPLES, count)
        self._sums = {name: np.zeros(tensors[name].layout.size) for name in self.names}

    def add(self, values: Mapping[str, Float32Array]) -> None:
        for name in self.names:
            self._sums[name] += values[name].reshape(len(values[name]), -1).sum(axis=0, dtype=np.float64)

    def mean(self, name: str, scale: Floats | None = None) -> Floats:
        """Means (height, width, channels) in memory order.

        scale: the binary logarithm of what channels are scaled by.
        """
        mean = np.asarray(self._sums[name][self._tensors[name].layout] / self.samples, np.float64)
        return mean if scale is None else mean * np.exp2(scale)


def correct_biases(
    layers: Iterable[Layer],
    nodes: Iterable[ArrayNode],
    config: KernelConfig,
    means: InputMeans,
    scales: Mapping[str, Floats],
) -> None:
    """Change the biases of the nodes of ``layers``. scales: binary logarithms of what channels are scaled by.

    Away from the border, the mean of a weight's error times its input is the weight's error times the mean of its
    input channel: one mean for each input channel is enough.
    """
    by_name = {layer.name: layer for layer in layers}
    for node in nodes:
        if node.name in by_name:
            layer = by_name[node.name]
            mean = means.mean(layer.inputs[0], scales.get(layer.inputs[0]))
            _correct(node, layer, np.repeat(mean, layer.input_parts, axis=2), config)


def _correct(node: ArrayNode, layer: Layer, mean: Floats, config: KernelConfig) -> None:
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
