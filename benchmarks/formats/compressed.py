"""Speed and size of compressed formats: a map of 512 x 512 x 16 cells, and layers of a million kernel entries.

    python -m benchmarks.formats.compressed [--repeats N]

Times are of one thread's CPU, the shortest of the repeats, in milliseconds: encode / decode. The map is folded into 64
pieces of 256 x 256; its values are spread evenly (uniform) or lie in discs (clustered).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.common.command import command
from bfpga.formats.compressed.kernel_decoder import decode_kernels
from bfpga.formats.compressed.kernels import (
    KernelFormat,
    encode_kernels,
    kernel_segments,
    possible_kernel_formats,
)
from bfpga.formats.compressed.maps import MapFormat, Payload
from bfpga.formats.compressed.payloads import decode_map, encode_map

T = TypeVar("T")
FORMATS = [
    MapFormat(Payload.DENSE), MapFormat(Payload.COO32), MapFormat(Payload.BITMAP), MapFormat(Payload.TREE),
    MapFormat(Payload.TREE, leaf=8),
]  # fmt: skip
LAYERS = [
    ((1000, 112, 3, 3), 1.0, 16), ((1000, 222, 3, 3), 0.5, 16), ((4500, 250, 3, 3), 0.1, 16),
    ((1000, 256, 5, 5), 0.16, 1),
]  # fmt: skip


def timed(function: Callable[[], T], repeats: int) -> tuple[float, T]:
    """Milliseconds of the fastest call, and its result."""
    best, result = float("inf"), function()
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    return 1e3 * best, result


def pieces(density: float, clustered: bool) -> list[npt.NDArray[np.int8]]:
    rng = np.random.default_rng(0)
    values = rng.integers(1, 128, (16, 512, 512)).astype(np.int8)
    if clustered:
        row, column = np.mgrid[:512, :512]
        distance = np.min([np.hypot(row - r, column - c) for r, c in rng.random((6, 2)) * 512], axis=0)
        values[:, distance > np.quantile(distance, density)] = 0
    else:
        values[rng.random(values.shape) >= density] = 0
    return [np.ascontiguousarray(m[r : r + 256, c : c + 256]) for m in values for r in (0, 256) for c in (0, 256)]


def report_maps(repeats: int) -> None:
    names = [f.payload.name + (f" {f.leaf}" if f.payload == Payload.TREE else "") for f in FORMATS]
    print("| map | " + " | ".join(names) + " |")
    print("|---" * (len(FORMATS) + 1) + "|")
    for clustered in (False, True):
        for density in (0.05, 0.1, 0.3, 0.5):
            parts = pieces(density, clustered)
            row = [f"{'clustered' if clustered else 'uniform'} {density}"]
            for fmt in FORMATS:
                encode, words = timed(lambda p=parts, f=fmt: [encode_map(part, f) for part in p], repeats)  # type: ignore[misc]
                decode, _ = timed(lambda w=words, f=fmt: [decode_map(part, 256, 256, f) for part in w], repeats)  # type: ignore[misc]
                row.append(f"{encode:.0f} / {decode:.0f} ms, {sum(part.nbytes for part in words) >> 10} KiB")
            print("| " + " | ".join(row) + " |")


def report_kernels(repeats: int) -> None:
    names = ["layer, density, kernels a segment", "entries", "segments", *(f.name for f in KernelFormat)]
    print("\n| " + " | ".join(names) + " |")
    print("|---" * (len(KernelFormat) + 3) + "|")
    for shape, density, step in LAYERS:
        rng = np.random.default_rng(0)
        dense = rng.integers(1, 128, shape).astype(np.int8)
        dense[rng.random(shape) >= density] = 0
        prepare, segments = timed(lambda d=dense, s=step: kernel_segments(d, s), repeats)  # type: ignore[misc]
        size = " x ".join(str(n) for n in shape)
        row = [f"{size}, {density}, {step}", f"{segments.z.size} in {prepare:.0f} ms", str(segments.kz.size)]
        for fmt in KernelFormat:
            if fmt not in possible_kernel_formats(segments):
                row.append("")
                continue
            encode, words = timed(lambda s=segments, f=fmt: encode_kernels(s, f), repeats)  # type: ignore[misc]
            decode, _ = timed(lambda w=words, s=segments: decode_kernels(w, s.kernel_size), repeats)  # type: ignore[misc]
            row.append(f"{encode:.0f} / {decode:.0f} ms, {words.nbytes >> 10} KiB")
        print("| " + " | ".join(row) + " |")


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args(given).repeats
    report_maps(repeats)
    report_kernels(repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
