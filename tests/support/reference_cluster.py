"""A GEMM of a sparse cluster in plain integers: every product goes to its cell of the map's full grid (SC E3, E4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor

#: Values of the channels of a word at (bank, word).
Place = tuple[int, int] | None
Memory = Callable[[tuple[int, int]], Sequence[int]]


def cell_address(config: KernelConfig, d: Descriptor, cell: tuple[int, int], part: tuple[int, int]) -> Place:
    """(bank, word) of a cell of the map, for a part of the kernel; a row more is a map's width of steps, and a wrap.

    None where nothing is read: beside the input.
    """
    (row, column), (down, across) = cell, part
    y = row + down * d.dilation_y - (d.pad_top if d.parts_down > 1 else 0)
    x = column + across * d.dilation_x - (d.pad_left if d.parts_across > 1 else 0)
    if not (0 <= y < d.read_height and 0 <= x < d.read_width):
        return None
    steps = row * d.input_width + column
    banks = d.input_bank + steps * d.input_step_bank + row * d.input_wrap_bank
    carry, bank = divmod(banks + down * d.tap_y_bank + across * d.tap_x_bank, config.banks)
    word = d.input_word + steps * d.input_step_word + row * d.input_wrap_word + carry * d.input_pixel_words
    return bank, word + down * d.tap_y_word + across * d.tap_x_word


def block_sums(
    config: KernelConfig, d: Descriptor, memory: Memory, words: Sequence[Sequence[Sequence[int]]], block: int
) -> list[list[int]]:
    """Sums [output pixel][row] of a block of kernels; words: its weights, each [row][lane], taps of a word together."""
    assert d.map_cells == d.input_height * d.input_width
    assert d.channel_words == d.parts_down * d.parts_across * d.part_words
    assert d.map_groups == -(-d.map_cells // config.columns)
    taps = d.kernel_height * d.kernel_width
    grid: Counter[tuple[int, int, int]] = Counter()
    for row in range(d.input_height):
        for column in range(d.input_width):
            for j, (down, across, n) in enumerate(np.ndindex(d.parts_down, d.parts_across, d.part_words)):
                found_at = cell_address(config, d, (row, column), (down, across))
                if found_at is None:
                    continue
                bank, word = found_at
                values = memory((bank, word + block * d.block_step + n))
                for tap in range(taps):
                    a, b = divmod(tap, d.kernel_width)
                    place = row + d.kernel_height - 1 - a, column + d.kernel_width - 1 - b
                    for r in range(config.rows):
                        products = (w * v for w, v in zip(words[j * taps + tap][r], values, strict=True))
                        grid[r, place[0], place[1]] += sum(products)
    found = []
    for pixel in range(d.output_pixels):
        y, x = divmod(pixel, d.output_width)
        row = y * d.stride_y + d.kernel_height - 1 - (d.pad_top if d.parts_down == 1 else 0)
        column = x * d.stride_x + d.kernel_width - 1 - (d.pad_left if d.parts_across == 1 else 0)
        assert 0 <= row < d.input_height + d.kernel_height - 1
        assert 0 <= column < d.input_width + d.kernel_width - 1
        found.append([grid[r, row, column] for r in range(config.rows)])
    return found
