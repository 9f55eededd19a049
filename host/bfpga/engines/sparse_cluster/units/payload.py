"""Sizes of payloads on the bus, for all channels of a piece at once (SC 2.3, E12)."""

from __future__ import annotations

import numpy as np

from bfpga.formats.arrays import BoolArray, Int64Array
from bfpga.formats.compressed.maps import MapFormat, Payload, bitmap_bytes, coo32_bytes, dense_bytes
from bfpga.formats.compressed.tree import tree_bytes
from bfpga.formats.compressed.words import WORD_BYTES


def payload_bytes(nonzero: BoolArray, values: Int64Array, fmt: MapFormat) -> Int64Array:
    """Bytes of each channel's payload (channels,). An empty piece has none.

    nonzero: (channels, rows, columns); values: how many there are in each channel (channels,).
    """
    channels, rows, columns = nonzero.shape
    if not rows or not columns:
        return np.zeros(channels, np.int64)
    if fmt.payload == Payload.DENSE:
        return np.full(channels, dense_bytes(rows, columns, fmt.value_bytes))
    if fmt.payload == Payload.COO32:
        return values * coo32_bytes(1)
    if fmt.payload == Payload.BITMAP:
        masks = bitmap_bytes(rows, columns, 0, fmt.value_bytes, fmt.tile)
        return masks + WORD_BYTES * -(-values * fmt.value_bytes // WORD_BYTES)
    return np.array([tree_bytes(cells, fmt.value_bytes, fmt.leaf, fmt.levels) for cells in nonzero], np.int64)
