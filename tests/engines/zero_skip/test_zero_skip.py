"""The zero-skip engine in numpy against the vectors, a step-by-step reference, and the tables of its specification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from reference import load_vectors
from reference_zero_skip import ReferenceEngine, Run, entries_in_order
from zero_skip_cases import LAYER_VECTORS, ORDERS, Case, cases, pruned_coefficients, vector_case

from bfpga.engines.array.products import EXACT_FLOAT32
from bfpga.engines.zero_skip.arithmetic import (
    IMAGE_DEPTH,
    KernelOrder,
    ZeroSkipConfig,
    ZeroSkipShape,
    convolve,
    diagonal,
    flipped,
    layer_shape,
)
from bfpga.engines.zero_skip.counters import count_layer, extents, load_clocks, predicted_cycles
from bfpga.engines.zero_skip.image_stream import TileCommand, pack_tile, unpack_tile
from bfpga.engines.zero_skip.order import choose_order, ordered_entries, stalls
from bfpga.errors import ConfigurationError, DataError


def sums(case: Case, **changes: Any) -> list[Any]:
    """The engine's result: [kernel][row][column]."""
    config = replace(case.config, **changes)
    result = convolve(config, case.shape, case.samples, case.coefficients, case.bias)
    return result.sums[0].transpose(2, 0, 1).tolist()


def counters(case: Case, **changes: Any) -> dict[str, int]:
    return count_layer(replace(case.config, **changes), case.shape, case.coefficients).as_dict()


def step_by_step(case: Case, **changes: Any) -> Run:
    bias = None if case.bias is None else case.bias.tolist()
    engine = ReferenceEngine(
        replace(case.config, **changes), case.shape, case.images.tolist(), case.coefficients.tolist(), bias
    )
    return engine.run()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LAYER_VECTORS)
def test_vectors(name: str, order: KernelOrder) -> None:
    """ZS R1-R11, ZS R18, ZS R21, ZS R24, ZS R37, ZS R41, ZS R48, ZS R51, ZS R52: results and counters, in all orders"""
    case, expected = vector_case(name, order)
    assert sums(case) == expected["out"]
    counted = counters(case)
    assert {name: counted[name] for name in expected["orders"][order]} == expected["orders"][order]


@pytest.mark.parametrize("name", LAYER_VECTORS)
def test_vectors_without_skipping(name: str) -> None:
    """ZS R22: the dense mode has the same result and the stated clocks; zeros alone make the difference"""
    case, expected = vector_case(name, skip_zero=False)
    assert sums(case) == expected["out"]
    counted = counters(case)
    assert counted["compute_cycles"] == expected["dense_compute_cycles"]
    assert counted["coef_skipped"] == 0


@settings(max_examples=200, deadline=None)
@given(cases())
def test_result_and_counters_are_those_of_the_steps(case: Case) -> None:
    """ZS R1-R11, ZS R14, ZS R15, ZS R26-R28, ZS R36, ZS R39, ZS R40, ZS R51: any layer, build and order"""
    run = step_by_step(case)
    assert sums(case) == run.sums
    counted = counters(case)
    assert {name: counted[name] for name in run.counters} == run.counters


@settings(max_examples=40, deadline=None)
@given(cases())
def test_bits_do_not_depend_on_the_schedule(case: Case) -> None:
    """ZS R15, ZS R26: tile size, lanes, kernels in flight, order, nest and skipping change counters only"""
    wanted = step_by_step(case).sums
    other = {"tile_height": 3, "tile_width": 2, "lanes": 1, "rows_parallel": 2, "kernels_in_flight": 2}
    for nest in ("tile_outer", "image_outer"):
        for order in ORDERS:
            changes: dict[str, Any] = {**other, "nest": nest, "order": order, "skip_zero": not case.config.skip_zero}
            assert step_by_step(case, **changes).sums == sums(case, **changes) == wanted


def test_sequence_of_a_layer() -> None:
    """The reference keeps to section 4.1: position, image, load, its entries in order; sums leave after the last"""
    case, _ = vector_case("zs02_volume.json", "interleaved")
    trace = step_by_step(case).trace
    positions = [(0, 0), (0, 4), (3, 0), (3, 4)]
    wanted: list[tuple[Any, ...]] = []
    for position in positions:
        for image in range(3):
            wanted.append(("load", position, image))
            for z, ky, kx, c in entries_in_order(case.coefficients[image].tolist(), "interleaved", True):
                wanted.append(("entry", z, image, ky, kx, c))
        wanted.append(("emit", position))
    assert trace == wanted
    assert all(event[-1] != 0 for event in trace if event[0] == "entry")


def test_image_by_image_over_all_tiles() -> None:
    """ZS R26: the other nest has the same bits and stores sums for the whole plane"""
    case, expected = vector_case("zs02_volume.json", nest="image_outer")
    run = step_by_step(case)
    assert run.sums == expected["out"]
    assert [event[2] for event in run.trace if event[0] == "load"] == [0] * 4 + [1] * 4 + [2] * 4
    assert counters(case)["acc_words"] == 4 * 6 * 6


@pytest.mark.parametrize("order", ORDERS)
def test_entries_come_in_the_order(order: KernelOrder) -> None:
    """ZS R20, ZS R23, ZS R27, ZS R43, ZS R44, ZS R46, ZS R48"""
    case, _ = vector_case("zs12_z_groups.json")
    entries = ordered_entries(case.coefficients, 2, order)
    found = list(zip(entries.group, entries.image, entries.kernel, entries.ky, entries.kx, strict=True))
    wanted = [
        (group, image, z, ky, kx)
        for group in range(3)
        for image in range(case.shape.images)
        for z, ky, kx, _ in entries_in_order(case.coefficients[image, 2 * group : 2 * group + 2].tolist(), order, True)
    ]
    assert [tuple(int(number) for number in entry) for entry in found] == wanted
    assert entries.coefficient.all()


def test_depthwise_is_a_diagonal_array() -> None:
    """ZS R12: off-diagonal kernels are no entries"""
    numbers = np.random.default_rng(1)
    kernels, images = numbers.integers(1, 9, (3, 3, 3)), numbers.integers(-9, 9, (1, 6, 6, 3))
    coefficients = diagonal(kernels)
    shape, config = layer_shape(coefficients, (6, 6)), ZeroSkipConfig(tile_height=4, tile_width=4, lanes=4)
    found = convolve(config, shape, images, coefficients).sums
    for z in range(3):
        alone = convolve(
            config, layer_shape(kernels[z][None, None], (6, 6)), images[..., z : z + 1], kernels[z][None, None]
        )
        np.testing.assert_array_equal(found[..., z], alone.sums[..., 0])
    assert count_layer(config, shape, coefficients).coef_entries == 27 * 1 * 1


def test_fully_connected_is_one_by_one_on_one_cell() -> None:
    """ZS R13"""
    numbers = np.random.default_rng(2)
    weights, x = numbers.integers(-128, 128, (7, 20)), numbers.integers(-128, 128, 20)
    coefficients = weights.T[:, :, None, None]
    result = convolve(ZeroSkipConfig(), layer_shape(coefficients, (1, 1)), x[None, None, None], coefficients)
    np.testing.assert_array_equal(result.sums[0, 0, 0], weights @ x)


def test_volume_features_and_samples() -> None:
    """ZS R2, ZS R16: samples are independent; 16-bit numbers whose sums leave float32"""
    numbers = np.random.default_rng(3)
    x, coefficients = numbers.integers(-32768, 32768, (3, 5, 6, 4)), numbers.integers(-32768, 32768, (4, 2, 3, 3))
    config = ZeroSkipConfig(operand_bits=16, coefficient_bits=16, accumulator_bits=40, multiplier="dsp")
    shape = layer_shape(coefficients, (5, 6), (1, 1, 1, 1))
    found = convolve(config, shape, x, coefficients)
    assert int(np.abs(found.sums).max()) > EXACT_FLOAT32
    for n in range(3):
        case = Case(config, shape, x[n].transpose(2, 0, 1), coefficients)
        assert found.sums[n].transpose(2, 0, 1).tolist() == step_by_step(case).sums


def test_accumulators_wrap_and_tell() -> None:
    """ZS R39: modulo 2**accumulator_bits, no saturation"""
    coefficients, x = np.full((4, 1, 3, 3), 127), np.full((1, 3, 3, 4), 127)
    config, shape = ZeroSkipConfig(accumulator_bits=16), layer_shape(coefficients, (3, 3))
    result = convolve(config, shape, x, coefficients)
    assert result.overflow
    assert result.sums.item() == (36 * 127 * 127 + 32768) % 65536 - 32768
    assert not convolve(replace(config, accumulator_bits=32), shape, x, coefficients).overflow


def test_rotated_kernel_is_the_true_convolution() -> None:
    """ZS R1: correlation with the flipped kernel"""
    kernel, x = np.arange(1, 7).reshape(2, 3), np.arange(20).reshape(4, 5)
    found = sums(Case(ZeroSkipConfig(), layer_shape(kernel[None, None], (4, 5)), x[None], flipped(kernel[None, None])))
    for r in range(3):
        for c in range(3):
            assert found[0][r][c] == sum(kernel[1 - a, 2 - b] * x[r + a, c + b] for a in range(2) for b in range(3))


def test_tile_loads() -> None:
    """ZS R19, ZS R27-R29, ZS R33: a load serves all kernels in flight; a load per group; none for an empty image"""
    case, _ = vector_case("zs12_z_groups.json")
    loads = {flight: counters(case, kernels_in_flight=flight)["load_words"] for flight in (1, 2, 5, 16)}
    assert loads[1] == 5 * loads[5]
    assert loads[2] == 3 * loads[5]
    assert loads[16] == loads[5]
    empty = case.coefficients.copy()
    empty[0] = 0
    sparse = replace(case, coefficients=empty)
    assert counters(sparse)["tile_loads"] == counters(case)["tile_loads"]
    assert counters(sparse, skip_empty=True)["tile_loads"] * 2 == counters(case)["tile_loads"]


def test_buffers() -> None:
    """ZS R33, ZS R38: sizes by equation Z5"""
    case, _ = vector_case("zs07_stride2.json")
    counted = counters(case)
    assert counted["acc_words"] == 2 * 3 * 3
    assert counted["tile_buffer_words"] == (2 * 2 + case.shape.kernel_height) * (2 * 2 + case.shape.kernel_width)


@pytest.mark.parametrize(("rows", "columns", "banks", "clocks"), [
    (34, 34, 2, 145), (6, 6, 8, 5), (6, 6, 1, 9), (6, 6, 2, 5), (5, 1, 1, 5), (5, 1, 2, 3), (0, 7, 1, 0),
])  # fmt: skip
def test_load_clocks(rows: int, columns: int, banks: int, clocks: int) -> None:
    """ZS R19, ZS R34: beats of 8 cells; a beat that touches more rows than there are banks takes longer"""
    assert load_clocks(ZeroSkipConfig(row_banks=banks), rows, columns) == clocks


def test_clocks_of_a_layer_hold_what_nothing_hides() -> None:
    """ZS R34, ZS R53: first load, pipeline of each image and output are part of the prediction"""
    case, _ = vector_case("zs02_volume.json")
    counted = count_layer(case.config, case.shape, case.coefficients)
    parts = counted.total_cycles + counted.out_cycles + counted.first_load_cycles + IMAGE_DEPTH * counted.tile_loads
    assert predicted_cycles(case.config, case.shape, case.coefficients) == parts == 496 + 72 + 3 + 8 * 12
    single = count_layer(replace(case.config, double_buffer=False), case.shape, case.coefficients)
    assert single.total_cycles == single.compute_cycles + single.load_cycles


LAYER = ZeroSkipShape(16, 16, 3, 3, 56, 56, (1, 1, 1, 1))


@pytest.mark.parametrize(("percent", "least"), [(50, 1.95), (80, 4.8), (90, 9.5), (95, 18)])
def test_speed_up_over_the_same_engine_without_skipping(percent: int, least: float) -> None:
    """ZS R22, ZS R29: section 6.2, with the loads that compute cannot hide"""
    coefficients, config = pruned_coefficients(2304 * percent // 100), ZeroSkipConfig()
    dense = count_layer(replace(config, skip_zero=False), LAYER, coefficients)
    sparse = count_layer(config, LAYER, coefficients)
    assert (dense.compute_cycles, dense.load_cycles) == (258048, 6784)
    assert dense.load_words == 53824
    assert dense.total_cycles / sparse.total_cycles >= least


@pytest.mark.parametrize(("height", "order", "waiting"), [
    (1, "z_major", 12288), (2, "z_major", 4096), (4, "z_major", 0), (8, "z_major", 0),
    (1, "pos_major", 0), (2, "pos_major", 0), (1, "interleaved", 0), (2, "interleaved", 0),
])  # fmt: skip
def test_stalls_of_the_orders(height: int, order: KernelOrder, waiting: int) -> None:
    """ZS R40, ZS R48: section 6.4"""
    coefficients = np.ones((4, 8, 3, 3), np.int64)
    config = ZeroSkipConfig(tile_height=height, tile_width=16, lanes=16, order=order)
    counted = count_layer(config, layer_shape(coefficients, (16, 16), (1, 1, 1, 1)), coefficients)
    assert counted.hazard_stalls == waiting
    assert counted.shift_changes == 4 * 16 // height * (9 if order != "z_major" else 72)


def test_order_is_chosen_where_the_configured_one_stalls() -> None:
    """ZS R40, ZS R48: section 4.4"""
    coefficients = np.ones((1, 2, 3, 3), np.int64)
    assert choose_order(ZeroSkipConfig(order="z_major"), coefficients, 4) == "z_major"
    assert choose_order(ZeroSkipConfig(order="z_major"), coefficients, 1) == "pos_major"
    entries = ordered_entries(coefficients, 2, "pos_major")
    assert stalls(entries, 1, 4).tolist() == [[16]]


def test_tiles_cover_the_output_once() -> None:
    """ZS R4, ZS R19, ZS R25: the last tile is smaller; every tile is loaded with its halo"""
    assert extents(7, 3, 3, 1, 0, 9).outputs.tolist() == [3, 3, 1]
    assert extents(7, 3, 3, 1, 1, 7).valid.tolist() == [4, 5, 2]
    assert extents(2, 4, 5, 2, 9, 3).valid.tolist() == [0]


def test_row_packing_of_lanes_is_not_counted() -> None:
    """ZS R36: a row of a tile takes ceil(width / lanes) clocks, groups of rows with several rows in parallel"""
    config = ZeroSkipConfig(lanes=32, rows_parallel=4)
    assert config.steps([32, 24, 5], [32, 33, 7]).tolist() == [8, 12, 2]


def test_tile_command_vector() -> None:
    """ZS R11, ZS R19: section 2.3"""
    vector = load_vectors("zs14_formats.json")
    fields, cells = vector["input"]["tile"], np.array(vector["input"]["cells"])
    command = TileCommand(
        bool(fields["first_kz"]), bool(fields["last_kz"]), bool(fields["last_tile"]), fields["kz"], fields["row0"],
        fields["col0"], *cells.shape, fields["top"], fields["left"], fields["th"], fields["tw"],
    )  # fmt: skip
    words = pack_tile(command, cells)
    assert words == [int(word, 16) for word in vector["expected"]["tile_words"]]
    found, back = unpack_tile(words)
    assert found == command
    np.testing.assert_array_equal(back, cells)


@pytest.mark.parametrize("operand_bytes", [1, 2])
@pytest.mark.parametrize("size", [(0, 0), (1, 1), (3, 5), (34, 34), (2, 256)])
def test_tile_commands_round_trip(size: tuple[int, int], operand_bytes: int) -> None:
    """ZS R11"""
    half = 1 << (8 * operand_bytes - 1)
    cells = np.random.default_rng(6).integers(-half, half, size)
    command = TileCommand(False, True, True, 65535, -3, 32767, *size, 255, 0, 256, 1)
    found, back = unpack_tile(pack_tile(command, cells, operand_bytes), operand_bytes)
    assert found == command
    np.testing.assert_array_equal(back, cells)


def test_bad_tile_commands_are_refused() -> None:
    command = TileCommand(True, True, True, 0, 0, 0, 1, 2, 0, 0, 1, 1)
    with pytest.raises(DataError, match="tile_width is 257, it must be 1 to 256"):
        replace(command, tile_width=257)
    with pytest.raises(DataError, match="1x2 cells are to follow"):
        pack_tile(command, np.zeros((2, 2), np.int64))
    with pytest.raises(DataError, match="cells of 1 bytes are -128 to 127"):
        pack_tile(command, np.array([[128, 0]]))
    with pytest.raises(DataError, match="no tile command of version 1"):
        unpack_tile([0x00000251, 0, 0, 0])
    with pytest.raises(DataError, match="1 words of cells are to follow, there are 2"):
        unpack_tile([*pack_tile(command, np.array([[1, 2]])), 0])


@pytest.mark.parametrize(("field", "value", "sentence"), [
    ("tile_height", 257, "tile_height is 257, it must be 1 to 256"),
    ("rows_parallel", 33, "rows_parallel is 33, it must be 1 to 32"),
    ("accumulator_bits", 49, "accumulator_bits is 49, it must be 16 to 48"),
    ("order", "random", "order is 'random', it must be z_major, pos_major, interleaved"),
    ("row_banks", 3, "row_banks is 3, it must be a power of two"),
    ("bus_bytes", 6, "beat_cells is 6, it must be a power of two"),
    ("operand_bits", 9, "dsp_packed takes operands and coefficients of 8 bits at most"),
])  # fmt: skip
def test_bad_configurations_are_refused(field: str, value: Any, sentence: str) -> None:
    """ZS R38"""
    with pytest.raises(ConfigurationError, match=sentence):
        ZeroSkipConfig(**{field: value})


def test_bad_layers_are_refused() -> None:
    """ZS R49"""
    coefficients, x = np.ones((1, 1, 3, 3), np.int64), np.zeros((1, 5, 5, 1), np.int64)
    shape, config = layer_shape(coefficients, (5, 5)), ZeroSkipConfig()
    with pytest.raises(DataError, match="does not fit an image of 2x5"):
        layer_shape(coefficients, (2, 5))
    with pytest.raises(DataError, match="four axes"):
        layer_shape(coefficients[0], (5, 5))
    with pytest.raises(DataError, match="sizes and strides are 1 at least"):
        layer_shape(coefficients, (5, 5), stride=(0, 1))
    with pytest.raises(ConfigurationError, match="kernels of 3x3, this build takes up to 2x7"):
        convolve(replace(config, kernel_height=2), shape, x, coefficients)
    with pytest.raises(ConfigurationError, match=r"stride \(3, 1\), this build takes up to 2"):
        convolve(config, layer_shape(coefficients, (5, 5), stride=(3, 1)), x, coefficients)
    with pytest.raises(DataError, match="coefficients of 8 bits are -128 to 127, these are 0 to 128"):
        convolve(config, shape, x, coefficients * 128)
    with pytest.raises(DataError, match="image cells are whole numbers, these are float64"):
        convolve(config, shape, x.astype(np.float64), coefficients)
    with pytest.raises(DataError, match="images are"):
        convolve(config, shape, x[:, :4], coefficients)
    with pytest.raises(DataError, match="coefficients are"):
        count_layer(config, shape, coefficients[:, :, :2])
