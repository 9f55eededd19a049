"""The zero-coefficient-skip engine in numpy: its numbers, the shape of a layer, the result (docs/zero-skip.md).

Every non-zero coefficient is applied by itself to a whole tile of an image, so zeros cost nothing. Sums are taken
modulo 2**accumulator_bits, hence no order of the coefficients, no tile size and no nest of loops changes a bit (ZS R15,
ZS R39). The result is therefore one exact dense product; `engines.zero_skip.counters` counts what the hardware spends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from bfpga.engines.array.products import certified_product, row_bound
from bfpga.engines.array.windows import padded, patches
from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.rounding import wrap

KernelOrder = Literal["z_major", "pos_major", "interleaved"]
LoopNest = Literal["tile_outer", "image_outer"]
LaneMultiplier = Literal["dsp", "dsp_packed", "lut"]

#: Clocks the loop of one image spends beyond its steps: the pipeline fills, and empties before sums are read again.
IMAGE_DEPTH = 8


@dataclass(frozen=True)
class ZeroSkipConfig:
    """A build of the engine and its run-time choices; ``ConfigurationError`` if it contradicts itself. ZS 2.2.

    tile_height, tile_width: outputs of a tile. lanes: multipliers of a row. rows_parallel: rows of a step.
    kernels_in_flight: kernels of one pass over the images. kernel_height, kernel_width, stride: the largest that are
    possible. row_banks: rows the tile buffer takes in one clock. dependence_latency: clocks between two uses of a sum.
    skip_empty: images without an entry are not loaded (ZS R28).
    """

    tile_height: int = 32
    tile_width: int = 32
    lanes: int = 32
    rows_parallel: int = 1
    kernels_in_flight: int = 16
    kernel_height: int = 7
    kernel_width: int = 7
    stride: int = 2
    operand_bits: int = 8
    coefficient_bits: int = 8
    accumulator_bits: int = 32
    order: KernelOrder = "interleaved"
    nest: LoopNest = "tile_outer"
    double_buffer: bool = True
    skip_zero: bool = True
    skip_empty: bool = False
    dependence_latency: int = 4
    multiplier: LaneMultiplier = "dsp_packed"
    bus_bytes: int = 8
    output_bytes: int = 4
    row_banks: int = 2

    def __post_init__(self) -> None:
        limits = {
            "tile_height": (1, 256), "tile_width": (1, 256), "lanes": (1, 256), "kernels_in_flight": (1, 256),
            "rows_parallel": (1, self.tile_height), "kernel_height": (1, 16), "kernel_width": (1, 16),
            "stride": (1, 16), "operand_bits": (2, 16), "coefficient_bits": (2, 16), "accumulator_bits": (16, 48),
            "dependence_latency": (1, 8), "bus_bytes": (1, 64), "output_bytes": (1, 8), "row_banks": (1, 64),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(f"zero-skip engine: {name} is {value}, it must be {low} to {high}")
        for name, choices in (("order", KernelOrder), ("nest", LoopNest), ("multiplier", LaneMultiplier)):
            if getattr(self, name) not in get_args(choices):
                wanted = ", ".join(get_args(choices))
                raise ConfigurationError(f"zero-skip engine: {name} is {getattr(self, name)!r}, it must be {wanted}")
        if self.multiplier == "dsp_packed" and max(self.operand_bits, self.coefficient_bits) > 8:
            raise ConfigurationError("zero-skip engine: dsp_packed takes operands and coefficients of 8 bits at most")
        if self.bus_bytes % self.operand_bytes:
            raise ConfigurationError(
                f"zero-skip engine: a bus of {self.bus_bytes} bytes does not hold whole cells of {self.operand_bytes}"
            )

        for name in ("beat_cells", "row_banks"):
            if getattr(self, name) & (getattr(self, name) - 1):
                raise ConfigurationError(
                    f"zero-skip engine: {name} is {getattr(self, name)}, it must be a power of two"
                )

    @property
    def operand_bytes(self) -> int:
        """Bytes of a cell on the image stream: 1 or 2."""
        return 1 if self.operand_bits <= 8 else 2

    @property
    def beat_cells(self) -> int:
        """Cells a clock brings into the tile buffer at most."""
        return self.bus_bytes // self.operand_bytes

    def steps(self, tile_height: npt.ArrayLike, tile_width: npt.ArrayLike) -> Int64Array:
        """Clocks of one coefficient on tiles of these sizes. ZS Z6."""
        height, width = np.asarray(tile_height, np.int64), np.asarray(tile_width, np.int64)
        return -(-height // self.rows_parallel) * -(-width // self.lanes)


@dataclass(frozen=True)
class ZeroSkipShape:
    """A convolution: coefficients C[image][kernel][ky][kx] over images of one size. ZS 2.1.

    padding: cells of virtual zeros at the top, bottom, left, right. stride: of rows, of columns.
    """

    images: int
    kernels: int
    kernel_height: int
    kernel_width: int
    height: int
    width: int
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    stride: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        sizes = (self.images, self.kernels, self.kernel_height, self.kernel_width, self.height, self.width)
        if min(*sizes, *self.stride) < 1 or min(self.padding) < 0:
            raise DataError(f"convolution {self}: sizes and strides are 1 at least, padding is 0 at least")
        if self.output_height < 1 or self.output_width < 1:
            raise DataError(
                f"a kernel of {self.kernel_height}x{self.kernel_width} does not fit an image of "
                f"{self.height}x{self.width} with padding {self.padding}"
            )

    @property
    def output_height(self) -> int:
        top, bottom = self.padding[:2]
        return (self.height + top + bottom - self.kernel_height) // self.stride[0] + 1

    @property
    def output_width(self) -> int:
        left, right = self.padding[2:]
        return (self.width + left + right - self.kernel_width) // self.stride[1] + 1

    # The geometry that `engines.windows` asks for.
    @property
    def stride_y(self) -> int:
        return self.stride[0]

    @property
    def stride_x(self) -> int:
        return self.stride[1]

    @property
    def pad_top(self) -> int:
        return self.padding[0]

    @property
    def pad_left(self) -> int:
        return self.padding[2]

    @property
    def dilation_y(self) -> int:
        return 1

    @property
    def dilation_x(self) -> int:
        return 1

    def check(self, config: ZeroSkipConfig, coefficients: IntArray) -> None:
        """``DataError`` if these are not the layer's coefficients, ``ConfigurationError`` if no build holds them."""
        expected = (self.images, self.kernels, self.kernel_height, self.kernel_width)
        if coefficients.shape != expected:
            raise DataError(f"coefficients are {coefficients.shape}, the layer's are {expected}")
        if self.kernel_height > config.kernel_height or self.kernel_width > config.kernel_width:
            raise ConfigurationError(
                f"zero-skip engine: kernels of {self.kernel_height}x{self.kernel_width}, this build takes up to "
                f"{config.kernel_height}x{config.kernel_width}"
            )
        if max(self.stride) > config.stride:
            raise ConfigurationError(f"zero-skip engine: stride {self.stride}, this build takes up to {config.stride}")


def layer_shape(
    coefficients: IntArray,
    size: Sequence[int],
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    stride: tuple[int, int] = (1, 1),
) -> ZeroSkipShape:
    """The shape of coefficients (images, kernels, kernel_height, kernel_width) over images of (height, width)."""
    if coefficients.ndim != 4:
        raise DataError(f"coefficients have four axes (image, kernel, ky, kx), these have {coefficients.ndim}")
    images, kernels, height, width = coefficients.shape
    return ZeroSkipShape(images, kernels, height, width, int(size[0]), int(size[1]), padding, stride)


def check_numbers(numbers: npt.NDArray[Any], bits: int, what: str) -> None:
    """``DataError`` if ``numbers`` are no integers of ``bits`` bits."""
    if numbers.dtype.kind not in "iu":
        raise DataError(f"{what} are whole numbers, these are {numbers.dtype}")
    half = 1 << (bits - 1)
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    if low < -half or high >= half:
        raise DataError(f"{what} of {bits} bits are {-half} to {half - 1}, these are {low} to {high}")


def flipped(coefficients: IntArray) -> IntArray:
    """The array whose correlation is the true convolution with ``coefficients``: both kernel axes reversed. ZS I6."""
    return coefficients[:, :, ::-1, ::-1]


def diagonal(coefficients: IntArray) -> IntArray:
    """Depthwise kernels (channels, ky, kx) as the block-diagonal array C[image][kernel][ky][kx]. ZS R12."""
    channels = len(coefficients)
    result = np.zeros((channels, channels, *coefficients.shape[1:]), coefficients.dtype)
    result[np.arange(channels), np.arange(channels)] = coefficients
    return result


@dataclass(frozen=True)
class ZeroSkipResult:
    """Sums (samples, output_height, output_width, kernels); ``overflow``: a true sum left the accumulators. ZS R39."""

    sums: Int64Array
    overflow: bool


def layer_function(
    config: ZeroSkipConfig, shape: ZeroSkipShape, coefficients: IntArray, bias: IntArray | None = None
) -> Callable[[IntArray], ZeroSkipResult]:
    """The function from images (samples, height, width, images) to the accumulators of a layer, bit for bit. ZS Z1.

    coefficients: C[image][kernel][ky][kx]. bias: what the sums of each kernel start from (ZS R14). Coefficients are
    prepared once, here. ``DataError`` for numbers the engine's words cannot hold, here and in the function.
    """
    shape.check(config, coefficients)
    check_numbers(coefficients, config.coefficient_bits, "coefficients")
    preset = np.zeros(shape.kernels, np.int64) if bias is None else np.asarray(bias)
    check_numbers(preset, config.accumulator_bits, "biases")
    largest = 1 << (config.operand_bits - 1)
    # Rows of the matrix in the order of a patch: tap by tap, its channels.
    product = certified_product(coefficients.transpose(2, 3, 0, 1).reshape(-1, shape.kernels), largest)
    bound = row_bound(coefficients.transpose(1, 0, 2, 3), largest) + int(np.abs(preset).max())
    fits = bound < 1 << (config.accumulator_bits - 1)

    def convolve_samples(x: IntArray) -> ZeroSkipResult:
        if x.ndim != 4 or x.shape[1:] != (shape.height, shape.width, shape.images):
            raise DataError(f"images are {x.shape[1:]}, the layer's are {(shape.height, shape.width, shape.images)}")
        check_numbers(x, config.operand_bits, "image cells")
        rows = patches(padded(x, shape, 0, product.dtype), shape)
        samples, pixels = rows.shape[:2]
        exact = product(rows.reshape(samples * pixels, -1)).astype(np.int64)
        if bias is not None:
            exact += preset
        sums = exact if fits else wrap(exact, config.accumulator_bits)
        overflow = not fits and bool((sums != exact).any())
        return ZeroSkipResult(sums.reshape(samples, shape.output_height, shape.output_width, -1), overflow)

    return convolve_samples


def convolve(
    config: ZeroSkipConfig, shape: ZeroSkipShape, x: IntArray, coefficients: IntArray, bias: IntArray | None = None
) -> ZeroSkipResult:
    """``layer_function`` for images that come once."""
    return layer_function(config, shape, coefficients, bias)(x)
