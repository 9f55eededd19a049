"""Arrays with shift units: every layer, format and mode on the compiled kernel against plain integers."""

from __future__ import annotations

import numpy as np
import pytest
from array_programs import Program, empty, random_tensor
from effort import some_of
from kernel_pairs import SMALL, KernelPair, random_weights, run_convolution, small
from reference_weights import weight_container, word_values

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import BlockTensor
from bfpga.devices.csim import COUNTING_FLAGS, CSimulation
from bfpga.formats.shift_format import ShiftFormat

TWO_HOT, POWER_OF_TWO, LINEAR = Flag.TWO_HOT, Flag.POWER_OF_TWO, Flag.NONE
ONCE = Flag.FIRST | Flag.LAST
SLOW = pytest.mark.slow


def shift_array(mantissa_bits: int = 8, changes: dict[str, object] | None = None, **fields: object) -> KernelConfig:
    """An array whose columns all shift; ``fields`` are those of its words."""
    words = ShiftFormat(x_width=mantissa_bits, **fields)  # type: ignore[arg-type]
    return small(**{"mantissa_bits": mantissa_bits, "multiplier": "shift", "shift": words, **(changes or {})})


def mixed_array(mantissa_bits: int = 8, changes: dict[str, object] | None = None, **fields: object) -> KernelConfig:
    """Three columns with DSP slices beside two that shift."""
    beside = {"multiplier": "dsp_packed", "columns": 5, "shift_columns": 2}
    return shift_array(mantissa_bits, beside | (changes or {}), **fields)


ROOM = {"weight_words": 2048, "activation_words": 1024, "parameter_rows": 128}
SHIFT, MIXED = shift_array(changes=ROOM), mixed_array(changes=ROOM)
GEOMETRIES = [
    {},
    {"stride": (2, 1), "pad": (0, 2), "size": (7, 5)},
    {"pitch": 9, "dilation": (2, 1), "size": (7, 6)},
    {"size": (1, 1), "kernel": (1, 1), "pad": (0, 0), "channels": (37, 9)},
]


@pytest.fixture(scope="module")
def shift_pair() -> KernelPair:
    return KernelPair(SHIFT, flags=COUNTING_FLAGS)


@pytest.fixture(scope="module")
def mixed_pair() -> KernelPair:
    return KernelPair(MIXED, flags=COUNTING_FLAGS)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("mode", [TWO_HOT, POWER_OF_TWO])
def test_convolutions_on_shift_units(shift_pair: KernelPair, geometry: dict[str, tuple[int, int]], mode: Flag) -> None:
    """SM R3, SM R4, SM R17, SM R31, SM R32: words at random, in the mode of the descriptor; odd numbers
    of channels, which leave a second row without an output."""
    run_convolution(shift_pair, **geometry, flags=mode, output_exponent=8)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("mode", [TWO_HOT, LINEAR])
def test_convolutions_on_columns_of_both_kinds(
    mixed_pair: KernelPair, geometry: dict[str, tuple[int, int]], mode: Flag
) -> None:
    """SM R32: two-hot weights on all columns; integers on the columns with DSP slices alone, the others idle."""
    run_convolution(mixed_pair, **geometry, flags=mode, output_exponent=6)


def tall_array(exp_width: int) -> KernelConfig:
    """Words of rows that take whole beats of the weight stream, whatever the width of a weight."""
    return shift_array(exp_width=exp_width, changes={"rows": 16, "columns": 2, "weight_words": 64})


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(tall_array(1), marks=SLOW),
        tall_array(4),
        pytest.param(
            shift_array(exp_width=2, zero_code="flag", changes={"lanes": 4, "rows": 8, "columns": 1}), marks=SLOW
        ),
        pytest.param(shift_array(5, exp_width=4, changes={"stream_bits": 32, "lanes": 1}), marks=SLOW),
        pytest.param(
            shift_array(12, exp_width=2, base_log2=2, zero_code="exp_max", changes={"accumulator_bits": 40}), marks=SLOW
        ),
        shift_array(11, d=8, sign_mode="absolute", changes={"accumulator_bits": 48, "weight_stream_bits": 128}),
        shift_array(4, exp_width=2, d=4, zero_scope="both", changes={"saturation": "full"}),
        pytest.param(shift_array(6, zero_code="none"), marks=SLOW),
    ],
    ids=lambda config: f"ew{config.shift.exp_width}-{config.shift.zero_code}-{config.format.mantissa_bits}bits",
)
def test_every_format_of_shift_units(config: KernelConfig) -> None:
    """SM R1, SM R2, SM R9, SM R13, SM R14, SM R33: widths, distances, bases, zero codes, signs."""
    pair = KernelPair(config)
    for mode in (TWO_HOT, POWER_OF_TWO):
        run_convolution(pair, flags=mode, channels=(3, 2 * config.rows + 3), output_exponent=7)
        run_convolution(pair, flags=mode, parameters=False, channels=(5, 4), kernel=(1, 1), pad=(0, 0))


@pytest.mark.parametrize(
    "config",
    [
        # Words wider than mantissas; mantissas wider than words.
        mixed_array(5, zero_code="flag", changes={"multiplier": "dsp", "lanes": 4, "rows": 8}),
        mixed_array(12, exp_width=2, changes={"multiplier": "dsp", "accumulator_bits": 40}),
        pytest.param(
            mixed_array(9, exp_width=2, d=4, zero_scope="both", sign_mode="absolute", changes={"multiplier": "dsp"}),
            marks=SLOW,
        ),
    ],
    ids=lambda config: f"{config.multiplier}-ew{config.shift.exp_width}-{config.format.mantissa_bits}bits",
)
def test_every_format_of_mixed_arrays(config: KernelConfig) -> None:
    """SM R2, SM R13, SM R33: the container on the weight stream holds the wider of mantissa and word."""
    pair = KernelPair(config)
    for mode in (TWO_HOT, LINEAR):
        run_convolution(pair, flags=mode, channels=(3, 2 * config.rows + 3), output_exponent=6)
        run_convolution(pair, flags=mode, parameters=False, channels=(5, 4), kernel=(1, 1), pad=(0, 0))


@pytest.mark.parametrize("mode", [TWO_HOT, POWER_OF_TWO])
@pytest.mark.parametrize("pixels", [1, 5])
def test_streamed_words_pass_straight_to_the_units(shift_pair: KernelPair, mode: Flag, pixels: int) -> None:
    """SM R32: a fully connected layer whose words never enter the weight memory."""
    run_streamed(shift_pair, mode, pixels)


@pytest.mark.parametrize("mode", [TWO_HOT, LINEAR])
@pytest.mark.parametrize("pixels", [1, 7])
def test_streamed_words_reach_columns_of_both_kinds(mixed_pair: KernelPair, mode: Flag, pixels: int) -> None:
    """Groups of pixels are as many as the columns that work: three for integers, five for two-hot words."""
    run_streamed(mixed_pair, mode, pixels)


def run_streamed(pair: KernelPair, mode: Flag, pixels: int) -> None:
    rng, config = np.random.default_rng(pixels), pair.kernel.config
    program = Program(config)
    x, y = program.tensor(1, pixels, 11), program.tensor(1, pixels, 13)
    program.load("x", x)
    program.compute(Operation.GEMM, x, y, flags=Flag.STREAM_WEIGHTS | ONCE | mode, output_exponent=5)
    program.stream_weights(random_weights(rng, config, mode, (13, 1, 1, 11)))
    program.store("y", y)
    pair.run(program, {"x": random_tensor(rng, x, config), "y": empty(y)})


@pytest.mark.parametrize("pair_name", ["shift_pair", "mixed_pair"])
def test_layers_without_weights_use_every_column(pair_name: str, request: pytest.FixtureRequest) -> None:
    """Maximum and sum have no weights: no column is idle, and the second accumulators take no part."""
    pair: KernelPair = request.getfixturevalue(pair_name)
    program, rng, config = Program(pair.kernel.config), np.random.default_rng(3), pair.kernel.config
    x, pooled, y = (program.tensor(3, 7, 9) for _ in range(3))
    program.load("x", x)
    flags = ONCE | Flag.COPY_EXPONENT
    program.compute(Operation.MAX, x, pooled, pad=(1, 1), kernel_height=3, kernel_width=3, flags=flags)
    program.compute(Operation.SUM, x, y, second=pooled, flags=ONCE, output_exponent=-4)
    program.store("y", y)
    result = pair.run(program, {"x": random_tensor(rng, x, config), "y": empty(y)})
    assert result.operation_cycles[1] == -(-21 // config.columns) * 5 * 9  # a pass computes a word of two channels


# Modes


def mode_program(config: KernelConfig, modes: list[Flag]) -> tuple[Program, dict[str, BlockTensor]]:
    """3x3 convolutions of 16 channels of one image, one for each mode."""
    rng, program = np.random.default_rng(11), Program(config)
    source, targets = program.tensor(4, 6, 16), [program.tensor(4, 6, 16) for _ in modes]
    program.load("x", source)
    layers = []
    for mode in modes:
        weights = random_weights(rng, config, mode, (16, 3, 3, 16))
        layers.append(program.weights(weights, rng.integers(-500, 500, 16), rng.integers(-9, 1, 16), mode))
    for layer, target in zip(layers, targets, strict=True):
        layer["flags"] |= ONCE
        program.compute(
            Operation.GEMM, source, target, pad=(1, 1), kernel_height=3, kernel_width=3, output_exponent=2,
            bias_exponent=-5, **layer,
        )  # fmt: skip
    tensors = {"x": random_tensor(rng, source, config)}
    for number, target in enumerate(targets):
        program.store(f"y{number}", target)
        tensors[f"y{number}"] = empty(target)
    return program, tensors


def counted_clocks(kernel: CSimulation, modes: list[Flag]) -> list[int]:
    """Clocks of the simulation from the end of one layer of a start to the end of the next one."""
    kernel.count_clocks()
    program, tensors = mode_program(kernel.config, modes)
    kernel.run_operations(program.operations, tensors)
    ended = kernel.clocks(len(program.operations))[1][1 + len(modes) : 1 + 2 * len(modes)]
    return np.diff(ended).tolist()


@pytest.mark.parametrize(
    ("pair_name", "first", "second"), [("shift_pair", TWO_HOT, POWER_OF_TWO), ("mixed_pair", LINEAR, TWO_HOT)]
)
def test_a_switch_between_modes_takes_no_clock(
    pair_name: str, first: Flag, second: Flag, request: pytest.FixtureRequest
) -> None:
    """SM R30, SM R33: a layer takes as long behind one of the other mode as behind one of its own.

    On a mixed array the number of columns that work changes from layer to layer too.
    """
    kernel = request.getfixturevalue(pair_name).kernel
    second_behind_first, first_behind_second, first_again, _, second_again = counted_clocks(
        kernel, [first, second, first, first, second, second]
    )
    assert second_behind_first == second_again
    assert first_behind_second == first_again


def test_power_of_two_mode_has_twice_the_throughput(shift_pair: KernelPair) -> None:
    """SM R29, SM R31: a compute-bound layer, 16 x 144 weights at 24 pixels, on 3 x 4 x 2 units: 2304 clocks or half
    of it."""
    config = shift_pair.kernel.config
    products = 16 * 144 * 24 // (config.columns * config.rows * config.lanes)
    assert products == 2304
    program, tensors = mode_program(config, [TWO_HOT, POWER_OF_TWO])
    assert shift_pair.run(program, tensors).operation_cycles[3:5] == [products, products // 2]


def test_a_pass_of_powers_of_two_is_never_shorter_than_the_drain_of_its_rows(shift_pair: KernelPair) -> None:
    """SM R31: twice the rows leave, so a layer of few terms is bound by its output in both modes."""
    program = Program(SHIFT)
    x, y = program.tensor(1, 6, 2), program.tensor(1, 6, 8)
    program.load("x", x)
    steps = []
    for mode in (TWO_HOT, POWER_OF_TWO):
        layer = program.weights(random_weights(np.random.default_rng(1), SHIFT, mode, (8, 1, 1, 2)), flags=mode)
        layer["flags"] |= ONCE
        d = program.compute(Operation.GEMM, x, y, output_exponent=2, **layer)
        steps.append((d.blocks, d.steps))
    program.store("y", y)
    result = shift_pair.run(program, {"x": random_tensor(np.random.default_rng(2), x, SHIFT), "y": empty(y)})
    assert steps == [(2, 4), (1, 8)]
    assert result.operation_cycles[2::2][:2] == [2 * 8, 2 * 8]


# Weights on the stream


@pytest.mark.parametrize("exp_width", some_of([1, 3, 4], 4))
def test_words_are_packed_on_the_weight_stream(exp_width: int) -> None:
    """SM R2: 16 rows of 2 words are 2, 4 or 8 beats of 64 bits, a clock each.

    The widest word has ten bits and takes 16; a dense array of 8-bit mantissas takes 4 beats.
    """
    config, bits = tall_array(exp_width), {1: 4, 3: 8, 4: 16}[exp_width]
    assert weight_container(config) == config.weight_container_bits == bits
    assert config.beats_per_weight_word == 16 * 2 * bits // 64
    pair = KernelPair(config)
    for mode, words in ((TWO_HOT, 3 * 8), (POWER_OF_TWO, 2 * 8)):
        program = Program(config)
        x, y = program.tensor(1, 3, 16), program.tensor(1, 3, 48)
        program.load("x", x)
        layer = program.weights(random_weights(np.random.default_rng(4), config, mode, (48, 1, 1, 16)), flags=mode)
        layer["flags"] |= ONCE
        program.compute(Operation.GEMM, x, y, output_exponent=6, **layer)
        program.store("y", y)
        result = pair.run(program, {"x": random_tensor(np.random.default_rng(5), x, config), "y": empty(y)})
        weights = program.operations[1]
        assert weights.descriptor.weight_words == words
        assert len(weights.weights) * 8 == words * 16 * 2 * bits
        assert result.operation_cycles[1] == words * config.beats_per_weight_word


def test_powers_of_two_take_half_the_weight_beats_of_two_hot_words() -> None:
    """SM R31: four bits a weight instead of eight, in memory and on the stream."""
    two_hot, powers = (mode_program(SHIFT, [mode])[0] for mode in (TWO_HOT, POWER_OF_TWO))
    rows = 16 * 8  # bias and exponent, a beat each
    assert len(two_hot.operations[1].weights) - rows == 2 * (len(powers.operations[1].weights) - rows)


# The same weights on arrays of each kind


def test_columns_of_every_kind_give_the_same_results(shift_pair: KernelPair, mixed_pair: KernelPair) -> None:
    """Weights that a dense, a mixed and a shift array can hold: the same bits on each, however many columns."""
    rng, values = np.random.default_rng(21), {}
    words = ShiftFormat(x_width=8)
    for code in range(256):
        value = word_values(words, code)[0]
        if abs(value) <= 127:
            values.setdefault(value, code)
    weights = rng.choice(list(values), (9, 3, 3, 5))
    codes = np.vectorize(values.get)(weights)
    bias = rng.integers(-9999, 9999, 9)
    stored = []
    for pair in (KernelPair(SMALL), shift_pair, mixed_pair):
        config = pair.kernel.config
        for mode, held in ((LINEAR, weights), (TWO_HOT, codes)):
            if (mode and config.shift is None) or (not mode and config.multiplier == "shift"):
                continue
            program = Program(config)
            x, y = program.tensor(4, 6, 5), program.tensor(4, 6, 9)
            program.load("x", x)
            layer = program.weights(held, bias, np.arange(9) % 4, mode)
            layer["flags"] |= ONCE
            program.compute(
                Operation.GEMM, x, y, pad=(1, 1), kernel_height=3, kernel_width=3, output_exponent=5,
                bias_exponent=-5, **layer,
            )  # fmt: skip
            program.store("y", y)
            tensors = {"x": random_tensor(np.random.default_rng(1), x, config), "y": empty(y)}
            pair.run(program, tensors)
            stored.append(tensors["y"].mantissa)
    assert len(stored) == 4
    assert np.unique(stored[0]).size > 50
    assert all((mantissa == stored[0]).all() for mantissa in stored)
