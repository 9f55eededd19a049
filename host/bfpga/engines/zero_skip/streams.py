"""The bytes of kernels on the weight stream for the zero-skip engine (docs/engines.md, section 4).

Every part of a stream, a header and what follows it, is placed at once for all images of a group.
"""

from __future__ import annotations

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.engines.beside.streams import empty_group, headers, kernel_groups
from bfpga.engines.zero_skip.cycles import entry_steps, group_segments
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.formats.arrays import IntArray
from bfpga.formats.compressed.kernels import encode_kernels, runs, segment_words


def stream(config: SystolicConfig, descriptor: Descriptor, weights: IntArray) -> bytes:
    """Kernels of one operation."""
    return zero_skip_stream(weights, config, stream_form(config, descriptor))


def stream_form(config: SystolicConfig, descriptor: Descriptor) -> int:
    """What of a descriptor decides the form of the segments: clocks of one entry on its tile."""
    return entry_steps(config.numbers_of(ZeroSkipNumbers), descriptor)


def zero_skip_stream(weights: IntArray, config: SystolicConfig, steps: int) -> bytes:
    """Kernels of one ZERO_SKIP operation: for each group and each image with an entry, a header and its segment.

    steps: clocks of one entry on the operation's tile.
    """
    groups = kernel_groups(weights, config.numbers_of(ZeroSkipNumbers).kernels_in_flight)
    return b"".join(_zero_skip_group(group, config.weight_stream_bits // 8, steps) for group in groups)


def _zero_skip_group(weights: IntArray, beat: int, steps: int) -> bytes:
    if not weights.any():
        return empty_group(beat)
    segments, form = group_segments(weights, steps)
    words, sizes = encode_kernels(segments, form), segment_words(segments, form)
    per_beat = beat // words.itemsize
    ends = np.cumsum((1 + -(-sizes // per_beat)) * per_beat)
    starts = np.concatenate([[0], ends[:-1]])
    result = np.zeros(int(ends[-1]), words.dtype)
    result[starts] = headers(segments.kz, np.ones_like(segments.kz))
    result[runs(starts + per_beat, sizes)] = words
    return result.tobytes()
