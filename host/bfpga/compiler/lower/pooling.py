"""Maxima and averages of windows."""

from __future__ import annotations

import numpy as np

from bfpga.compiler.lower.geometry import inside, window_of
from bfpga.compiler.lower.interleaved import Interleaving
from bfpga.compiler.lower.layers import ArrayTensor, IndexArray, Layer, spatial
from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.compiler.read.importer import Operator
from bfpga.contract.program import Window


class Pooling(Interleaving):
    """Operators over windows of an image, channel by channel."""

    def _pool_window(self, operator: Operator, source: ArrayTensor, layout: IndexArray) -> Window:
        if operator.type.startswith("Global"):
            return Window(source.height, source.width)
        axes = len(operator.attributes["kernel_shape"])
        kernel = spatial(operator.attributes["kernel_shape"], 1, axes)
        size, target = (source.height, source.width), (layout.shape[0], layout.shape[1])
        window = window_of(operator, kernel, size, (int(target[0]), int(target[1])), axes)
        if window is None:
            raise NotOnArrayError("negative padding")
        self._check_stride(window)
        return window

    def _max_pool(self, operator: Operator) -> None:
        if any(operator.outputs[1:]):
            raise NotOnArrayError("it also gives the positions of the maxima")
        source = self._image(operator.inputs[0])
        layout = self._image_layout(operator.outputs[0])
        window = self._pool_window(operator, source, layout)
        layer = Layer(operator.name, "max", (source.name,), operator.outputs[0], source.channels, window,
                      operators=[operator])
        self._emit(layer, operator.outputs[0], layout)

    def _average_pool(self, operator: Operator) -> None:
        source = self._image(operator.inputs[0])
        layout = self._image_layout(operator.outputs[0])
        window = self._pool_window(operator, source, layout)
        if not inside(window, source.height, source.width):
            whole = operator.attributes.get("count_include_pad", 0) and not operator.attributes.get("ceil_mode", 0)
            if not whole:
                self._border_averages(operator, (window.stride_y, window.stride_x))
                return
        self._average(operator, source, window, layout)

    def _average(self, operator: Operator, source: ArrayTensor, window: Window, layout: IndexArray) -> None:
        count = window.kernel_height * window.kernel_width
        weights = np.full((source.channels, window.kernel_height, window.kernel_width, 1), 1.0 / count)
        layer = Layer(operator.name, "gemm", (source.name,), operator.outputs[0], source.channels, window,
                      groups=source.channels, weights=weights, uniform_weights=True, operators=[operator])
        layer.macs = layer.pixels * int(weights.size)
        self._emit(layer, operator.outputs[0], layout)
