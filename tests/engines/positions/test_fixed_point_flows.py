"""Flows of fixed-point positions in numpy: outputs, positions, what is computed, what can be read (FP 3.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from position_cases import FLOWS as VECTORS
from position_cases import RULES, case_rule, expected_shift

from bfpga.contract.program import Window
from bfpga.engines.positions.flows import PositionEmulator
from bfpga.engines.positions.layers import (
    Addition,
    AveragePooling,
    BatchNormalization,
    Convolution,
    FullyConnected,
    MaximumPooling,
    Relu,
)
from bfpga.engines.positions.sampling import SampleFraction, Sampling
from bfpga.engines.positions.settings import FlowSettings
from bfpga.engines.positions.times import FLOWS, Flow
from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.fixed_point import FixedPointFormat, FixedTensor, fixed_point_tensor
from bfpga.formats.position_rules import PositionRule
from bfpga.formats.wide_statistics import StatisticsKind, collect

STATISTICS_FLOWS: tuple[Flow, ...] = ("two_pass", "two_pass_sampled", "keep", "keep_sampled")
EIGHTH = Sampling.along("H", SampleFraction(1, 8))


def tensor(mantissa: Any, position: int = 0) -> FixedTensor:
    return FixedTensor(np.asarray(mantissa, np.int64), np.array(position))


def vector_network() -> tuple[FixedTensor, list[FullyConnected]]:
    """The specification's example: 16 items, 6 -> 5 -> 4."""
    weights = [tensor(weight, VECTORS["p_w"]) for weight in VECTORS["weights"]]
    layers = [FullyConnected(f"layer{number}", weight) for number, weight in enumerate(weights)]
    return tensor(VECTORS["x"], VECTORS["p_in"]), layers


def vector_settings(flow: Flow, **changes: Any) -> FlowSettings:
    """Of the vectors; the previous shift 6 at position 10 of the accumulator is position 4."""
    rule = case_rule(VECTORS["cfg"])
    standard = FlowSettings(flow, rule=rule, sampling=EIGHTH, advance_sample=False, initial_position=4)
    return replace(standard, **changes)


def random_network(seed: int) -> tuple[FixedTensor, list[FullyConnected]]:
    """16 items through three layers of four."""
    rng = np.random.default_rng(seed)
    layers = [FullyConnected(f"layer{n}", tensor(rng.integers(-127, 128, (4, 4)), 6)) for n in range(3)]
    return tensor(rng.integers(-128, 128, (16, 4)), 4), layers


@pytest.mark.parametrize("number", range(5))
def test_flow_vectors(number: int) -> None:
    """FP R21-R25, FP R27, FP R48, FP R49: outputs, shifts, positions, saturated values, rows computed and kept"""
    x, layers = vector_network()
    emulator = PositionEmulator(vector_settings(FLOWS[number]))
    result, wanted = emulator.run(layers, x), VECTORS["flows"][str(number)]
    assert result.mantissa.tolist() == wanted["out"]
    for layer, trace, expected in zip(layers, emulator.trace, wanted["trace"], strict=True):
        assert (trace.shift, trace.position, trace.saturated) == tuple(
            expected[name] for name in ("shift", "out_point", "saturated")
        )
        names = ("mac_rows", "wide_rows_written", "wide_rows_read")
        assert trace.cost.rows(layer.weights.mantissa.shape[1]) == tuple(expected["cost"][name] for name in names)
    assert result.position == wanted["trace"][-1]["out_point"]


def plain_flow(x: FixedTensor, layers: list[FullyConnected], rule: PositionRule) -> tuple[list[int], list[list[int]]]:
    """Flow 1 in Python integers: shifts and the last results."""
    rows, shifts = x.mantissa.tolist(), []
    for layer in layers:
        columns = layer.weights.mantissa.T.tolist()
        wide = [[sum(a * w for a, w in zip(row, column, strict=True)) for column in columns] for row in rows]
        shifts.append(expected_shift([value for row in wide for value in row], rule, 8))
        scale = 2.0 ** -shifts[-1]
        rows = [[min(max(round(value * scale), -128), 127) for value in row] for row in wide]
    return shifts, rows


@settings(max_examples=drawn(40))
@given(seed=st.integers(0, 1 << 30), rule=RULES)
def test_two_passes_by_definition(seed: int, rule: PositionRule) -> None:
    """FP R8, FP R20, FP R22: the preceding operation is the main one, on all data; against plain integers"""
    x, layers = random_network(seed)
    emulator = PositionEmulator(FlowSettings("two_pass", rule=rule, statistics=StatisticsKind(lsb="minimum")))
    result = emulator.run(layers, x)
    assert ([int(trace.shift) for trace in emulator.trace], result.mantissa.tolist()) == plain_flow(x, layers, rule)


def test_all_flows_are_equal_when_everything_is_sampled() -> None:
    """FP R24, FP R25, FP R26: 200 random networks; 1 = 3 and 2 = 4 with any sample"""
    for seed in range(200):
        x, layers = random_network(seed)
        found = {}
        for fraction in (SampleFraction(8, 8), SampleFraction(1, 8)):
            for flow in STATISTICS_FLOWS:
                emulator = PositionEmulator(vector_settings(flow, sampling=Sampling.along("H", fraction)))
                result = emulator.run(layers, x)
                found[flow, fraction.thickness] = (result.mantissa.tolist(), [int(t.position) for t in emulator.trace])
        assert all(found[flow, 8] == found["two_pass", 1] for flow in STATISTICS_FLOWS)
        assert found["two_pass", 1] == found["keep", 1]
        assert found["two_pass_sampled", 1] == found["keep_sampled", 1]


@pytest.mark.parametrize(("flow", "computed", "kept"), [
    ("delayed", 16, 0),
    ("static", 16, 0),
    ("two_pass", 32, 0),
    ("two_pass_sampled", 18, 0),
    ("keep", 16, 16),
    ("keep_sampled", 16, 2),
])  # fmt: skip
def test_cost_of_the_flows(flow: Flow, computed: int, kept: int) -> None:
    """FP R13, FP R22-R25: rows computed (f + 1 or 1), wide rows kept; only the main pass writes narrow results"""
    x, layers = random_network(7)
    emulator = PositionEmulator(vector_settings(flow, static_positions={layer.name: 0 for layer in layers}))
    emulator.run(layers, x)
    assert [trace.cost.rows(4) for trace in emulator.trace] == [(computed, kept, kept)] * 3
    assert [trace.cost.narrow_written for trace in emulator.trace] == [64] * 3


def test_sampled_statistics_are_those_of_the_sampled_results_alone() -> None:
    """FP R11, FP R29: a sampled output is a complete sum; the main pass, which is over more, collects nothing"""
    x, layers = random_network(3)
    wide = x.mantissa @ layers[0].weights.mantissa
    for flow, rows in (("two_pass", wide), ("two_pass_sampled", wide[::8]), ("keep_sampled", wide[::8])):
        emulator = PositionEmulator(vector_settings(flow))
        emulator.run(layers, x)
        found, expected = emulator.trace[0].statistics, collect(rows, StatisticsKind())
        assert found.total == rows.size
        np.testing.assert_array_equal(found.nsb_histogram, expected.nsb_histogram)


def test_statistics_begin_anew_with_every_layer() -> None:
    """FP R15: a layer of large results leaves nothing to a layer of small ones"""
    identity = np.eye(3, dtype=np.int64)
    layers = [FullyConnected("large", tensor(identity * 127)), FullyConnected("small", tensor(identity))]
    emulator = PositionEmulator(FlowSettings("two_pass", rule=PositionRule("max")))
    emulator.run(layers, tensor([[100, -100, 5]]))
    assert [int(trace.statistics.nsb_max) for trace in emulator.trace] == [13, 6]
    assert [trace.statistics.total for trace in emulator.trace] == [3, 3]
    assert [int(trace.shift) for trace in emulator.trace] == [7, 0]


def test_first_and_second_position_of_every_layer() -> None:
    """FP R18: the first is that of the layer before, preset for the first layer; the second is selected"""
    x, layers = vector_network()
    emulator = PositionEmulator(vector_settings("two_pass"))
    emulator.run(layers, x)
    assert [(int(t.first_position), int(t.position)) for t in emulator.trace] == [(4, 1), (1, 0)]
    x, layers = random_network(11)
    emulator.run(layers, x)
    positions = [int(t.position) for t in emulator.trace]
    assert positions[0] != positions[1], "of three layers in a row, so that the first layer's is not meant"
    assert [int(t.first_position) for t in emulator.trace] == [4, *positions[:-1]]


@pytest.mark.parametrize("flow", STATISTICS_FLOWS)
def test_results_do_not_depend_on_the_first_position(flow: Flow) -> None:
    """FP R19: it is a label of exact integers"""
    x, layers = random_network(11)
    runs = []
    for assumed in (None, -32, 0, 47):
        emulator = PositionEmulator(vector_settings(flow, assumed_position=assumed))
        runs.append((emulator.run(layers, x).mantissa.tolist(), [int(t.position) for t in emulator.trace]))
        assert assumed is None or {int(t.first_position) for t in emulator.trace} == {assumed}
    assert all(run == runs[0] for run in runs)


def test_delayed_uses_the_position_of_the_iteration_before() -> None:
    """FP R21: preset first, then what two passes would have selected an iteration ago"""
    first, layers = random_network(21)
    second = tensor(first.mantissa // 16, 4)
    delayed = PositionEmulator(vector_settings("delayed"))
    used = []
    for x in (first, second, second):
        delayed.run(layers[:1], x)
        used.append(int(delayed.trace[0].position))
    selected = []
    for x in (first, second):
        exact = PositionEmulator(vector_settings("two_pass"))
        exact.run(layers[:1], x)
        selected.append(int(exact.trace[0].position))
    assert used == [4, *selected]
    assert selected[0] < selected[1]
    assert delayed.iterations == 3


@pytest.mark.parametrize("inner", [131071, 131072])
def test_the_longest_sum_of_a_wide_result(inner: int) -> None:
    """FP R8: 131 071 products of -128 * -128 fit 32 bits, one more does not"""
    x, layer = tensor(np.full((1, inner), -128)), FullyConnected("long", tensor(np.full((inner, 1), -128)))
    emulator = PositionEmulator(FlowSettings("two_pass", rule=PositionRule("max")))
    if inner == 131072:
        with pytest.raises(DataError, match="layer 'long': a wide result needs 33 bits, acc_width is 32"):
            emulator.run([layer], x)
        return
    assert emulator.run([layer], x).mantissa.tolist() == [[127]]  # 127.999 at shift 24
    assert (emulator.trace[0].shift, emulator.trace[0].statistics.nsb_max) == (24, 30)


def test_positions_that_no_register_holds_name_the_layer() -> None:
    """FP 2.1"""
    layer = FullyConnected("tiny", tensor([[1]], 40))
    with pytest.raises(DataError, match="layer 'tiny': position 80 is outside"):
        PositionEmulator(FlowSettings("two_pass", rule=PositionRule("max"))).run([layer], tensor([[100]], 40))


WINDOW = Window(
    kernel_height=3, kernel_width=3, stride_y=2, stride_x=1, pad_top=1, pad_left=1, output_height=4, output_width=7
)


def plain_convolution(x: np.ndarray, weights: np.ndarray, groups: int) -> np.ndarray:
    """Sums of WINDOW over images of 7 x 7, element by element."""
    padded = np.pad(x, ((0, 0), (1, 2), (1, 2), (0, 0)))
    outputs, rows, columns, inner = weights.shape
    result = np.zeros((len(x), 4, 7, outputs), np.int64)
    for m in range(outputs):
        first = m // (outputs // groups) * inner
        for y in range(4):
            for c in range(7):
                patch = padded[:, 2 * y : 2 * y + rows, c : c + columns, first : first + inner]
                result[:, y, c, m] = (patch * weights[m]).sum(axis=(1, 2, 3))
    return result


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolution(groups: int) -> None:
    """FP R3: exact sums, p_acc = p_in + p_weight; a bias with more or fewer fraction bits is aligned"""
    rng = np.random.default_rng(groups)
    x, weights = rng.integers(-128, 128, (2, 7, 7, 4)), rng.integers(-127, 128, (8, 3, 3, 4 // groups))
    sums = plain_convolution(x, weights, groups)
    bias = rng.integers(-100, 100, 8)
    for position, added in ((3, bias << 6), (9, bias), (11, np.rint(bias / 4).astype(int))):
        layer = Convolution("conv", tensor(weights, 7), WINDOW, groups, tensor(bias, position))
        wide = layer.wide(tensor(x, 2))
        np.testing.assert_array_equal(wide.values, sums + added)
        assert wide.position == 9


def test_batch_normalization_addition_and_average_pooling() -> None:
    """FP R3: multiply, accumulate, pooling"""
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, (2, 7, 7, 3))
    scale, bias = np.array([3, -100, 127]), np.array([5, 0, -7])
    wide = BatchNormalization("norm", tensor(scale, 5), tensor(bias, 8)).wide(tensor(x, 3))
    np.testing.assert_array_equal(wide.values, x * scale + bias)
    assert wide.position == 8
    total = Addition("sum").wide(tensor(x, 3), tensor(x // 2, 5))
    np.testing.assert_array_equal(total.values, 4 * x + x // 2)
    assert total.position == 5
    pooled = AveragePooling("mean", WINDOW).wide(tensor(x, 3))
    ones = np.zeros((3, 3, 3, 3), np.int64)
    ones[[0, 1, 2], :, :, [0, 1, 2]] = 1
    np.testing.assert_array_equal(pooled.values, plain_convolution(x, ones, 1) * 114)  # 1/9 = 114 * 2**-10
    assert pooled.position == 13


def test_layers_that_pass_their_position_through() -> None:
    """FP R35: ReLU and maximum pooling; no preceding operation, narrow in and narrow out"""
    rng = np.random.default_rng(3)
    x = FixedTensor(rng.integers(-128, 128, (2, 7, 7, 3)).astype(np.int8), np.array(5))
    emulator = PositionEmulator(FlowSettings())
    result = emulator.run([Relu("relu"), MaximumPooling("pool", WINDOW)], x)
    padded = np.pad(np.maximum(x.mantissa, 0), ((0, 0), (1, 2), (1, 2), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, :7:2, :7]
    np.testing.assert_array_equal(result.mantissa, windows.max(axis=(4, 5)))
    assert [(trace.flow, int(trace.position), trace.statistics.total) for trace in emulator.trace] == [(None, 5, 0)] * 2


IMAGE_LAYERS = [
    Convolution("conv", tensor(np.random.default_rng(1).integers(-127, 128, (8, 3, 3, 3)), 7), WINDOW),
    Relu("relu"),
    BatchNormalization("norm", tensor(np.arange(1, 9) * 15, 6)),
]


@pytest.mark.parametrize("axis", ["B", "C", "H", "W"])
@pytest.mark.parametrize("granularity", ["tensor", "channel"])
def test_images_under_every_sampled_flow(axis: Any, granularity: Any) -> None:
    """FP R25, FP R28, FP 2.1: any axis; keeping the sample or computing it twice gives the same bits"""
    x = tensor(np.random.default_rng(9).integers(-128, 128, (4, 7, 7, 3)), 5)
    if granularity == "channel" and axis == "C":
        with pytest.raises(ConfigurationError, match="sample another axis than C"):
            FlowSettings(granularity="channel", sampling=Sampling.along("C"))
        return
    runs = []
    for flow in ("two_pass_sampled", "keep_sampled"):
        options = FlowSettings(flow, granularity=granularity, sampling=Sampling.along(axis, SampleFraction(1, 3)))
        emulator = PositionEmulator(options)
        result = emulator.run(IMAGE_LAYERS, x)
        runs.append((result.mantissa.tolist(), result.position.tolist()))
        sampled = emulator.trace[0].statistics.total
        assert emulator.trace[0].cost == (
            (4 * 4 * 7 * 8 + (sampled if flow == "two_pass_sampled" else 0)),
            *(2 * [0 if flow == "two_pass_sampled" else sampled]),
            4 * 4 * 7 * 8,
        )
    assert runs[0] == runs[1]
    assert np.shape(runs[0][1]) == ((8,) if granularity == "channel" else ())


def test_a_network_of_real_numbers_keeps_its_values() -> None:
    """FP R48: positions follow the data; values stay close to those of floating point"""
    rng = np.random.default_rng(12)
    weights = [rng.normal(0, size**-0.5, (size, 32)) * scale for size, scale in ((24, 1000), (32, 1e-3), (32, 5))]
    x = rng.normal(0, 1, (64, 24))
    layers = []
    for number, weight in enumerate(weights):
        layers += [FullyConnected(f"fc{number}", fixed_point_tensor(weight, saturation="sym")), Relu(f"relu{number}")]
    emulator = PositionEmulator(FlowSettings())
    found = emulator.run(layers, fixed_point_tensor(x)).values
    for weight in weights:
        x = np.maximum(x @ weight, 0)
    assert np.linalg.norm(found - x) < 0.05 * np.linalg.norm(x)


def test_one_training_iteration() -> None:
    """FP R4, FP R16: forward and backward pass of a mini-batch; every product under flow 1, close to floating point"""
    rng = np.random.default_rng(14)
    x, wanted = rng.normal(0, 1, (32, 12)), rng.normal(0, 1, (32, 4))
    first, second = rng.normal(0, 0.3, (12, 16)), rng.normal(0, 0.3, (16, 4))
    emulator = PositionEmulator(
        FlowSettings("two_pass", format=FixedPointFormat(16, 48), statistics=StatisticsKind(48))
    )
    emulator.begin_iteration()

    def product(name: str, left: FixedTensor, right: FixedTensor) -> FixedTensor:
        return emulator.layer(FullyConnected(name, right), left)

    def transposed(matrix: FixedTensor) -> FixedTensor:
        return FixedTensor(matrix.mantissa.T, matrix.position)

    data, *weights = (fixed_point_tensor(array, 16) for array in (x, first, second))
    hidden = emulator.layer(Relu("relu"), product("forward1", data, weights[0]))
    output = product("forward2", hidden, weights[1])
    error = emulator.layer(Addition("error"), output, fixed_point_tensor(-wanted, 16))
    gradient2 = product("gradient2", transposed(hidden), error)
    back = product("backward2", error, transposed(weights[1]))
    gradient1 = product(
        "gradient1", transposed(data), FixedTensor(back.mantissa * (hidden.mantissa > 0), back.position)
    )

    exact_hidden = np.maximum(x @ first, 0)
    exact_error = exact_hidden @ second - wanted
    exact1 = x.T @ ((exact_error @ second.T) * (exact_hidden > 0))
    for found, exact in ((gradient1, exact1), (gradient2, exact_hidden.T @ exact_error)):
        assert np.linalg.norm(found.values - exact) < 1e-3 * np.linalg.norm(exact)
    assert emulator.iterations == 1
    assert [trace.flow for trace in emulator.trace] == ["two_pass", None, *["two_pass"] * 5]


def test_layers_may_have_flows_of_their_own() -> None:
    """FP R33: what a choice by layer needs"""
    x, layers = vector_network()
    emulator = PositionEmulator(vector_settings("two_pass_sampled"))
    emulator.begin_iteration()
    result = emulator.layer(layers[1], emulator.layer(layers[0], x, flow="keep"), flow="keep_sampled")
    assert [trace.flow for trace in emulator.trace] == ["keep", "keep_sampled"]
    assert result.mantissa.tolist() == VECTORS["flows"]["4"]["out"]


def test_the_sample_begins_a_block_further_in_every_layer() -> None:
    """FP R30"""
    x, layers = random_network(8)
    emulator = PositionEmulator(vector_settings("two_pass_sampled", advance_sample=True))
    emulator.run(layers, x)
    wide = x.mantissa @ layers[0].weights.mantissa
    narrow = np.clip(np.rint(wide * 2.0 ** -float(emulator.trace[0].shift)), -128, 127).astype(int)
    for trace, results in zip(emulator.trace, (wide[0::8], (narrow @ layers[1].weights.mantissa)[1::8]), strict=False):
        np.testing.assert_array_equal(trace.statistics.nsb_histogram, collect(results, StatisticsKind()).nsb_histogram)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"flow": "three_pass"}, "flow is 'three_pass'; one of delayed, two_pass"),
    ({"granularity": "row"}, "granularity is 'row'; one of tensor, channel"),
    ({"initial_position": 48}, "initial_position is 48"),
    ({"assumed_position": -33}, "assumed_position is -33"),
    ({"static_positions": {"fc": 99}}, r"static_positions\['fc'\] is 99"),
    ({"format": FixedPointFormat(acc_width=24)}, r"statistics\.acc_width is 32, format\.acc_width 24"),
    ({"rule": PositionRule("window")}, r"rule is window, but statistics\.lsb is none"),
])  # fmt: skip
def test_settings_that_do_not_fit_each_other_are_refused(arguments: dict[str, Any], message: str) -> None:
    """FP 2, FP 3.4"""
    with pytest.raises(ConfigurationError, match=message):
        FlowSettings(**arguments)


def test_weights_for_other_channels_are_refused() -> None:
    """FP R3"""
    with pytest.raises(DataError, match="layer 'fc': its input has 3 channels, its weights are for 4"):
        PositionEmulator(FlowSettings()).run([FullyConnected("fc", tensor(np.zeros((4, 2))))], tensor([[1, 2, 3]]))
