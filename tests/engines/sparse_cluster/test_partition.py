"""Pieces of equal work: vectors, the slow search, and what holds for every map (SC 3.3, SC 4.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference_sparse_cluster as slow
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_vectors import load_vector, mask_of

from bfpga.engines.sparse_cluster.partition.exchange import (
    BalancedPartition,
    Capacity,
    PartitionSettings,
    PieceTooLargeError,
    balance,
    work_map,
)
from bfpga.engines.sparse_cluster.partition.geometry import (
    CutGeometry,
    Padding,
    Rectangle,
    folds,
    halo_geometry,
    overlap_add_geometry,
)
from bfpga.errors import ConfigurationError


def balanced(mask: np.ndarray, **values: object) -> BalancedPartition:
    """A mask cut in overlap-add mode from the equal grid."""
    return balance(
        work_map(mask, "nnz_share"), overlap_add_geometry(*mask.shape), PartitionSettings(start="equal", **values)
    )


@pytest.mark.parametrize("name", ["sc20_balance", "sc25_balance_columns", "sc26_balance_reached"])
def test_the_exchange_follows_the_trace(name: str) -> None:
    """SC R22-R25, SC R28, SC R36: on the host, the same moves, loads and spreads as the specification's vectors."""
    vector = load_vector(name)
    expected = vector["expected"]
    result = balanced(mask_of(vector), grid=tuple(vector["config"]["grid"]), tau=vector["config"]["tau_pp"])
    assert list(result.start_loads) == expected["loads_before"]
    assert list(result.loads) == expected["loads_after"]
    assert (result.moves, result.reached) == (expected["moves"], expected["reached"])
    assert [round(spread, 6) for spread in result.history] == expected["spread_history_pp"]
    assert [list(limits) for limits in result.partition.column_limits] == expected["col_limits"]
    if "row_limits" in expected:
        assert list(result.partition.row_limits) == expected["row_limits"]


@pytest.mark.parametrize(("columns", "spread", "reached"), [(80, 2.5, True), (64, 3.125, False)])
def test_the_threshold_is_three_points_unless_another_is_set(columns: int, spread: float, reached: bool) -> None:
    """SC R24: an odd number of values on two pieces always leaves a difference of one, in points of half the map."""
    mask = np.zeros((1, columns), bool)
    mask[0, :3] = True
    result = balanced(mask, grid=(1, 2))
    assert (result.spread, result.reached) == (spread, reached)
    assert balanced(mask, grid=(1, 2), tau=spread).reached
    assert not balanced(mask, grid=(1, 2), tau=spread - 0.1).reached


def test_a_threshold_out_of_reach_is_a_result() -> None:
    """SC R33: three values on four pieces."""
    vector = load_vector("sc21_balance_unreachable")
    expected = vector["expected"]
    result = balanced(mask_of(vector), grid=(2, 2), tau=1.0)
    assert not result.reached
    assert (list(result.loads), result.moves) == (expected["loads_after"], expected["moves"])
    assert round(result.spread, 6) == expected["spread_pp"]


def test_quantiles_start_near_balance() -> None:
    """SC R22."""
    vector = load_vector("sc26_balance_reached")
    expected = vector["expected"]["quantile"]
    mask = mask_of(vector)
    result = balance(work_map(mask, "nnz"), overlap_add_geometry(*mask.shape), PartitionSettings(grid=(2, 2)))
    assert list(result.start.row_limits) == expected["row_limits"]
    assert [list(limits) for limits in result.start.column_limits] == expected["col_limits"]
    assert list(result.start_loads) == expected["loads"]


def test_halo_pieces_read_what_their_outputs_need() -> None:
    """SC R29: the input rectangles of the vector's output rectangles."""
    vector = load_vector("sc19_partition")
    geometry = halo_geometry(12, 12, (3, 3), Padding(*vector["config"]["pad"]))
    mask = np.array(vector["input"]["map"]) != 0
    result = balance(work_map(mask, "nnz"), geometry, PartitionSettings((2, 2), start="equal", max_moves=0))
    for piece, load, expected in zip(
        result.partition.rectangles(), result.loads, vector["expected"]["halo"], strict=True
    ):
        assert list(piece) == expected["out_rect"]
        assert list(geometry.stored(piece)) == expected["in_rect"]
        assert load == expected["nnz"]


@st.composite
def maps(draw: st.DrawFn) -> np.ndarray:
    """Masks of 2 x 2 to 18 x 18: the same density everywhere, or a few occupied lines."""
    rows, columns = draw(st.integers(2, 18)), draw(st.integers(2, 18))
    generator = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    density = draw(st.sampled_from([0.0, 0.03, 0.2, 0.6, 1.0]))
    mask = generator.random((rows, columns)) < density
    if draw(st.booleans()):
        mask[generator.random(rows) < 0.6] = False
    return mask


@st.composite
def geometries(draw: st.DrawFn, shape: tuple[int, int]) -> CutGeometry:
    if draw(st.booleans()):
        return overlap_add_geometry(*shape)
    kernel = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    padding = Padding(*(draw(st.integers(0, 3)) for _ in range(4)))
    usable = min(kernel[0], shape[0] + padding.top + padding.bottom), min(kernel[1], shape[1])
    return halo_geometry(*shape, usable, padding, (draw(st.integers(1, 2)), draw(st.integers(1, 2))))


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, CutGeometry, PartitionSettings]:
    mask = draw(maps())
    geometry = draw(geometries(mask.shape))
    wanted = PartitionSettings(
        grid=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        start=draw(st.sampled_from(["equal", "quantile"])),
        metric=draw(st.sampled_from(["nnz_share", "zero_share", "nnz", "zeros"])),
        tau=draw(st.sampled_from([0.0, 1.0, 3.0])),
    )
    rows, columns = map(min, wanted.grid, geometry.shape)
    return mask, geometry, replace(wanted, grid=(rows, columns))


@settings(max_examples=drawn(150))
@given(cases())
def test_pieces_cover_the_map_once(case: tuple[np.ndarray, CutGeometry, PartitionSettings]) -> None:
    """SC R21, SC R27, SC R28."""
    mask, geometry, wanted = case
    result = balance(work_map(mask, wanted.metric), geometry, wanted)
    covered = np.zeros(geometry.shape, int)
    for piece in result.partition.rectangles():
        covered[piece.row0 : piece.row1, piece.column0 : piece.column1] += 1
    assert (covered == 1).all()
    assert len(result.loads) == wanted.pieces
    for limits in (result.partition.row_limits, *result.partition.column_limits):
        assert min(np.diff(limits)) >= 1


@settings(max_examples=drawn(150))
@given(cases())
def test_differences_meet_the_threshold_or_it_is_not_reached(
    case: tuple[np.ndarray, CutGeometry, PartitionSettings],
) -> None:
    """SC R23, SC R24, SC R27, SC R33: ``reached`` says what the loads say, counted anew in the pieces' input cells."""
    mask, geometry, wanted = case
    work = work_map(mask, wanted.metric)
    result = balance(work, geometry, wanted)
    stored = [geometry.stored(piece) for piece in result.partition.rectangles()]
    loads = [int(work[piece.row0 : piece.row1, piece.column0 : piece.column1].sum()) for piece in stored]
    assert loads == list(result.loads)
    difference = max(loads) - min(loads)
    spread = 100 * difference * wanted.pieces / mask.size if wanted.metric.endswith("share") else difference
    assert result.spread == pytest.approx(spread)
    assert result.reached == (result.spread <= wanted.tau)


@settings(max_examples=drawn(60))
@given(maps(), st.data())
def test_the_search_is_that_of_the_slow_one(mask: np.ndarray, data: st.DataObject) -> None:
    """SC R22, SC R23, SC R25, SC R155: limits after every kind of move, with and without halo and capacity."""
    grid = data.draw(st.integers(1, min(3, mask.shape[0]))), data.draw(st.integers(1, min(3, mask.shape[1])))
    halo, tau = data.draw(st.booleans()), data.draw(st.sampled_from([0.0, 2.0]))
    rows, columns = mask.shape
    growth = data.draw(st.sampled_from([None, 1.3, 2.0]))
    geometry = (
        halo_geometry(rows, columns, (3, 3), Padding(1, 1, 1, 1)) if halo else overlap_add_geometry(rows, columns)
    )
    words = None if growth is None else int(growth * (-(-rows // grid[0]) + 4) * (-(-columns // grid[1]) + 4))

    def stored(r0: int, c0: int, r1: int, c1: int) -> tuple[int, int, int, int]:
        return (max(0, r0 - 1), max(0, c0 - 1), min(rows, r1 + 1), min(columns, c1 + 1)) if halo else (r0, c0, r1, c1)

    def load(*piece: int) -> int:
        r0, c0, r1, c1 = stored(*piece)
        return int(mask[r0:r1, c0:c1].sum())

    def fits(*piece: int) -> bool:
        r0, c0, r1, c1 = stored(*piece)
        return words is None or (r1 - r0 + 2) * (c1 - c0 + 2) <= words

    settings_ = PartitionSettings(grid, start=data.draw(st.sampled_from(["equal", "quantile"])), tau=tau)
    capacity = None if words is None else Capacity(words, (3, 3), banks=(1, 1))
    result = balance(work_map(mask, "nnz_share"), geometry, settings_, capacity)
    row_limits, column_limits = list(result.start.row_limits), [list(each) for each in result.start.column_limits]
    nominal = rows * columns / (grid[0] * grid[1])
    moves = slow.balance(
        load, row_limits, column_limits, lambda loads: 100 * (max(loads) - min(loads)) / nominal <= tau,
        4 * (rows + columns), fits,
    )  # fmt: skip
    assert (moves, row_limits, column_limits) == (
        result.moves, list(result.partition.row_limits), [list(each) for each in result.partition.column_limits],
    )  # fmt: skip


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 3), st.integers(1, 3), st.data())
def test_halo_is_what_the_outputs_of_a_piece_read(
    rows: int, columns: int, kernel: int, stride: int, data: st.DataObject
) -> None:
    """SC R29, SC R31: each axis, cell by cell."""
    padding = Padding(*(data.draw(st.integers(0, 4)) for _ in range(4)))
    if rows + padding.top + padding.bottom < kernel or columns + padding.left + padding.right < kernel:
        return
    geometry = halo_geometry(rows, columns, (kernel, kernel), padding, (stride, stride))
    first = data.draw(st.integers(0, geometry.shape[0] - 1))
    last = data.draw(st.integers(first + 1, geometry.shape[0]))
    stored = geometry.stored(Rectangle(first, 0, last, geometry.shape[1]))
    read = {r * stride - padding.top + a for r in range(first, last) for a in range(kernel)} & set(range(rows))
    assert read <= set(range(stored.row0, stored.row1))
    if stride <= kernel:  # otherwise a piece also stores lines between those it reads
        assert stored.rows == len(read)


def test_pointwise_kernels_have_no_halo() -> None:
    """SC R31."""
    geometry = halo_geometry(6, 6, (1, 1))
    piece = Rectangle(1, 2, 4, 5)
    assert geometry.stored(piece) == piece


def test_capacity_at_the_nominal_area_allows_no_move() -> None:
    """SC R155."""
    mask = mask_of(load_vector("sc20_balance"))
    capacity = Capacity(words=-((-10 // 3) ** 2), kernel=(3, 3))
    wanted = PartitionSettings((2, 2), start="equal")
    limited = balance(work_map(mask, "nnz"), overlap_add_geometry(16, 16), wanted, replace(capacity, words=16))
    assert limited.moves < balanced(mask, grid=(2, 2)).moves
    assert all(
        -(-(piece.rows + 2) // 3) * -(-(piece.columns + 2) // 3) <= 16 for piece in limited.partition.rectangles()
    )


def test_a_start_that_does_not_fit_has_to_be_folded() -> None:
    """SC R155: the message says what to do; quantiles that do not fit give way to the equal grid."""
    mask = np.zeros((16, 16), bool)
    mask[0, 0] = True
    geometry = overlap_add_geometry(16, 16)
    with pytest.raises(PieceTooLargeError, match="fold the map first"):
        balance(work_map(mask, "nnz"), geometry, PartitionSettings((2, 2)), Capacity(15, (3, 3)))
    result = balance(work_map(mask, "nnz"), geometry, PartitionSettings((2, 2), tau=100), Capacity(16, (3, 3)))
    assert result.start.row_limits == (0, 8, 16)


def test_folds_cut_by_size() -> None:
    """SC R148: 2048 x 2048 with a limit of 1024 x 1024 makes four; sc23's rectangles."""
    assert len(folds(2048, 2048, (1024, 1024))) == 4
    expected = [tuple(fold["rect"]) for fold in load_vector("sc23_time_fold")["expected"]["folds"]]
    assert folds(10, 10, (6, 6)) == expected
    with pytest.raises(ConfigurationError, match="limit of a fold"):
        folds(4, 4, (0, 1))


def test_folds_of_padding_alone_have_an_area() -> None:
    """SC R148, SC R154: outputs that lie in the padding cover no cell of the map."""
    geometry = halo_geometry(1, 4, (1, 1), Padding(4, 4, 0, 0)).part(Rectangle(0, 0, 2, 4))
    result = balance(np.ones((1, 4), int), geometry, PartitionSettings((2, 2)))
    assert result.loads == (0, 0, 0, 0)
    assert result.reached


def test_metrics_count_values_or_zeros() -> None:
    """SC R27, SC R38: channels are summed; a map of one's own is balanced as it is."""
    maps_ = np.array([[[0, 2], [3, 0]], [[1, 1], [0, 0]]])
    assert work_map(maps_, "nnz").tolist() == [[1, 2], [1, 0]]
    assert work_map(maps_, "zeros").tolist() == [[1, 0], [1, 2]]
    own = np.array([[8, 1, 1, 1, 1, 1, 1, 2]])
    assert balance(own, overlap_add_geometry(1, 8), PartitionSettings((1, 2), metric="nnz", tau=0)).loads == (8, 8)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"grid": (0, 2)}, "partition.grid"),
        ({"tau": -1.0}, "partition.tau"),
        ({"tau": float("nan")}, "partition.tau"),
        ({"max_moves": -1}, "partition.max_moves"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict[str, object], message: str) -> None:
    """SC R154."""
    with pytest.raises(ConfigurationError, match=message):
        PartitionSettings(**values)  # type: ignore[arg-type]


def test_maps_that_cannot_be_cut_are_refused() -> None:
    """SC R154: too few lines, another shape, negative work."""
    geometry = overlap_add_geometry(4, 4)
    ones = np.ones((4, 4), int)
    with pytest.raises(ConfigurationError, match="cannot be cut"):
        balance(ones, geometry, PartitionSettings((5, 1)))
    with pytest.raises(ConfigurationError, match="has shape"):
        balance(np.ones((3, 4), int), geometry, PartitionSettings((2, 2)))
    with pytest.raises(ConfigurationError, match="0 or more"):
        balance(-ones, geometry, PartitionSettings((2, 2)))
    with pytest.raises(ConfigurationError, match="at most"):
        balance(ones << 30, geometry, PartitionSettings((2, 2)))
    with pytest.raises(ConfigurationError, match="does not fit"):
        halo_geometry(2, 2, (3, 3))
