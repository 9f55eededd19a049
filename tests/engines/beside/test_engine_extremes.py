"""Engines at the ends of what they take: zeros, largest mantissas, single pixels, full accumulators, full units.

Each case runs on the emulator, on a kernel of plain integers and on the C simulation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from array_layers import PlainKernel, gemm, image

from bfpga.compiler.dispatch.choice import Decision, choose_engines, decide
from bfpga.compiler.options import CompileOptions, LayerOptions
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import Program, Window
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.engines.registry import engine_named
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.formats.block_format import BlockFormat
from bfpga.verify.check import simulation
from bfpga.verify.random_network import NetworkBuilder, schedule

FULL = BlockFormat(mantissa_bits=8, saturation="full")
CONFIG = SystolicConfig(
    format=FULL, columns=9, rows=4, lanes=2, accumulator_bits=24, bias_bits=24, activation_words=1024,
    beside=(
        ZeroSkipNumbers(4, 5, lanes=9, kernels_in_flight=4, load_pixels=4),
        ClusterNumbers(2, 3, kernels_in_flight=4, accumulator_words=24, memory_words=8, load_pixels=4),
    ),
)  # fmt: skip
#: As many kernels as a header counts, the largest kernels, strides, blocks and segments.
LARGEST = SystolicConfig(
    format=BlockFormat(mantissa_bits=16, saturation="full"), columns=25, rows=4, lanes=1, accumulator_bits=48,
    beside=(
        ZeroSkipNumbers(
            8, 6, lanes=25, rows_parallel=4, kernels_in_flight=255, kernel_height=16, kernel_width=16, stride=16,
            multiplier="lut", load_pixels=32,
        ),
        ClusterNumbers(4, 8, kernel=5, kernels_in_flight=64, multiplier="lut", load_pixels=32),
    ),
)  # fmt: skip
ENGINES: tuple[EngineName, ...] = ("zero_skip", "sparse_cluster")
#: Exponent of inputs: a mantissa of 128 is 1.
UNIT = -7


def network(
    engine: EngineName, weights: np.ndarray, size: tuple[int, int], stride: int = 1, pad: int = 0,
    config: SystolicConfig = CONFIG, **fields: object,
) -> NetworkBuilder:  # fmt: skip
    """One convolution from x to y. weights: (channels, rows, columns, inputs); size: of the image."""
    kernel, sides = weights.shape[1:3], [0, 0]
    for axis in range(2):
        sides[axis] = (size[axis] + 2 * pad - kernel[axis]) // stride + 1
    builder = NetworkBuilder(np.random.default_rng(0), config)
    builder.tensors["t0"] = image("t0", *size, weights.shape[3], UNIT)
    builder.tensors["y"] = image("y", sides[0], sides[1], len(weights))
    window = Window(kernel[0], kernel[1], stride, stride, pad, pad, 1, 1, sides[0], sides[1])
    macs = weights.size * sides[0] * sides[1]
    builder.nodes.append(gemm(weights, window, inputs=("t0",), engine=engine, macs=macs, **fields))
    return builder


def scheduled(builder: NetworkBuilder) -> Program:
    return schedule(builder, "y")


def agreed(program: Program, mantissa: np.ndarray) -> DeviceResult:
    """What all devices give for samples (samples, channels, rows, columns) of mantissas."""
    inputs = {"t0": np.ldexp(mantissa.astype(np.float32), UNIT)}
    expected = Emulator(program).run(inputs, trace=True)
    plain = KernelDevice(program, PlainKernel(program.config), "plain integers")
    assert first_mismatch(program, expected, plain.run(inputs, trace=True)) is None
    device = simulation("csim")(program)
    for traced in (True, False):
        assert first_mismatch(program, expected, device.run(inputs, trace=traced)) is None
    device.close()
    return expected


def pruned(seed: int, *shape: int, density: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < density, rng.integers(-128, 128, shape), 0)


# Data


@pytest.mark.parametrize("engine", ENGINES)
def test_maps_and_kernels_of_zeros_give_biases(engine: EngineName) -> None:
    """SC R77: zeros are no work, and no sum is left over from the sample before."""
    bias = np.array([5, -3, 0, 127, -128, 1])
    for weights in (pruned(1, 6, 3, 3, 4), np.zeros((6, 3, 3, 4), int)):
        program = scheduled(network(engine, weights, (7, 6), pad=1, bias=bias, bias_exponent=0))
        x = pruned(2, 3, 4, 7, 6)
        x[1] = 0
        result = agreed(program, x).tensors["y"].mantissa
        np.testing.assert_array_equal(result[1], np.broadcast_to(bias, (7, 6, 6)))


@pytest.mark.parametrize("engine", ENGINES)
def test_largest_mantissas_fill_an_accumulator_to_its_last_bit(engine: EngineName) -> None:
    """SC E10: sums of the largest products and a bias reach both ends of 24 bits."""
    channels, ends = 56, np.array([(1 << 23) - 1, -(1 << 23)])
    weights = np.empty((2, 3, 3, channels), int)
    weights[0], weights[1] = -128, 127
    products = -128 * weights.reshape(2, -1).sum(axis=1)
    assert (np.abs(products) > 0.97 * (1 << 23)).all()
    # An output's unit is 2^17 of the accumulator's.
    builder = network(engine, weights, (5, 6), bias=ends - products, bias_exponent=UNIT)
    builder.nodes[0].policy.exponent = UNIT + 17
    result = agreed(scheduled(builder), np.full((1, channels, 5, 6), -128)).tensors["y"].mantissa
    np.testing.assert_array_equal(result, np.broadcast_to([64, -64], result.shape))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (5, 1), (1, 6)])
def test_images_of_one_pixel(engine: EngineName, kernel: int, inputs: int, outputs: int) -> None:
    """Fewer rows than bands, fewer columns than pieces, less than a segment, less than a word."""
    weights = pruned(3, outputs, kernel, kernel, inputs, density=1.0)
    x = np.array([-128, 0, 127])[:, None, None, None] * np.ones((1, inputs, 1, 1), int)
    builder = network(engine, weights, (1, 1), pad=kernel // 2)
    builder.nodes[0].policy.exponent = UNIT + 10
    result = agreed(scheduled(builder), x).tensors["y"].mantissa[:, 0, 0]
    sums = x[:, :, 0, 0] @ weights[:, kernel // 2, kernel // 2].T
    np.testing.assert_array_equal(result, np.clip(np.rint(sums / 1024), -128, 127))


@pytest.mark.parametrize("size", [(1, 9), (9, 1), (2, 17)])
@pytest.mark.parametrize("engine", ENGINES)
def test_single_rows_and_columns(engine: EngineName, size: tuple[int, int]) -> None:
    agreed(scheduled(network(engine, pruned(4, 5, 3, 3, 3), size, pad=1)), pruned(5, 2, 3, *size))


def test_samples_of_a_batch_take_the_clocks_of_their_own_zeros() -> None:
    """SC R22, R131: a partition for each sample, clocks of each sample; their sum is the batch's."""
    program = scheduled(network("sparse_cluster", pruned(6, 6, 3, 3, 4), (9, 9), pad=1))
    corner = pruned(7, 1, 4, 9, 9, density=1.0)
    corner[:, :, 3:], corner[:, :, :, 3:] = 0, 0
    samples = [pruned(seed, 1, 4, 9, 9, density=density) for seed, density in enumerate((0.0, 0.1, 0.5, 1.0))]
    samples.append(corner)
    alone = [agreed(program, sample).layers[0].cycles for sample in samples]
    assert alone[:4] == sorted(set(alone[:4]))
    assert agreed(program, np.concatenate(samples)).layers[0].cycles == sum(alone)


# Sizes


@pytest.mark.parametrize(
    ("engine", "kernel", "channels"),
    [("zero_skip", 1, 256), ("zero_skip", 16, 3), ("sparse_cluster", 1, 65), ("sparse_cluster", 5, 3)],
)
def test_the_largest_builds(engine: EngineName, kernel: int, channels: int) -> None:
    """As many kernels in flight as a mask or a header has room for, and one more; the largest kernels; all 16 bits."""
    weights = np.random.default_rng(8).integers(-(1 << 15), 1 << 15, (channels, kernel, kernel, 2))
    size = (max(3, kernel), 35)
    builder = network(engine, weights, size, pad=kernel // 2, config=LARGEST)
    builder.nodes[0].policy.exponent = UNIT + 12
    agreed(scheduled(builder), pruned(9, 1, 2, *size))


def test_strides_as_large_as_the_kernel() -> None:
    weights = pruned(10, 5, 16, 16, 1)
    agreed(
        scheduled(network("zero_skip", weights, (40, 33), stride=16, pad=3, config=LARGEST)), pruned(9, 1, 1, 40, 33)
    )


def widest_row() -> int:
    """Columns of the widest image of which the units hold a row of outputs, by docs/engines.md, sections 2 and 6."""
    build = CONFIG.numbers_of(ClusterNumbers)
    rows = 2  # a row of outputs reads three, the higher band has two
    columns = max(
        columns for columns in range(1, 1000)
        if rows * ((columns + build.load_pixels - 2) // build.load_pixels + 1) <= build.memory_words
        and ((rows + 3) // 3 + 1) * ((columns + 3) // 3 + 1) <= build.accumulator_words
    )  # fmt: skip
    return columns * build.grid_columns


def limit_case(name: str, above: int) -> NetworkBuilder:
    """A layer at a limit (``above`` 0), or one above it."""
    if name == "zero_skip kernel":
        return network("zero_skip", pruned(11, 5, 3 + above, 3, 3), (9, 8), pad=1)
    if name == "zero_skip stride":
        return network("zero_skip", pruned(12, 5, 3, 3, 3), (9, 8), stride=2 + above)
    if name == "cluster kernel":
        return network("sparse_cluster", pruned(13, 5, 3, 3 + above, 3), (9, 8), pad=1)
    if name == "cluster stride":
        return network("sparse_cluster", pruned(14, 5, 3, 3, 3), (9, 8), stride=2 + above)
    if name.endswith("padding"):
        engine: EngineName = "zero_skip" if name.startswith("zero") else "sparse_cluster"
        return network(engine, pruned(15, 5, 3, 3, 3), (6, 6), pad=2 + above)
    return network("sparse_cluster", pruned(16, 5, 3, 3, 3), (4, widest_row() + above))


LIMITS = {
    "zero_skip kernel": "its kernel is 4x3, the engine's largest is 3x3",
    "zero_skip stride": "its stride is 3x3, the engine's largest is 2",
    "zero_skip padding": "its padding (top 3, bottom 3, left 3, right 3) reaches beyond a kernel of 3x3",
    "cluster kernel": "its kernel is 3x4, the engine's largest is 3x3",
    "cluster stride": "its stride 3x3 has a factor in common with the engine's kernel of 3",
    "cluster padding": "its padding (top 3, bottom 3, left 3, right 3) reaches beyond a kernel of 3x3",
    "cluster width": "one row of its output does not fit the units: 2x3 pieces of 24 sums and 8 segments",
}


def asked_for(builder: NetworkBuilder, engine: EngineName) -> Decision:
    """What the dispatcher decides when a network asks for an engine."""
    choose_engines([builder.nodes], builder.tensors, builder.config, CompileOptions())
    return decide(builder.nodes[0].engine_choices, LayerOptions(engine=engine), None)


@pytest.mark.parametrize("name", LIMITS)
def test_a_layer_at_a_limit_runs_on_the_engine_and_one_above_it_on_the_array(name: str) -> None:
    """SC R14, R55, R155; ZS R53: what does not fit is the array's, with a sentence that says why."""
    for above in (0, 1):
        builder = limit_case(name, above)
        node, spec = builder.nodes[0], builder.tensors["t0"]
        engine = node.engine
        decision = asked_for(builder, engine)
        if above:
            assert decision.engine == "systolic_array"
            assert decision.reason.startswith(f"{engine} was asked for, but {LIMITS[name]}")
        else:
            assert decision == Decision(engine, "asked for")
        node.engine = decision.engine
        agreed(scheduled(builder), pruned(17, 1, spec.channels, spec.height, spec.width))


@pytest.mark.parametrize("engine", ENGINES)
def test_channels_are_numbered_with_sixteen_bits(engine: EngineName) -> None:
    """Section 4: the header of a part."""
    builder = network(engine, np.ones((1, 1, 1, 1), int), (1, 1))
    node, spec = builder.nodes[0], builder.tensors["t0"]
    refusal = engine_named(engine).refusal
    assert refusal(node, replace(spec, channels=65536), CONFIG) == ""
    assert "65537 channels, the engine 65536 at most" in refusal(node, replace(spec, channels=65537), CONFIG)
