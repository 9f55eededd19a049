"""No loop over cells or entries: formats of large maps and layers take milliseconds.

The limits are wide, for machines that are busy and slow: a loop over cells would take a hundred times as long.
`benchmarks/compressed_formats.py` measures.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from bfpga.formats.compressed import decode_map, encode_map
from bfpga.formats.compressed_kernel_decoder import decode_kernels
from bfpga.formats.compressed_kernels import KernelFormat, encode_kernels, kernel_segments
from bfpga.formats.compressed_maps import MapFormat, Payload
from compressed_cases import sparse_array


def seconds(function: Callable[[], object]) -> float:
    """CPU time of the faster of two calls."""
    times = []
    for _ in range(2):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("payload", Payload)
def test_a_map_of_512_x_512_x_16_takes_milliseconds(payload: Payload) -> None:
    fmt = MapFormat(payload)
    piece = sparse_array((256, 256), 0.2, 1, clustered=True).astype(np.int8)
    words = encode_map(piece, fmt)
    limit = 1.0 if payload == Payload.TREE else 0.3
    assert seconds(lambda: [encode_map(piece, fmt) for _ in range(64)]) < limit
    assert seconds(lambda: [decode_map(words, 256, 256, fmt) for _ in range(64)]) < limit


@pytest.mark.parametrize("fmt", KernelFormat)
def test_a_million_entries_take_milliseconds(fmt: KernelFormat) -> None:
    size = (5, 5) if fmt == KernelFormat.ENTRY16 else (3, 3)
    dense = np.ones((500, 80 if fmt == KernelFormat.ENTRY16 else 222, *size), np.int8)
    segments = kernel_segments(dense, 1 if fmt == KernelFormat.ENTRY16 else 16)
    assert segments.z.size == dense.size > 990_000
    words = encode_kernels(segments, fmt)
    assert seconds(lambda: encode_kernels(segments, fmt)) < 0.5
    assert seconds(lambda: decode_kernels(words, size)) < 0.5
