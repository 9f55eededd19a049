"""Stored words of a tile, decoded by the sentences of their format: slow, without what the packer shares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.engines.zero_skip_tile.tile_words import EntryShape

#: An entry: channel, kernel, ky, kx, weight.
Entry = tuple[int, int, int, int, int]


def dense_words(config: KernelConfig, d: Descriptor, words: list) -> list:
    """The words (rows, lanes) of a block with its zeros, taps of a word together, out of its stored ones."""
    channels = d.channel_words * config.lanes
    like = np.zeros((config.rows, d.kernel_height, d.kernel_width, channels), np.int64)
    block = decoded(np.array(words).reshape(len(words), -1), EntryShape.of(config), like)
    by_word = block.reshape(*block.shape[:3], d.channel_words, config.lanes).transpose(3, 1, 2, 0, 4)
    return by_word.reshape(-1, config.rows, config.lanes).tolist()


def begun(words: np.ndarray, shape: EntryShape) -> tuple[np.ndarray, int]:
    """The words (words, cells) of a block from its first entry on, and what that says."""
    first = next(number for number, word in enumerate(words) if word.any())
    assert words[first, 0] == 0
    assert not words[first, 2 : shape.cells].any()
    return words[first:], int(words[first, 1])


def listed(words: np.ndarray, shape: EntryShape, channels: int) -> Iterator[Entry | None]:
    """The entries of a block in their order; None where a channel ends."""
    cells = words[:, : shape.entries * shape.cells].reshape(-1, shape.cells)[1:]
    channel = 0
    for weight, *parts in cells.tolist():
        place = sum(part << shape.weight_bits * number for number, part in enumerate(parts))
        yield None if weight == 0 else (
            channel, place >> 2 * shape.tap_bits, place >> shape.tap_bits & (1 << shape.tap_bits) - 1,
            place & (1 << shape.tap_bits) - 1, weight,
        )  # fmt: skip
        channel += weight == 0
        if channel == channels:
            return


def decoded(words: np.ndarray, shape: EntryShape, like: np.ndarray) -> np.ndarray:
    """The weights of a block out of its words."""
    words, form = begun(words, shape)
    kernels, rows, columns, channels = like.shape
    if form == 2:
        plain = words.reshape(-1)[-(-shape.cells // shape.together) * shape.together :][: like.size]
        return plain.reshape(channels, rows, columns, kernels).transpose(3, 1, 2, 0)
    found = np.zeros_like(like)
    for entry in filter(None, listed(words, shape, channels)):
        channel, kernel, ky, kx, weight = entry
        assert found[kernel, ky, kx, channel] == 0
        found[kernel, ky, kx, channel] = weight
    return found
