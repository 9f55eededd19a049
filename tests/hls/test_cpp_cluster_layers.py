"""Whole layers on the C++ units of the sparse cluster: pieces, folds, channels, depthwise; stitched in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cluster_cpp import COUNTERS, Build, PieceCase, builds, find, issued_weights, run_piece
from cluster_paths_cpp import (
    STITCH_BITS,
    ReadOut,
    compute_piece,
    encode_piece,
    pool_maps,
    reduce_pixels,
    stitch_pieces,
)
from cpp_units import BUILDS
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_sparse_cluster import full_grid
from sparse_vectors import load_vector

from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings
from bfpga.engines.sparse_cluster.partition.geometry import Padding, Rectangle, folds, halo_geometry
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.engines.sparse_cluster.units.parts import layer_parts
from bfpga.engines.sparse_cluster.units.plan import Piece, Plan
from bfpga.engines.sparse_cluster.units.weights import weight_order
from bfpga.formats.compressed.maps import Payload
from bfpga.formats.rounding import wrap

#: Counters that a unit of every variant has.
COUNTED = COUNTERS[:9]


def sparse(generator: np.random.Generator, shape: tuple[int, ...], density: float) -> np.ndarray:
    return np.where(generator.random(shape) < density, generator.integers(-128, 128, shape), 0)


class CppCluster:
    """Pieces of a layer, one after the other, on one C++ unit; counters (units,) of what each piece's unit counted."""

    def __init__(self, integers: Integers, number: int, variant: str, layer: SparseLayer, cap: int = 1) -> None:
        self.integers: Integers = integers
        self.number, self.variant, self.layer, self.cap = number, variant, layer, cap
        order = "serpentine" if variant == "A" else "raster"
        self.places = weight_order(layer.kernel, order)  # type: ignore[arg-type]
        self.counters = {name: np.zeros(32, np.int64) for name in COUNTED}

    @property
    def build(self) -> Build:
        return builds("native")[self.number]

    def full_grids(self, image: np.ndarray, piece: Piece) -> np.ndarray:
        """Full grids (kernels, rows, columns) of a piece's stored cells; kernels in flight only in variant E.

        Kernels of a group (depthwise: one) meet the same channels and are in flight together.
        """
        stored = piece.stored
        cells = image[stored.row0 : stored.row1, stored.column0 : stored.column1].transpose(2, 0, 1)
        kernels = len(self.layer.weights)
        step = min(self.build.kernels_in_flight, kernels // self.layer.groups) if self.variant == "E" else 1
        return np.concatenate([
            self._pass(cells, range(first, min(first + step, kernels)), piece) for first in range(0, kernels, step)
        ])  # fmt: skip

    def _pass(self, cells: np.ndarray, kernels: Sequence[int], piece: Piece) -> np.ndarray:
        """A group of kernels over the piece's channels that they meet."""
        layer = self.layer
        inner, per_group = layer.weights.shape[3], len(layer.weights) // layer.groups
        group = kernels[0] // per_group
        held = [c for c in range(*piece.channels) if c // inner == group]
        weights = [[issued_weights(layer.weights[z, :, :, c % inner], self.places) for z in kernels] for c in held]
        case = PieceCase(cells[held], weights, layer.kernel, keep_zeros=self.variant == "A", cap=self.cap)
        run = run_piece(self.integers, self.number, self.variant, case)
        for name in COUNTED:
            counts = self.counters[name]
            together = max if name == "fifo_peak" else np.add
            counts[piece.unit] = together(counts[piece.unit], run.counters[name])
        return run.full

    def run(self, image: np.ndarray, plan: Plan) -> np.ndarray:
        """Outputs (kernels, rows, columns), modulo the stitcher's sums."""
        grids = [self.full_grids(image, piece) for piece in plan.pieces]
        stitch = self._halo if plan.mode == "halo" else self._overlap_add
        return np.array([
            stitch(image.shape[:2], list(zip(plan.pieces, [grid[z] for grid in grids], strict=True)))
            for z in range(len(self.layer.weights))
        ])  # fmt: skip

    def _window(self, rows: int, columns: int, first_row: int, first_column: int) -> ReadOut:
        return ReadOut(rows, columns, first_row, first_column, *self.layer.stride)

    def _overlap_add(self, shape: tuple[int, ...], grids: list[tuple[Piece, np.ndarray]]) -> np.ndarray:
        """Raw full grids, whose border cells are summed, then the outputs (E4)."""
        kh, kw = self.layer.kernel
        places = [
            (Rectangle(p.owned.row0, p.owned.column0, p.owned.row1 + kh - 1, p.owned.column1 + kw - 1), grid)
            for p, grid in grids
        ]
        offset = kh - 1 - self.layer.padding.top, kw - 1 - self.layer.padding.left
        window = self._window(*self.layer.output_shape(*shape), *offset)
        return stitch_pieces(self.integers, (shape[0] + kh - 1, shape[1] + kw - 1), places, window)

    def _halo(self, shape: tuple[int, ...], grids: list[tuple[Piece, np.ndarray]]) -> np.ndarray:
        """Of each full grid the outputs that the unit owns, put side by side."""
        outputs = self.layer.output_shape(*shape)
        owned = [(piece.owned, self._owned(piece, grid)) for piece, grid in grids]
        return stitch_pieces(self.integers, outputs, owned, ReadOut(*outputs))

    def _owned(self, piece: Piece, grid: np.ndarray) -> np.ndarray:
        layer, owned, stored = self.layer, piece.owned, piece.stored
        row = owned.row0 * layer.stride[0] - layer.padding.top - stored.row0 + layer.kernel[0] - 1
        column = owned.column0 * layer.stride[1] - layer.padding.left - stored.column0 + layer.kernel[1] - 1
        whole = (Rectangle(0, 0, *grid.shape), wrap(grid, STITCH_BITS))
        window = self._window(owned.rows, owned.columns, row, column)
        return stitch_pieces(self.integers, grid.shape, [whole], window)  # type: ignore[arg-type]


def on_vector(integers: Integers, name: str, weights: np.ndarray, variant: str = "B", groups: int = 1) -> CppCluster:
    """A layer (kernels, rows, columns, channels) with the lanes, tile and padding of a vector."""
    config = load_vector(name)["config"]
    lanes = config.get("p", config.get("p_depthwise"))
    layer = SparseLayer(weights, Padding(*config["pad"]), tuple(config["stride"]), groups)
    return CppCluster(integers, find(integers, lanes, tuple(config["tile"])), variant, layer)


def pieces_in_order(rectangles: Sequence[Rectangle], stored: Sequence[Rectangle], channels: int = 1) -> list[Piece]:
    pairs = enumerate(zip(rectangles, stored, strict=True))
    return [Piece(unit, 0, owned, cells, (0, channels)) for unit, (owned, cells) in pairs]


@pytest.mark.parametrize("variant", "ABCDE")
@pytest.mark.parametrize("mode", ["overlap_add", "halo"])
def test_pieces_of_four_units(mode: str, variant: str) -> None:
    """SC R29, SC R30, SC R81, SC R128, SC R129: sc19, four units, the same output; rounds of B those of the vector."""
    vector = load_vector("sc19_partition")
    wanted, image = vector["expected"][mode], np.array(vector["input"]["map"])[:, :, None]
    cluster = on_vector("native", "sc19_partition", np.array(vector["weights"]["kernel"])[None, :, :, None], variant)
    owned = [Rectangle(*each.get("rect", each.get("out_rect"))) for each in wanted]
    stored = [Rectangle(*each.get("rect", each.get("in_rect"))) for each in wanted]
    if mode == "halo":
        geometry = halo_geometry(12, 12, (3, 3), cluster.layer.padding, (1, 1))
        assert stored == [geometry.stored(piece) for piece in owned]
    output = cluster.run(image, Plan(mode, tuple(pieces_in_order(owned, stored)), ()))
    assert output[0].tolist() == vector["expected"]["out"]
    if variant == "B":
        assert cluster.counters["rounds"][:4].tolist() == [each["rounds"] for each in wanted]


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("scope", ["layer", "channel"])
def test_channels_are_summed(integers: Integers, scope: str) -> None:
    """SC R1, SC R38, SC R77, SC R130: sc18, in the unit or as maps; cleared once, not by every channel"""
    vector = load_vector("sc18_multi_channel")
    image = np.array(vector["input"]["maps"]).transpose(1, 2, 0)
    weights = np.array(vector["weights"]["kernels"]).transpose(1, 2, 0)[None]
    cluster = on_vector(integers, "sc18_multi_channel", weights)
    whole, channels = Rectangle(0, 0, *image.shape[:2]), image.shape[2]
    groups = [(0, channels)] if scope == "layer" else [(c, c + 1) for c in range(channels)]
    pieces = tuple(Piece(c, 0, whole, whole, group) for c, group in enumerate(groups))
    assert cluster.run(image, Plan("overlap_add", pieces, ()))[0].tolist() == vector["expected"]["out"]
    assert cluster.counters["rounds"].sum() == sum(vector["expected"]["rounds"])
    if scope == "channel":
        assert cluster.counters["rounds"][:channels].tolist() == vector["expected"]["rounds"]


@pytest.mark.parametrize("integers", BUILDS)
def test_folds_run_one_after_another(integers: Integers) -> None:
    """SC R32, SC R55, SC R148: sc23, four folds on one unit, joined by overlap-add"""
    vector = load_vector("sc23_time_fold")
    image, wanted = np.array(vector["input"]["map"])[:, :, None], vector["expected"]["folds"]
    cluster = on_vector(integers, "sc23_time_fold", np.array(vector["weights"]["kernel"])[None, :, :, None])
    limit = vector["config"]["limit"]
    cut = list(folds(*image.shape[:2], (limit[0], limit[1])))
    assert [list(fold) for fold in cut] == [each["rect"] for each in wanted]
    output = cluster.run(image, Plan("overlap_add", tuple(pieces_in_order(cut, cut)), ()))
    assert output[0].tolist() == vector["expected"]["out"]
    assert cluster.counters["rounds"][:4].tolist() == [each["rounds"] for each in wanted]


@pytest.mark.parametrize("variant", "ABCDE")
def test_depthwise_separable_layers(variant: str) -> None:
    """SC R120, SC R123, SC R125, SC R136, SC R137, SC R141: sc13, every channel alone, 1 x 1 kernels, ReLU, pooling"""
    vector = load_vector("sc13_depthwise")
    expected, image = vector["expected"], np.array(vector["input"]["maps"]).transpose(1, 2, 0)
    weights = np.array(vector["weights"]["depthwise"])[:, :, :, None]
    cluster = on_vector("native", "sc13_depthwise", weights, variant, groups=3)
    grids = cluster.full_grids(image, whole_piece(image))
    between = grids[:, 1:-1, 1:-1]
    assert between.tolist() == expected["intermediate"]
    if variant == "B":
        assert cluster.counters["rounds"].sum() == sum(expected["depthwise_rounds"])
    pixels = between.reshape(3, -1).T
    sums = reduce_pixels("native", vector["config"]["p_pointwise"], np.array(vector["weights"]["pointwise"]), pixels)
    result = sums.outputs.T.reshape(4, *image.shape[:2])
    assert result.tolist() == expected["pointwise"]
    assert sums.rounds == expected["pointwise_rounds"]
    for kind, name in (("max", "pool_max"), ("average", "pool_avg"), ("sum", "pool_sum")):
        pairs = [pool_maps("native", 0, result[z : z + 2].transpose(1, 2, 0), kind, relu=True) for z in (0, 2)]
        assert np.concatenate(pairs, axis=2).transpose(2, 0, 1).tolist() == expected[name]


def whole_piece(image: np.ndarray) -> Piece:
    whole = Rectangle(0, 0, *image.shape[:2])
    return Piece(0, 0, whole, whole, (0, image.shape[2]))


@pytest.mark.parametrize("variant", "ABCDE")
def test_a_kernel_larger_than_the_units_in_four_parts(variant: str) -> None:
    """SC R7: 7 x 8 on units of 5 x 5; sub-kernels with offsets, summed by the stitcher"""
    generator = np.random.default_rng(8)
    layer = SparseLayer(sparse(generator, (1, 7, 8, 2), 0.7), Padding(3, 3, 4, 3))
    image = sparse(generator, (11, 12, 2), 0.4)
    parts = layer_parts(layer, (5, 5), (11, 12))
    assert [part.layer.kernel for part in parts] == [(5, 5), (5, 3), (2, 5), (2, 3)]
    results = []
    for part in parts:
        cells = image[part.cells.row0 : part.cells.row1, part.cells.column0 : part.cells.column1]
        cluster = CppCluster("native", find("native", 4, (4, 4)), variant, part.layer, cap=2 if variant in "CD" else 1)
        whole = whole_piece(cells)
        results.append((Rectangle(0, 0, 11, 12), cluster.run(cells, Plan("overlap_add", (whole,), ()))[0]))
    found = stitch_pieces("native", (11, 12), results, ReadOut(11, 12))
    wanted = SparseCluster(layer, SparseClusterConfig(largest_kernel=(8, 8))).run(image[None])[0, :, :, 0]
    np.testing.assert_array_equal(found, wrap(wanted, STITCH_BITS))


@pytest.mark.parametrize("integers", BUILDS)
def test_results_are_the_next_layers_words(integers: Integers) -> None:
    """SC R127, R145, R151: ReLU and pooling, requantized, written as a piece and read by the unit of the next layer"""
    generator = np.random.default_rng(9)
    first, second = sparse(generator, (2, 3, 3, 1), 0.8), sparse(generator, (3, 3), 0.8)
    image = sparse(generator, (13, 12, 1), 0.3)
    layer = SparseLayer(first, Padding(1, 1, 1, 1))
    cluster = CppCluster(integers, find(integers, 4, (4, 4)), "B", layer)
    sums = cluster.run(image, Plan("overlap_add", (whole_piece(image),), ()))
    pooled = np.clip(pool_maps(integers, 0, sums.transpose(1, 2, 0), "max", relu=True) >> 7, 0, 127)
    assert 0 < np.count_nonzero(pooled) < pooled.size
    for channel in range(2):
        words = encode_piece(integers, 0, int(Payload.BITMAP), 1, 0, pooled[:, :, channel])
        full, _, _ = compute_piece(integers, words, second)
        wanted = full_grid(pooled[:, :, channel].tolist(), second.tolist())
        assert full.tolist() == wanted


# --- random layers, partitions by thresholds


@st.composite
def partitions(draw: st.DrawFn) -> PartitionSettings:
    """Any grid of up to six units, any threshold, start, metric, scope and mode."""
    unit = draw(st.sampled_from(["pp", "rel"]))
    return PartitionSettings(
        grid=(draw(st.integers(1, 3)), draw(st.integers(1, 2))), mode=draw(st.sampled_from(["halo", "overlap_add"])),
        scope=draw(st.sampled_from(["layer", "channel"])), start=draw(st.sampled_from(["equal", "quantile"])),
        metric=draw(st.sampled_from(["nnz_share", "zero_share", "nnz", "zeros", "rounds"])),
        tau=draw(st.sampled_from([0.0, 1.0, 3.0, 30.0] if unit == "pp" else [0.0, 0.05, 0.5])), tau_unit=unit,
    )  # fmt: skip


@st.composite
def layers(draw: st.DrawFn, variant: str) -> tuple[int, SparseLayer, SparseClusterConfig, np.ndarray, int]:
    """An 8-bit build with 5 x 5 kernels, a layer, numpy's configuration of it, an image, and the cap of C and D."""
    number = draw(
        st.sampled_from(
            [n for n, build in enumerate(builds("native")) if (build.kernel_rows, build.input_bits) == (5, 8)]
        )
    )
    build = builds("native")[number]
    generator = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    kernel = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    channels, kernels = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    weights = sparse(generator, (kernels, *kernel, channels), draw(st.sampled_from([0.4, 1.0])))
    image = sparse(generator, (draw(st.integers(5, 13)), draw(st.integers(5, 13)), channels),
                   draw(st.sampled_from([0.1, 0.4, 0.9])))  # fmt: skip
    padding = Padding(*(draw(st.integers(0, side)) for side in (kernel[0], kernel[0], kernel[1], kernel[1])))
    layer = SparseLayer(weights, padding, (draw(st.integers(1, 2)), draw(st.integers(1, 3))))
    partition, cap = draw(partitions()), draw(st.sampled_from([1, 2, 256])) if variant in "CD" else 1
    config = SparseClusterConfig(
        units=partition.pieces, lanes=build.lanes, variant=variant, weights_per_round=cap, tile=build.tile,  # type: ignore[arg-type]
        largest_kernel=(5, 5), kernels_in_flight=build.kernels_in_flight if variant == "E" else 1,
        accumulator_words=2048, pointwise="variant", partition=partition,
    )  # fmt: skip
    return number, layer, config, image, cap


@pytest.mark.parametrize("variant", "ABCDE")
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_layers_on_balanced_pieces(variant: str, data: st.DataObject) -> None:
    """SC R23, SC R29, SC R30, SC R34, SC R35, SC R81, SC R105, SC R112, SC R128-R130, SC R153: outputs, counters."""
    number, layer, config, image, cap = data.draw(layers(variant))
    numpy_cluster = SparseCluster(layer, config)
    plan = numpy_cluster.plan(image)
    cluster = CppCluster("native", number, variant, layer, cap)
    wanted = numpy_cluster.run(image[None])[0].transpose(2, 0, 1)
    np.testing.assert_array_equal(cluster.run(image, plan), wrap(wanted, STITCH_BITS))
    counted: Any = numpy_cluster.cycles(image, plan).counters
    for name in COUNTED:
        assert cluster.counters[name][: config.units].tolist() == getattr(counted, name).tolist(), name
