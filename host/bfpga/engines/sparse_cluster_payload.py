"""Sizes of payloads on the bus, for all channels of a piece at once (SC 2.3, E12)."""

from __future__ import annotations

import numpy as np

from bfpga.engines.products import Int64Array
from bfpga.engines.sparse_cluster_weights import BoolArray
from bfpga.formats.compressed_maps import MapFormat, Payload, bitmap_bytes, coo32_bytes, dense_bytes
from bfpga.formats.compressed_tree import tree_bytes


def payload_bytes(nonzero: BoolArray, fmt: MapFormat) -> Int64Array:
    """Bytes of each channel's payload (channels,); nonzero: (channels, rows, columns). An empty piece has none."""
    channels, rows, columns = nonzero.shape
    if not rows or not columns:
        return np.zeros(channels, np.int64)
    if fmt.payload == Payload.DENSE:
        return np.full(channels, dense_bytes(rows, columns, fmt.value_bytes))
    if fmt.payload == Payload.TREE:
        sizes = [tree_bytes(cells, fmt.value_bytes, fmt.leaf, fmt.levels) for cells in nonzero]
    else:
        values = np.count_nonzero(nonzero, axis=(1, 2)).tolist()
        if fmt.payload == Payload.COO32:
            sizes = [coo32_bytes(count) for count in values]
        else:
            sizes = [bitmap_bytes(rows, columns, count, fmt.value_bytes, fmt.tile) for count in values]
    return np.array(sizes, np.int64)
