"""Layers on the compiled kernel against plain integers: geometry, operations, functions, formats."""

from __future__ import annotations

import numpy as np
import pytest
from array_programs import Program, empty, random_tensor
from kernel_pairs import (
    NIBBLES,
    PACKED,
    SMALL,
    TALL,
    WIDE_MEMORY,
    WIDEST,
    KernelPair,
    output_size,
    run_convolution,
)

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Function, Operation
from bfpga.formats.block_format import Status


@pytest.fixture(scope="module")
def pair() -> KernelPair:
    return KernelPair(SMALL)


@pytest.mark.parametrize(
    "geometry",
    [
        {},
        {"stride": (2, 2)},
        {"stride": (2, 1), "pad": (0, 2), "size": (7, 5)},
        {"dilation": (2, 1), "size": (7, 6)},
        {"kernel": (1, 1), "pad": (0, 0), "stride": (2, 2)},
        {"kernel": (5, 2), "pad": (2, 1), "size": (6, 4)},
        {"pitch": 9},
        {"size": (1, 1), "kernel": (1, 1), "pad": (0, 0), "channels": (37, 9)},
        {"size": (4, 1), "kernel": (3, 1), "pad": (1, 0)},
        {"channels": (1, 1)},
        {"kernel": (11, 11), "pad": (5, 5), "size": (6, 7), "channels": (1, 2)},
    ],
)
def test_convolutions_equal_the_reference(pair: KernelPair, geometry: dict[str, tuple[int, int]]) -> None:
    """R1, R3, R10, R16, R56, R74: kernel 1..11, stride, padding, dilation, odd numbers of channels."""
    run_convolution(pair, **geometry)


@pytest.mark.parametrize("outputs", [40])
def test_tall_results_take_several_passes(outputs: int) -> None:
    """R57, R63: M = 17 is two passes of 16 rows; the second one starts its accumulators at zero again."""
    run_convolution(KernelPair(TALL), channels=(4, outputs), size=(2, 3), kernel=(1, 1), pad=(0, 0))


@pytest.mark.parametrize("pixels", [1, 5])
@pytest.mark.parametrize("config", [SMALL, TALL], ids=["one beat", "four beats"])
def test_streamed_weights_pass_straight_to_the_tiles(pixels: int, config: KernelConfig) -> None:
    """R2, R61: a fully connected layer; one weight word a step, in several beats where it does not fit one."""
    rng, program = np.random.default_rng(2), Program(config)
    x, y = program.tensor(1, pixels, 21), program.tensor(1, pixels, 11)
    weights = rng.integers(-127, 128, (11, 1, 1, 21))
    program.load("x", x)
    program.compute(Operation.GEMM, x, y, flags=Flag.STREAM_WEIGHTS | Flag.FIRST | Flag.LAST, output_exponent=2)
    program.stream_weights(weights)
    program.store("y", y)
    KernelPair(config).run(program, {"x": random_tensor(rng, x, config), "y": empty(y)})


@pytest.mark.parametrize("pad", [0, 1])
def test_maximum_pooling_keeps_scale_and_ignores_padding(pair: KernelPair, pad: int) -> None:
    rng, program = np.random.default_rng(3), Program(SMALL)
    x = program.tensor(6, 7, 9)
    y = program.tensor(output_size(6, 3, 2, pad, 1), output_size(7, 3, 2, pad, 1), 9)
    program.load("x", x)
    program.compute(
        Operation.MAX, x, y, stride=(2, 2), pad=(pad, pad), kernel_height=3, kernel_width=3,
        flags=Flag.FIRST | Flag.LAST | Flag.COPY_EXPONENT,
    )  # fmt: skip
    program.store("y", y)
    tensors = {"x": random_tensor(rng, x, SMALL), "y": empty(y)}
    tensors["x"].mantissa[0, :3, :3] = -127
    pair.run(program, tensors)
    assert tensors["y"].exponent == tensors["x"].exponent
    assert tensors["y"].mantissa[0, 0, 0].tolist() == [-127] * 9


@pytest.mark.parametrize("exponents", [(-5, -5), (-5, -2), (3, -40)])
@pytest.mark.parametrize("negate", [Flag.NONE, Flag.NEGATE_SECOND])
def test_sums_align_to_the_larger_exponent(pair: KernelPair, exponents: tuple[int, int], negate: Flag) -> None:
    """R46, R47, R48, R73: residual add and subtract of two tensors."""
    rng, program = np.random.default_rng(4), Program(SMALL)
    a, b, y = (program.tensor(3, 5, 7) for _ in range(3))
    program.load("a", a)
    program.load("b", b)
    flags = Flag.FIRST | Flag.LAST | negate
    program.compute(Operation.SUM, a, y, second=b, flags=flags, output_exponent=max(exponents), function=Function.RELU)
    program.store("y", y)
    tensors = {"a": random_tensor(rng, a, SMALL, exponents[0]), "b": random_tensor(rng, b, SMALL, exponents[1])}
    pair.run(program, tensors | {"y": empty(y)})


@pytest.mark.parametrize("function", [function for function in Function if function.key in SMALL.functions])
@pytest.mark.parametrize("order", [Flag.NONE, Flag.FUNCTION_FIRST])
def test_functions_come_before_or_after_the_bias(pair: KernelPair, function: Function, order: Flag) -> None:
    """R11, R12, R13, R58: operands, tiles, bias, function, requantizer, write-back of a column in turn."""
    exponent = -12 if function in (Function.SIGMOID, Function.TANH) else -4
    y = run_convolution(
        pair, seed=int(function), kernel=(1, 1), pad=(0, 0), exponent=exponent, flags=order, function=function,
        function_argument=3, function_exponent=2,
        output_exponent=-7 if function in (Function.SIGMOID, Function.TANH) else 3,
    )  # fmt: skip
    assert np.unique(y).size > 1


@pytest.mark.parametrize(
    "config", [NIBBLES, WIDEST, WIDE_MEMORY, PACKED], ids=["4 bits", "18 bits", "4 lanes", "packed"]
)
def test_every_format_and_multiplier_computes_the_same_way(config: KernelConfig) -> None:
    """R3, R4, R14, R16, R17, R22, R62: widths, roundings, saturations, lanes, blocks of columns, packed multipliers."""
    pair = KernelPair(config)
    run_convolution(pair, flags=0)
    run_convolution(pair, parameters=False, output_exponent=-10, channels=(5, 4))


def test_bits_of_the_status_are_sticky_and_counters_belong_to_one_start(pair: KernelPair) -> None:
    """R16: the second start, which saturates nothing, reports no overflow."""
    run_convolution(pair, output_exponent=-20)
    assert pair.reference.overflow > 0
    assert pair.reference.status & Status.OVERFLOW
    run_convolution(pair, output_exponent=30)
    assert pair.reference.overflow == 0
    assert pair.reference.underflow > 0
