"""Numbers the compiler chooses: exponents, mantissas, biases, policies; and what it says about a program."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import WIDE, Network, attention_network, compiled, largest_error, nodes_of

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower.layers import ArrayTensor, positions
from bfpga.compiler.numbers.calibrate import ChannelHistograms, Histogram, best_exponent, exponent_without_overflow
from bfpga.compiler.numbers.equalize import ChannelRange, Reader, choose_shifts
from bfpga.compiler.numbers.quantize import quantize_bias, quantize_rows
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.functions import bound_argument
from bfpga.contract.program import ArrayNode, MatMulNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.block_format import BlockFormat, Status
from bfpga.program.host import host_share
from bfpga.program.listing import listing

FORM = BlockFormat()


def quantized(values: np.ndarray, exponent: int, form: BlockFormat = FORM) -> np.ndarray:
    step = 2.0**exponent
    return np.asarray(np.clip(np.rint(values / step), -form.mantissa_max, form.mantissa_max) * step)


@pytest.mark.parametrize(("largest", "exponent"), [(1.0, -6), (0.99, -7), (255.0, 1), (127.0, 0), (2.0**-10, -16)])
def test_the_largest_value_occupies_the_highest_bit(largest: float, exponent: int) -> None:
    """R25: equations 2 to 4"""
    assert exponent_without_overflow(largest, FORM) == exponent


def counted(*batches: np.ndarray, channels: int = 1, scale: np.ndarray | None = None) -> Histogram:
    """The histogram of a tensor (samples, channels), which comes in batches."""
    tensor = ArrayTensor("x", (channels,), positions((1, 1, channels)))
    histograms = ChannelHistograms({"x": tensor}, channels > 1, sum(map(len, batches)))
    for batch in batches:
        histograms.add({"x": batch})
    return histograms.histogram("x", scale)


@settings(deadline=None, max_examples=drawn(25))
@given(st.integers(0, 10**6), st.integers(1, 39))
def test_scaled_channels_are_counted_as_scaled_values(seed: int, split: int) -> None:
    """Powers of two that channels are stored times are chosen after the values were counted."""
    rng = np.random.default_rng(seed)
    magnitudes = rng.uniform(2.0**-8, 1, (40, 5)) * 2.0 ** rng.integers(-3, 4, 5)
    values = (magnitudes * rng.choice([-1, 1], magnitudes.shape)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = 0
    scale = rng.integers(-5, 6, 5).astype(np.float64)
    found = counted(values[:split], values[split:], channels=5, scale=scale)
    expected = counted((values * np.exp2(scale).astype(np.float32)).reshape(-1, 1))
    np.testing.assert_array_equal(found.counts[1:], expected.counts[1:])
    assert found.largest == expected.largest


def test_other_factors_of_channels_are_counted_to_a_bin() -> None:
    """An average's factor is no power of two."""
    values = np.full((3, 2), 1.0, np.float32)
    found = counted(values, channels=2, scale=np.log2([1.0, 1.1]))
    assert [found.counts[(np.float32([value]).view(np.uint32) >> 17)[0]] for value in (1.0, 1.1)] == [3, 3]
    assert found.largest == np.float32(1.1)


def test_values_far_below_the_largest_are_dropped_in_any_order() -> None:
    values = np.float32([[2.0**-40], [1.0], [2.0**-20], [2.0**20]])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        found = counted(*(values[[index]] for index in order))
        assert found.counts.sum() == 2
        assert found.largest == 2.0**20


@settings(deadline=None, max_examples=drawn(25))
@given(st.integers(0, 10**6), st.sampled_from(["normal", "laplace", "lognormal", "uniform"]))
def test_the_chosen_exponent_has_nearly_the_least_error(seed: int, kind: str) -> None:
    """R23: the exponent with the least error on the samples, or the next one, which the tail beyond them asks for"""
    values = getattr(np.random.default_rng(seed), kind)(size=4000).astype(np.float32)
    histogram = counted(values[:1000, None], values[1000:, None])
    errors = {e: float(((values - quantized(values, e)) ** 2).sum()) for e in range(-14, 4)}
    least = min(errors, key=lambda exponent: errors[exponent])
    chosen = best_exponent(histogram, FORM)
    assert chosen in (least, least + 1) or errors[chosen] <= 1.1 * errors[least]
    assert not (np.abs(values) >= 128 * 2.0 ** best_exponent(histogram, FORM, "max")).any()


@settings(deadline=None, max_examples=drawn(60))
@given(st.integers(0, 10**6), st.integers(4, 18), st.integers(1, 40))
def test_weight_rows_have_the_better_of_two_exponents(seed: int, bits: int, terms: int) -> None:
    config = KernelConfig(format=BlockFormat(mantissa_bits=bits), accumulator_bits=48)
    weights = np.random.default_rng(seed).laplace(size=(6, terms)) * 2.0 ** np.arange(-3, 3)[:, None]
    rows = quantize_rows(weights, config)
    for row, mantissas, exponent in zip(weights, rows.mantissas, rows.exponents, strict=True):
        assert np.abs(mantissas).max() <= config.format.mantissa_max
        error = ((row - mantissas * 2.0 ** float(exponent)) ** 2).sum()
        top = exponent_without_overflow(float(np.abs(row).max()), config.format)
        assert error <= min(((row - quantized(row, e, config.format)) ** 2).sum() for e in (top, top - 1)) * (1 + 1e-9)


@settings(deadline=None, max_examples=drawn(40))
@given(st.integers(0, 10**6), st.integers(18, 26), st.integers(1, 3000))
def test_no_sum_of_products_leaves_the_accumulator(seed: int, accumulator: int, terms: int) -> None:
    """R3"""
    config = KernelConfig(accumulator_bits=accumulator)
    rows = quantize_rows(np.random.default_rng(seed).normal(size=(3, terms)), config)
    sums = np.abs(rows.mantissas.astype(np.int64)).sum(axis=1) * config.format.mantissa_max
    assert (sums < 1 << (accumulator - 2)).all()


def long_sums(folder: Path, config: KernelConfig) -> tuple[Network, Program]:
    """Sums of 1,100 products, weights of one sign: every second row has large weights; biases."""
    network = Network(1100)
    for inputs, outputs in ((1100, 40), (40, 5)):
        values = np.abs(network.generator.uniform(0.8, 1.5, size=(outputs, inputs)))
        values[::2] *= np.linspace(0, 1, inputs) ** 1.5
        bias = network.constant((40 * network.generator.normal(size=outputs)).astype(np.float32))
        network.add("Gemm", network.last, network.constant(values.astype(np.float32)), bias, transB=1)
    return network, compiled(network, folder, config)


def test_sums_of_narrow_accumulators_are_certified_row_by_row(tmp_path: Path) -> None:
    """The sum of a row's weights times the largest activation, and its bias, stay below half of 2**24."""
    narrow = KernelConfig(accumulator_bits=24, columns=3, rows=8, lanes=4)
    _, program = long_sums(tmp_path, narrow)
    first, second = nodes_of(program)
    exponent = program.tensors[first.inputs[0]].input_exponent
    assert exponent is not None
    full = 0
    for node, unit in ((first, exponent), (second, first.policy.exponent)):
        assert node.bias is not None
        assert node.weight_exponents is not None
        sums = np.abs(np.asarray(node.weights, np.int64)).reshape(node.channels, -1).sum(axis=1)
        bias = np.ceil(np.abs(node.bias) * 2.0 ** (node.bias_exponent - unit - node.weight_exponents))
        assert (sums * 128 + bias < 1 << 23).all()
        full += int((sums * 128 >= 1 << 22).sum())
    assert full >= 20  # what half of the accumulator for the bias would not allow
    assert program.notes[-1:] == [f"{first.name}: 16 weight rows use fewer bits to stay inside the accumulator"]
    _, wide = long_sums(tmp_path, replace(narrow, accumulator_bits=32))
    assert not any("accumulator" in note for note in wide.notes)


def test_products_of_activations_that_accumulators_do_not_hold_stay_on_the_host(tmp_path: Path) -> None:
    """A sum of six products of 8-bit mantissas takes 18 bits."""
    least = KernelConfig(accumulator_bits=18, bias_bits=18, columns=3, rows=8, lanes=2)
    wide, narrow = (replace(least, accumulator_bits=bits) for bits in (18, 17))
    assert sum(isinstance(node, MatMulNode) for node in compiled(attention_network(), tmp_path, wide).nodes) == 2
    program = compiled(attention_network(), tmp_path, narrow)
    assert not any(isinstance(node, MatMulNode) for node in program.nodes)
    assert any("sums of 6 products do not fit accumulators of 17 bits; 4 do" in note for note in program.notes)


def test_certified_sums_are_those_of_wide_accumulators(tmp_path: Path) -> None:
    narrow = KernelConfig(accumulator_bits=24, columns=3, rows=8, lanes=4)
    network, program = long_sums(tmp_path, narrow)
    samples = {"x": np.sign(network.samples(4)["x"]) * 1e6}  # everything saturates
    samples["x"][0], samples["x"][1] = 1e6, -1e6
    wide = replace(program, config=replace(program.config, accumulator_bits=40))
    results = [Emulator(program, "numpy"), Emulator(program), Emulator(wide, "numpy")]
    first, *others = [emulator.run(samples, trace=True) for emulator in results]
    saturated = int(Status.ACCUMULATOR_SATURATED | Status.BIAS_SATURATED)
    for name, tensor in first.tensors.items():
        for other in others:
            np.testing.assert_array_equal(tensor.mantissa, other.tensors[name].mantissa)
    assert not any(layer.counters.status & saturated for layer in first.layers if layer.counters)


@settings(deadline=None, max_examples=drawn(60))
@given(st.lists(st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6), min_size=1, max_size=20))
def test_biases_share_the_smallest_exponent_that_holds_them(values: list[float]) -> None:
    """R7"""
    config = KernelConfig()
    mantissas, exponent = quantize_bias(np.array(values), config)
    largest = (1 << (config.bias_bits - 1)) - 1
    assert np.abs(mantissas).max() <= largest
    assert np.abs(mantissas * 2.0**exponent - values).max() <= 2.0**exponent / 2
    if any(values):
        assert np.abs(np.rint(np.array(values) * 2.0 ** (1 - exponent))).max() > largest


@pytest.mark.parametrize(("bound", "expected"), [(6.0, (3, 1)), (1.0, (1, 0)), (0.75, (3, -2))])
def test_simple_clip_bounds_are_exact(bound: float, expected: tuple[int, int]) -> None:
    """R11"""
    assert bound_argument(bound) == expected


def test_channels_of_different_size_are_brought_to_one_size_where_that_is_free() -> None:
    ranges = ChannelRange(np.array([8.0, 1.0, 0.25]), np.array([4.0, 0.1, 0.01]))
    free = Reader(np.ones(3), np.ones((3, 1)), np.arange(3)[:, None], 9)
    assert choose_shifts(ranges, [free], FORM).tolist() == [0, 3, 5]


def test_a_channel_of_outliers_is_attenuated_beside_the_others() -> None:
    channels = np.arange(64)[None, :].repeat(16, axis=0)
    ranges = ChannelRange(np.r_[100.0, np.ones(63)], np.r_[1000.0, np.full(63, 0.1)])
    dense = Reader(np.full(64, 16.0), np.ones((16, 64)), channels, 1)
    shifts = choose_shifts(ranges, [dense], FORM)
    assert (shifts[1:] >= shifts[0] + 3).all()


def uneven_network() -> Network:
    """Channels whose sizes differ by up to 2^8, through depthwise, pooling, addition and concatenation."""
    network = Network(4, 9, 8)
    sizes = np.exp2(np.linspace(-4, 4, 8)).astype(np.float32)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    first = network.add("Mul", network.last, network.constant(sizes.reshape(8, 1, 1)))
    second = network.add("Relu", network.conv(8, 8, 3, group=8, pads=[1, 1, 1, 1]))
    network.add("Add", network.add("MaxPool", second, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), first)
    network.conv(6, 8, 1)
    network.add("Concat", network.last, network.conv(4, 6, 1), axis=1)
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    return network


def test_shifted_channels_compute_the_same(tmp_path: Path) -> None:
    network = uneven_network()
    program = compiled(network, tmp_path)
    assert any(any(spec.channel_shift) for spec in program.tensors.values())
    assert largest_error(network, program) < 2e-3


def test_shifted_channels_and_corrected_biases_lower_the_error(tmp_path: Path) -> None:
    network, narrow = uneven_network(), replace(WIDE, format=FORM, accumulator_bits=32)
    plain = CompileOptions(equalize=False, bias_correction=False)
    before = largest_error(network, compiled(network, tmp_path, narrow, plain))
    assert largest_error(network, compiled(network, tmp_path, narrow)) < before


def policies(program: Program) -> list[Policy]:
    return [node.policy.policy for node in program.nodes if isinstance(node, ArrayNode)]


def two_layers() -> Network:
    network = Network(3, 6, 6)
    network.add("Sigmoid", network.conv(4, 3, 3))
    network.conv(5, 4, 3)
    return network


def test_recipes_choose_policies_by_layer(tmp_path: Path) -> None:
    """R36"""
    layers: dict[str, dict[str, Any]] = {"Conv_0": {"policy": "known_range"}, "Conv_2": {"policy": "max"}}
    program = compiled(two_layers(), tmp_path, options=CompileOptions(layers=layers))
    assert policies(program) == [Policy.STATIC, Policy.MAX]
    assert program.nodes[0].policy.exponent == -14  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"policy": "stats", "k": 2.5, "window": 64}, {"policy": Policy.STATISTICS, "window": 6, "factor": 10}),
        ({"policy": "rolling_max", "history": 7}, {"policy": Policy.ROLLING_MAX, "window": 7}),
        ({"policy": "feedback", "limit": 3}, {"policy": Policy.FEEDBACK, "factor": 3}),
    ],
)
def test_knobs_of_a_recipe_reach_the_layers(options: dict[str, Any], wanted: dict[str, int], tmp_path: Path) -> None:
    """R36: k in quarters, N as a power of two, the length of the history, the tolerated overflows."""
    program = compiled(two_layers(), tmp_path, options=CompileOptions(**options))
    for node in program.nodes:
        assert isinstance(node, ArrayNode)
        assert {name: getattr(node.policy, name) for name in wanted} == wanted


def test_tables_and_worst_cases_are_static_exponents(tmp_path: Path) -> None:
    """R30, R35"""
    layers: dict[str, dict[str, Any]] = {"Conv_2": {"policy": "lookup", "exponent": -3}}
    program = compiled(two_layers(), tmp_path, options=CompileOptions(policy="worst_case", layers=layers))
    assert policies(program) == [Policy.STATIC, Policy.STATIC]
    assert program.nodes[1].policy.exponent == -3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"policy": "median"}, ""), ({"k": 0.3}, ""), ({"window": 48}, ""), ({"history": 9}, ""), ({"limit": -1}, ""),
        ({"range": 0.0}, ""), ({"exponents": "mean"}, ""), ({"layers": {"a": {"polcy": "max"}}}, ""),
        ({"formats": "octal"}, "auto, linear, two_hot, power_of_two"), ({"weight_snr_db": -1.0}, ""),
        ({"layers": {"a": {"format": "x"}}}, ""), ({"remainders": "sometimes"}, "auto, always and never"),
        ({"result_parts": 3}, "is not a number of parts: 1 or 2"), ({"result_parts": 0}, "is not a number of parts"),
        ({"weight_parts": 4}, "is not a number of parts: 1 or 2"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        CompileOptions(**values)


@pytest.mark.parametrize("policy", ["static", "static_history", "worst_case"])
def test_policies_that_need_samples_say_so(policy: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="calibration"):
        compiled(two_layers(), tmp_path, options=CompileOptions(policy=policy), calibrate=False)  # type: ignore[arg-type]


def test_more_predicting_layers_than_slots_are_refused_with_a_remedy_that_serves(tmp_path: Path) -> None:
    two_slots = replace(WIDE, policy_slots=2)
    with pytest.raises(ConfigurationError, match=r"at most 1 layers predict .* policy static or max") as refused:
        compiled(two_layers(), tmp_path, two_slots, CompileOptions(policy="stats"))
    layer = re.search(r"layer (\S+):", str(refused.value))
    assert layer is not None
    assert "policy_slots" not in str(refused.value)  # no key of an accelerator file
    compiled(two_layers(), tmp_path, two_slots, CompileOptions(policy="stats", layers={layer[1]: {"policy": "max"}}))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((4, 3, 6, 5), np.float32), "shape"),
        (np.zeros((0, 3, 6, 6), np.float32), "shape"),
        (np.full((2, 3, 6, 6), np.nan), "NaN"),
        (np.full((2, 3, 6, 6), "a"), "type"),
        ({"y": np.zeros((2, 3, 6, 6))}, "no input x"),
    ],
)
def test_calibration_data_that_does_not_fit_is_refused(samples: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(two_layers().model().SerializeToString())
    with pytest.raises(DataError, match=message):
        compile_network(path, accelerator_around(WIDE), samples)


def test_the_listing_names_every_layer_and_the_share_of_the_host(tmp_path: Path) -> None:
    network = two_layers()
    network.add("Elu")
    program = compiled(network, tmp_path)
    text = listing(program)
    for node in program.nodes:
        assert node.name in text
    assert "Elu" in text
    assert 0 < host_share(program) < 0.2
    assert f"{100 * host_share(program):.2f} % of operations" in text
    macs = 16 * 4 * 27 + 4 * 5 * 36
    assert f"multiply-accumulates {macs:,}" in text


@pytest.mark.parametrize(("bits", "saturates"), [(5, True), (8, False)])
def test_inputs_keep_their_largest_values_unless_mantissas_are_coarse(
    bits: int, saturates: bool, tmp_path: Path
) -> None:
    config = replace(WIDE, format=BlockFormat(mantissa_bits=bits), accumulator_bits=24)
    path = tmp_path / "net.onnx"
    path.write_bytes(two_layers().model().SerializeToString())
    samples = np.random.default_rng(0).uniform(-0.9, 0.9, (4, 3, 6, 6)).astype(np.float32)
    samples[0, 0, 0, 0] = 1.1
    program = compile_network(path, accelerator_around(config), samples)
    exponent = program.tensors["x"].input_exponent
    assert exponent is not None
    assert (config.format.mantissa_max * 2.0**exponent < 1.1) == saturates
