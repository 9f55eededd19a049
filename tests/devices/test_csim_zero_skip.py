"""ZERO_SKIP on the compiled kernel against plain integers: tiles, groups, orders, formats, policies, clocks."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_programs import Program, empty, random_tensor
from cpp_units import integer_flags
from engine_programs import (
    Convolution,
    Tile,
    cut,
    engine_layer,
    engine_tile,
    random_parameters,
    sparse_weights,
    zero_skip_bytes,
)
from kernel_pairs import KernelPair, small

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Flag, Function, Operation, Policy
from bfpga.devices.csim import Integers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.errors import DeviceError
from bfpga.formats.compressed.kernels import KernelFormat

BUILD = ZeroSkipNumbers(
    tile_height=4, tile_width=6, lanes=3, kernels_in_flight=4, kernel_height=3, kernel_width=3, stride=2, load_pixels=4
)
SMALL = small(beside=(BUILD,), activation_words=512)


@pytest.fixture(scope="module")
def pair() -> KernelPair:
    return KernelPair(SMALL)


def run(
    pair: KernelPair, seed: int = 0, channels: tuple[int, int] = (3, 6), size: tuple[int, int] = (5, 7),
    kernel: tuple[int, int] = (3, 3), stride: tuple[int, int] = (1, 1), pad: tuple[int, int] = (1, 1),
    density: float = 0.4, weights: np.ndarray | None = None, form: KernelFormat | None = None,
    each: int = 256, tile: tuple[int, int] | None = None, block: int | None = None, measure: bool = False,
    pitch: int | None = None, **fields: Any,
) -> np.ndarray:  # fmt: skip
    """A convolution in tiles of ``tile`` outputs and descriptors of ``block`` channels."""
    rng, config = np.random.default_rng(seed), pair.kernel.config
    build = config.numbers_of(ZeroSkipNumbers)
    program = Program(config)
    if weights is None:
        weights = sparse_weights(rng, (channels[1], *kernel, channels[0]), density, config)
    layer = Convolution(weights, stride, pad)
    x = program.tensor(*size, weights.shape[3], pitch)
    y = program.tensor(*layer.output_size(*size), len(weights), pitch)
    program.load("x", x)
    given = random_parameters(program, rng, len(weights)) | {"output_exponent": 2, "bias_exponent": -5} | fields
    form = form if form is not None else default_format(config)
    tiles = cut(y, *(tile or (build.tile_height, build.tile_width)), block or y.channels)
    stream = functools.partial(
        zero_skip_bytes, flight=build.kernels_in_flight, beat_bytes=config.weight_stream_bits // 8, form=form, each=each
    )
    engine_layer(program, Operation.ZERO_SKIP, layer, x, y, tiles, lambda _, kernels: stream(kernels), measure, **given)
    program.store("y", y)
    tensors = {"x": random_tensor(rng, x, config), "y": empty(y)}
    pair.run(program, tensors)
    return tensors["y"].mantissa[0]


def default_format(config: SystolicConfig) -> KernelFormat:
    return KernelFormat.BITMAP if config.format.mantissa_bits <= 8 else KernelFormat.ENTRY32


@pytest.mark.parametrize(
    "geometry",
    [
        {},
        {"stride": (2, 2), "size": (9, 13)},
        {"stride": (1, 2), "size": (6, 12), "kernel": (2, 3), "pad": (1, 0)},
        {"kernel": (1, 1), "pad": (0, 0)},
        {"kernel": (3, 1), "pad": (2, 0), "size": (3, 4)},
        {"size": (1, 1), "channels": (37, 9), "kernel": (1, 1), "pad": (0, 0)},
        {"size": (2, 3), "channels": (1, 1), "kernel": (2, 2)},
        {"pitch": 11, "channels": (2, 5)},
        {"tile": (3, 5), "size": (7, 11)},
        {"tile": (1, 1), "size": (2, 3)},
        {"block": 2},
        {"block": 4, "channels": (4, 10)},
    ],
)
def test_convolutions_equal_the_reference(pair: KernelPair, geometry: dict[str, Any]) -> None:
    """ZS R1, R7, R10-R13, R20, R24, R37: kernels, strides, pads, ragged tiles, several groups; clocks too."""
    run(pair, **geometry)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("density", [0.05, 0.5, 1.0])
def test_no_order_changes_a_result_and_all_wait_for_their_sums(pair: KernelPair, order: int, density: float) -> None:
    """ZS R39, R45, R48: tiles of one step wait, wide ones do not; the clocks are those of the contract."""
    run(pair, density=density, entry_order=order)
    run(pair, density=density, entry_order=order, tile=(1, 3), size=(2, 6))


@pytest.mark.parametrize(
    ("form", "each"), [(KernelFormat.ENTRY32, 256), (KernelFormat.ENTRY16, 1), (KernelFormat.BITMAP, 256)]
)
def test_kernels_come_in_every_format(pair: KernelPair, form: KernelFormat, each: int) -> None:
    """ZS R43-R46; a segment for each kernel, those without a coefficient included."""
    run(pair, form=form, each=each, channels=(5, 7))


def test_groups_and_images_without_a_coefficient_take_no_image(pair: KernelPair) -> None:
    """ZS R28, R41: such kernels give their bias, and leave nothing to those behind them."""
    rng = np.random.default_rng(3)
    weights = sparse_weights(rng, (12, 3, 3, 5), 0.5, SMALL)
    weights[4:8] = 0
    weights[..., 2] = 0
    weights[:4, :, :, 4] = 0
    run(pair, weights=weights)
    run(pair, weights=np.zeros((6, 3, 3, 2), int))


def test_functions_measurement_and_counters_are_those_of_the_array(pair: KernelPair) -> None:
    """A layer is measured on the engine, then computed again; saturated and vanished values are counted."""
    for function in (Function.RELU, Function.CLIP, Function.TANH):
        run(pair, function=int(function), function_argument=3, measure=True, policy=int(Policy.MAX))
    run(pair, output_exponent=-4)
    run(pair, output_exponent=9)


BUILDS = [
    {"columns": 8, "lanes": 4, "load_pixels": 8, "engine_lanes": 8},
    {"columns": 5, "engine_lanes": 7, "rows_parallel": 2, "load_pixels": 2},
    {"columns": 1, "engine_lanes": 1, "load_pixels": 1, "rows_parallel": 4},
    {"columns": 4, "engine_lanes": 6, "tile_width": 17, "mantissa_bits": 16, "accumulator_bits": 48, "lanes": 1},
    {"weight_stream_bits": 128, "stride": 1, "multiplier": "lut", "kernels_in_flight": 8},
]
#: ap_int takes long to compile.
CASES = [(number, "native") for number in range(len(BUILDS))] + [(1, "ap_int"), (3, "ap_int")]


@pytest.mark.parametrize(("number", "integers"), CASES)
def test_builds_differ_in_clocks_alone(number: int, integers: Integers) -> None:
    """ZS R35, R36, R38: ports that begin on any lane, rows of a step, wide mantissas, wide beats, multipliers."""
    integer_flags(integers)
    changes: dict[str, Any] = dict(BUILDS[number])
    wide = changes.get("mantissa_bits", 8) > 8
    names = ("rows_parallel", "load_pixels", "tile_width", "stride", "multiplier", "kernels_in_flight")
    build = {name: changes.pop(name) for name in names if name in changes}
    build = {"lanes": changes.pop("engine_lanes", 3), "multiplier": "dsp" if wide else "dsp_packed"} | build
    config = small(**changes, beside=(replace(BUILD, **build),), activation_words=512)
    stride = (config.numbers_of(ZeroSkipNumbers).stride,) * 2
    built = KernelPair(config, integers)
    run(built, size=(9, 17), stride=stride)
    run(built, size=(5, 9), tile=(3, 4), block=config.lanes, density=0.1)


def test_a_kernel_without_the_engine_says_so() -> None:
    program = Program(SMALL)
    x, y = program.tensor(2, 2, 1), program.tensor(2, 2, 1)
    program.load("x", x)
    layer = Convolution(np.ones((1, 1, 1, 1), int), pad=(0, 0))
    engine_tile(program, Operation.ZERO_SKIP, layer, x, y, Tile((0, 2), (0, 2), (0, 1)), flags=Flag.FIRST | Flag.LAST)
    tensors = {"x": random_tensor(np.random.default_rng(0), x, SMALL), "y": empty(y)}
    with pytest.raises(DeviceError, match="needs an engine that this kernel lacks, for operation 7"):
        KernelPair(small()).kernel.run_operations(program.operations, tensors)


def test_a_cleared_kernel_forgets_the_sums_of_a_start_that_stopped(pair: KernelPair) -> None:
    """The weight stream ends in the middle of an image; what was added until then is no part of the next result."""
    program = Program(SMALL)
    x, y = program.tensor(4, 6, 3), program.tensor(4, 6, 4)
    program.load("x", x)
    layer = Convolution(np.ones((4, 3, 3, 3), int))
    engine_tile(
        program, Operation.ZERO_SKIP, layer, x, y, Tile((0, 4), (0, 6), (0, 4)), flags=Flag.FIRST | Flag.LAST,
        output_exponent=4,
    )  # fmt: skip
    stream = zero_skip_bytes(layer.weights, BUILD.kernels_in_flight, SMALL.weight_stream_bits // 8, KernelFormat.BITMAP)
    program.store("y", y)
    tensors = {"x": random_tensor(np.random.default_rng(0), x, SMALL), "y": empty(y)}
    program.operations[1].weights = stream[: len(stream) * 3 // 4]
    with pytest.raises(DeviceError, match="is empty"):
        pair.kernel.run_operations(program.operations, tensors)
    program.operations[1].weights = stream
    again = KernelPair.__new__(KernelPair)
    again.kernel, again.reference = pair.kernel, KernelPair(SMALL).reference
    expected = {name: replace(tensor, mantissa=tensor.mantissa.copy()) for name, tensor in tensors.items()}
    again.reference.run(program.operations, expected)
    pair.kernel.run_operations(program.operations, tensors, clear_policies=True)
    np.testing.assert_array_equal(tensors["y"].mantissa, expected["y"].mantissa)
