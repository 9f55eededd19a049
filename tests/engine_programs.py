"""Operations of the engines beside the array, laid out by hand from docs/engines.md (not by the compiler)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from array_programs import Place, Program
from bfpga.engines.descriptor import Descriptor, Operation
from bfpga.formats.compressed_kernels import KernelFormat, encode_kernels, kernel_segments
from bfpga.network.program import KernelOperation

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


def engine_tile(
    program: Program, operation: Operation, layer: Convolution, source: Place, target: Place,
    rows: Range, columns: Range, channels: Range, **fields: int,
) -> Descriptor:  # fmt: skip
    """One tile of outputs of some channels; its weights are to be given to the operation."""
    d = Descriptor(operation, input_slot=source.slot, output_slot=target.slot)
    config, build = program.config, getattr(program.config, _BUILDS[operation])
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


_BUILDS = {Operation.ZERO_SKIP: "zero_skip", Operation.SPARSE: "sparse_cluster"}


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
