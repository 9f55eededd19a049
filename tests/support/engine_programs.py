"""Operations of the engines beside the array, laid out by hand from docs/engines.md (not by the compiler)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from array_programs import Place, Program

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.engine_numbers import EngineNumbers
from bfpga.contract.program import KernelOperation
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.formats.compressed.kernels import KernelFormat, encode_kernels, kernel_segments

#: Header of a part: its last one of a group; a group without a weight.
LAST, EMPTY = 1 << 24, 1 << 25
Range = tuple[int, int]


@dataclass(frozen=True)
class Convolution:
    """A layer by hand: weights (outputs, height, width, inputs), stride and zeros above and left of its input."""

    weights: np.ndarray
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (1, 1)

    @property
    def kernel(self) -> tuple[int, int]:
        return self.weights.shape[1], self.weights.shape[2]

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """With as many zeros below and to the right."""
        rows, columns = (
            (size + 2 * pad - kernel) // stride + 1
            for size, pad, kernel, stride in zip((height, width), self.pad, self.kernel, self.stride, strict=True)
        )
        return rows, columns


@dataclass(frozen=True)
class Tile:
    """Outputs of one descriptor."""

    rows: Range
    columns: Range
    channels: Range


def cut(target: Place, rows: int, columns: int, channels: int) -> list[Tile]:
    """Tiles of at most so many rows, columns and channels."""
    sizes = ((target.channels, channels), (target.height, rows), (target.width, columns))
    parts = [[(first, min(first + most, size)) for first in range(0, size, most)] for size, most in sizes]
    return [Tile(r, c, z) for z, r, c in itertools.product(*parts)]


def sparse_weights(
    rng: np.random.Generator, shape: tuple[int, ...], density: float, config: SystolicConfig
) -> np.ndarray:
    """Coefficients (outputs, height, width, inputs); a share of about ``density`` is not zero."""
    limit = config.format.mantissa_max
    return rng.integers(-limit, limit + 1, shape) * (rng.random(shape) < density)


def random_parameters(program: Program, rng: np.random.Generator, channels: int) -> dict[str, int]:
    """A WEIGHTS operation that brings rows of parameters alone; returns descriptor fields of the layer."""
    bias, exponents = rng.integers(-500, 500, channels), rng.integers(-3, 3, channels)
    fields = program.weights(np.zeros((channels, 1, 1, 1), int), bias, exponents)
    operation = program.operations[-1]
    operation.descriptor.weight_words = 0
    operation.weights = operation.weights[: channels * (program.config.weight_stream_bits // 8)]
    return {name: fields[name] for name in ("parameter_base", "flags")}


def engine_layer(
    program: Program, operation: Operation, layer: Convolution, source: Place, target: Place, tiles: list[Tile],
    finish: Callable[[Descriptor, np.ndarray], bytes], measure: bool = False, **fields: int,
) -> None:  # fmt: skip
    """All descriptors of a layer, after a pass that measures if asked.

    finish: completes a descriptor, given the coefficients of its channels, and returns its part of the weight stream.
    """
    for last_pass in [False, True] if measure else [True]:
        for number, tile in enumerate(tiles):
            d = engine_tile(program, operation, layer, source, target, tile, **fields)
            d.flags |= Flag.FIRST if number == 0 else 0
            d.flags |= Flag.LAST if number == len(tiles) - 1 and last_pass else 0
            d.flags |= 0 if last_pass else Flag.MEASURE
            program.operations[-1].weights = finish(d, layer.weights[slice(*tile.channels)])


def engine_tile(
    program: Program, operation: Operation, layer: Convolution, source: Place, target: Place, tile: Tile, **fields: int
) -> Descriptor:
    """One tile of outputs of some channels; its weights are to be given to the operation."""
    rows, columns, channels = tile.rows, tile.columns, tile.channels
    d = Descriptor(operation, input_slot=source.slot, output_slot=target.slot)
    config, build = program.config, program.config.numbers_of(_BUILDS[operation])
    d.group_rows, d.output_width = rows[1] - rows[0], columns[1] - columns[0]
    d.output_pixels = d.group_rows * d.output_width
    (d.kernel_height, d.kernel_width), (d.stride_y, d.stride_x) = layer.kernel, layer.stride
    y0, d.input_height, d.pad_top = _window(rows, layer.stride[0], layer.pad[0], layer.kernel[0], source.height)
    x0, d.input_width, d.pad_left = _window(columns, layer.stride[1], layer.pad[1], layer.kernel[1], source.width)
    d.output_rows = channels[1] - channels[0]
    d.blocks = -(-d.output_rows // build.kernels_in_flight)
    d.channel_words = source.words(config)
    group = config.columns if operation == Operation.ZERO_SKIP else build.kernel
    _address(program, d, "input", source, y0 * source.pitch + x0, build.load_pixels)
    _address(program, d, "output", target, rows[0] * target.pitch + columns[0], group)
    d.output_word += channels[0] // config.lanes
    for name, value in fields.items():
        setattr(d, name, value)
    d.parameter_base += channels[0]
    program.operations.append(KernelOperation("engine", d))
    return d


_BUILDS: dict[Operation, type[EngineNumbers]] = {Operation.ZERO_SKIP: ZeroSkipNumbers, Operation.SPARSE: ClusterNumbers}


def _window(outputs: Range, stride: int, pad: int, kernel: int, size: int) -> tuple[int, int, int]:
    """First line of the input that the outputs need, number of lines, zeros before them."""
    first, end = outputs[0] * stride - pad, (outputs[1] - 1) * stride - pad + kernel
    inside = max(first, 0)
    return inside, min(end, size) - inside, inside - first


def _address(program: Program, d: Descriptor, side: str, place: Place, start: int, group: int) -> None:
    words = place.words(program.config)
    setattr(d, f"{side}_pixel_words", words)
    for name, pixels in (("step", 1), ("group", group), ("wrap", place.pitch)):
        program._set(d, f"{side}_{name}", pixels, words)
    program._set(d, side, start, words, place.base)


def zero_skip_bytes(weights: np.ndarray, flight: int, beat_bytes: int, form: KernelFormat, each: int = 256) -> bytes:
    """The kernels of one operation in a format, ``each`` kernels a segment, part by part."""
    result = b""
    for first in range(0, len(weights), flight):
        group = weights[first : first + flight]
        images = np.flatnonzero(group.any(axis=(0, 1, 2)))
        for image in images:
            segments = kernel_segments(group[..., image : image + 1].transpose(3, 0, 1, 2), each)
            segments = replace(segments, kz=np.full_like(segments.kz, image))
            last = LAST if image == images[-1] else 0
            result += _beats(int(image) | segments.kz.size << 16 | last, beat_bytes)
            words = encode_kernels(segments, form).tobytes()
            result += words + bytes(-len(words) % beat_bytes)
        if not images.size:
            result += _beats(LAST | EMPTY, beat_bytes)
    return result


def _beats(header: int, beat_bytes: int) -> bytes:
    return header.to_bytes(beat_bytes, "little")


def cluster_bytes(weights: np.ndarray, config: SystolicConfig) -> bytes:
    """The kernels of one SPARSE operation, part by part."""
    build = config.numbers_of(ClusterNumbers)
    beat_bytes, bits = config.weight_stream_bits // 8, config.format.container_bits
    count, height, width, channels = weights.shape
    words = -(-channels // config.lanes)
    cells = np.zeros((count, words * config.lanes, build.kernel, build.kernel), int)
    cells[:, :channels, :height, :width] = weights.transpose(0, 3, 1, 2)
    result = b""
    for first in range(0, count, build.kernels_in_flight):
        group = cells[first : first + build.kernels_in_flight].reshape(-1, words, config.lanes * build.lanes)
        used = np.flatnonzero(group.any(axis=(0, 2)))
        for word in used:
            active = np.flatnonzero(group[:, word].any(axis=1))
            last = LAST if word == used[-1] else 0
            result += _beats(int(word) | active.size << 16 | last, beat_bytes)
            result += _beats(sum(1 << int(z) for z in active), beat_bytes)
            for kernel in group[active, word]:
                packed = sum((int(value) & (1 << bits) - 1) << n * bits for n, value in enumerate(kernel))
                size = -(-kernel.size * bits // (8 * beat_bytes)) * beat_bytes
                result += packed.to_bytes(size, "little")
        if not used.size:
            result += _beats(LAST | EMPTY, beat_bytes) + bytes(beat_bytes)
    return result
