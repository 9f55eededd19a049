"""processes/output_rows.hpp of an array that skips zeros of activations: run, block, group of pixels, row."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cpp_units import library

from bfpga.contract.arrays.skip_array import SparseArray
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.devices.csim import Integers

#: Columns, rows, lanes and passes of a run of the builds of tests/cpp/output_rows.cpp.
BUILDS = [(3, 6, 2, 2), (2, 4, 4, 1), (4, 3, 1, 4)]
CAPACITY = 20_000

Row = tuple[int, int, int, int]


def walked(build: int, d: Descriptor, integers: Integers) -> list[Row]:
    found = np.zeros((CAPACITY, 4), np.int32)
    words = d.to_words()
    unit = library("output_rows", integers, SparseArray())
    count = unit.unit_output_rows(
        build, ctypes.c_void_p(words.ctypes.data), ctypes.c_void_p(found.ctypes.data), CAPACITY
    )
    assert count
    return [tuple(row) for row in found[:count].tolist()]


def expected(build: int, d: Descriptor) -> list[Row]:
    columns, rows, lanes, passes = BUILDS[build]
    products = d.operation == Operation.GEMM
    size, run = (rows, 2 * passes) if products else (lanes, 1)
    result = []
    for first in range(0, d.groups, run):
        for block in range(-(-d.output_rows // size)):
            for group in range(first, min(first + run, d.groups)):
                covered = min(columns, d.output_pixels - group * columns)
                for row in range(block * size, block * size + size):
                    lane = row % lanes
                    ends = lane == lanes - 1 and row - lane < d.output_rows
                    result.append((covered, int(row < d.output_rows), lane, int(ends)))
    return result


@pytest.mark.parametrize("integers", ["native", "exact"])
@pytest.mark.parametrize("build", range(len(BUILDS)))
def test_rows_leave_block_by_block_for_all_groups_of_a_run(build: int, integers: Integers) -> None:
    """Runs with fewer groups, groups with fewer pixels, blocks with fewer rows; pooling goes group by group."""
    rng = np.random.default_rng(build)
    columns, rows, _, _ = BUILDS[build]
    for operation in [Operation.GEMM] * 30 + [Operation.MAX, Operation.SUM] * 5:
        pixels, channels = int(rng.integers(1, 60)), int(rng.integers(1, 30))
        d = Descriptor(
            operation=operation, output_pixels=pixels, output_rows=channels, groups=-(-pixels // columns),
            group_columns=columns, blocks=-(-channels // rows),
        )  # fmt: skip
        assert walked(build, d, integers) == expected(build, d)
