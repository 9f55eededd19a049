"""Why no engine beside the array can compute a layer, whatever its build (docs/engines.md, sections 1, 2 and 6)."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.engine_numbers import OPERAND_BITS, SUM_BITS
from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.beside.embedded_kernels import embedded_size, padding
from bfpga.engines.interface.engine import CandidateLayer, ImageShape

#: An image or a channel word has a number of 16 bits in the headers of the weight stream.
MOST_CHANNELS = 1 << 16


def common_refusals(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    """Reasons that hold for every engine beside the array, the most telling one first. spec: the layer's input."""
    yield from _kind(layer)
    yield from _numbers(layer, spec, config)
    yield from _dilation(layer.window)


def _kind(layer: CandidateLayer) -> Iterator[str]:
    if layer.kind != "gemm":
        yield f"it is no convolution and no fully connected layer ({layer.kind})"
    if layer.weights is None or (isinstance(layer, ArrayNode) and layer.factors):
        yield "its weights are not known when it is compiled"
    if layer.uniform_weights:
        yield "it is an average, whose one weight only the array repeats"
    if layer.window.spread:
        yield "its output pixels lie between those of other layers"
    if layer.window.crops:
        yield "it reads only a part of its input"


def _numbers(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    bits, low, high = config.format.mantissa_bits, *SUM_BITS
    if bits > OPERAND_BITS:
        yield f"mantissas have {bits} bits, the engine multiplies {OPERAND_BITS} bits at most"
    if not low <= config.accumulator_bits <= high:
        yield f"accumulators have {config.accumulator_bits} bits, the engine's have {low} to {high}"
    if isinstance(layer, ArrayNode) and layer.weight_format != "linear":
        yield f"its weights are {layer.weight_format}, the engine takes linear ones"
    if isinstance(layer, ArrayNode) and layer.policy.policy == Policy.STATISTICS:
        yield "its exponent policy is statistics, whose result depends on the order of the values"
    if spec.channels > MOST_CHANNELS:
        yield f"it reads {spec.channels} channels, the engine {MOST_CHANNELS} at most"
    if config.parameter_rows < config.lanes:
        yield f"biases of {config.lanes} channels do not fit {config.parameter_rows} parameter rows"


def _dilation(window: Window) -> Iterator[str]:
    if (window.dilation_y, window.dilation_x) != (1, 1):
        yield f"its kernel is dilated by {window.dilation_y}x{window.dilation_x}"


def kernel_refusals(window: Window, spec: ImageShape, height: int, width: int) -> Iterator[str]:
    """Why a kernel does not fit an engine whose largest one has ``height`` rows and ``width`` columns."""
    size, largest = f"{window.kernel_height}x{window.kernel_width}", f"the engine's largest is {height}x{width}"
    if window.kernel_height > height or window.kernel_width > width:
        yield f"its kernel is {size}, {largest}"
    rows, columns = embedded_size(window, spec)
    if rows > height or columns > width:
        pads = padding(window, spec)
        yield (
            f"its padding (top {pads.top}, bottom {pads.bottom}, left {pads.left}, right {pads.right}) reaches beyond "
            f"a kernel of {size}, and with zeros around it the kernel is {rows}x{columns}, {largest}"
        )
