"""The bytes of kernels on the weight stream for the engines beside the array (docs/engines.md, section 4).

Weights come as ``engines.expanded_weights`` gives them: (kernels, kernel_height, kernel_width, input channels). Every
part of a stream, a header and what follows it, is placed at once for all images or channel words of a group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import IntArray
from bfpga.contract.streams import PART_HEADER, packed_word
from bfpga.engines.array.streams import pack_elements
from bfpga.engines.zero_skip.cycles import group_segments
from bfpga.formats.compressed.kernels import encode_kernels, runs, segment_words

Bytes = npt.NDArray[np.uint8]
Groups = Iterator[IntArray]


def kernel_groups(weights: IntArray, in_flight: int) -> Groups:
    """The weights of the kernels that pass over the input together, group by group."""
    return (weights[first : first + in_flight] for first in range(0, len(weights), in_flight))


# Zero-skip engine


def zero_skip_stream(weights: IntArray, config: SystolicConfig, steps: int) -> bytes:
    """Kernels of one ZERO_SKIP operation: for each group and each image with an entry, a header and its segment.

    steps: clocks of one entry on the operation's tile.
    """
    assert config.zero_skip is not None
    groups = kernel_groups(weights, config.zero_skip.kernels_in_flight)
    return b"".join(_zero_skip_group(group, config.weight_stream_bits // 8, steps) for group in groups)


def _zero_skip_group(weights: IntArray, beat: int, steps: int) -> bytes:
    if not weights.any():
        return _empty_group(beat)
    segments, form = group_segments(weights, steps)
    words, sizes = encode_kernels(segments, form), segment_words(segments, form)
    per_beat = beat // words.itemsize
    ends = np.cumsum((1 + -(-sizes // per_beat)) * per_beat)
    starts = np.concatenate([[0], ends[:-1]])
    result = np.zeros(int(ends[-1]), words.dtype)
    result[starts] = _headers(segments.kz, np.ones_like(segments.kz))
    result[runs(starts + per_beat, sizes)] = words
    return result.tobytes()


# Sparse cluster


def cluster_stream(weights: IntArray, config: SystolicConfig) -> bytes:
    """Kernels of one SPARSE operation: for each group and channel word with a weight, a header, a mask, kernels."""
    assert config.sparse_cluster is not None
    padded = np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, -weights.shape[3] % config.lanes)))
    groups = kernel_groups(padded, config.sparse_cluster.kernels_in_flight)
    return b"".join(_cluster_group(group, config) for group in groups)


def _cluster_group(weights: IntArray, config: SystolicConfig) -> bytes:
    """weights: (kernels, rows, columns, whole words of channels)."""
    beat = config.weight_stream_bits // 8
    # (channel words, kernels, lanes, rows, columns)
    words = weights.reshape(*weights.shape[:3], -1, config.lanes).transpose(3, 0, 4, 1, 2)
    active = (words != 0).any(axis=(2, 3, 4))
    used = np.flatnonzero(active.any(axis=1))
    if not used.size:
        return _empty_group(beat) + bytes(beat)
    active = active[used]
    kernels = _kernel_bytes(words[used][active], config)
    counts = active.sum(axis=1)
    ahead = 2 * beat  # header and mask
    ends = np.cumsum(ahead + counts * kernels.shape[1])
    starts = np.concatenate([[0], ends[:-1]])
    result = np.zeros(int(ends[-1]), np.uint8)
    headers = _headers(used, counts)
    result[starts[:, None] + np.arange(4)] = headers.view(np.uint8).reshape(-1, 4)
    masks = np.packbits(active, axis=1, bitorder="little")
    result[(starts + beat)[:, None] + np.arange(masks.shape[1])] = masks
    result[runs(starts + ahead, counts * kernels.shape[1])] = kernels.reshape(-1)
    return result.tobytes()


def _kernel_bytes(kernels: IntArray, config: SystolicConfig) -> Bytes:
    """Kernels (count, lanes, rows, columns) as bytes of whole beats each: the largest kernel's containers."""
    assert config.sparse_cluster is not None
    side, bits = config.sparse_cluster.kernel, config.format.container_bits
    beat = config.weight_stream_bits
    size = -(-config.lanes * side * side * bits // beat) * beat
    cells = np.zeros((len(kernels), config.lanes, side, side), np.int32)
    cells[..., : kernels.shape[2], : kernels.shape[3]] = kernels
    padded = np.zeros((len(kernels), size // bits), np.int32)
    padded[:, : config.lanes * side * side] = cells.reshape(len(kernels), -1)
    return np.frombuffer(pack_elements(padded, bits), np.uint8).reshape(len(kernels), -1)


# Headers of parts


def _headers(index: IntArray, count: IntArray) -> npt.NDArray[np.uint32]:
    """The first words of the parts of a group."""
    last = np.arange(len(index)) == len(index) - 1
    words: npt.NDArray[np.uint32] = packed_word(PART_HEADER, index=index, count=count, last=last).astype("<u4")
    return words


def _empty_group(beat: int) -> bytes:
    """The header of a group without a weight, which is its only part."""
    word: int = packed_word(PART_HEADER, last=1, empty=1)
    return word.to_bytes(beat, "little")
