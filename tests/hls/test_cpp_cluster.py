"""cluster_*.hpp, variants A to E, against the vectors and the numpy cluster: results and every counter."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_cpp import COUNTERS, Build, PieceCase, PieceRun, SimulationError, builds, find, issued_weights, run_piece
from cpp_units import BUILDS, compiler, library
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_vectors import FOLDER, load_vector

from bfpga.devices import toolchain
from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings
from bfpga.engines.sparse_cluster.partition.geometry import Padding
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.engines.sparse_cluster.units.output import read_out
from bfpga.engines.sparse_cluster.units.weights import weight_order
from bfpga.formats.rounding import wrap
from bfpga.vendor import lint
from bfpga.vendor.render import library_directory

#: What the names of schedules in the vectors mean: variant of the library, and what can be chosen.
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "A": ("A", {"keep_zeros": True}),
    "A_skip": ("A", {"keep_zeros": True}),
    "B": ("B", {}),
    "C_w1": ("C", {"cap": 1}),
    "C_w2": ("C", {"cap": 2}),
    "C_w3": ("C", {"cap": 3}),
    "C_wmax": ("C", {"cap": 256}),
    "D_w2": ("D", {"cap": 2}),
    "D_wmax": ("D", {"cap": 256}),
    "E": ("E", {}),
}
CASES = [
    (path.stem, schedule)
    for path in sorted(FOLDER.glob("sc*.json"))
    for schedule in load_vector(path.stem)["expected"].get("schedules", {})
]
#: Lanes and tiles of the vectors that are built with ap_int.
AP_INT_BUILDS = ((6, [3, 3]), (4, [4, 4]))
#: Counters that the vectors hold.
COUNTED = COUNTERS[:9]
ONE_UNIT = PartitionSettings(grid=(1, 1), mode="overlap_add")


def vector_run(integers: Integers, name: str, schedule: str) -> PieceRun:
    vector = load_vector(name)
    config, kernel = vector["config"], np.array(vector["weights"]["kernel"])
    variant, chosen = SCHEDULES[schedule]
    order = config.get("weight_order")
    places = list(map(tuple, order)) if isinstance(order, list) else None
    if places is None:
        places = weight_order(kernel.shape, "serpentine" if variant == "A" else "raster")
    weights = issued_weights(kernel, places, zeros=schedule == "A")
    case = PieceCase(np.array(vector["input"]["map"])[None], [[weights]], kernel.shape, **chosen)
    return run_piece(integers, find(integers, config["p"], tuple(config["tile"])), variant, case)


def is_built(integers: Integers, name: str) -> bool:
    """Whether tests/cpp/cluster.cpp has the build of a vector."""
    config = load_vector(name)["config"]
    return integers == "native" or (config["p"], config["tile"]) in AP_INT_BUILDS


@pytest.mark.parametrize(
    ("integers", "name", "schedule"),
    [(integers, *case) for integers in BUILDS for case in CASES if is_built(integers, case[0])],
)
def test_results_and_counters_are_those_of_the_vector(integers: Integers, name: str, schedule: str) -> None:
    """Functions SC R19, SC R35, SC R69-R72, SC R74, SC R80, SC R91, SC R92, SC R105, SC R112, SC R113.

    Counters SC R61, SC R78, SC R83, SC R85, SC R97-R102, SC R104, SC R108-R111, SC R114, SC R152, SC R153.
    """
    vector, run = load_vector(name), vector_run(integers, name, schedule)
    assert run.full[0].tolist() == vector["expected"]["full"]
    config, kernel = vector["config"], np.array(vector["weights"]["kernel"])
    layer = SparseLayer(kernel[None, :, :, None], Padding(*config["pad"]), tuple(config["stride"]))
    shape = np.array(vector["input"]["map"]).shape
    assert read_out(run.full.transpose(1, 2, 0), layer, *shape)[:, :, 0].tolist() == vector["expected"]["out"]
    expected = {key: value for key, value in vector["expected"]["schedules"][schedule].items() if key != "trace"}
    assert len(expected) == len(COUNTED)
    assert {key: run.counters[key] for key in expected} == expected


def random_grid(generator: np.random.Generator, shape: tuple[int, ...], density: float, bits: int) -> np.ndarray:
    values = generator.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
    return np.where(generator.random(shape) < density, values, 0)


@st.composite
def pieces(
    draw: st.DrawFn, variant: str, integers: Integers
) -> tuple[int, Build, SparseCluster, np.ndarray, PieceCase]:
    """A build, a layer for it in numpy, an image that is one piece, and the same for the C++."""
    number = draw(st.integers(0, len(builds(integers)) - 1))
    build = builds(integers)[number]
    generator = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    kernel = draw(st.integers(1, build.kernel_rows)), draw(st.integers(1, build.kernel_columns))
    shape = draw(st.integers(1, build.piece_rows)), draw(st.integers(1, build.piece_columns))
    kernels = draw(st.integers(1, build.kernels_in_flight)) if variant == "E" else 1
    channels = draw(st.integers(1, 3))
    x = random_grid(generator, (channels, *shape), draw(st.sampled_from([0.05, 0.3, 0.7, 1.0])), build.input_bits)
    weights = random_grid(
        generator, (kernels, *kernel, channels), draw(st.sampled_from([0.3, 0.7, 1.0])), build.weight_bits
    )
    order = tuple(draw(st.permutations(weight_order(kernel, "raster"))))
    keep, zeros = variant == "A" and draw(st.booleans()), variant == "A" and draw(st.booleans())
    cap = draw(st.sampled_from([1, 2, 3, 256])) if variant[0] in "CD" else 1
    cap = min(cap, build.weights_per_round)
    earlier, by_column = draw(st.booleans()), variant[0] in "CD" and draw(st.booleans())
    config = SparseClusterConfig(
        units=1, lanes=build.lanes, variant=variant[0], weights_per_round=cap, tile=build.tile,  # type: ignore[arg-type]
        largest_kernel=(5, 5), input_bits=build.input_bits, weight_bits=build.weight_bits, accumulator_bits=48,
        kernels_in_flight=64, accumulator_words=2048, conflict="bank" if variant.endswith("bank") else "index",
        merge_policy="defer_earlier" if earlier else "defer_later", weight_order=order, keep_zeros=keep,
        skip_zero_weights=not zeros, pointwise="variant", partition=ONE_UNIT,
        data_order="column" if by_column else "raster",
    )  # fmt: skip
    padding = Padding(*[side - 1 for side in kernel for _ in range(2)])
    cluster = SparseCluster(SparseLayer(weights, padding), config)
    issued = [
        [issued_weights(weights[z, :, :, channel], order, zeros=zeros) for z in range(kernels)]
        for channel in range(channels)
    ]
    case = PieceCase(x, issued, kernel, keep, draw(st.booleans()), by_column, cap, earlier)
    return number, build, cluster, x.transpose(1, 2, 0), case


def check(integers: Integers, variant: str, example: tuple[int, Build, SparseCluster, np.ndarray, PieceCase]) -> None:
    """Sums modulo the accumulator, every counter, and the counters that only hardware has."""
    number, build, cluster, image, case = example
    run = run_piece(integers, number, variant, case)
    sums = wrap(cluster.run(image[None])[0].transpose(2, 0, 1), build.accumulator_bits)
    np.testing.assert_array_equal(run.full, sums)
    counters = cluster.cycles(image).counters
    assert {name: run.counters[name] for name in COUNTED} == {name: counters.total(name) for name in COUNTED}
    assert run.counters["loads"] == np.count_nonzero(image)
    occupied = run.counters["tiles"] - run.counters["tiles_skipped"]
    window = variant in ("B_window", "C", "D")
    assert run.counters["transfers"] == (2 * build.transfer * occupied if window else 0)
    assert run.counters["fifo_peak"] <= build.lanes - 1
    if variant == "E":
        steps = [[-(-len(kernel) // build.lanes) for kernel in channel] for channel in case.weights]
        slots = [max(sum(each), build.dependence_latency + max(each) - 1) if any(each) else 0 for each in steps]
        held = np.count_nonzero(case.values, axis=(1, 2))
        waited = sum(int(q) * (slot - sum(each)) for q, slot, each in zip(held, slots, steps, strict=True) if any(each))
        assert run.counters["waits"] == waited


@pytest.mark.parametrize("variant", ["A", "B", "B_window", "C", "C_bank", "D", "D_bank", "E"])
@settings(max_examples=60)
@given(st.data())
def test_random_pieces(variant: str, data: st.DataObject) -> None:
    """Any kernel, tile, order and policy: sums, and every counter.

    SC R34, SC R67, SC R75-R80, SC R83, SC R85, SC R87, SC R89, SC R92-R105, SC R106-R116
    """
    check("native", variant, data.draw(pieces(variant, "native")))


@pytest.mark.parametrize("variant", ["A", "B", "B_window", "C", "C_bank", "D", "D_bank", "E"])
@settings(max_examples=8)
@given(st.data())
def test_random_pieces_with_ap_int(variant: str, data: st.DataObject) -> None:
    """SC R67, SC R73: the integers of synthesis give the same, with every multiplier."""
    check("ap_int", variant, data.draw(pieces(variant, "ap_int")))


@settings(max_examples=8)
@given(st.data())
def test_random_pieces_with_exact_integers_and_the_waiver_of_their_sums(data: st.DataObject) -> None:
    """SC R116: a word of sums is used again after dependence_latency steps at the earliest."""
    check("exact", "E", data.draw(pieces("E", "exact")))


# --- variant A: the window and its group


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (3, 3), (2, 5), (5, 4)])
def test_the_window_moves_by_one_cell_from_weight_to_weight(kernel: tuple[int, int]) -> None:
    """SC R84: in serpentine order, zero weights applied, whatever the kernel's size; in raster order it moves more."""
    number = find("native", 4, (2, 2))
    values = np.zeros((1, 2, 2), np.int64)
    values[0, 1, 1] = 5
    moves = []
    for order in ("serpentine", "raster"):
        weights = issued_weights(np.ones(kernel, np.int64), weight_order(kernel, order), zeros=True)  # type: ignore[arg-type]
        moves.append(run_piece("native", number, "A", PieceCase(values, [[weights]], kernel, True)).counters["moves"])
    cells = kernel[0] * kernel[1]
    assert moves[0] == cells - 1
    assert moves[1] == cells - 1 + (kernel[0] - 1) * (kernel[1] - 1)


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (3, 0), (-2, 4), (9, -6), (10, 14)])
def test_rows_and_columns_of_the_group_are_rings(integers: Integers, rows: int, columns: int) -> None:
    """SC R86: shifts by one and by two, in either direction"""
    cells = np.zeros((9, 7), np.int32)
    library("cluster", integers).unit_cluster_ring(rows, columns, cells.ctypes.data_as(ctypes.c_void_p))
    assert (cells == np.roll(np.arange(63).reshape(9, 7), (-rows, -columns), axis=(0, 1))).all()


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_group_is_turned_until_the_first_output_is_the_first_register(data: st.DataObject) -> None:
    """SC R88: outputs lie at the origin after a turn by the offset of E4, kernel - 1 without padding"""
    number, _, cluster, image, case = data.draw(pieces("A", "native"))
    image, case = image[:, :, :1], replace(case, values=case.values[:1], weights=case.weights[:1])
    kernel = case.kernel
    padding = Padding(*(data.draw(st.integers(0, side - 1)) for side in kernel for _ in range(2)))
    layer = SparseLayer(cluster.layer.weights[..., :1], padding)
    rows, columns = layer.output_shape(*image.shape[:2])
    if min(rows, columns) < 1:
        return
    turned = replace(case, turn=(kernel[0] - 1 - padding.top, kernel[1] - 1 - padding.left))
    found = run_piece("native", number, "A_turned", turned).full[0, :rows, :columns]
    wanted = SparseCluster(layer, cluster.config).run(image[None])[0, :, :, 0]
    np.testing.assert_array_equal(found, wrap(wanted, builds("native")[number].accumulator_bits))


# --- what cannot be


def test_what_is_beyond_the_build_stops_the_simulation() -> None:
    """SC R154"""
    number = find("native", 4, (2, 2))
    one: list[tuple[int, int, int]] = [(1, 0, 0)]

    def run(shape: tuple[int, int], kernel: tuple[int, int], variant: str = "B", **options: Any) -> None:
        case = PieceCase(np.ones((1, *shape), np.int64), [[one]], kernel, **options)
        run_piece("native", number, variant, case)

    for variant in ("B", "E"):
        with pytest.raises(SimulationError, match="a piece has more rows or columns than the build: 15"):
            run((15, 3), (1, 1), variant)
    with pytest.raises(SimulationError, match="a kernel has more rows or columns than the build: 6"):
        run((3, 3), (1, 6))
    with pytest.raises(SimulationError, match="the weights of a round must fit the build; they are 0"):
        run((3, 3), (1, 1), "C", cap=0)


def test_weights_of_one_place_clash_in_the_simulation() -> None:
    """SC R96, SC R115: a round that would add twice to a bank is no legal schedule"""
    twice = PieceCase(np.ones((1, 2, 2), np.int64), [[[(1, 0, 0), (2, 0, 0)]]], (3, 3))
    with pytest.raises(SimulationError, match="a step adds twice to bank"):
        run_piece("native", find("native", 4, (2, 2)), "E", twice)


ILLEGAL = {
    "lanes = 33": "a unit has 1 to 32 lanes",
    "tile_rows = 17": "a micro-tile has 1 to 16 rows and columns",
    "kernel_columns = 17": "a kernel has 1 to 16 rows and columns; a larger one is split",
    "piece_rows = 257": "a piece has 1 to 256 rows and columns: its indices are bytes",
    "input_bits = 17": "inputs have 2 to 16 bits",
    "weight_bits = 1": "weights have 2 to 16 bits",
    "accumulator_bits = 49": "accumulators have 16 to 48 bits",
    "accumulator_bits = 19": "accumulators hold all products of a kernel",
    "weights_per_round = 0": "a round holds a weight at least",
    "kernels_in_flight = 65": "1 to 64 kernels in flight",
}


@pytest.mark.parametrize("assignment", ILLEGAL)
def test_illegal_numbers_do_not_compile_and_say_why(assignment: str, tmp_path: Path) -> None:
    """SC R154"""
    source = tmp_path / "unit.cpp"
    source.write_text(
        '#include "bfpga/sparse_cluster/units/types.hpp"\n'
        f"struct Illegal : bfpga::TileUnitDefaults {{ static constexpr int {assignment}; }};\n"
        "template struct bfpga::TileUnitTypes<Illegal>;\n"
    )
    flags = [*toolchain.WARNINGS, "-fsyntax-only", "-DBFPGA_NATIVE_INTEGERS", "-I", str(library_directory())]
    result = subprocess.run([compiler(), *flags, str(source)], capture_output=True, text=True, check=False)
    assert ILLEGAL[assignment] in result.stderr


TOP = """\
#include <hls_stream.h>
#include "bfpga/sparse_cluster/units/compress.hpp"
#include "bfpga/sparse_cluster/units/data_stationary.hpp"
#include "bfpga/sparse_cluster/units/pair_adder.hpp"
#include "bfpga/sparse_cluster/units/post.hpp"
#include "bfpga/sparse_cluster/units/reduction.hpp"
#include "bfpga/sparse_cluster/units/shift_window.hpp"
#include "bfpga/sparse_cluster/units/stitch.hpp"
using namespace bfpga;
typedef hls::stream<ap_uint<32> > Stream;
struct Numbers : TileUnitDefaults {
    static constexpr int piece_rows = 8;
    static constexpr int piece_columns = 8;
};
struct Words {
    Stream& input;
    uint32_t read() { return input.read().to_uint(); }
};
struct Sink {
    Stream& output;
    template <class Value>
    void write(const Value& value) { output.write(static_cast<ap_uint<32> >(value)); }
    template <class Value>
    void partial(const Value&) {}
};
struct Map {
    int at(int row, int column) const { return row - column; }
};
template <class Unit>
void tiles(const IssuedWeights<Numbers>& weights, Words& words, Stream& output, TileUnitCounters& counters) {
    static Unit unit;
    static BitmapReader<Numbers, Words> reader(words);
    PieceHeader header = {};
    reader.start(header);
    unit.clear();
    unit.piece(PieceWalk{8, 8, false, false, false}, weights, reader, counters);
    output.write(static_cast<ap_uint<32> >(unit.take(1, 2)));
}
void top(Stream& input, Stream& output) {
#pragma HLS INTERFACE axis port=input
#pragma HLS INTERFACE axis port=output
    Words words = {input};
    Sink sink = {output};
    TileUnitCounters counters = {};
    IssuedWeights<Numbers> weights;
    weights.clear(3, 3);
    weights.push(5, 1, 1);
    tiles<ShiftWindowUnit<Numbers> >(weights, words, output, counters);
    tiles<IndexedUnit<Numbers> >(weights, words, output, counters);
    tiles<MergeFifoUnit<Numbers> >(weights, words, output, counters);
    tiles<PairAdderUnit<Numbers> >(weights, words, output, counters);
    tiles<PairAdderUnit<Numbers, BankedSums<Numbers> > >(weights, words, output, counters);
    static KernelSteps<Numbers> kernels;
    kernels.push(weights);
    Coo32Reader<Numbers, Words> values(words);
    static DataStationaryUnit<Numbers> stationary;
    stationary.clear();
    stationary.piece(PieceWalk{8, 8, false, false, false}, kernels, values, counters);
    output.write(static_cast<ap_uint<32> >(stationary.take(0, 1, 2)));
    static ReductionUnit<ReductionDefaults> reduction;
    reduction.push(3, 4);
    reduction.outputs(2, sink, counters);
    static PoolArray<PoolDefaults> pools;
    pools.start(true, Pooling::Max, 8);
    PoolArray<PoolDefaults>::value_t value[4] = {};
    PoolArray<PoolDefaults>::sum_t pooled[4];
    if (pools.push(value, pooled)) {
        sink.write(pooled[0]);
    }
    OutputCounts<8, 8> counts;
    counts.clear();
    counts.count(1, 2, true);
    sink.write(counts.total());
    static Stitcher<StitchDefaults> stitcher;
    stitcher.start(9, 9);
    stitcher.add(StitchPlace{0, 0, 8, 8}, words);
    stitcher.read_out(ReadOut{8, 8, 1, 1, 1, 1}, sink);
    static PieceWriter<Numbers> writer;
    const Map map = {};
    writer.coo32(8, 8, map, sink);
    writer.bitmap(8, 8, 1, map, sink);
}
"""


def test_units_keep_the_rules_of_synthesis() -> None:
    """SC R116: every loop labelled and bound, every pragma legal, in units that are all instantiated"""
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    assert lint.format_findings(lint.lint_sources({"top.cpp": TOP}, [library_directory()])) == "no findings"
