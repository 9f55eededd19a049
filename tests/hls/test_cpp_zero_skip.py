"""zero_skip*.hpp against the numpy engine and the vectors, with native integers and with ap_int."""

from __future__ import annotations

import ctypes
import random
import re
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cpp_units import BUILDS, compiler, library, write_rendered
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import load_vectors
from zero_skip_cases import LAYER_VECTORS, ORDERS, Case, cases, pruned_coefficients, vector_case
from zero_skip_cpp import CppRun, SimulationError, builds, find, kernel_words, run_layer, run_words

from bfpga.devices import toolchain
from bfpga.devices.csim import Integers
from bfpga.engines.zero_skip.arithmetic import IMAGE_DEPTH, KernelOrder, ZeroSkipConfig, convolve, diagonal, layer_shape
from bfpga.engines.zero_skip.counters import count_layer
from bfpga.engines.zero_skip.image_stream import unpack_tile
from bfpga.engines.zero_skip.order import ordered_entries
from bfpga.formats.compressed.kernels import KernelFormat, kernel_segments
from bfpga.vendor import lint
from bfpga.vendor.render import library_directory

FORMATS = list(KernelFormat)
#: Lanes of the vectors that are built: with ap_int those of most of them.
LANES: dict[Integers, tuple[int, ...]] = {"native": (2, 3, 4, 5, 6), "ap_int": (4,)}
VECTORS = [(integers, name) for integers in BUILDS for name in LAYER_VECTORS
           if vector_case(name)[0].config.lanes in LANES[integers]]  # fmt: skip


def decode_clocks(case: Case, fmt: KernelFormat) -> np.ndarray:
    """Clocks in which the kernels of each group and image are read: words, rows of masks, coefficients."""
    flight, shape = case.config.kernels_in_flight, case.shape
    entries = ordered_entries(case.coefficients, flight, "z_major").counts
    kernels = np.minimum(flight, shape.kernels - flight * np.arange(len(entries)))[:, None]
    if fmt == KernelFormat.BITMAP:
        return 3 + kernels * shape.kernel_height + entries
    return 2 * (kernels if fmt == KernelFormat.ENTRY16 else 1) + entries


def check(case: Case, run: CppRun) -> None:
    """The sums are those of numpy, and so is every counter that the loops count."""
    expected = convolve(case.config, case.shape, case.samples, case.coefficients, case.bias)
    np.testing.assert_array_equal(run.sums, expected.sums[0].transpose(2, 0, 1))
    counted = count_layer(case.config, case.shape, case.coefficients).as_dict()
    shared = counted.keys() & run.counters.keys()
    assert len(shared) == 11
    assert {name: run.counters[name] for name in shared} == {name: counted[name] for name in shared}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(("integers", "name"), VECTORS)
def test_vectors(integers: Integers, name: str, fmt: KernelFormat) -> None:
    """ZS R1-R11, ZS R20, ZS R30-R32, ZS R36, ZS R37, ZS R43-R48, ZS R50, ZS R51: sums and counters, three orders"""
    for order in ORDERS:
        case, expected = vector_case(name, order)
        run = run_layer(integers, find(integers, lanes=case.config.lanes, row_banks=8, rows_parallel=1), case, fmt)
        assert run.sums.tolist() == expected["out"]
        counted = expected["orders"][order].keys() & run.counters.keys()
        assert len(counted) == 11
        assert {key: run.counters[key] for key in counted} == {key: expected["orders"][order][key] for key in counted}


def build_case(data: st.DataObject, integers: Integers) -> tuple[int, Case]:
    """A random layer and a build that holds it; the C++ has two sets of the tile buffer."""
    small = [number for number, build in enumerate(builds(integers)) if build.tile_height == 8]
    number = data.draw(st.sampled_from(small))
    build = builds(integers)[number]
    nest = data.draw(st.sampled_from(["tile_outer", "image_outer"]))
    lowest = 4 if nest == "image_outer" else 1  # the sums of the whole plane have to fit
    return number, data.draw(
        cases(
            **build.fixed, nest=nest, double_buffer=True, skip_empty=False,
            tile_height=data.draw(st.integers(max(lowest, build.rows_parallel), 8)),
            tile_width=data.draw(st.integers(lowest, 8)),
        )
    )  # fmt: skip


@pytest.mark.parametrize("integers", BUILDS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_layers(integers: Integers, data: st.DataObject) -> None:
    """ZS R1-R11, ZS R14, ZS R15, ZS R17-R25, ZS R26, ZS R27, ZS R36, ZS R39, ZS R40, ZS R46-R48, ZS R50, ZS R51"""
    number, case = build_case(data, integers)
    check(case, run_layer(integers, number, case, data.draw(st.sampled_from(FORMATS))))


@pytest.mark.parametrize("integers", BUILDS)
def test_sums_start_anew_where_they_were_read(integers: Integers) -> None:
    """ZS R6, ZS R7, ZS R24, ZS R27, ZS R41: tiles and groups reuse the words, no clock clears them, presets remain"""
    numbers, number = np.random.default_rng(9), find(integers, lanes=4, row_banks=8)
    coefficients = numbers.integers(1, 128, (2, 7, 3, 3))
    coefficients[:, 1::2] = 0
    images, bias = numbers.integers(-128, 128, (2, 11, 10)), numbers.integers(-500, 500, 7)
    config = ZeroSkipConfig(tile_height=4, tile_width=6, kernels_in_flight=3, **builds(integers)[number].fixed)
    case = Case(config, layer_shape(coefficients, (11, 10)), images, coefficients, bias)
    run = run_layer(integers, number, case)
    check(case, run)
    assert (run.sums[1::2] == bias[1::2, None, None]).all()
    # Rows of the tiles 4, 4, 1; columns 6 (two steps) and 2: each word of each kernel once.
    assert run.counters["out_words"] == 7 * (4 + 4 + 1) * (2 + 1)


@pytest.mark.parametrize("integers", BUILDS)
def test_wide_numbers(integers: Integers) -> None:
    """ZS R16: cells and coefficients of 16 bits, at their extremes"""
    number, numbers = find(integers, operand_bits=16), np.random.default_rng(1)
    build = builds(integers)[number]
    config = ZeroSkipConfig(tile_height=5, tile_width=7, kernels_in_flight=3, **build.fixed)
    coefficients = numbers.choice([-32768, 32767, 0, 1], (3, 5, 3, 3))
    images = numbers.choice([-32768, 32767, -1], (3, 9, 8))
    case = Case(config, layer_shape(coefficients, (9, 8), (1, 0, 2, 1), (2, 1)), images, coefficients)
    check(case, run_layer(integers, number, case, KernelFormat.ENTRY32))


@pytest.mark.parametrize("order", ORDERS)
def test_default_build(order: KernelOrder) -> None:
    """ZS R29, ZS R35, ZS R38: 32 lanes, 32x32 tiles, 16 kernels in flight, staged shifter, shared slices"""
    numbers, number = np.random.default_rng(2), find("native", lanes=32)
    coefficients = numbers.integers(-128, 128, (2, 18, 3, 3))
    coefficients[numbers.random(coefficients.shape) < 0.9] = 0
    images = numbers.integers(-128, 128, (2, 35, 34))
    case = Case(ZeroSkipConfig(order=order), layer_shape(coefficients, (35, 34), (1, 1, 1, 1)), images, coefficients)
    check(case, run_layer("native", number, case))


@pytest.mark.parametrize("size", [(16, 16), (16, 1), (1, 16), (11, 7)])
def test_large_kernels(size: tuple[int, int]) -> None:
    """ZS R9, ZS R31: every row and column shift, masks of many words"""
    numbers, number = np.random.default_rng(3), find("native", kernel_height=16)
    coefficients, images = numbers.integers(-128, 128, (1, 3, *size)), numbers.integers(-128, 128, (1, 20, 20))
    coefficients[numbers.random(coefficients.shape) < 0.5] = 0
    coefficients[0, 0] = 1
    config = ZeroSkipConfig(tile_height=20, tile_width=20, kernel_height=16, kernel_width=16)
    case = Case(config, layer_shape(coefficients, (20, 20)), images, coefficients)
    for fmt in FORMATS:
        check(case, run_layer("native", number, case, fmt))


@pytest.mark.parametrize("integers", BUILDS)
def test_depthwise_and_pointwise(integers: Integers) -> None:
    """ZS R9, ZS R12, ZS R13"""
    numbers, number = np.random.default_rng(4), find(integers, lanes=4, row_banks=8)
    fixed = builds(integers)[number].fixed
    config = ZeroSkipConfig(tile_height=4, tile_width=6, kernels_in_flight=5, **fixed)
    for coefficients, size in (
        (diagonal(numbers.integers(-9, 9, (5, 3, 3))), (6, 7)),
        (numbers.integers(-9, 9, (6, 7, 1, 1)), (1, 1)),
    ):
        images = numbers.integers(-128, 128, (len(coefficients), *size))
        check(
            case := Case(config, layer_shape(coefficients, size), images, coefficients),
            run_layer(integers, number, case),
        )


def test_clocks_of_the_loops_show_the_speed_up() -> None:
    """ZS R22, ZS R34: section 6.2 by every clock of the loops, with first load and pipeline of each image"""
    number, numbers = find("native", lanes=32), np.random.default_rng(8)
    clocks = {}
    for percent in (0, 50, 80, 90, 95):
        coefficients = pruned_coefficients(2304 * percent // 100)
        shape = layer_shape(coefficients, (56, 56), (1, 1, 1, 1))
        case = Case(ZeroSkipConfig(), shape, numbers.integers(-128, 128, (16, 56, 56)), coefficients)
        run = run_layer("native", number, case)
        check(case, run)
        clocks[percent] = run.counters["loop_cycles"] + IMAGE_DEPTH * run.counters["tile_loads"]
    assert clocks[0] / clocks[50] >= 1.95
    assert clocks[0] / clocks[80] >= 4.8
    assert clocks[0] / clocks[90] >= 9.5
    assert clocks[0] / clocks[95] >= 18


@pytest.mark.parametrize("fmt", FORMATS)
def test_loops_overlap_load_decompression_and_lanes(fmt: KernelFormat) -> None:
    """ZS R21, ZS R23, ZS R34, ZS R41, ZS R45: an image costs the longest of the three, the first one its load"""
    numbers, number = np.random.default_rng(5), find("native", lanes=32)
    coefficients = numbers.integers(-128, 128, (6, 16, 3, 3))
    coefficients[numbers.random(coefficients.shape) < np.linspace(0, 1, 6)[:, None, None, None]] = 0
    shape = layer_shape(coefficients, (32, 32), (1, 1, 1, 1))
    case = Case(ZeroSkipConfig(), shape, numbers.integers(-128, 128, (6, 32, 32)), coefficients)
    run = run_layer("native", number, case, fmt)
    compute = [*(32 * ordered_entries(coefficients, 16, "z_major").counts[0]), 0]
    arriving = np.maximum(decode_clocks(case, fmt)[0], 128)
    assert run.counters["decode_cycles"] == decode_clocks(case, fmt).sum()
    assert run.counters["load_cycles"] == 6 * 128
    assert run.counters["loop_cycles"] == arriving[0] + np.maximum(compute, [*arriving[1:], 0, 0][: len(compute)]).sum()


def test_decompression_never_limits_a_full_tile() -> None:
    """ZS R45: a coefficient a clock and a mask row a clock against 32 clocks an entry, 90 % zeros"""
    numbers = np.random.default_rng(6)
    coefficients = numbers.integers(1, 128, (16, 16, 3, 3))
    coefficients[numbers.random(coefficients.shape) < 0.9] = 0
    shape = layer_shape(coefficients, (32, 32))
    case = Case(ZeroSkipConfig(), shape, np.zeros((16, 32, 32), np.int64), coefficients)
    entries = ordered_entries(coefficients, 16, "z_major").counts
    assert (decode_clocks(case, KernelFormat.BITMAP) < 32 * entries).all()


def test_rows_padded_to_words() -> None:
    """ZS R11, ZS R19: rows of the image stream begin with a word; the cells between are not stored"""
    for name in LAYER_VECTORS:
        case, expected = vector_case(name)
        number = find("native", lanes=case.config.lanes, row_banks=8, rows_parallel=1)
        run = run_layer("native", number, case, word_cells=4)
        assert run.sums.tolist() == expected["out"]
        assert run.counters["load_cycles"] >= expected["orders"]["z_major"]["load_cycles"]


@pytest.mark.parametrize("integers", BUILDS)
def test_tile_command_vector(integers: Integers) -> None:
    """ZS R11, ZS R33: the words of section 2.3, decoded and loaded: every cell once, zeros around"""
    words = np.array([int(word, 16) for word in load_vectors("zs14_formats.json")["expected"]["tile_words"]], np.uint32)
    command, cells = unpack_tile(words.tolist())
    build = builds(integers)[find(integers, lanes=4, row_banks=8)]
    rows, columns = (7 * build.stride + build.kernel_height), (7 * build.stride + build.kernel_width)
    found, buffer = (ctypes.c_int32 * 12)(), np.full((rows, columns), 99, np.int32)
    clocks = library("zero_skip", integers).unit_zero_skip_tile(
        words.ctypes.data_as(ctypes.c_void_p), len(words), found, buffer.ctypes.data_as(ctypes.c_void_p)
    )
    assert clocks == 1
    assert list(found) == [int(getattr(command, name)) for name in command.__dataclass_fields__]
    wanted = np.zeros_like(buffer)
    wanted[1:3, 1:4] = cells
    np.testing.assert_array_equal(buffer, wanted)


@pytest.mark.parametrize("fmt", [KernelFormat.ENTRY32, KernelFormat.BITMAP])
def test_kernel_segment_vector(fmt: KernelFormat) -> None:
    """ZS R43-R46: the words of zs14 are the kernels that the engine applies: kernels 8 to 11 of 16 in flight"""
    vector = load_vectors("zs14_formats.json")
    coefficients = np.zeros((1, 12, 3, 3), np.int64)
    for z, ky, kx, c in vector["input"]["kernel_entries_z_ky_kx_c"]:
        coefficients[0, 8 + z, ky, kx] = c
    name = {KernelFormat.ENTRY32: "kernel_entry32", KernelFormat.BITMAP: "kernel_bitmap"}[fmt]
    words = np.array([int(word, 16) for word in vector["expected"][name]], np.uint32)
    images = np.random.default_rng(7).integers(-128, 128, (1, 36, 36))
    case = Case(ZeroSkipConfig(), layer_shape(coefficients, (36, 36)), images, coefficients)
    check(case, run_words("native", find("native", lanes=32), case, (words, np.array([0, len(words)]), 1)))


@pytest.mark.parametrize("integers", BUILDS)
def test_two_pixels_share_a_slice_exactly(integers: Integers) -> None:
    """ZS R35: all 2**24 triples of int8 with native integers, the extremes with ap_int; the operand has 25 bits"""
    pairs = library("zero_skip", integers).unit_zero_skip_pairs
    for bounds in [(-128, 128)] if integers == "native" else [(-128, -126), (126, 128), (0, 1)]:
        assert pairs(*bounds) == 0


@pytest.mark.parametrize("integers", BUILDS)
def test_both_shifters_are_equal(integers: Integers) -> None:
    """ZS R31: every amount"""
    assert library("zero_skip", integers).unit_zero_skip_shifts() == 0


def small_case() -> tuple[int, Case]:
    case, _ = vector_case("zs02_volume.json")
    return find("native", lanes=4, row_banks=8), case


def test_unordered_entries_are_refused() -> None:
    """ZS R49: the store appends, so the entries of a kernel come in raster order"""
    number, case = small_case()
    words, starts, segments = kernel_words(case, KernelFormat.ENTRY32)
    first, count = 2, int(kernel_segments(case.coefficients).entries[0])
    mixed = words.copy()
    mixed[first : first + count] = sorted(
        words[first : first + count].tolist(), key=lambda word: random.Random(word).random()
    )
    with pytest.raises(SimulationError, match="a kernel segment has entries that are not in raster order"):
        run_words("native", number, case, (mixed, starts, segments))


def test_any_order_of_the_stream_gives_any_order_of_the_engine() -> None:
    """ZS R48: entries of different kernels may be mixed on the stream"""
    number, case = small_case()
    words, starts, segments = kernel_words(case, KernelFormat.ENTRY32)
    for start, end in pairwise(starts):
        words[start + 2 : end] = sorted(
            words[start + 2 : end].tolist(), key=lambda word: (word >> 20 & 15, word >> 16 & 15)
        )
    for order in ORDERS:
        ordered = replace(case, config=replace(case.config, order=order))
        check(ordered, run_words("native", number, ordered, (words, starts, segments)))


@pytest.mark.parametrize(("position", "value", "sentence"), [
    (0, 0x0000024B, "a kernel segment begins with the word"),
    (1, 0x0400000B, "a kernel segment reaches kernel 4"),
    (2, 0x00300006, "a kernel segment has an entry outside its kernels"),
    (2, 0x04000006, "a kernel segment has an entry outside its kernels, for kernel 4"),
    (1, 0x0300000C, "the kernel stream is empty"),
    (1, 0x0300000A, "the decoder left words: 1"),
])  # fmt: skip
def test_illegal_kernel_streams_stop_the_simulation(position: int, value: int, sentence: str) -> None:
    """ZS R49"""
    number, case = small_case()
    words, starts, segments = kernel_words(case, KernelFormat.ENTRY32)
    assert words[1] == 0x0300000B
    words[position] = value
    with pytest.raises(SimulationError, match=sentence):
        run_words("native", number, case, (words, starts, segments))


def test_layers_beyond_the_build_stop_the_simulation() -> None:
    """ZS R38"""
    number, case = small_case()
    wide = np.ones((1, 1, 2, 6), np.int64)
    with pytest.raises(SimulationError, match="a layer has larger kernels than the build"):
        run_layer("native", number, Case(case.config, layer_shape(wide, (7, 8)), case.images[:1], wide))
    one = np.ones((1, 1, 1, 1), np.int64)
    shape = layer_shape(one, (7, 8), stride=(4, 1))
    with pytest.raises(SimulationError, match="a layer has a larger stride than the build: 4"):
        run_layer("native", number, Case(case.config, shape, case.images[:1], one))


TOP = """\
#include <hls_stream.h>
#include "bfpga/zero_skip/engine.hpp"
struct Cells {
    hls::stream<ap_uint<64> >& input;
    bfpga::CellBeat<bfpga::ZeroSkipDefaults> read() {
        const ap_uint<64> word = input.read();
        bfpga::CellBeat<bfpga::ZeroSkipDefaults> beat;
    Cells_Split:
        for (int k = 0; k < 8; ++k) {
#pragma HLS UNROLL
            beat.cell[k] = word.range(8 * k + 7, 8 * k);
        }
        return beat;
    }
};
struct Words {
    hls::stream<ap_uint<32> >& input;
    uint32_t read() { return input.read().to_uint(); }
};
struct Sums {
    hls::stream<ap_uint<32> >& output;
    void write(const bfpga::SumWord<bfpga::ZeroSkipDefaults>& word) { output.write(word.lane[0]); }
};
void top(hls::stream<ap_uint<64> >& image, hls::stream<ap_uint<32> >& kernel, hls::stream<ap_uint<32> >& output) {
#pragma HLS INTERFACE axis port=image
#pragma HLS INTERFACE axis port=kernel
#pragma HLS INTERFACE axis port=output
    static bfpga::ZeroSkipEngine<bfpga::ZeroSkipDefaults> engine;
    const bfpga::ZeroSkipLayer layer = {16, 3, 3, 1, 1, bfpga::ZeroSkipOrder::Interleaved, true};
    engine.start(layer);
    Cells cells = {image};
    Words words = {kernel};
    Sums sums = {output};
    bfpga::ZeroSkipCounters counters = {};
    const bfpga::TileWindow window = {0, 0, 34, 34, 34, 32, 32};
    const bfpga::ZeroSkipImage next = {window, 1, true};
    engine.image(0, next, cells, words, counters);
    engine.read_out(0, window, sums);
}
"""


def test_engine_keeps_the_rules_of_synthesis(tmp_path: Path) -> None:
    """Every loop labelled and bound, every pragma legal, in an engine that is instantiated"""
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    write_rendered(tmp_path)
    findings = lint.lint_sources({"top.cpp": TOP}, [library_directory(), tmp_path])
    assert lint.format_findings(findings) == "no findings"


def test_a_loop_that_writes_a_memory_before_it_reads_it_is_allowed_by_name_alone(tmp_path: Path) -> None:
    """What is known to cost clocks stays visible in the code: without its comment it is a finding."""
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    write_rendered(tmp_path)
    engine = "bfpga/zero_skip/engine.hpp"
    text, count = re.subn(r"  // lint: allow\(memory-order\).*", "", (library_directory() / engine).read_text())
    assert count == 1
    (tmp_path / engine).parent.mkdir(parents=True)
    (tmp_path / engine).write_text(text)
    (found,) = lint.lint_sources({"top.cpp": TOP}, [tmp_path, library_directory()])
    assert (found.rule, Path(found.file).name) == ("memory-order", "engine.hpp")
    assert "loop `Image` writes memory" in found.problem


ILLEGAL = {
    "kernel_width = 17": "entries hold kx in 4 bits",
    "accumulator_bits = 49": "accumulators have 16 to 48 bits",
    "row_banks = 3": "the row banks are a power of two",
    "beat_cells = 6": "the cells of a beat are a power of two",
    "rows_parallel = 4": "rows that are read together lie in different banks",
    "accumulator_words = 511": "the accumulators hold a tile of every kernel in flight",
    "entry_depth = 17": "2 to 16 entries wait",
    "operand_bits = 9": "two pixels share a slice only if the numbers have 8 bits at most",
}


@pytest.mark.parametrize("assignment", ILLEGAL)
def test_illegal_numbers_do_not_compile_and_say_why(assignment: str, tmp_path: Path) -> None:
    """ZS R36, ZS R38, ZS R47"""
    write_rendered(tmp_path)
    source = tmp_path / "unit.cpp"
    source.write_text(
        '#include "bfpga/zero_skip/engine.hpp"\n'
        f"struct Illegal : bfpga::ZeroSkipDefaults {{ static constexpr int {assignment}; }};\n"
        "template struct bfpga::ZeroSkipTypes<Illegal>;\n"
        "constexpr int bits = Illegal::operand_bits;\n"
        "void product(const bfpga::int_t<bits> (&x)[2], bfpga::int_t<bits + 8> (&p)[2]) {\n"
        "    Illegal::Multiplier::multiply<bits, 8, 2>(x, 1, p);\n"
        "}\n"
    )
    flags = [*toolchain.WARNINGS, "-fsyntax-only", "-DBFPGA_NATIVE_INTEGERS"]
    places = ["-I", str(library_directory()), "-I", str(tmp_path)]
    result = subprocess.run([compiler(), *flags, *places, str(source)], capture_output=True, text=True, check=False)
    assert ILLEGAL[assignment] in result.stderr
