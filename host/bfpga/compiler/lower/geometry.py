"""Windows: kernel, stride, padding and dilation from ONNX attributes."""

from __future__ import annotations

from bfpga.compiler.lower.layers import spatial
from bfpga.compiler.read.importer import Operator
from bfpga.contract.program import Window


def window_of(
    operator: Operator, kernel: tuple[int, int], source: tuple[int, int], target: tuple[int, int], axes: int
) -> Window | None:
    """The window of a convolution or pooling operator.

    source, target: (height, width) of input and output; axes: spatial axes of the ONNX value (1 or 2). Padding below
    and to the right needs no number: it follows from the output's size. None for negative padding.
    """
    stride_y, stride_x = spatial(operator.attributes.get("strides"), 1, axes)
    dilation_y, dilation_x = spatial(operator.attributes.get("dilations"), 1, axes)
    reach = (dilation_y * (kernel[0] - 1) + 1, dilation_x * (kernel[1] - 1) + 1)
    automatic = operator.attributes.get("auto_pad", b"NOTSET")
    mode = automatic.decode() if isinstance(automatic, bytes) else str(automatic)
    if mode.startswith("SAME"):
        total = [
            max((size - 1) * stride + span - length, 0)
            for size, stride, span, length in zip(target, (stride_y, stride_x), reach, source, strict=True)
        ]
        extra = 1 if mode == "SAME_LOWER" else 0
        top, left = (total[0] + extra) // 2, (total[1] + extra) // 2
    else:
        pads = [int(value) for value in operator.attributes.get("pads", [0] * (2 * axes))]
        if min(pads) < 0:
            return None
        top, left = spatial(pads[:axes], 0, axes) if axes == 2 else (pads[0], 0)
    return Window(
        kernel[0], kernel[1], stride_y, stride_x, top, left, dilation_y, dilation_x, target[0], target[1]
    )


def inside(window: Window, height: int, width: int) -> bool:
    """Whether no window leaves the image."""
    bottom = (window.output_height - 1) * window.stride_y + (window.kernel_height - 1) * window.dilation_y
    right = (window.output_width - 1) * window.stride_x + (window.kernel_width - 1) * window.dilation_x
    return window.pad_top == window.pad_left == 0 and bottom < height and right < width
