"""SPARSE on the compiled kernel against plain integers: strips, partitions, groups, policies, batches, clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from array_programs import Place, Program, empty, random_tensor
from cpp_units import integer_flags
from engine_programs import (
    Convolution,
    Tile,
    cluster_bytes,
    cut,
    engine_layer,
    engine_tile,
    random_parameters,
    sparse_weights,
    zero_skip_bytes,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_pairs import KernelPair, small

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Descriptor, Flag, Function, Operation, Policy
from bfpga.contract.program import BlockTensor
from bfpga.devices.csim import Integers
from bfpga.devices.kernel_start import KernelResult
from bfpga.engines.sparse_cluster.cycles import ClusterOperation
from bfpga.engines.sparse_cluster.limits import piece_limits
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.errors import DeviceError, ToolError
from bfpga.formats.compressed.kernels import KernelFormat

BUILD = ClusterNumbers(
    grid_rows=2, grid_columns=2, kernel=3, kernels_in_flight=4, accumulator_words=32, memory_words=32, load_pixels=4
)
SMALL = small(columns=9, beside=(BUILD,), activation_words=512)


@pytest.fixture(scope="module")
def pair() -> KernelPair:
    return KernelPair(SMALL)


def cluster(config: SystolicConfig) -> ClusterNumbers:
    return config.numbers_of(ClusterNumbers)


@dataclass(frozen=True)
class Layer:
    """A convolution on the cluster, and how it is cut.

    density: share of the elements that are not zero, for all or for every row and column (rows, columns). tile, block:
    outputs and channels of a descriptor, all of them without. piece: limits of a piece, else the compiler's. pitch:
    pixels from row to row of both tensors. fields: of all descriptors.
    """

    channels: tuple[int, int] = (3, 6)
    size: tuple[int, int] = (5, 7)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (1, 1)
    density: float | np.ndarray = 0.4
    weights: np.ndarray | None = None
    tile: tuple[int, int] | None = None
    block: int | None = None
    piece: tuple[int, int] | None = None
    pitch: int | None = None
    measure: bool = False
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """What a start left: the mantissas of the result (rows, columns, channels), and clocks of each SPARSE operation."""

    mantissa: np.ndarray
    clocks: list[int]
    result: KernelResult


@dataclass
class LayerProgram:
    """The operations of a layer between a load and a store, and where its tensors lie."""

    program: Program
    layer: Convolution
    tiles: list[Tile]
    x: Place
    y: Place


def layer_program(config: SystolicConfig, layer: Layer, rng: np.random.Generator) -> LayerProgram:
    program = Program(config)
    weights = layer.weights
    if weights is None:
        weights = sparse_weights(rng, (layer.channels[1], *layer.kernel, layer.channels[0]), 0.6, config)
    convolution = Convolution(weights, layer.stride, layer.pad)
    x = program.tensor(*layer.size, weights.shape[3], layer.pitch)
    y = program.tensor(*convolution.output_size(*layer.size), len(weights), layer.pitch)
    tiles = cut(y, *(layer.tile or (y.height, y.width)), layer.block or y.channels)
    program.load("x", x)
    given = random_parameters(program, rng, len(weights))
    given |= {"output_exponent": 2, "bias_exponent": -5, "count_step": 1, "write_slots": cluster(config).kernel}

    def finish(d: Descriptor, kernels: np.ndarray) -> bytes:
        limits = layer.piece or piece_limits(cluster(config), d.input_height, d.input_width, convolution.kernel)
        assert limits is not None, "the strip does not fit"
        d.piece_rows, d.piece_columns = limits
        return cluster_bytes(kernels, config)

    fields = given | layer.fields
    engine_layer(program, Operation.SPARSE, convolution, x, y, tiles, finish, layer.measure, **fields)
    program.store("y", y)
    return LayerProgram(program, convolution, tiles, x, y)


def sparse_tensor(
    rng: np.random.Generator, place: Place, config: SystolicConfig, density: float | np.ndarray
) -> BlockTensor:
    """One sample of which a share of ``density`` is not zero."""
    tensor = random_tensor(rng, place, config)
    tensor.mantissa *= rng.random(tensor.mantissa.shape) < np.atleast_2d(density)[None, :, :, None]
    return tensor


def run(pair: KernelPair, layer: Layer = Layer(), seed: int = 0, **changes: Any) -> Run:
    """A layer in one start, on both kernels and on the clock model of the product."""
    layer = replace(layer, **changes)
    rng, config = np.random.default_rng(seed), pair.kernel.config
    built = layer_program(config, layer, rng)
    tensors = {"x": sparse_tensor(rng, built.x, config, layer.density), "y": empty(built.y)}
    result = pair.run(built.program, tensors)
    clocks = [
        clocks
        for clocks, operation in zip(result.operation_cycles, built.program.operations, strict=True)
        if operation.descriptor.operation == Operation.SPARSE
    ]
    assert clocks == modelled_clocks(config, built, tensors["x"].mantissa)
    return Run(tensors["y"].mantissa[0], clocks, result)


def modelled_clocks(config: SystolicConfig, built: LayerProgram, x: np.ndarray) -> list[int]:
    """What `bfpga.engines.sparse_cluster.cycles` says of each SPARSE operation, and its descriptor's clocks."""
    fetch = DESCRIPTOR_WORDS * 32 // config.stream_bits
    found = []
    operations = [o.descriptor for o in built.program.operations if o.descriptor.operation == Operation.SPARSE]
    for number, d in enumerate(operations):
        tile = built.tiles[number % len(built.tiles)]
        top, left = (
            max(first * stride - pad, 0)
            for (first, _), stride, pad in zip(
                (tile.rows, tile.columns), built.layer.stride, built.layer.pad, strict=True
            )
        )
        rectangle = x[:, top : top + d.input_height, left : left + d.input_width]
        weights = built.layer.weights[slice(*tile.channels)]
        found.append(fetch + int(ClusterOperation(config, d, weights).clocks(rectangle)[0]))
    return found


# Geometry


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kernel": (1, 1), "pad": (0, 0)},
        {"kernel": (1, 3), "pad": (0, 1)},
        {"kernel": (3, 1), "pad": (2, 0), "size": (3, 4)},
        {"kernel": (2, 3), "pad": (0, 2)},
        {"kernel": (2, 2), "pad": (1, 1), "size": (2, 3), "channels": (1, 1)},
        {"pad": (0, 0)},
        {"pad": (2, 2), "size": (4, 5)},
        {"stride": (2, 2), "size": (7, 9)},
        {"stride": (1, 2), "size": (5, 9), "kernel": (2, 3), "pad": (1, 0)},
        {"stride": (4, 5), "size": (8, 8)},
        {"stride": (2, 4), "kernel": (1, 1), "pad": (0, 0), "size": (5, 7)},
        {"size": (1, 1), "channels": (37, 9), "kernel": (1, 1), "pad": (0, 0)},
        {"size": (1, 11)},
        {"size": (9, 1)},
        {"pitch": 13, "channels": (2, 5)},
    ],
)
def test_convolutions_equal_the_reference(pair: KernelPair, changes: dict[str, Any]) -> None:
    """SC R31, R35, R72, R74, R77, E2-E5: kernels, strides, pads, fully connected layers; clocks of section 8 too."""
    run(pair, **changes)


@pytest.mark.parametrize("tile", [(1, 7), (2, 7), (3, 7), (2, 3), (1, 1)])
@pytest.mark.parametrize("block", [None, 2, 4])
def test_strips_and_blocks_of_channels_make_the_layer(
    pair: KernelPair, tile: tuple[int, int], block: int | None
) -> None:
    """SC R148: a map that no unit holds is cut by size; where it is cut changes no bit."""
    whole = run(pair).mantissa
    np.testing.assert_array_equal(run(pair, tile=tile, block=block).mantissa, whole)
    run(pair, tile=tile, block=block, stride=(2, 2), size=(7, 13))


# Partition


def one_sided(size: tuple[int, int], rows: slice, columns: slice) -> np.ndarray:
    """All elements of some rows and columns, none elsewhere."""
    density = np.zeros(size)
    density[rows, columns] = 1
    return density


MAPS = {
    "dense": np.ones((6, 9)),
    "empty": np.zeros((6, 9)),
    "top": one_sided((6, 9), slice(2), slice(None)),
    "bottom": one_sided((6, 9), slice(4, None), slice(None)),
    "left": one_sided((6, 9), slice(None), slice(2)),
    "right": one_sided((6, 9), slice(None), slice(7, None)),
    "corner": one_sided((6, 9), slice(5, None), slice(8, None)),
    "row": one_sided((6, 9), slice(3, 4), slice(None)),
    "steps": np.kron(np.eye(3), np.ones((2, 3))),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("count_step", [0, 1, 2])
def test_the_partition_changes_clocks_alone(pair: KernelPair, name: str, count_step: int) -> None:
    """SC R22, R28, R30, R34, R36, R128, R129: pieces of any size and sums of many units; counted, sampled, equal."""
    layer = Layer(size=(6, 9), channels=(7, 4), density=MAPS[name])
    equal = run(pair, layer, piece=(3, 5), fields={"count_step": 0})
    found = run(pair, layer, fields={"count_step": count_step})
    np.testing.assert_array_equal(found.mantissa, equal.mantissa)


@pytest.mark.parametrize(
    "density",
    [
        one_sided((4, 16), slice(None), slice(4)),
        one_sided((4, 16), slice(None), slice(12, None)),
        one_sided((16, 4), slice(4), slice(None)),
        one_sided((16, 4), slice(12, None), slice(None)),
    ],
    ids=["left", "right", "top", "bottom"],
)
def test_quantile_limits_share_out_a_map_whose_elements_lie_on_one_side(pair: KernelPair, density: np.ndarray) -> None:
    """SC R22, R131: units that would have nothing to do take a share, so an operation takes fewer clocks."""
    layer = Layer(size=(len(density), len(density[0])), channels=(16, 4), density=density)
    equal, quantile = (run(pair, layer, fields={"count_step": step}).clocks[0] for step in (0, 4))
    assert quantile < equal


def test_words_that_are_not_counted_do_not_move_a_limit(pair: KernelPair) -> None:
    """SC R131: what is counted is every count_step-th word; all words are computed."""
    rng = np.random.default_rng(4)
    weights = sparse_weights(rng, (4, 3, 3, 6), 0.7, SMALL)
    built = layer_program(SMALL, Layer(size=(6, 9), weights=weights, fields={"count_step": 2}), rng)
    x = sparse_tensor(rng, built.x, SMALL, MAPS["left"])
    x.mantissa[..., 2:4] = random_tensor(rng, built.x, SMALL).mantissa[..., 2:4]
    tensors = {"x": x, "y": empty(built.y)}
    operations = pair.run(built.program, tensors).operation_cycles
    assert operations[2:3] == modelled_clocks(SMALL, built, x.mantissa)


def test_pieces_are_equal_where_the_counted_words_are_zero(pair: KernelPair) -> None:
    """SC R22: zeros in the words that are counted, elements in the others; only the counting takes clocks."""
    weights = sparse_weights(np.random.default_rng(4), (4, 3, 3, 6), 0.7, SMALL)
    clocks = []
    for step in (0, 2):
        rng = np.random.default_rng(1)
        built = layer_program(SMALL, Layer(size=(6, 9), weights=weights, fields={"count_step": step}), rng)
        x = sparse_tensor(rng, built.x, SMALL, 0.6)
        x.mantissa[..., [0, 1, 4, 5]] = 0
        operations = pair.run(built.program, {"x": x, "y": empty(built.y)}).operation_cycles
        assert operations[2:3] == modelled_clocks(SMALL, built, x.mantissa)
        clocks.append(operations[2])
    segments, counted = -(-9 // cluster(SMALL).load_pixels), 2
    assert clocks[1] - clocks[0] == 2 * 6 * segments * counted + (1 + cluster(SMALL).grid_rows) * 8


# Kernels


def test_kernels_and_words_without_a_weight_take_no_clock(pair: KernelPair) -> None:
    """SC R19, R61, R146: they are not on the stream; such groups give their bias and leave nothing to the next one."""
    weights = sparse_weights(np.random.default_rng(3), (14, 3, 3, 6), 0.5, SMALL)
    all_of_them = run(pair, weights=weights)
    weights[4:8] = 0
    weights[..., 2:4] = 0
    weights[0:3, :, :, 4:] = 0
    weights[9] = 0
    assert run(pair, weights=weights).clocks < all_of_them.clocks
    run(pair, weights=weights[4:8])
    run(pair, weights=np.zeros((6, 1, 1, 3), int), pad=(0, 0))


@pytest.mark.parametrize("kernels", [1, 2, 3, 4, 5, 13])
@pytest.mark.parametrize("density", [0.0, 0.02, 1.0])
def test_an_element_stays_until_its_sums_return(pair: KernelPair, kernels: int, density: float) -> None:
    """SC R69, R113-R116: fewer active kernels than the latency of a sum wait; elements far apart and side by side."""
    run(pair, channels=(4, kernels), density=density)


# What is shared with the array


def test_functions_measurement_and_counters_are_those_of_the_array(pair: KernelPair) -> None:
    """SC R121, R122, R125: functions after the last channel; saturated and vanished values are counted."""
    for function in (Function.RELU, Function.LEAKY_RELU, Function.CLIP, Function.TANH):
        fields = {"function": int(function), "function_argument": 3, "policy": int(Policy.MAX)}
        run(pair, measure=True, tile=(2, 7), fields=fields)
    assert run(pair, fields={"output_exponent": -4}).result.overflow
    assert run(pair, fields={"output_exponent": 9}).result.underflow


@pytest.mark.parametrize("flags", [Flag.NONE, Flag.BIAS, Flag.ROW_EXPONENTS, Flag.BIAS | Flag.FUNCTION_FIRST])
def test_biases_and_row_exponents_may_be_missing(pair: KernelPair, flags: Flag) -> None:
    run(pair, fields={"flags": int(flags), "function": int(Function.RELU)})


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        (Policy.STATIC, {}),
        (Policy.MAX, {}),
        (Policy.ROLLING_MAX, {"policy_window": 2}),
        (Policy.FEEDBACK, {"policy_factor": 20}),
    ],
)
@pytest.mark.parametrize("kernels", [6, 9])
def test_samples_of_a_batch_follow_each_other(policy: Policy, fields: dict[str, int], kernels: int) -> None:
    """SC R77, R82: every sample's sums begin at zero; what a policy learns of one serves the next (BFP R24-R34)."""
    pair, rng = KernelPair(SMALL), np.random.default_rng(kernels)
    policies = {"policy": int(policy), "policy_slot": 2} | fields
    layer = Layer(channels=(3, kernels), tile=(3, 7), measure=policy is Policy.MAX, fields=policies)
    built = layer_program(SMALL, layer, rng)
    for density in (0.4, 0.0, 1.0, 0.1):
        pair.run(built.program, {"x": sparse_tensor(rng, built.x, SMALL, density), "y": empty(built.y)})


def test_words_of_a_block_are_written_at_once_where_no_two_meet_in_a_bank(pair: KernelPair) -> None:
    """Sections 3 and 7: 3 x 3 pixels lie in 9 of 11 banks at a pitch of 14, in fewer at a pitch of 11."""
    many = Layer(size=(4, 7), channels=(2, 2), fields={"write_slots": 1})
    at_once, in_rows = run(pair, many, pitch=14), run(pair, many, pitch=14, fields={"write_slots": 3})
    np.testing.assert_array_equal(at_once.mantissa, in_rows.mantissa)
    blocks = 2 * 3
    assert in_rows.clocks[0] - at_once.clocks[0] == (blocks + 1) * (3 - 2)
    with pytest.raises(DeviceError, match="needs different words of bank"):
        run(KernelPair(SMALL), many, pitch=11)


def test_three_engines_of_a_kernel_give_the_same_bits() -> None:
    """SC R13, R15, R34: a tensor goes from the array to the zero-skip engine and to the cluster in one start."""
    tiles = ZeroSkipNumbers(tile_height=5, tile_width=7, lanes=9, kernels_in_flight=4, load_pixels=2)
    config = replace(SMALL, beside=(tiles, *SMALL.beside))
    beat = config.weight_stream_bits // 8
    pair, rng, program = KernelPair(config), np.random.default_rng(1), Program(config)
    weights = sparse_weights(rng, (4, 3, 3, 4), 0.5, config)
    layer, fields = Convolution(weights), {"output_exponent": 4, "bias_exponent": -5}
    x, *results = (program.tensor(5, 7, 4) for _ in range(4))
    program.load("x", x)
    rows = random_parameters(program, rng, 4)
    dense = program.weights(weights, flags=Flag.NONE) | rows
    edges = int(Flag.FIRST | Flag.LAST)
    program.compute(
        Operation.GEMM, x, results[0], pad=(1, 1), kernel_height=3, kernel_width=3,
        **dense | fields | {"flags": rows["flags"] | edges},
    )  # fmt: skip

    def tile_weights(_: Descriptor, kernels: np.ndarray) -> bytes:
        return zero_skip_bytes(kernels, 4, beat, KernelFormat.BITMAP)

    def strip_weights(d: Descriptor, kernels: np.ndarray) -> bytes:
        d.piece_rows, d.piece_columns, d.count_step, d.write_slots = 3, 4, 1, 3
        return cluster_bytes(kernels, config)

    whole = [Tile((0, 5), (0, 7), (0, 4))]
    engine_layer(program, Operation.ZERO_SKIP, layer, x, results[1], whole, tile_weights, **rows | fields)
    engine_layer(program, Operation.SPARSE, layer, x, results[2], whole, strip_weights, **rows | fields)
    for n, place in enumerate(results):
        program.store(f"y{n}", place)
    tensors = {"x": sparse_tensor(rng, x, config, 0.5)} | {f"y{n}": empty(place) for n, place in enumerate(results)}
    pair.run(program, tensors)
    array, zero_skip, sparse = (tensors[f"y{n}"].mantissa for n in range(3))
    assert array.any()
    np.testing.assert_array_equal(zero_skip, array)
    np.testing.assert_array_equal(sparse, array)


# Builds


@dataclass(frozen=True)
class Built:
    """A kernel, and a convolution that its cluster is built for."""

    config: SystolicConfig
    layers: Sequence[Layer]


def built(layers: Sequence[Layer], columns: int, array: dict[str, Any], **cluster_fields: Any) -> Built:
    build = replace(BUILD, **{"kernels_in_flight": 4, **cluster_fields})
    return Built(small(columns=columns, beside=(build,), activation_words=512, **array), layers)


BUILDS = {
    "kernels of 5 x 5": built(
        [
            Layer(kernel=(5, 5), pad=(2, 2), size=(6, 8)),
            Layer(kernel=(4, 5), pad=(3, 4), stride=(2, 3), size=(7, 9)),
            Layer(kernel=(1, 2), pad=(0, 1)),
        ],
        columns=25, array={}, kernel=5, load_pixels=8,
    ),
    "kernels of 1 x 1, one unit": built(
        [Layer(kernel=(1, 1), pad=(0, 0), stride=stride) for stride in ((1, 1), (2, 3))],
        columns=2, array={}, kernel=1, grid_rows=1, grid_columns=1, accumulator_words=64,
        memory_words=64, load_pixels=1,
    ),
    "kernels of 2 x 2, wide mantissas": built(
        [Layer(kernel=(2, 2), pad=(1, 0)), Layer(kernel=(2, 1), pad=(0, 0), stride=(1, 3), size=(6, 9))],
        columns=4, array={"mantissa_bits": 16, "accumulator_bits": 48, "lanes": 1, "weight_stream_bits": 128},
        kernel=2, grid_rows=1, grid_columns=5, kernels_in_flight=3, load_pixels=2,
    ),
    "many units and lanes, multipliers of LUTs": built(
        [Layer(size=(9, 11), channels=(9, 11)), Layer(size=(9, 11), tile=(4, 11), block=4, density=0.1)],
        columns=10, array={"lanes": 4, "stream_bits": 128}, multiplier="lut", grid_rows=3, grid_columns=4,
        kernels_in_flight=8, load_pixels=8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILDS)
def test_builds_compute_their_layers(name: str) -> None:
    """SC R60, R62, R67, R73, R115: any grid of units, kernels of any size, operands of 8 and 16 bits, multipliers."""
    pair = KernelPair(BUILDS[name].config)
    for layer in BUILDS[name].layers:
        run(pair, layer)


def test_integers_of_the_synthesis_tool_give_the_same_bits() -> None:
    """SC R152: ap_int instead of native integers."""
    integers: Integers = "ap_int"
    integer_flags(integers)
    chosen = BUILDS["kernels of 2 x 2, wide mantissas"]
    pair = KernelPair(chosen.config, integers)
    for layer in chosen.layers:
        run(pair, layer)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (small(columns=8, beside=(BUILD,)), "every sum of a block has a port of the output stage"),
        (small(columns=9, beside=(replace(BUILD, load_pixels=3),)), "the pixels of a segment are a power of two"),
        (
            small(columns=9, beside=(replace(BUILD, kernels_in_flight=3),)),
            "a word of a result is of one group of kernels",
        ),
        (
            small(columns=9, beside=(replace(BUILD, kernels_in_flight=66),)),
            "the mask of a channel word has a bit for each of 64 kernels",
        ),
    ],
)
def test_kernels_that_cannot_be_built_do_not_compile(config: SystolicConfig, reason: str) -> None:
    """SC R154: what the accelerator file refuses is no kernel either."""
    with pytest.raises(ToolError, match=reason):
        KernelPair(config)


# Descriptors and streams that contradict the build


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stride": (3, 1), "size": (7, 7)}, "has two lines in one bank, its stride is 3"),
        ({"fields": {"kernel_height": 4}}, "has larger kernels than the units: 4"),
        ({"pad": (3, 1)}, "has as many rows of zeros above it as its kernels have, or more: 3"),
        ({"pad": (1, 4)}, "has as many columns of zeros beside it as its kernels have, or more: 4"),
        ({"piece": (2, 7)}, "has more rows than its pieces may have: 5"),
        ({"piece": (5, 3)}, "has more columns than its pieces may have: 7"),
        ({"piece": (16, 16)}, "has pieces whose sums need more words than a unit has: 49"),
        ({"piece": (12, 7), "size": (12, 7)}, "has pieces of more segments than a unit's memory holds: 36"),
    ],
)
def test_strips_that_no_unit_holds_are_refused(changes: dict[str, Any], reason: str) -> None:
    """SC R55, R155: never truncated; the simulation says what a strip has too much of."""
    pair = KernelPair(SMALL)
    built = layer_program(SMALL, Layer(**changes), np.random.default_rng(0))
    tensors = {"x": sparse_tensor(np.random.default_rng(0), built.x, SMALL, 0.5), "y": empty(built.y)}
    with pytest.raises(DeviceError, match=reason):
        pair.kernel.run_operations(built.program.operations, tensors)


def stream_of_one_word(active: int, mask: int, kernels: int) -> bytes:
    """A part of the weight stream with a header and a mask that may contradict each other; all weights are one."""
    header = active << 16 | 1 << 24
    return header.to_bytes(8, "little") + mask.to_bytes(8, "little") + b"\1" * 24 * kernels


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (stream_of_one_word(2, 0b1, 2), "has more kernels than its mask has bits: 1"),
        (stream_of_one_word(1, 0b11, 1), "has fewer kernels than its mask has bits: 1"),
        (stream_of_one_word(5, 0b1111, 5), "has too many active kernels: 5"),
        (stream_of_one_word(1, 0b10000, 1), "has a kernel that is not in flight, by the mask of word 0"),
        (stream_of_one_word(4, 0b1111, 3), "is empty"),
    ],
)
def test_weights_that_contradict_their_header_are_refused(data: bytes, reason: str) -> None:
    program, pair = Program(SMALL), KernelPair(SMALL)
    x, y = program.tensor(2, 2, 2), program.tensor(2, 2, 4)
    program.load("x", x)
    layer = Convolution(np.ones((4, 3, 3, 2), int))
    flags = int(Flag.FIRST | Flag.LAST)
    engine_tile(
        program, Operation.SPARSE, layer, x, y, Tile((0, 2), (0, 2), (0, 4)), flags=flags, piece_rows=2,
        piece_columns=2, write_slots=3,
    )  # fmt: skip
    program.operations[-1].weights = data
    with pytest.raises(DeviceError, match=reason):
        pair.kernel.run_operations(program.operations, {"x": random_tensor(np.random.default_rng(0), x, SMALL)})


def test_a_cleared_kernel_forgets_the_sums_of_a_start_that_stopped() -> None:
    """SC R77: the weight stream ends in a channel word; what was added until then is no part of the next result."""
    pair, rng = KernelPair(SMALL), np.random.default_rng(0)
    built = layer_program(SMALL, Layer(channels=(6, 4), density=1.0), rng)
    tensors = {"x": sparse_tensor(rng, built.x, SMALL, 1.0), "y": empty(built.y)}
    strip = built.program.operations[2]
    whole = strip.weights
    strip.weights = whole[: len(whole) * 3 // 4]
    with pytest.raises(DeviceError, match="is empty"):
        pair.kernel.run_operations(built.program.operations, tensors)
    strip.weights = whole
    expected = {name: replace(tensor, mantissa=tensor.mantissa.copy()) for name, tensor in tensors.items()}
    pair.reference.run(built.program.operations, expected)
    pair.kernel.run_operations(built.program.operations, tensors, clear_policies=True)
    np.testing.assert_array_equal(tensors["y"].mantissa, expected["y"].mantissa)


# Any layer


@st.composite
def layers(draw: st.DrawFn, build: ClusterNumbers) -> Layer:
    """Layers of any geometry that the build computes."""

    def axis() -> tuple[int, int, int, int]:
        kernel = draw(st.integers(1, build.kernel))
        pad = draw(st.integers(0, kernel - 1))
        stride = draw(st.sampled_from([s for s in (1, 2, 3, 4) if np.gcd(s, build.kernel) == 1]))
        return kernel, pad, stride, draw(st.integers(max(1, kernel - 2 * pad), 9))

    (kh, pt, sy, height), (kw, pl, sx, width) = axis(), axis()
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    channels = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    shares = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    weights = sparse_weights(rng, (channels[1], kh, kw, channels[0]), shares, SMALL)
    weights[rng.random(channels[1]) < 0.3] = 0
    density = rng.random((height, 1)) * rng.random((1, width)) * draw(st.sampled_from([0.0, 0.5, 1.5, 9.0]))
    return Layer(
        channels, (height, width), (kh, kw), (sy, sx), (pt, pl), density, weights,
        tile=(draw(st.integers(1, 4)), 9 + kw), block=draw(st.sampled_from([None, 4])),
        pitch=width + kw - 1 + draw(st.integers(0, 3)), fields={"count_step": draw(st.integers(0, 3))},
    )  # fmt: skip


def strips_fit(layer: Layer, build: ClusterNumbers) -> bool:
    rows = (layer.tile[0] - 1) * layer.stride[0] + layer.kernel[0] if layer.tile else layer.size[0]
    return piece_limits(build, min(rows, layer.size[0]), layer.size[1], layer.kernel) is not None


@pytest.mark.parametrize("name", [None, *BUILDS])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_layer_equals_the_reference(name: str | None, data: st.DataObject) -> None:
    """SC R34, R152: kernels, strides, pads, maps, partitions and strips drawn at random; values, counters, clocks."""
    config = BUILDS[name].config if name else SMALL
    layer = data.draw(layers(cluster(config)).filter(lambda layer: strips_fit(layer, cluster(config))))
    run(KernelPair(config), layer, seed=1)
