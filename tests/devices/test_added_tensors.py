"""Products that add a tensor to their sums: engines in numpy and compiled layers agree, and programs are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_layers import chain, gemm, image, static
from effort import drawn, each_once

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.functions import FUNCTION_NAMES, Function
from bfpga.contract.program import ArrayNode, OperandWeights, PolicySpec, Program, Tile, Window
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY, available_sets
from bfpga.errors import ProgramError
from bfpga.formats.block_format import BlockFormat, Rounding, Status
from bfpga.program.checks import check_parts
from bfpga.verify.check import random_inputs
from bfpga.verify.random_network import random_program

SETS = [item.name for item in available_sets()]
CONFIG = KernelConfig(
    activation_words=1 << 14, weight_words=1 << 14, parameter_rows=1 << 12, functions=FUNCTION_NAMES, position_bins=16,
    residual_adds=True,
)  # fmt: skip
ROUNDINGS: tuple[Rounding, ...] = ("trunc", "tozero", "half_up", "half_away", "rne")
#: Input channels and groups of layers that are computed in another way each: dense ones of few and of many pixels, in
#: groups, channel by channel in columns and not.
SHAPES = {
    "dense": (5, 20, 1, 8, 9), "few pixels": (24, 40, 1, 2, 3), "groups": (6, 21, 3, 7, 5),
    "columns": (24, 24, 24, 6, 7), "narrow columns": (4, 4, 4, 6, 8), "one pixel": (60, 33, 1, 1, 1),
}  # fmt: skip
FUNCTIONS = (Function.NONE, Function.RELU, Function.LEAKY_RELU, Function.CLIP, Function.GELU, Function.SIGMOID)


def adding(rng: np.random.Generator, shape: str, config: KernelConfig, policy: PolicySpec, **fields: Any) -> Program:
    """A layer with a window of 3 x 3 that adds the results of another, of 1 x 1, to its sums."""
    inputs, channels, groups, height, width = SHAPES[shape]
    largest = config.format.mantissa_max if config.format.mantissa_bits <= 8 else 99
    kernel = min(3, height)
    window = Window(kernel, kernel, 1, 1, kernel // 2, kernel // 2, 1, 1, height, width)
    pixels = Window(output_height=height, output_width=width)
    first = gemm(rng.integers(-largest, largest + 1, (channels, inputs)), pixels, output="r", name="first",
                 policy=static(int(rng.integers(-6, 9))))  # fmt: skip
    exponents = rng.integers(-9, 4, channels) if rng.random() < 0.8 else rng.integers(-40, 30, channels)
    last = gemm(
        rng.integers(-largest, largest + 1, (channels, kernel, kernel, inputs // groups)), window, inputs=("x", "r"),
        groups=groups, name="last", policy=policy, weight_exponents=exponents, adds_second=True,
        bias=rng.integers(-999, 999, channels) if rng.random() < 0.7 else None, bias_exponent=int(rng.integers(-9, 4)),
        **fields,
    )  # fmt: skip
    exponent = int(rng.integers(-7, 0)) if rng.random() < 0.5 else None
    specs = [image("x", height, width, inputs, exponent), image("r", height, width, channels),
             image("y", height, width, channels)]  # fmt: skip
    return chain(config, specs, [first, last])


def both_ways(program: Program, inputs: dict[str, Any], name: str) -> int:
    """Status of the last layer, after a comparison of everything."""
    expected = Emulator(program, NUMPY).run(inputs, trace=True)
    emulator = Emulator(program, name, 1, probe=False)
    assert emulator.native is not None
    assert not emulator.native.reasons
    mismatch = first_mismatch(program, expected, emulator.run(inputs, trace=True))
    assert mismatch is None, mismatch
    counters = expected.layers[-1].counters
    assert counters is not None
    return counters.status


@pytest.mark.parametrize(("name", "shape"), each_once(SETS, list(SHAPES)))
def test_compiled_layers_give_the_bits_of_the_engines(name: str, shape: str) -> None:
    """Any function, rounding, width of the accumulators and distance of the exponents; policies that are allowed."""
    inputs, _, _, height, width = SHAPES[shape]
    saturated = set()
    for seed in range(drawn(40)):
        rng = np.random.default_rng([17, seed])
        config = replace(
            CONFIG, accumulator_bits=int(rng.choice([24, 30, 32, 48])), format=BlockFormat(
                rounding=ROUNDINGS[int(rng.integers(5))], saturation=("sym", "full")[int(rng.integers(2))]
            ),
        )  # fmt: skip
        function = FUNCTIONS[int(rng.integers(len(FUNCTIONS)))]
        learning = Policy(int(rng.integers(2, 5)))
        policy = static(int(rng.integers(-8, 9))) if rng.random() < 0.6 else PolicySpec(learning, 0, 1, 3, preset=True)
        program = adding(rng, shape, config, policy, function=function, function_argument=int(rng.integers(1, 20)))
        x = rng.normal(size=(5, inputs, height, width)) * np.exp2(rng.integers(-3, 4, (5, 1, 1, 1)))
        status = both_ways(program, {"x": x.astype(np.float32)}, name)
        saturated.add(bool(status & Status.ACCUMULATOR_SATURATED))
    assert saturated == {False, True}


@pytest.mark.parametrize("shape", SHAPES)
def test_wide_mantissas(shape: str) -> None:
    """Sums and what is added to them beyond 32 bits, in vectors and one by one."""
    inputs, _, _, height, width = SHAPES[shape]
    for seed in range(drawn(12)):
        rng = np.random.default_rng([18, seed])
        config = replace(CONFIG, format=BlockFormat(mantissa_bits=16), accumulator_bits=48)
        program = adding(rng, shape, config, static(int(rng.integers(-8, 9))))
        if rng.random() < 0.6:
            weights = program.nodes[1].weights  # type: ignore[union-attr]
            program.nodes[1].weights = np.where(rng.random(weights.shape) < 0.7, 32767, weights)  # type: ignore[union-attr]
        x = rng.normal(size=(3, inputs, height, width))
        for name in [item.name for item in available_sets() if item.element_bits == 16]:
            both_ways(program, {"x": x.astype(np.float32)}, name)


@pytest.mark.parametrize("name", SETS)
def test_random_networks_that_add_equal_the_engines(name: str) -> None:
    seen = 0
    for seed in range(drawn(40)):
        rng = np.random.default_rng([19, seed])
        program = random_program(rng, CONFIG)
        inputs = random_inputs(rng, program)
        emulator = Emulator(program, name, 1, probe=False)
        expected = Emulator(program, NUMPY).run(inputs, trace=True)
        assert first_mismatch(program, expected, emulator.run(inputs, trace=True)) is None
        check_parts(program)
        seen += sum(isinstance(node, ArrayNode) and node.adds_second for node in program.nodes)
    assert seen > 5


def test_a_sum_by_hand() -> None:
    """3 * 5 * 2**-2 + 7 * 2**1 = 71 * 2**-2, and ReLU of 3 * -20 * 2**-2 + 14 = -1 is nothing."""
    nodes = [gemm([[7]], inputs=("x",), output="r", name="r", policy=static(1), bias=np.array([0])),
             gemm([[3]], inputs=("x", "r"), weight_exponents=np.array([-2]), policy=static(-2), adds_second=True,
                  function=Function.RELU)]  # fmt: skip
    nodes[0].weights = np.zeros_like(nodes[0].weights)
    nodes[0].bias, nodes[0].bias_exponent = np.array([14]), 0
    program = chain(CONFIG, [image("x", 1, 1, 1, 0), image("r", 1, 1, 1), image("y", 1, 1, 1)], nodes)
    found = Emulator(program).run({"x": np.array([5.0, -20.0]).reshape(2, 1, 1, 1)}).outputs["y"]
    assert found.ravel().tolist() == [71 / 4, 0]


def one_that_fits() -> Program:
    return adding(np.random.default_rng(0), "dense", CONFIG, static(0))


def changed(**fields: Any) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        program.nodes[1] = replace(program.nodes[1], **fields)  # type: ignore[arg-type]

    return change


def without_the_part(program: Program) -> None:
    program.config = replace(program.config, residual_adds=False)


def narrower(program: Program) -> None:
    program.tensors["r"].width -= 1
    program.tensors["r"].onnx_shape = (20, 8, 8)
    program.nodes[0].window.output_width -= 1  # type: ignore[union-attr]


#: What a program may not have, and what is said of it.
BROKEN: dict[str, tuple[Callable[[Program], None], str]] = {
    "kernel": (without_the_part, "its kernel adds no tensor to sums"),
    "one input": (changed(inputs=("x",)), "1 tensors of a layer that adds the second"),
    "operand": (changed(operand=OperandWeights(True, 5)), "2 tensors of a layer that adds the second"),
    "average": (changed(uniform_weights=True), "2 tensors of a layer that adds the second"),
    "subtraction": (changed(negate_second=True), "it adds a tensor, and subtracts it"),
    "function": (changed(function_first=True), "has its function before the bias"),
    "measured": (changed(policy=PolicySpec(Policy.MAX)), "its exponent is not known before its sums"),
    "first": (changed(policy=PolicySpec(Policy.FEEDBACK)), "its exponent is not known before its sums"),
    "inherited": (changed(policy=PolicySpec(inherit=True)), "its exponent is not known before its sums"),
    "columns": (changed(tiles=[Tile(0, 8, 0, 20, 0, 4), Tile(0, 8, 0, 20, 4, 9)]), "does not compute whole rows"),
    "size": (narrower, "it adds r of 8 x 8 x 20 to results of 8 x 9 x 20"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_programs_that_no_kernel_computes_are_refused(name: str) -> None:
    change, message = BROKEN[name]
    program = one_that_fits()
    check_parts(program)
    change(program)
    with pytest.raises(ProgramError, match=message):
        check_parts(program)


def test_a_second_tensor_without_a_flag_is_refused() -> None:
    program = one_that_fits()
    changed(adds_second=False)(program)
    with pytest.raises(ProgramError, match="2 inputs of a layer of kind gemm"):
        check_parts(program)
