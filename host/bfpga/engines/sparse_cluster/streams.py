"""The bytes of kernels on the weight stream for the sparse cluster (docs/engines.md, section 4).

Every part of a stream, a header, a mask and kernels, is placed at once for all channel words of a group.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.engines.beside.streams import empty_group, headers, kernel_groups
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.formats.arrays import IntArray
from bfpga.formats.compressed.kernels import runs
from bfpga.formats.containers import pack_elements


def stream(config: SystolicConfig, descriptor: Descriptor, weights: IntArray) -> bytes:
    """Kernels of one operation."""
    return cluster_stream(weights, config)


def stream_form(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Nothing of a descriptor changes the bytes of its kernels."""
    return 0


def cluster_stream(weights: IntArray, config: SystolicConfig) -> bytes:
    """Kernels of one SPARSE operation: for each group and channel word with a weight, a header, a mask, kernels."""
    padded = np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, -weights.shape[3] % config.lanes)))
    groups = kernel_groups(padded, config.numbers_of(ClusterNumbers).kernels_in_flight)
    return b"".join(_cluster_group(group, config) for group in groups)


def _cluster_group(weights: IntArray, config: SystolicConfig) -> bytes:
    """weights: (kernels, rows, columns, whole words of channels)."""
    beat = config.weight_stream_bits // 8
    # (channel words, kernels, lanes, rows, columns)
    words = weights.reshape(*weights.shape[:3], -1, config.lanes).transpose(3, 0, 4, 1, 2)
    active = (words != 0).any(axis=(2, 3, 4))
    used = np.flatnonzero(active.any(axis=1))
    if not used.size:
        return empty_group(beat) + bytes(beat)
    active = active[used]
    kernels = _kernel_bytes(words[used][active], config)
    counts = active.sum(axis=1)
    ahead = 2 * beat  # header and mask
    ends = np.cumsum(ahead + counts * kernels.shape[1])
    starts = np.concatenate([[0], ends[:-1]])
    result = np.zeros(int(ends[-1]), np.uint8)
    result[starts[:, None] + np.arange(4)] = headers(used, counts).view(np.uint8).reshape(-1, 4)
    masks = np.packbits(active, axis=1, bitorder="little")
    result[(starts + beat)[:, None] + np.arange(masks.shape[1])] = masks
    result[runs(starts + ahead, counts * kernels.shape[1])] = kernels.reshape(-1)
    return result.tobytes()


def _kernel_bytes(kernels: IntArray, config: SystolicConfig) -> npt.NDArray[np.uint8]:
    """Kernels (count, lanes, rows, columns) as bytes of whole beats each: the largest kernel's containers."""
    side, bits = config.numbers_of(ClusterNumbers).kernel, config.format.container_bits
    beat = config.weight_stream_bits
    size = -(-config.lanes * side * side * bits // beat) * beat
    cells = np.zeros((len(kernels), config.lanes, side, side), np.int32)
    cells[..., : kernels.shape[2], : kernels.shape[3]] = kernels
    padded = np.zeros((len(kernels), size // bits), np.int32)
    padded[:, : config.lanes * side * side] = cells.reshape(len(kernels), -1)
    return np.frombuffer(pack_elements(padded, bits), np.uint8).reshape(len(kernels), -1)
