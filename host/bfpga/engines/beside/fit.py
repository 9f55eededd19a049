"""Whether an engine beside the array can compute a layer, and if not, why (docs/engines.md, sections 1, 2 and 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import Any, Protocol

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.engine_numbers import OPERAND_BITS, SUM_BITS, EngineName
from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.beside.embedded_kernels import embedded_size, padding
from bfpga.engines.beside.tiles import strip_fits

#: An image or a channel word has a number of 16 bits in the headers of the weight stream.
MOST_CHANNELS = 1 << 16


class ImageShape(Protocol):
    """The tensor that a layer reads: `TensorSpec` and `ArrayTensor` have this shape."""

    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def channels(self) -> int: ...


class CandidateLayer(Protocol):
    """A layer that looks for an engine: `ArrayNode`, and the compiler's layer before its numbers are integers."""

    @property
    def kind(self) -> str: ...
    @property
    def weights(self) -> Any: ...
    @property
    def uniform_weights(self) -> bool: ...
    @property
    def window(self) -> Window: ...


def refusal(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig, engine: EngineName) -> str:
    """Why ``engine`` cannot compute the layer, in one sentence; empty if it can.

    spec: the layer's input. A layer without integers yet is judged by what it has: formats and policies come later.
    """
    if engine == "systolic_array":
        return ""
    if engine not in config.engines:
        return f"the accelerator has no engine {engine}"
    checks: tuple[Callable[..., Iterator[str]], ...] = (_kind, _numbers, _dilation, _ENGINE_CHECKS[engine])
    return next((reason for check in checks for reason in check(layer, spec, config)), "")


def _kind(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    if layer.kind != "gemm":
        yield f"it is no convolution and no fully connected layer ({layer.kind})"
    if layer.weights is None:
        yield "its weights are not known when it is compiled"
    if layer.uniform_weights:
        yield "it is an average, whose one weight only the array repeats"


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


def _dilation(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    window = layer.window
    if (window.dilation_y, window.dilation_x) != (1, 1):
        yield f"its kernel is dilated by {window.dilation_y}x{window.dilation_x}"


def _kernel(window: Window, spec: ImageShape, height: int, width: int) -> Iterator[str]:
    """height, width: of the engine's largest kernel."""
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


def _zero_skip(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    build, window = config.zero_skip, layer.window
    assert build is not None
    yield from _kernel(window, spec, build.kernel_height, build.kernel_width)
    if max(window.stride_y, window.stride_x) > build.stride:
        yield f"its stride is {window.stride_y}x{window.stride_x}, the engine's largest is {build.stride}"


def _cluster(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    build, window = config.sparse_cluster, layer.window
    assert build is not None
    yield from _kernel(window, spec, build.kernel, build.kernel)
    if any(gcd(stride, build.kernel) != 1 for stride in (window.stride_y, window.stride_x)):
        yield (
            f"its stride {window.stride_y}x{window.stride_x} has a factor in common with the engine's kernel of "
            f"{build.kernel}: outputs of a row would lie in one bank"
        )
    if not strip_fits(window, spec, build, 1):
        yield (
            f"one row of its output does not fit the units: {build.grid_rows}x{build.grid_columns} pieces of "
            f"{build.accumulator_words} sums and {build.memory_words} segments"
        )


_ENGINE_CHECKS: dict[str, Callable[[Any, ImageShape, SystolicConfig], Iterator[str]]] = {
    "zero_skip": _zero_skip,
    "sparse_cluster": _cluster,
}
