"""The compiled layers give the bits and counters of the engines in numpy, with every instruction set there is."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_layers import chain, gemm, image, static, vector
from effort import drawn, each_once, some_of
from operand_kernels import OPERANDS
from row_kernels import ROWS

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import LeadRule, Policy
from bfpga.contract.flows import Sample
from bfpga.contract.functions import FUNCTION_NAMES, Function
from bfpga.contract.program import ArrayNode, MatMulNode, PolicySpec, Program, TensorSpec, Window
from bfpga.devices import toolchain
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.native import library, plan
from bfpga.devices.native.library import NUMPY, available_sets, instruction_set
from bfpga.errors import ConfigurationError, DataError, ToolError
from bfpga.formats.block_format import BlockFormat, Status
from bfpga.scale.threads import THREADS_VARIABLE, thread_count
from bfpga.verify.check import random_configs, random_inputs, verify
from bfpga.verify.random_network import random_program

SETS = [item.name for item in available_sets()]
#: A set for bytes and one for words: what does not depend on vectors is tried with both.
BOTH = [SETS[0], "plain"]
#: Sets whose activations are bytes.
BYTE_SETS = [item.name for item in available_sets() if item.element_bits == 8]
CONFIG = KernelConfig(
    activation_words=1 << 14, weight_words=1 << 14, parameter_rows=1 << 12, functions=FUNCTION_NAMES, position_bins=16
)


def assert_same(program: Program, expected: DeviceResult, found: DeviceResult) -> None:
    assert first_mismatch(program, expected, found) is None, first_mismatch(program, expected, found)
    for one, other in zip(expected.layers, found.layers, strict=True):
        if one.counters is not None and other.counters is not None:
            assert one.counters.saturated_samples == other.counters.saturated_samples
            assert one.counters.most_saturated == other.counters.most_saturated


def both_ways(
    program: Program, inputs: Mapping[str, Any], name: str, covered: int | None = None, threads: int = 1
) -> DeviceResult:
    """What the engines give, after checking that the compiled layers give it too; covered: how many are compiled."""
    inputs = {key: np.asarray(value, np.float32) for key, value in inputs.items()}
    expected = Emulator(program, NUMPY).run(inputs, trace=True)
    emulator = Emulator(program, name, threads, probe=False)
    taken = emulator.native.covered if emulator.native else set()
    assert len(taken) == (len(program.nodes) if covered is None else covered)
    assert_same(program, expected, emulator.run(inputs, trace=True))
    plain = Emulator(program, name, threads, probe=False).run(inputs)  # tensors stay inside
    for key, value in expected.outputs.items():
        np.testing.assert_array_equal(plain.outputs[key], value)
    return expected


def one_layer(node: ArrayNode, inputs: int, exponent: int | None = 0, config: KernelConfig = CONFIG) -> Program:
    return chain(config, [vector("x", inputs, exponent), vector("y", node.channels)], [node])


# Any network


@pytest.mark.parametrize("name", SETS)
def test_random_networks_equal_the_engines(name: str) -> None:
    """BFP R81: every kind of layer, function, rounding, policy and flow that `bfpga verify` draws."""
    taken = total = 0
    for number, config in enumerate(random_configs(drawn(48), seed=7)):
        rng = np.random.default_rng([31, number])
        program = random_program(rng, config)
        inputs = random_inputs(rng, program)
        emulator = Emulator(program, name, 1, probe=False)
        assert_same(program, Emulator(program, NUMPY).run(inputs, trace=True), emulator.run(inputs, trace=True))
        taken += len(emulator.native.covered) if emulator.native else 0
        total += len(program.nodes)
    assert taken > 0.8 * total


@pytest.mark.parametrize(("name", "config"), each_once(SETS, [ROWS, OPERANDS]))
def test_rows_and_weights_that_are_tensors_are_compiled(config: KernelConfig, name: str) -> None:
    works: set[str] = set()
    for seed in range(drawn(60)):
        rng = np.random.default_rng([53, seed])
        program = random_program(rng, config)
        both_ways(program, random_inputs(rng, program), name)
        layers = [node for node in program.nodes if isinstance(node, ArrayNode)]
        works |= {node.rows.operation.name for node in layers if node.rows is not None}
        works |= {f"pixels {node.operand.by_pixels}" for node in layers if node.operand is not None}
    assert len(works) >= 2


def test_the_command_verifies_every_instruction_set() -> None:
    report = verify(random_configs(1), ["native"], cases=1)
    assert report.mismatch is None
    assert report.targets == [f"native:{name}" for name in SETS]
    assert report.cases == len(SETS)


@pytest.mark.parametrize("policy", ["static", "max", "feedback"])
@pytest.mark.parametrize("name", BOTH)
def test_a_network_of_usual_shapes(name: str, policy: str) -> None:
    """Tiles of full width, many pixels, columns of a depthwise convolution, exponents known or found."""
    rng = np.random.default_rng(3)
    kinds = {"static": static(-3), "max": PolicySpec(Policy.MAX), "feedback": PolicySpec(Policy.FEEDBACK, 2)}

    def chosen(slot: int) -> PolicySpec:
        return replace(kinds[policy], slot=slot)

    window = Window(3, 3, 1, 1, 1, 1, 1, 1, 12, 14)
    half = replace(window, stride_y=2, stride_x=2, output_height=6, output_width=7)
    whole = Window(6, 7)
    nodes = [
        gemm(rng.integers(-99, 100, (8, 3, 3, 3)), window, output="a", name="a", policy=chosen(0),
             function=Function.RELU, weight_exponents=np.full(8, -7)),
        gemm(rng.integers(-99, 100, (8, 3, 3, 1)), window, inputs=("a",), output="b", name="b", policy=chosen(1),
             groups=8, weight_exponents=np.full(8, -7), function=Function.CLIP, function_argument=9,
             bias=rng.integers(-99, 99, 8), bias_exponent=-4),
        gemm(rng.integers(-99, 100, (80, 1, 1, 8)), window.__class__(output_height=12, output_width=14), inputs=("b",),
             output="c", name="c", policy=chosen(2), weight_exponents=rng.integers(-9, -6, 80)),
        gemm(rng.integers(-99, 100, (80, 3, 3, 1)), half, inputs=("c",), output="d", name="d", policy=chosen(3),
             groups=80, weight_exponents=np.full(80, -7)),
        gemm(np.full((80, 6, 7, 1), 3), whole, inputs=("d",), output="e", name="e", policy=chosen(4), groups=80,
             weight_exponents=np.full(80, -7), uniform_weights=True),
        gemm(rng.integers(-99, 100, (10, 80)), inputs=("e",), name="y", policy=chosen(5)),
    ]  # fmt: skip
    specs = [image("x", 12, 14, 3, -6 if policy == "static" else None), image("a", 12, 14, 8), image("b", 12, 14, 8),
             image("c", 12, 14, 80), image("d", 6, 7, 80), image("e", 1, 1, 80), vector("y", 10)]  # fmt: skip
    program = chain(CONFIG, specs, nodes)
    x = rng.normal(0, 1, (9, 3, 12, 14)) * np.exp2(rng.integers(-3, 4, (9, 1, 1, 1)))
    both_ways(program, {"x": x}, name)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_samples_and_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overflows of single samples are counted by the thread that has them."""
    monkeypatch.setattr(plan, "MOST_SAMPLES", 4)
    program = one_layer(gemm([[127, 100], [-127, 3]], policy=static(3)), 2, None)
    x = np.random.default_rng(1).normal(size=(70, 2)) * np.exp2(np.arange(70) % 9)[:, None]
    expected = both_ways(program, {"x": x}, SETS[0], threads=threads)
    counters = expected.layers[0].counters
    assert counters is not None
    assert 0 < (counters.saturated_samples or 0) < 70


# What needs more than 32 bits


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("bits", [(1 << 30) - 1 - 127 * 127, 1 << 30, (1 << 34) + 5])
def test_a_bias_that_leaves_32_bits_is_finished_in_64(name: str, bits: int) -> None:
    config = replace(CONFIG, accumulator_bits=48, bias_bits=40)
    node = gemm([[127], [-127], [0]], bias=np.array([bits, -bits, bits]), policy=static(24))
    both_ways(one_layer(node, 1, config=config), {"x": [[127.0], [-127.0], [1.0]]}, name)


@pytest.mark.parametrize("name", BOTH)
def test_saturated_biases_and_accumulators_keep_their_status(name: str) -> None:
    """A bias beyond the accumulator stands alone where the sum is zero."""
    node = gemm(
        [[1], [127]], weight_exponents=np.array([-30, 0]), bias=np.array([99, (1 << 31) - 50]), bias_exponent=0,
        policy=static(10), function=Function.LEAKY_RELU, function_argument=3,
    )  # fmt: skip
    expected = both_ways(one_layer(node, 1), {"x": [[0.0], [5.0], [-100.0]]}, name)
    counters = expected.layers[0].counters
    assert counters is not None
    wanted = Status.BIAS_SATURATED | Status.ACCUMULATOR_SATURATED
    assert counters.status & wanted == wanted


@pytest.mark.parametrize("function", [Function.NONE, Function.GELU, Function.SIGMOID, Function.SOFTPLUS])
@pytest.mark.parametrize("name", BOTH)
def test_one_sample_saturates_accumulators_that_the_others_do_not_reach(name: str, function: Function) -> None:
    """Vectors compute samples whose accumulators stay in range with their bias, one by one."""
    config = replace(CONFIG, accumulator_bits=24, bias_bits=24)
    node = gemm([[127, 3]] * 3, bias=np.array([(1 << 23) - 9000, -50, -(1 << 23) + 9000]), function=function,
                weight_exponents=np.full(3, -20), bias_exponent=-20, policy=static(-9))  # fmt: skip
    x = [[100.0, 5.0], [127.0, 127.0], [0.0, 0.0], [-127.0, -127.0], [-3.0, 90.0]]
    expected = both_ways(one_layer(node, 2, config=config), {"x": x}, name)
    assert expected.layers[0].counters is not None
    assert expected.layers[0].counters.status & Status.ACCUMULATOR_SATURATED
    calm = both_ways(one_layer(node, 2, config=config), {"x": x[2:3]}, name)
    assert calm.layers[0].counters is not None
    assert not calm.layers[0].counters.status & Status.ACCUMULATOR_SATURATED


@pytest.mark.parametrize("saturation", ["sym", "full", "wrap"])
@pytest.mark.parametrize("kind", ["gemm", "depthwise", "product"])
def test_mantissas_of_16_bits(kind: str, saturation: str) -> None:
    """Sums of up to 2**40: dense products, one channel at a time, and two activations."""
    rng = np.random.default_rng(8)
    config = replace(
        CONFIG, format=BlockFormat(mantissa_bits=16, saturation=saturation), accumulator_bits=48  # type: ignore[arg-type]
    )  # fmt: skip
    policy = PolicySpec(Policy.MAX)
    if kind == "product":
        specs = {name: TensorSpec(name, 1, 1, 1, onnx_shape=shape)
                 for name, shape in (("a", (3, 5, 300)), ("b", (3, 300, 20)), ("y", (3, 5, 20)))}  # fmt: skip
        node = MatMulNode("y", ("a", "b"), "y", 3, 5, 300, 20, policy)
        program = chain(config, list(specs.values()), [])
        program.nodes, program.inputs = [node], {name: specs[name].onnx_shape for name in "ab"}
        inputs = {"a": rng.normal(size=(2, 3, 5, 300)), "b": rng.normal(size=(2, 3, 300, 20))}
    elif kind == "gemm":
        program = one_layer(gemm(rng.integers(-32767, 32768, (70, 1000)), policy=policy), 1000, None, config)
        inputs = {"x": np.sign(rng.normal(size=(3, 1000)))}
    else:
        window = Window(3, 3, 1, 1, 1, 1, 1, 1, 5, 5)
        layer = gemm(rng.integers(-32767, 32768, (20, 3, 3, 1)), window, groups=20, policy=policy)
        program = chain(config, [image("x", 5, 5, 20), image("y", 5, 5, 20)], [layer])
        inputs = {"x": rng.normal(size=(3, 20, 5, 5))}
    for name in [item.name for item in available_sets() if item.element_bits == 16]:
        both_ways(program, inputs, name)


def test_wide_sums_as_far_from_their_estimate_as_can_be() -> None:
    """Low bytes of activations and of weights that all push one way, over more products than one piece takes."""
    config = replace(CONFIG, format=BlockFormat(mantissa_bits=16), accumulator_bits=48)
    weights = np.repeat([32767, -32767, 32640, 32639, 128, 127, -128, -129], 1201).reshape(8, 1201)
    program = one_layer(gemm(weights, policy=PolicySpec(Policy.MAX)), 1201, 0, config)
    x = np.repeat([32767.0, -32767.0, 32512, 255, 128, -1], 1201).reshape(6, 1201)
    for name in [item.name for item in available_sets() if item.element_bits == 16]:
        both_ways(program, {"x": x}, name)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("policy", [static(5), PolicySpec(Policy.MAX), PolicySpec(Policy.MAX, rule=LeadRule.RATE)])
def test_factors_that_are_computed_are_weights_of_each_sample(name: str, policy: PolicySpec) -> None:
    """An image times one number of each channel, which a layer computes or the host brings; -128 counts as -127."""
    rng = np.random.default_rng(11)
    config = replace(CONFIG, format=BlockFormat(saturation="full"))
    pixels, channels = Window(output_height=4, output_width=5), 21
    scale = gemm(np.zeros((channels, 1, 1, 1)), pixels, groups=channels, policy=policy, bias=rng.integers(-99, 99, 21))
    nodes = [
        ArrayNode("top", "max", ("x",), "t", channels, Window(4, 5), policy=PolicySpec(inherit=True)),
        gemm(rng.integers(-99, 100, (channels, channels)), inputs=("t",), output="g", name="g", policy=static(6)),
        replace(scale, name="host", output="h", factors="f"),
        replace(scale, name="layer", inputs=("h",), factors="g", function=Function.RELU),
    ]
    specs = [image("x", 4, 5, channels, -2), vector("f", channels, 0), vector("t", channels), vector("g", channels),
             image("h", 4, 5, channels), image("y", 4, 5, channels)]  # fmt: skip
    program = chain(config, specs, nodes)
    program.inputs = {"x": (channels, 4, 5), "f": (channels,)}
    factors = rng.integers(-128, 128, (3, channels))
    factors[:, ::5] = -128
    both_ways(program, {"x": rng.normal(0, 20, (3, channels, 4, 5)), "f": factors}, name)


@pytest.mark.parametrize("name", BYTE_SETS)
@pytest.mark.parametrize("function", [Function.NONE, Function.RELU])
def test_sums_of_bytes_at_the_edge_of_16_bits(name: str, function: Function) -> None:
    """Chains of groups are as long as 16 bits allow: extremes of every sign, with and without negative activations."""
    rng = np.random.default_rng(14)
    signs = np.sign(rng.normal(size=(600, 48)))
    first = gemm(127 * np.eye(48, dtype=int), output="a", name="a", policy=static(0), function=function,
                 weight_exponents=np.full(48, -7))  # fmt: skip
    rows = [np.full(48, value) for value in (127, -127, 65, 64, -64, 32, 33, -32, 22, 21)]
    rows += [np.where(np.arange(48) % 4 < 2, a, b) for a, b in ((127, -127), (127, 2), (64, 1), (-43, 43), (21, -22))]
    rows += list(rng.integers(-40, 41, (21, 48))) + list(rng.integers(-127, 128, (4, 48)))
    second = gemm(np.array(rows), inputs=("a",), name="y", policy=static(8))
    program = chain(CONFIG, [vector("x", 48, 0), vector("a", 48), vector("y", len(rows))], [first, second])
    both_ways(program, {"x": 127 * np.concatenate([signs, np.ones((1, 48)), -np.ones((1, 48))])}, name)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("negate", [False, True])
def test_sums_of_rows_without_gaps(name: str, negate: bool) -> None:
    """Rows that fill vectors are added in words: ties, overflows and underflows, operands of different exponents."""
    rng = np.random.default_rng(15)
    pixels = Window(output_height=3, output_width=4)
    nodes = [
        gemm(rng.integers(-127, 128, (16, 16)), pixels, inputs=("x",), output=key, name=key, policy=static(exponent))
        for key, exponent in (("a", 7), ("b", 9), ("c", 22))
    ]  # fmt: skip
    outputs = []
    for number, (first, second, shift) in enumerate((("a", "b", 10), ("a", "c", 23), ("b", "a", 8), ("a", "a", 14))):
        function = Function.RELU if number % 2 else Function.NONE
        node = ArrayNode(f"sum{number}", "sum", (first, second), f"s{number}", 16, pixels, negate_second=negate,
                         policy=static(shift), function=function)  # fmt: skip
        nodes.append(node)
        outputs.append(image(f"s{number}", 3, 4, 16))
    program = chain(CONFIG, [image("x", 3, 4, 16, 0), *(image(key, 3, 4, 16) for key in "abc"), *outputs], nodes)
    program.outputs = {spec.name: program.outputs["s3"] if spec.name == "s3" else (16, 3, 4) for spec in outputs}
    expected = both_ways(program, {"x": 127 * np.sign(rng.normal(size=(3, 16, 3, 4)))}, name)
    counted = [layer.counters for layer in expected.layers if layer.counters is not None]
    assert any(c.overflows for c in counted)
    assert any(c.underflows for c in counted)


# The output stage


@pytest.mark.parametrize(("function", "first", "exponent"), each_once(list(Function), [False, True], [None, -5]))
def test_every_function_before_and_after_the_bias(function: Function, first: bool, exponent: int | None) -> None:
    rng = np.random.default_rng(5)
    node = gemm(
        rng.integers(-127, 128, (20, 9)), weight_exponents=rng.integers(-12, -6, 20), bias=rng.integers(-999, 999, 20),
        bias_exponent=-11, function=function, function_first=first, function_argument=3, function_exponent=-1,
        policy=static(-6),
    )  # fmt: skip
    both_ways(one_layer(node, 9, exponent), {"x": rng.normal(0, 4, (6, 9))}, SETS[0])


@pytest.mark.parametrize("rounding", ["trunc", "tozero", "half_up", "half_away", "rne"])
@pytest.mark.parametrize("saturation", ["sym", "full", "wrap"])
def test_every_rounding_at_ties_and_far_shifts(rounding: Any, saturation: Any) -> None:
    """Rows are shifted by -9 to 40 places, so that results round at ties, overflow and underflow."""
    config = replace(CONFIG, format=BlockFormat(rounding=rounding, saturation=saturation))
    rows = np.arange(-40, 10)
    node = gemm(np.tile([[1, 2]], (50, 1)), weight_exponents=rows, policy=static(0))
    x = np.array([[1, 0], [0, 1], [1, 1], [-1, 0], [-1, -1], [-3, 1], [63, 32], [-127, -127], [0, 0]], np.float32)
    both_ways(one_layer(node, 2, config=config), {"x": x}, SETS[0])


@pytest.mark.parametrize("rule", list(LeadRule))
@pytest.mark.parametrize("sample", [None, Sample(((0, 8), (16, 20)), 2, 1)])
def test_every_rule_on_everything_and_on_a_sample(rule: LeadRule, sample: Sample | None) -> None:
    rng = np.random.default_rng(6)
    policy = PolicySpec(Policy.MAX, rule=rule, rate=4, margin=1, base=-3, sample=sample)
    window = Window(output_height=6, output_width=5)
    node = gemm(rng.integers(-127, 128, (24, 4)), window, weight_exponents=rng.integers(-9, -6, 24), policy=policy)
    program = chain(CONFIG, [image("x", 6, 5, 4), image("y", 6, 5, 24)], [node])
    both_ways(program, {"x": rng.normal(size=(4, 4, 6, 5))}, SETS[0])


# Edges


@pytest.mark.parametrize("name", BOTH)
def test_parts_windows_and_copies(name: str) -> None:
    """Concatenation, dilation, groups, a maximum over nothing, a difference of exponents."""
    rng = np.random.default_rng(4)
    dilated, pixels = Window(2, 2, 1, 1, 2, 1, 2, 3, 5, 4), Window(output_height=3, output_width=2)
    nodes = [
        gemm(rng.integers(-9, 9, (4, 2, 2, 3)), dilated, inputs=("x",), output="c", name="left", policy=static(-2)),
        gemm(rng.integers(-9, 9, (6, 2, 2, 1)), dilated, inputs=("x",), output="c", name="right", groups=3,
             policy=static(-2), channel_offset=4),
        ArrayNode("max", "max", ("c",), "m", 10, Window(2, 2, 3, 3, 2, 2, 1, 1, 3, 2), policy=PolicySpec(inherit=True)),
        gemm(rng.integers(-9, 9, (10, 10)), pixels, inputs=("m",), output="d", name="d", policy=PolicySpec(Policy.MAX)),
        ArrayNode("sum", "sum", ("m", "d"), "y", 10, pixels, negate_second=True, policy=PolicySpec(Policy.MAX)),
    ]  # fmt: skip
    specs = [image("x", 4, 6, 3), image("c", 5, 4, 10), *(image(name, 3, 2, 10) for name in "mdy")]
    both_ways(chain(CONFIG, specs, nodes), {"x": rng.normal(size=(5, 3, 4, 6))}, name)


@pytest.mark.parametrize("name", SETS)
def test_a_part_that_may_be_negative_makes_what_is_selected_from_it_signed(name: str) -> None:
    """Bytes that are not negative are multiplied in another way."""
    nodes = [
        gemm([[64]], output="c", name="left", policy=static(0), function=Function.RELU),
        gemm([[-64]], output="c", name="right", policy=static(0), channel_offset=1),
        ArrayNode("max", "max", ("c",), "m", 2, Window(), policy=PolicySpec(inherit=True)),
        gemm([[3, 100]], inputs=("m",), name="last", policy=static(4)),
    ]
    program = chain(CONFIG, [vector("x", 1, -6), vector("c", 2), vector("m", 2), vector("y", 1)], nodes)
    assert plan.never_negative(program) == set()
    both_ways(program, {"x": [[1.0], [0.5], [-1.0]]}, name)


@pytest.mark.parametrize("scale", [2.0**-140, 2.0**120, 2.0**20])
@pytest.mark.parametrize("exponent", [None, 0])
def test_tiny_and_huge_values_enter_exactly(scale: float, exponent: int | None) -> None:
    config = replace(CONFIG, format=BlockFormat(exponent_bits=10))
    program = one_layer(gemm([[3, 4]], policy=PolicySpec(Policy.MAX)), 2, exponent, config)
    both_ways(program, {"x": np.array([[1.0, -3.0], [0, 0], [127, 0.3]]) * scale}, SETS[0])


def test_numbers_that_are_not_finite_are_refused_and_teach_nothing() -> None:
    node = gemm([[1, 1]], policy=PolicySpec(Policy.ROLLING_MAX, window=2))
    emulator = Emulator(one_layer(node, 2, None))
    emulator.run({"x": np.ones((2, 2), np.float32)})
    learned = str(emulator.registers.slots[0])
    for bad in (np.inf, np.nan):
        with pytest.raises(DataError, match=r"finite.*"):
            emulator.run({"x": np.array([[9.0, 9.0], [1.0, bad]], np.float32)})
    assert str(emulator.registers.slots[0]) == learned


def test_tensors_that_numpy_computes_pass_between_compiled_layers() -> None:
    """Weights beyond 16 bits fit no set."""
    wide = gemm([[5, 3], [1, -9]], inputs=("a",), output="b", name="wide", policy=static(-7))
    nodes = [gemm([[5, 3], [1, -9]], output="a", name="first", policy=static(-2)), wide,
             gemm([[5, 3]], inputs=("b",), name="last", policy=static(-3))]  # fmt: skip
    program = chain(CONFIG, [vector("x", 2, -4), vector("a", 2), vector("b", 2), vector("y", 1)], nodes)
    wide.inputs = ("a", "a", "a")
    wide.kind = "sum"
    wide.weights = wide.weight_exponents = None
    both_ways(program, {"x": np.random.default_rng(2).normal(size=(9, 2))}, SETS[0], covered=2)
    assert "3 inputs" in Emulator(program, SETS[0]).note


# What is chosen, and what happens without it


def test_a_set_is_chosen_by_bits_and_by_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.SET_VARIABLE, raising=False)
    best = instruction_set(8)
    assert best is not None
    assert best.name == SETS[0]
    words = instruction_set(16)
    assert words is not None
    assert words.element_bits == 16
    assert instruction_set(17) is None
    monkeypatch.setenv(library.SET_VARIABLE, "plain")
    assert instruction_set(8) == instruction_set(16) == available_sets()[-1]
    monkeypatch.setenv(library.SET_VARIABLE, "mmx")
    with pytest.raises(ConfigurationError, match="no layers 'mmx'; there are"):
        instruction_set(8)


def test_threads_are_given_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    assert thread_count() >= 1
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert (thread_count(), thread_count(2)) == (3, 2)
    for wrong in ("0", "many"):
        monkeypatch.setenv(THREADS_VARIABLE, wrong)
        with pytest.raises(ConfigurationError, match="BFPGA_THREADS"):
            thread_count()


def test_without_a_compiler_numpy_computes_and_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ToolError("C++ compiler g++ not found: install g++")

    program = one_layer(gemm([[3, 4]], policy=static(0)), 2)
    monkeypatch.setattr("bfpga.devices.toolchain.find_compiler", missing)
    emulator = Emulator(program)
    assert emulator.native is None
    assert emulator.note == "the engines in numpy compute all layers: C++ compiler g++ not found: install g++"
    assert emulator.run({"x": np.array([[1.0, 2.0]])}).outputs["y"].item() == 11.0
    monkeypatch.setenv(library.SET_VARIABLE, NUMPY)
    assert Emulator(program).note.endswith("as asked for")


def test_layers_that_fail_their_probe_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    program = one_layer(gemm([[3, 4]], policy=static(0)), 2)
    monkeypatch.setitem(plan.KINDS, "gemm", plan.KINDS["sum"])
    emulator = Emulator(program)
    assert emulator.run({"x": np.array([[1.0, 2.0]])}).outputs["y"].item() == 11.0
    assert emulator.native is None
    assert "differ at their probe" in emulator.note


def test_a_library_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    item = available_sets()[-1]
    path = library.build(item)
    monkeypatch.setattr("bfpga.devices.toolchain.run_compiler", lambda _: pytest.fail("compiled again"))
    assert library.build(item) == path
    symbols = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True)
    assert "bfpga_native_run" in symbols.stdout




def test_a_library_that_cannot_be_built_is_tried_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried = []

    def refuse(arguments: list[str]) -> None:
        tried.append(arguments)
        raise ToolError("the C++ compiler failed")

    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    monkeypatch.setattr("bfpga.devices.toolchain.run_compiler", refuse)
    program = one_layer(gemm([[3, 4]], policy=static(0)), 2)
    assert [Emulator(program).note for _ in range(3)] == 3 * [
        "the engines in numpy compute all layers: the C++ compiler failed"
    ]
    assert len(tried) == 1


@pytest.mark.parametrize("name", some_of(dict.fromkeys((SETS[0], "avx2", "plain")), SETS[0]))
def test_the_source_has_no_warnings(name: str) -> None:
    item = next((item for item in available_sets() if item.name == name), None)
    if item is None:
        pytest.skip(f"this machine has no {name}")
    flags = [*library.FLAGS, *item.flags, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    checked = [*(flag for flag in flags if flag != "-shared"), str(library.SOURCES / "layers.cpp")]
    # clang warns of the same attributes in other places.
    toolchain.run_compiler(checked, ("g++",))
