"""Clocks of the engines beside the array: counted by hand, and against engines of plain integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from array_layers import gemm
from engine_cases import PLAIN, EngineCase, cluster_cases, descriptor, zero_skip_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_strips import limits as scanned_limits
from reference_strips import pieces_of, sparse
from reference_tiles import zero_skip

from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.engines.array.cycles import operation_cycles
from bfpga.engines.beside.expanded_weights import expanded_weights
from bfpga.engines.sparse_cluster import cycles as cluster_operation
from bfpga.engines.sparse_cluster.cycles import ClusterOperation, most_clocks
from bfpga.engines.sparse_cluster.limits import limits, piece_limits
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.sparse_cluster.streams import cluster_stream
from bfpga.engines.zero_skip.cycles import (
    ORDERS,
    best_order,
    decode_cycles,
    entry_steps,
    group_segments,
    zero_skip_clocks,
)
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.engines.zero_skip.streams import zero_skip_stream
from bfpga.formats.compressed.kernels import KernelFormat

TILES = replace(PLAIN, beside=(ZeroSkipNumbers(4, 4, lanes=4, kernels_in_flight=2, load_pixels=4),))
STRIPS = replace(PLAIN, beside=(ClusterNumbers(1, 2, kernel=1, kernels_in_flight=2, load_pixels=2),))


# Weights of groups


def test_weights_of_groups_are_zero_for_the_channels_of_other_groups() -> None:
    """ZS R12, SC R7."""
    node = gemm(np.arange(1, 17).reshape(4, 1, 2, 2), groups=2)
    expanded = expanded_weights(node, 1, 3)
    assert expanded[:, 0].tolist() == [[[5, 6, 0, 0], [7, 8, 0, 0]], [[0, 0, 9, 10], [0, 0, 11, 12]]]
    np.testing.assert_array_equal(expanded_weights(gemm(np.eye(3)), 1, 3), np.eye(3)[1:, None, None])


# ZERO_SKIP


def test_a_tile_takes_the_clocks_counted_by_hand() -> None:
    """ZS R28, R34, Z6-Z9: positions, one image with its entries while nothing more comes in, drain, pipelines."""
    weights = np.array([[3, 0], [5, 0]]).reshape(2, 1, 1, 2)
    tile = descriptor(Operation.ZERO_SKIP, weights, (4, 4), (4, 4), TILES)
    load, decode, compute = 4 * 1, 2 + 2, 2 * 4
    image = (1 + max(load, decode) + 8) + (compute + 8)
    drain = 4 * 2 * 1 * 2 + 2
    assert zero_skip_clocks(TILES, tile, weights) == 4 + image + drain + 24 == 75


def test_a_group_without_an_entry_takes_a_header_and_its_drain() -> None:
    """ZS R7, R28."""
    weights = np.zeros((2, 1, 1, 2), int)
    tile = descriptor(Operation.ZERO_SKIP, weights, (4, 4), (4, 4), TILES)
    assert zero_skip_clocks(TILES, tile, weights) == 4 + 1 + (4 * 2 * 2 + 2) + 24


def test_images_overlap_with_the_one_before() -> None:
    """ZS R34: entries of an image while the next one is loaded and decoded; the longest counts."""
    weights = np.zeros((2, 3, 3, 2), int)
    weights[0, :, :, 0], weights[1, 1, 1, 1] = 7, 7
    tile = descriptor(Operation.ZERO_SKIP, weights, (6, 6), (4, 4), TILES)
    load, first, second = 6 * 2, 9 * 4, 1 * 4
    assert group_segments(weights, 4)[0].entries.tolist() == [9, 1]
    images = (1 + load + 8) + (1 + max(first, load) + 8) + (second + 8)
    assert zero_skip_clocks(TILES, tile, weights) == 4 + images + (4 * 2 * 2 + 2) + 24


def test_a_group_is_sent_in_its_smallest_format() -> None:
    """ZS R43-R46: two entries as words, many as a mask with coefficients; the decoder's clocks follow."""
    few, many = np.zeros((2, 3, 3, 4), int), np.ones((2, 3, 3, 4), int)
    few[1, 2, 2, 3] = -9
    segments, form = group_segments(few, 4)
    assert (segments.kz.tolist(), form, decode_cycles(segments, form).tolist()) == ([3], KernelFormat.ENTRY32, [3])
    segments, form = group_segments(many, 4)
    assert (segments.kz.tolist(), form) == ([0, 1, 2, 3], KernelFormat.BITMAP)
    assert decode_cycles(segments, form).tolist() == [3 + 2 * 3 + 18] * 4


def test_masks_that_would_take_longer_than_their_entries_are_sent_as_words() -> None:
    """ZS R45: 18 entries of one clock each would wait for 27 clocks of a mask; of two clocks each they do not."""
    many = np.ones((2, 3, 3, 4), int)
    segments, form = group_segments(many, 1)
    assert (form, decode_cycles(segments, form).tolist()) == (KernelFormat.ENTRY32, [2 + 18] * 4)
    assert group_segments(many, 2)[1] is KernelFormat.BITMAP


@settings(deadline=None)
@given(zero_skip_cases())
def test_tiles_take_the_clocks_of_an_engine_of_plain_integers(case: EngineCase) -> None:
    """ZS R22, R34, R45, R48, R51: entry by entry, read from the weight stream."""
    steps = entry_steps(case.config.numbers_of(ZeroSkipNumbers), case.descriptor)
    stream = zero_skip_stream(case.weights, case.config, steps)
    found = zero_skip(case.config, case.descriptor, case.rectangle(0), stream)
    assert zero_skip_clocks(case.config, case.descriptor, case.weights) == found.clocks


@settings(deadline=None)
@given(zero_skip_cases())
def test_the_best_order_has_the_fewest_clocks(case: EngineCase) -> None:
    """ZS R48."""
    clocks = [
        zero_skip_clocks(case.config, replace(case.descriptor, entry_order=order), case.weights)
        for order in range(len(ORDERS))
    ]
    assert clocks[best_order(case.config, case.descriptor, case.weights)] == min(clocks)


def test_an_order_matters_where_a_coefficient_takes_fewer_clocks_than_a_sum() -> None:
    """ZS R48: a tile of one step; the entries of a kernel one after the other wait three clocks each."""
    weights = np.ones((2, 3, 3, 1), int)
    tile = descriptor(Operation.ZERO_SKIP, weights, (3, 6), (1, 4), TILES)
    assert ORDERS[best_order(TILES, tile, weights)] != "z_major"


# SPARSE


def two_units(count_step: int) -> tuple[Descriptor, np.ndarray, np.ndarray]:
    """Two kernels of 1 x 1 over 2 x 4 cells of one word; four elements in the first column, two in the last."""
    weights = np.array([[1, 2], [3, 4]]).reshape(2, 1, 1, 2)
    x = np.zeros((1, 2, 4, 2), np.int8)
    x[0, :, 0], x[0, :, 3, 0] = 5, -5
    fields = {"piece_rows": 2, "piece_columns": 3, "count_step": count_step}
    return descriptor(Operation.SPARSE, weights, (2, 4), (2, 4), STRIPS, **fields), weights, x


def test_a_strip_takes_the_clocks_counted_by_hand() -> None:
    """SC R22, R36, R113, R116: partition, one channel word on two units, drain."""
    strip, weights, x = two_units(count_step=1)
    partition = 2 + 1 * 4 + 2 * (2 * 2) * 1 + (1 + 1) * 8
    feed, kernels, compute = 2 * 2, 2 * 1, max(4, 2) * 4
    words = (2 + max(feed, kernels) + 8) + (compute + 8)
    drain = 2 * 4 * 1 * 2 + 2
    assert ClusterOperation(STRIPS, strip, weights).clocks(x).tolist() == [2 + partition + words + drain + 24] == [112]


def test_equal_pieces_need_no_counting() -> None:
    """SC R22: the same strip; both units still hold four and two elements."""
    strip, weights, x = two_units(count_step=0)
    assert ClusterOperation(STRIPS, strip, weights).clocks(x).tolist() == [112 - 2 * 4 - 2 * 8]


def test_a_group_of_kernels_without_weights_takes_its_part_of_the_stream_and_its_drain() -> None:
    """SC R19."""
    strip, weights, x = two_units(count_step=0)
    none = ClusterOperation(STRIPS, strip, np.zeros_like(weights))
    assert none.clocks(x).tolist() == [2 + (2 + 4) + 2 + (2 * 4 * 2 + 2) + 24]


@given(
    st.lists(st.integers(0, 9) | st.just(0), min_size=1, max_size=20), st.integers(1, 6), st.integers(0, 9), st.data()
)
def test_lines_are_cut_as_one_scan_cuts_them(counts: list[int], pieces: int, extra: int, data: st.DataObject) -> None:
    """SC R22, R36: the rule of the contract, line by line; several maps at once do not disturb each other."""
    most = -(-len(counts) // pieces) + extra
    other = data.draw(st.permutations(counts))
    found = limits(np.array([counts, other]), pieces, most)
    assert found.tolist() == [scanned_limits(list(line), pieces, most) for line in (counts, other)]


@pytest.mark.parametrize(
    ("counts", "pieces", "most", "expected"),
    [
        ([1, 1, 1, 1, 1, 1, 1], 3, 7, [0, 2, 5, 7]),  # 2.33 and 4.67 lines
        ([3, 3, 4, 2], 2, 4, [0, 2, 4]),  # all of the first two lines is nearest to 6
        ([1, 4, 1, 1], 2, 4, [0, 2, 4]),  # of half of 7, 1 and 5 are 2.5 and 1.5 away
        ([1, 6, 1], 2, 3, [0, 1, 3]),  # half of the 6 belongs to each piece: to the later one
        ([4, 0, 0, 4], 2, 4, [0, 1, 4]),  # zeros behind a full share belong to the next piece
        ([3, 0, 0, 5], 2, 4, [0, 3, 4]),  # ahead of it they belong to this one
        ([0, 0, 0, 0, 0, 0], 3, 6, [0, 2, 4, 6]),  # nothing was counted: lines count alike
        ([9, 0, 0, 0, 0], 3, 2, [0, 1, 3, 5]),  # no piece is larger than it may be
        ([0, 0, 0, 0, 9], 3, 3, [0, 3, 4, 5]),  # every piece has a line
        ([5, 5], 4, 1, [0, 1, 2, 2, 2]),  # if there are as many
    ],
)
def test_a_line_belongs_to_the_piece_in_whose_share_its_middle_lies(
    counts: list[int], pieces: int, most: int, expected: list[int]
) -> None:
    """SC R22, R36: limits counted by hand."""
    assert limits(np.array(counts), pieces, most).tolist() == expected


@given(st.lists(st.integers(0, 9), min_size=2, max_size=20), st.data())
def test_the_limit_of_two_pieces_is_nearest_to_half_of_all_work(counts: list[int], data: st.DataObject) -> None:
    """SC R22: no other limit gives a busier piece less."""
    (_, found, _) = limits(np.array(counts), 2, len(counts)).tolist()
    other = data.draw(st.integers(1, len(counts) - 1))
    assert max(sum(counts[:found]), sum(counts[found:])) <= max(sum(counts[:other]), sum(counts[other:]))


@given(st.integers(1, 40), st.integers(1, 9))
def test_lines_that_count_alike_make_pieces_of_equal_size(lines: int, pieces: int) -> None:
    """SC R22: none has more than a line more than another; the size that equal pieces need is enough."""
    sizes = np.diff(limits(np.ones(lines, np.int64), pieces, -(-lines // pieces)))
    assert sizes.max() - sizes.min() <= 1
    assert sizes.sum() == lines


@settings(deadline=None)
@given(cluster_cases())
def test_strips_take_the_clocks_of_units_of_plain_integers(case: EngineCase) -> None:
    """SC R22, R36, R49, R113-R116, R131: pieces, elements and slots counted one by one, sample by sample."""
    data = cluster_stream(case.weights, case.config)
    found = [sparse(case.config, case.descriptor, case.rectangle(i), data).clocks for i in range(len(case.x))]
    assert ClusterOperation(case.config, case.descriptor, case.weights).clocks(case.x).tolist() == found


@settings(deadline=None)
@given(cluster_cases())
def test_balance_is_the_busiest_unit_over_the_mean(case: EngineCase) -> None:
    """SC R131."""
    build = case.config.numbers_of(ClusterNumbers)
    balance = ClusterOperation(case.config, case.descriptor, case.weights).balance(case.x)
    for sample, found in enumerate(balance):
        pieces = pieces_of(case.config, case.descriptor, case.rectangle(sample), build)
        x = case.x[sample]
        loads = [np.count_nonzero(x[p.rows.start : p.rows.stop, p.columns.start : p.columns.stop]) for p in pieces]
        assert found == pytest.approx(max(loads) / (sum(loads) / len(loads)) if sum(loads) else 1.0)


@settings(deadline=None)
@given(cluster_cases())
def test_clocks_without_a_zero_are_expected_and_none_are_more_than_the_most(case: EngineCase) -> None:
    """SC R131: timeouts of a board rest on the most."""
    operation = ClusterOperation(case.config, case.descriptor, case.weights)
    full = np.ones_like(case.x)
    assert operation.clocks(full).tolist() == [operation.expected(1.0)] * len(full)
    assert operation.clocks(np.zeros_like(full)).tolist() == [operation.expected(0.0)] * len(full)
    most = most_clocks(case.config, case.descriptor)
    assert max(*operation.clocks(case.x), operation.expected(1.0)) <= most


def test_expected_clocks_grow_with_the_density() -> None:
    strip, weights, _ = two_units(count_step=0)
    operation = ClusterOperation(STRIPS, strip, weights)
    expected = [operation.expected(share) for share in (0.0, 0.25, 0.5, 1.0)]
    assert [clocks - expected[0] for clocks in expected] == [0, 8, 16, 32]


def test_samples_are_counted_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    strip, weights, x = two_units(count_step=1)
    operation = ClusterOperation(STRIPS, strip, weights)
    many = np.concatenate([x, 0 * x, x + 1, x, x + 2])
    whole = operation.clocks(many)
    monkeypatch.setattr(cluster_operation, "CHUNK_BYTES", 1)
    assert operation.clocks(many).tolist() == whole.tolist()
    assert operation.clocks(many[:0]).shape == (0,)
    assert operation.balance(many[:0]).shape == (0,)


# Sizes of pieces


def test_pieces_may_grow_alike_in_both_directions() -> None:
    """SC R155."""
    build = ClusterNumbers(2, 4, kernel=3, accumulator_words=48, memory_words=100, load_pixels=8)
    assert piece_limits(build, 16, 32, (3, 3)) == (14, 20)
    assert piece_limits(build, 4, 4, (3, 3)) == (4, 4)
    assert piece_limits(replace(build, accumulator_words=15), 16, 32, (3, 3)) is None


@settings(deadline=None)
@given(
    st.integers(1, 14), st.integers(1, 14), st.integers(1, 3), st.integers(1, 3), st.integers(1, 40), st.integers(1, 9)
)
def test_piece_sizes_are_the_best_of_all(rows: int, columns: int, down: int, across: int, sums: int, k: int) -> None:
    """SC R155: of all sizes that fit a unit and cover the strip."""
    build = ClusterNumbers(down, across, kernel=3, accumulator_words=sums, memory_words=30, load_pixels=4)
    kernel = 1 + k % 3, 1 + k // 4

    def rank(size: tuple[int, int]) -> tuple[float, int]:
        return min(size[0] * down * columns, size[1] * across * rows), size[0] * size[1]

    fitting = [
        (r, c)
        for r in range(1, rows + 1)
        for c in range(1, columns + 1)
        if build.piece_fits(r, c, *kernel) and r * down >= rows and c * across >= columns
    ]
    found = piece_limits(build, rows, columns, kernel)
    assert (found is None) == (not fitting)
    if found is not None:
        assert found in fitting
        assert rank(found) == max(map(rank, fitting))


def test_clocks_of_engines_are_not_told_by_a_descriptor_alone() -> None:
    with pytest.raises(ValueError, match="SPARSE depend on more than its descriptor"):
        operation_cycles(STRIPS, two_units(0)[0])
