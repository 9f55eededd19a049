"""Weights of a grouped layer as an engine without groups needs them: zeros where a kernel does not see a channel."""

from __future__ import annotations

import numpy as np

from bfpga.contract.program import ArrayNode
from bfpga.formats.arrays import IntArray


def expanded_weights(layer: ArrayNode, m0: int, m1: int) -> IntArray:
    """Weights of output channels [m0, m1) over all input channels, zeros for those of other groups (ZS R12, SC R7).

    (m1 - m0, kernel_height, kernel_width, input channels); without groups a view of the layer's weights.
    """
    if layer.weights is None:
        raise ValueError("a layer without weights has none to expand")
    part = np.asarray(layer.weights)[m0:m1]
    if layer.groups == 1:
        return part
    inner = part.shape[3]
    first = np.arange(m0, m1) // (layer.channels // layer.groups) * inner
    result = np.zeros((*part.shape[:3], layer.groups * inner), part.dtype)
    channel = (first[:, None] + np.arange(inner))[:, None, None]
    np.put_along_axis(result, np.broadcast_to(channel, part.shape), part, axis=3)
    return result
