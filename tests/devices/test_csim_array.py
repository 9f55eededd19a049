"""The structure of the array: columns, passes, order, overlap, recirculation, storage (R56-R74)."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from array_programs import Place, Program, empty, random_tensor
from kernel_pairs import COUNTED, SMALL, KernelPair, small

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.registers import ARGUMENT_REGISTERS, INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.devices.csim import COUNTING_FLAGS, CSimulation
from bfpga.engines.kernel.streams import weight_stream
from bfpga.errors import DeviceError
from bfpga.formats.block_format import BlockFormat
from bfpga.vendor.render import render_kernel, top_files

ONE = Flag.FIRST | Flag.LAST


def convolution(program: Program, x: Place, y: Place, seed: int = 0, **fields: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-127, 128, (y.channels, 3, 3, x.channels))
    layer = program.weights(weights, rng.integers(-999, 999, y.channels))
    layer["flags"] |= ONE
    program.compute(
        Operation.GEMM, x, y, pad=(1, 1), kernel_height=3, kernel_width=3, bias_exponent=-5, **layer | fields
    )


def test_any_number_of_columns_gives_the_same_results() -> None:
    """R56: 3 and 6 columns; R69: outputs in order; R70: weights and biases come once, not once a column."""
    results, weights = [], []
    for config in (SMALL, small(columns=6)):
        program = Program(config)
        x, y = program.tensor(4, 7, 3), program.tensor(4, 7, 9)
        program.load("x", x)
        convolution(program, x, y, output_exponent=4)
        program.store("y", y)
        tensors = {"x": random_tensor(np.random.default_rng(1), x, SMALL), "y": empty(y)}
        KernelPair(program.config).run(program, tensors)
        results.append(tensors["y"].mantissa)
        weights.append(weight_stream(program.operations))
    assert all((result == results[0]).all() for result in results)
    assert weights[0]
    assert all(stream == weights[0] for stream in weights)


def test_input_and_output_share_one_memory_at_any_split() -> None:
    """R67: an output behind a quarter or three quarters of the memory, and one before its input."""
    pair, results = KernelPair(SMALL), []
    for input_word, output_word in ((0, 64), (0, 192), (160, 0)):
        program = Program(SMALL)
        program.free_word = input_word
        x = program.tensor(3, 5, 4)
        program.free_word = output_word
        y = program.tensor(3, 5, 6)
        program.load("x", x)
        convolution(program, x, y, output_exponent=4)
        program.store("y", y)
        tensors = {"x": random_tensor(np.random.default_rng(1), x, SMALL), "y": empty(y)}
        pair.run(program, tensors)
        results.append(tensors["y"].mantissa)
    assert results[0].any()
    assert all((result == results[0]).all() for result in results)


@pytest.mark.parametrize("pitch", [4, 5, 7, 8])
@pytest.mark.parametrize("stride", [1, 2])
def test_columns_that_meet_in_a_bank_read_one_after_the_other(pitch: int, stride: int) -> None:
    """Several pitches: free of conflicts in one slot, and with runs in several slots."""
    config = small(columns=6)
    program = Program(config)
    x, y = program.tensor(6, 4, 3, pitch), program.tensor(6 // stride, 4 // stride, 4, 5)
    program.load("x", x)
    convolution(program, x, y, output_exponent=3, stride_y=stride, stride_x=stride)
    program.operations.pop()
    layer = program.operations[-1].descriptor
    program.compute(
        Operation.GEMM, x, y, stride=(stride, stride), pad=(1, 1), kernel_height=3, kernel_width=3,
        weight_base=layer.weight_base, weight_tap_step=2, weight_block_step=18, flags=ONE, output_exponent=3,
    )  # fmt: skip
    program.store("y", y)
    KernelPair(config).run(program, {"x": random_tensor(np.random.default_rng(2), x, config), "y": empty(y)})


def test_a_schedule_with_a_bank_conflict_stops_with_a_sentence() -> None:
    config = small(columns=6)
    program = Program(config)
    x, y = program.tensor(1, 6, 2), program.tensor(1, 6, 2)
    program.load("x", x)
    d = program.compute(Operation.SUM, x, y, flags=ONE)
    d.input_step_word, d.input_step_bank = 1, 0
    tensors = {"x": random_tensor(np.random.default_rng(2), x, config), "y": empty(y)}
    with pytest.raises(DeviceError, match="two columns needs different words of bank"):
        KernelPair(config).kernel.run_operations(program.operations, tensors)


def test_results_recirculate_without_leaving_the_chip() -> None:
    """R19, R37, R68: the second layer reads what the first one wrote; nothing is transferred between them."""
    program = Program(SMALL)
    x, hidden, y = program.tensor(4, 5, 3), program.tensor(4, 5, 7), program.tensor(4, 5, 2)
    program.load("x", x)
    convolution(program, x, hidden, 1, output_exponent=4, function=1)
    convolution(program, hidden, y, 2, output_exponent=13)
    program.store("y", y)
    tensors = {"x": random_tensor(np.random.default_rng(3), x, SMALL), "y": empty(y)}
    result = KernelPair(SMALL).run(program, tensors)
    assert len(result.output) == 8 * (1 + 4 * 2)  # five pixels of one word a row are two beats of four


def test_activations_stay_between_starts() -> None:
    """R80: a second start finds weights, activations and exponents of the first."""
    pair, load, compute = KernelPair(SMALL), Program(SMALL), Program(SMALL)
    x, y = load.tensor(3, 3, 4), load.tensor(3, 3, 4)
    load.load("x", x)
    compute.compute(Operation.SUM, x, y, flags=ONE | Flag.COPY_EXPONENT)
    compute.store("y", y)
    tensors = {"x": random_tensor(np.random.default_rng(4), x, SMALL, 3), "y": empty(y)}
    pair.run(load, tensors)
    pair.run(compute, tensors)
    assert (tensors["y"].mantissa == tensors["x"].mantissa).all()


def test_a_pass_leaves_while_the_next_one_computes() -> None:
    """R66, R71: twice the pixels take their passes longer, as reads wait for no results, which take nearly as long."""
    kernel, ends = CSimulation(COUNTED, flags=COUNTING_FLAGS), []
    kernel.count_clocks()
    for width in (16, 32):
        program = Program(COUNTED)
        x, y = program.tensor(3, width, 8), program.tensor(3, width, 32)
        program.load("x", x)
        convolution(program, x, y)
        program.store("y", y)
        tensors = {"x": random_tensor(np.random.default_rng(5), x, COUNTED), "y": empty(y)}
        kernel.run_operations(program.operations, tensors)
        _, (_, weights, result, _) = kernel.clocks(len(program.operations))
        ends.append(result - weights)
    passes, kernel_steps, drain = 6 * 2, 3 * 3 * 2, COUNTED.rows
    assert ends[1] - ends[0] == passes * kernel_steps
    held = 1  # the array holds a beat of weights
    # The last results pass the output stage and are written.
    assert ends[0] == held + passes * kernel_steps + 3 * drain


def rendered_numbers(config: KernelConfig) -> dict[str, int]:
    """The numbers of a kernel's configuration header."""
    text = render_kernel("wide", "0123456789abcdef", config)["src/config.hpp"]
    return {name: int(value) for name, value in re.findall(r"constexpr int (\w+) = (-?\d+);", text)}


def test_rendered_ports_have_the_widths_of_the_specification() -> None:
    """R59, R60: 16 rows x 2 lanes x 16 bits are 512 weight bits and 32 input bits a clock; exact accumulators."""
    config = KernelConfig(BlockFormat(mantissa_bits=16), accumulator_bits=48, weight_stream_bits=512, stream_bits=32)
    numbers = rendered_numbers(config)
    assert numbers["rows"] * numbers["lanes"] * numbers["mantissa_bits"] == 512
    assert (numbers["weight_stream_bits"], numbers["beats_per_weight_word"]) == (512, 1)
    assert (numbers["stream_bits"], numbers["words_per_beat"]) == (32, 1)
    assert numbers["accumulator_bits"] == 48
    top = render_kernel("wide", "0123456789abcdef", config)["src/sequencer.cpp"]
    assert "identification = 0x01234567u;" in top


def test_a_shipped_array_reads_the_words_of_the_specification() -> None:
    """R60: 512 bits of weights from the weight memory and two 16-bit inputs for each column, in one cycle."""
    numbers = rendered_numbers(replace(load_accelerator("pynq_z2_bfp16").config, rows=16, lanes=2))
    assert numbers["rows"] * numbers["lanes"] * numbers["mantissa_bits"] == 512
    assert numbers["beats_per_weight_word"] * numbers["weight_stream_bits"] == 512
    assert numbers["lanes"] * numbers["mantissa_bits"] == 32


def test_every_argument_of_the_top_functions_is_a_stream_or_a_register() -> None:
    """R79: `return` carries start, done and, with them, the interrupt, which the HLS tool adds."""
    files, streams = render_kernel("tiny", "0123456789abcdef", SMALL), set()
    for path in top_files(SMALL):
        (signature,) = re.findall(r"void bfpga_\w+\((.*?)\) \{", files[path], re.DOTALL)
        ports = dict(reversed(pair) for pair in re.findall(r"INTERFACE (\w+) port=(\w+)", files[path]))
        offsets = {name: int(offset, 16) for name, offset in re.findall(r"port=(\w+) offset=(\w+)", files[path])}
        started = path == "src/sequencer.cpp"
        assert offsets == ({register.name: register.offset for register in ARGUMENT_REGISTERS} if started else {})
        assert ports.pop("return") == ("s_axilite" if started else "ap_ctrl_none")
        assert set(ports) == {argument.split()[-1].lstrip("&") for argument in signature.split(",")}
        assert {name for name, kind in ports.items() if kind == "s_axilite"} == set(offsets)
        streams |= {name for name, kind in ports.items() if kind == "axis"}
    assert {INPUT_STREAM, WEIGHT_STREAM, OUTPUT_STREAM} < streams


def test_registers_as_scalars_compute_the_same() -> None:
    """For compilers that ignore a partitioning (hls-rules R3); the top functions have them as arrays."""
    pair, program = KernelPair(SMALL, flags=("-DBFPGA_STORAGE=ScalarStorage",)), Program(SMALL)
    x, pooled, y = program.tensor(4, 6, 5), program.tensor(4, 6, 5), program.tensor(4, 6, 6)
    program.load("x", x)
    program.compute(
        Operation.MAX, x, pooled, pad=(1, 1), kernel_height=3, kernel_width=3, flags=ONE | Flag.COPY_EXPONENT
    )
    convolution(program, pooled, y, output_exponent=4)
    program.store("y", y)
    pair.run(program, {"x": random_tensor(np.random.default_rng(7), x, SMALL), "y": empty(y)})


def test_odd_reductions_are_padded_with_a_zero_operand() -> None:
    """R74: K = 9 on two lanes takes five steps of a tap."""
    program = Program(SMALL)
    x, y = program.tensor(1, 4, 9), program.tensor(1, 4, 4)
    program.load("x", x)
    weights = np.random.default_rng(8).integers(-127, 128, (4, 1, 1, 9))
    layer = program.weights(weights)
    layer["flags"] |= ONE
    assert program.compute(Operation.GEMM, x, y, output_exponent=2, **layer).steps == 5
    program.store("y", y)
    KernelPair(SMALL).run(program, {"x": random_tensor(np.random.default_rng(9), x, SMALL), "y": empty(y)})
