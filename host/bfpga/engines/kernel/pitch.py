"""Row pitches: how far apart rows of pixels are, so that all columns read and write different banks."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from bfpga.contract.configuration import KernelConfig


@lru_cache(maxsize=65536)
def conflict_free(
    columns: int, banks: int, width: int, pixels: int, stride_x: int, stride_y: int, pitch: int
) -> bool:
    """Whether the columns of every group of output pixels use different banks.

    width: output pixels in a row; pixels: output pixels in all; pitch: of the tensor that is read (or written, with
    strides of 1). A kernel tap moves all columns alike and changes nothing.
    """
    if columns == 1:
        return True
    # Starts of a group in its row repeat after width / gcd groups.
    groups = min(-(-pixels // columns), width // gcd(columns, width))
    first, column = (np.arange(groups) * columns)[:, None], np.arange(columns)[None, :]
    place = first % width + column
    bank = (place // width * stride_y * pitch + place % width * stride_x) % banks
    bank = np.sort(np.where(first + column < pixels, bank, -1 - column), axis=1)
    return not bool((bank[:, 1:] == bank[:, :-1]).any())


@lru_cache(maxsize=65536)
def rows_of_a_group(columns: int, width: int, pixels: int) -> int:
    """The largest number of output rows that one group of columns touches."""
    groups = min(-(-pixels // columns), width // gcd(columns, width))
    first = np.arange(groups) * columns
    last = np.minimum(first + columns, pixels) - 1
    if groups < -(-pixels // columns):
        last = first + columns - 1
    return int((last // width - first // width).max()) + 1


def read_slots(
    columns: int, banks: int, width: int, pixels: int, stride_x: int, stride_y: int, pitch: int
) -> tuple[int, int]:
    """(slots, runs) that reading a window with ``columns`` columns takes: (1, 0) without conflicts."""
    if conflict_free(columns, banks, width, pixels, stride_x, stride_y, pitch):
        return 1, 0
    return rows_of_a_group(columns, width, pixels), 1


def write_steps(columns: int, width: int, pixels: int, pitch: int) -> tuple[int, int]:
    """(slots, runs) that writing results takes where a write reaches pixels that follow each other in memory."""
    rows = 1 if pitch == width else rows_of_a_group(columns, width, pixels)
    return rows, int(rows > 1)


def split(config: KernelConfig, pixel: int, pixel_words: int) -> tuple[int, int]:
    """A pixel distance as (word, bank) of an address step; the bank is never negative."""
    return pixel // config.banks * pixel_words, pixel % config.banks
