"""The emulator's fast route gives the engines' bits, and takes only what it can prove exact (R81)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_layers import chain, gemm, image, static, vector

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Function, Policy
from bfpga.contract.program import ArrayNode, PolicySpec, Program, Window
from bfpga.devices.emulator import Emulator
from bfpga.devices.graph_route import GraphRoute
from bfpga.devices.graph_translation import TRANSLATED
from bfpga.errors import DataError
from bfpga.formats.block_format import BlockFormat
from bfpga.verify.random_network import NetworkBuilder, schedule

pytest.importorskip("onnxruntime")

CONFIG = SystolicConfig(activation_words=1 << 14, weight_words=1 << 14, parameter_rows=1 << 12, accumulator_bits=32)


def random_static_program(rng: np.random.Generator, fmt: BlockFormat) -> Program:
    """Random layers whose exponents are all known before a run."""
    while True:
        builder = NetworkBuilder(rng, replace(CONFIG, format=fmt))
        last = builder.grow(int(rng.integers(1, 5)))
        builder.tensors["t0"].input_exponent = int(rng.integers(-7, 1))
        # Parts of one tensor share its exponent.
        exponents = {node.output: int(rng.integers(-12, 3)) for node in builder.nodes}
        for node in builder.nodes:
            if not node.policy.inherit:
                node.policy = PolicySpec(Policy.STATIC, exponents[node.output])
        if all(node.function in TRANSLATED for node in builder.nodes):
            return schedule(builder, last)


def both_ways(program: Program, x: np.ndarray, covered: int | None) -> np.ndarray:
    """Outputs of the engines, after checking that the route gives the same; covered: nodes the route must take."""
    emulator = Emulator(program)
    expected = emulator.run({next(iter(program.inputs)): x}).outputs
    found = emulator.run({next(iter(program.inputs)): x}, statistics=False)
    assert covered is None or len(GraphRoute(program).covered) == covered
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found.outputs[name])
    return next(iter(expected.values()))


@pytest.mark.parametrize("seed", range(30))
def test_route_equals_engines_on_random_layers(seed: int) -> None:
    rng = np.random.default_rng([11, seed])
    fmt = BlockFormat(mantissa_bits=int(rng.integers(4, 11)), saturation=str(rng.choice(["sym", "full"])))  # type: ignore[arg-type]
    program = random_static_program(rng, fmt)
    route = GraphRoute(program)
    x = rng.normal(0, 4, (5, *program.inputs["t0"])).astype(np.float32)
    both_ways(program, x, None)
    emulator = Emulator(program)
    emulator.run({"t0": x}, statistics=False)
    # What the translation claims to be exact must pass the emulator's own probe.
    assert bool(route.starts) == (emulator._route is not None)


def test_most_random_layers_can_be_translated() -> None:
    """Guards the test above: it would pass with nothing translated."""
    taken = total = 0
    for seed in range(30):
        rng = np.random.default_rng([11, seed])
        fmt = BlockFormat(mantissa_bits=int(rng.integers(4, 11)), saturation=str(rng.choice(["sym", "full"])))  # type: ignore[arg-type]
        program = random_static_program(rng, fmt)
        taken += len(GraphRoute(program).covered)
        total += len(program.nodes)
    assert taken > 0.7 * total


def one_layer(node: ArrayNode, inputs: int, exponent: int = 0, config: SystolicConfig = CONFIG) -> Program:
    return chain(config, [vector("x", inputs, exponent), vector("y", node.channels)], [node])


@pytest.mark.parametrize(("last", "covered"), [(128, 1), (129, 0)])
def test_sums_up_to_two_to_the_24_are_taken_and_none_beyond(last: int, covered: int) -> None:
    """The certificate's limit: weights whose magnitudes sum to 2**24 / 128 exactly, and to one more."""
    fmt = BlockFormat(mantissa_bits=8, saturation="full")
    weights = np.full((1, 1025), 127)
    weights[0, -1] = 0
    total = (1 << 24) // 128
    weights[0, -2:] = [total - 1023 * 127 - (last - 1), last - 1]
    weights[0, -2] += last - 128
    assert np.abs(weights).sum() == total + (last - 128)
    program = one_layer(gemm(weights, policy=static(17)), 1025, config=replace(CONFIG, format=fmt))
    x = np.full((3, 1025), -128.0)
    x[1, ::2] = 127
    x[2] = np.random.default_rng(0).integers(-128, 128, 1025)
    both_ways(program, x, covered)


def test_a_bias_counts_towards_the_limit() -> None:
    weights = np.full((1, 1000), 127)
    near = one_layer(gemm(weights, bias=np.array([(1 << 24) - 127 * 127 * 1000]), policy=static(17)), 1000)
    above = one_layer(gemm(weights, bias=np.array([(1 << 24) - 127 * 127 * 1000 + 1]), policy=static(17)), 1000)
    x = np.full((1, 1000), 127.0)
    both_ways(near, x, 1)
    both_ways(above, x, 0)


def test_channels_that_their_bias_decides_are_taken() -> None:
    """Pruned channels have large aligned biases; their result does not depend on the sum."""
    node = gemm(
        [[127, -127], [1, 0], [0, 0]], weight_exponents=np.array([-8, -27, -27]), bias=np.array([3, 99, -99]),
        bias_exponent=-5, policy=static(-6), function=Function.RELU,
    )  # fmt: skip
    x = np.array([[3.0, -2.0], [-100.0, 100.0]])
    out = both_ways(one_layer(node, 2), x, 1)
    assert (out[:, 1] == out[0, 1]).all()
    assert (out[:, 2] == 0).all()


@pytest.mark.parametrize(
    "change",
    [
        {"format": BlockFormat(rounding="half_up")},
        {"format": BlockFormat(saturation="wrap")},
        {"format": BlockFormat(mantissa_bits=16), "accumulator_bits": 48},
    ],
    ids=["rounding", "wrap", "wide"],
)
def test_formats_without_an_operator_stay_with_the_engines(change: dict[str, Any]) -> None:
    program = one_layer(gemm([[100, 100]], policy=static(-3)), 2, -13, replace(CONFIG, **change))
    both_ways(program, np.array([[3.7, -0.2]]), 1 if change["format"].mantissa_bits == 16 else 0)


@pytest.mark.parametrize("function", [function for function in Function if function.row.on_grid])
def test_layers_around_a_table_are_taken(function: Function) -> None:
    """Translated layers and engines alternate; exponents pass between them."""
    nodes = [
        gemm([[5, 3], [1, -9]], output="a", name="first", policy=static(-2)),
        gemm([[5, 3], [1, -9]], inputs=("a",), output="b", name="table", policy=static(-7), function=function),
        gemm([[5, 3]], inputs=("b",), output="y", name="last", policy=static(-3)),
    ]
    program = chain(CONFIG, [vector("x", 2, -4), vector("a", 2), vector("b", 2), vector("y", 1)], nodes)
    both_ways(program, np.random.default_rng(2).normal(size=(9, 2)), 2)


def test_a_policy_that_looks_at_results_keeps_its_layer_and_the_next_from_the_route() -> None:
    nodes = [
        gemm([[5, 3], [1, -9]], output="a", name="first", policy=PolicySpec(Policy.ROLLING_MAX, window=3)),
        gemm([[5, 3]], inputs=("a",), output="y", name="last", policy=static(-3)),
    ]
    program = chain(CONFIG, [vector("x", 2, -4), vector("a", 2), vector("y", 1)], nodes)
    x = np.random.default_rng(2).normal(size=(9, 2))
    expected = Emulator(program).run({"x": x}).outputs["y"]
    emulator = Emulator(program)
    np.testing.assert_array_equal(emulator.run({"x": x}, statistics=False).outputs["y"], expected)
    assert emulator._route is None


def test_parts_of_a_concatenation_are_joined() -> None:
    window = Window(output_height=2, output_width=2)
    rng = np.random.default_rng(4)
    nodes = [
        gemm(rng.integers(-9, 9, (3, 4)), window, output="c", name="left", policy=static(-2)),
        gemm(rng.integers(-9, 9, (2, 4)), window, output="c", name="right", policy=static(-2), channel_offset=3),
        gemm(rng.integers(-9, 9, (1, 5)), window, inputs=("c",), name="last", policy=static(-1)),
    ]
    program = chain(CONFIG, [image("x", 2, 2, 4, -4), image("c", 2, 2, 5), image("y", 2, 2, 1)], nodes)
    both_ways(program, rng.normal(size=(6, 4, 2, 2)), 3)


def test_transposed_values_enter_and_leave_in_their_layout() -> None:
    window = Window(output_height=3, output_width=1)
    rng = np.random.default_rng(6)
    specs = [image("x", 3, 1, 4, -5), image("y", 3, 1, 2)]
    specs[0].onnx_shape, specs[0].axes = (3, 4), (0, 1)
    specs[1].onnx_shape, specs[1].axes = (2, 3), (1, 0)
    program = chain(CONFIG, specs, [gemm(rng.integers(-99, 99, (2, 4)), window, policy=static(-1))])
    assert both_ways(program, rng.normal(size=(5, 3, 4)), 1).shape == (5, 2, 3)


def test_shifted_channels_enter_and_leave_at_their_scale() -> None:
    specs = [vector("x", 2, -5), vector("y", 2)]
    specs[0].channel_shift, specs[1].channel_shift = (0, -3), (2, 0)
    program = chain(CONFIG, specs, [gemm([[64, 0], [0, 64]], policy=static(0))])
    out = both_ways(program, np.array([[1.0, 8.0], [0.5, -2.0]]), 1)
    assert out.tolist() == [[16.0, 64.0], [8.0, -16.0]]


def test_numbers_that_are_not_finite_are_refused_on_the_route_too() -> None:
    program = one_layer(gemm([[1, 1]], policy=static(0)), 2)
    emulator = Emulator(program)
    emulator.run({"x": np.ones((2, 2))}, statistics=False)
    assert emulator._route is not None
    for bad in (np.inf, np.nan):
        with pytest.raises(DataError, match="finite"):
            emulator.run({"x": np.array([[1.0, bad]])}, statistics=False)
    large = emulator.run({"x": np.array([[3e38, -3e38]])}, statistics=False).outputs["y"]
    assert large.item() == 0.0


def test_a_graph_that_is_refused_stays_with_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: bytes) -> None:
        raise RuntimeError("no such operator")

    program = one_layer(gemm([[3, 4]], policy=static(0)), 2)
    monkeypatch.setattr("bfpga.devices.graph_route.onnx_session", refuse)
    both_ways(program, np.array([[1.0, 2.0]]), 0)
    assert GraphRoute(program).reasons == ["ONNX Runtime refuses the graph: no such operator"]


def test_a_route_that_fails_its_probe_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe compares bits before the route is believed."""
    program = one_layer(gemm([[3, 4]], policy=static(0)), 2)
    monkeypatch.setattr("bfpga.devices.graph_translation._Translation._aligned_bias", lambda *_: np.full(1, 5))
    node = program.nodes[0]
    assert isinstance(node, ArrayNode)
    node.bias = np.array([1])
    emulator = Emulator(program)
    x = np.array([[1.0, 2.0]])
    assert emulator.run({"x": x}, statistics=False).outputs["y"].item() == 12.0
    assert emulator._route is None
