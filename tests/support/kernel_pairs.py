"""A compiled kernel beside the reference of ``reference_array``: both execute the same starts and must agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from array_programs import Program, empty, random_tensor
from reference_array import ReferenceKernel
from reference_weights import word_values

from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import BlockTensor
from bfpga.devices.csim import CSimulation, Integers
from bfpga.devices.kernel_start import KernelResult
from bfpga.formats.block_format import BlockFormat

_LEAST = KernelConfig(columns=3, rows=4, lanes=2, activation_words=256, weight_words=256, parameter_rows=64)


def small(**changes: object) -> KernelConfig:
    """A small array with some fields changed; fields of the format are given by their own names."""
    names = set(BlockFormat.__dataclass_fields__) & set(changes)
    form = replace(_LEAST.format, **{name: changes.pop(name) for name in names})
    return replace(_LEAST, format=form, **changes)


# Arrays of many tests: a kernel takes as long to compile as hundreds of starts take to run.

#: With a collector and a keep buffer.
SMALL = small(position_bins=16, wide_words=256)
#: Two rows share a DSP block.
PACKED = small(columns=2, multiplier="dsp_packed", dsp="DSP48E2", rounding="trunc", saturation="wrap")
#: The narrowest mantissas, more words in a beat than there are banks, and few exponents.
NIBBLES = small(
    columns=2, lanes=1, stream_bits=128, mantissa_bits=4, exponent_bits=4, rounding="half_up", saturation="full"
)
#: The widest mantissas.
WIDEST = small(lanes=1, mantissa_bits=18, accumulator_bits=48, rounding="tozero", log="ceil")
#: No keep buffer: a word of the activation memory holds an accumulator.
WIDE_MEMORY = small(
    columns=5, rows=8, lanes=4, array=SystolicArray(1), mantissa_bits=16, accumulator_bits=48, rounding="half_away",
    wide_memory=True,
)  # fmt: skip
#: A pass takes little longer than its results need to leave; its loops are counted (tests/processes/test_clocks.py).
COUNTED = small(
    columns=8, rows=16, lanes=4, multiplier="dsp_packed", accumulator_bits=24, activation_words=4096,
    weight_words=4096, parameter_rows=512,
)  # fmt: skip
#: Four beats for a word of weights.
TALL = small(columns=2, rows=16)


class KernelPair:
    """Runs programs on both and compares tensors, exponents, clocks, counters and status bits."""

    def __init__(self, config: KernelConfig, integers: Integers = "native", flags: Sequence[str] = ()) -> None:
        self.reference = ReferenceKernel(config)
        self.kernel = CSimulation(config, integers, flags=flags)

    def run(self, program: Program, tensors: dict[str, BlockTensor]) -> KernelResult:
        """One start; ``tensors`` receives what the kernel stored."""
        expected = {name: BlockTensor(t.mantissa.copy(), t.exponent.copy()) for name, t in tensors.items()}
        self.reference.run(program.operations, expected)
        result = self.kernel.run_operations(program.operations, tensors)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(tensor.exponent, expected[name].exponent, f"exponent of {name}")
            np.testing.assert_array_equal(tensor.mantissa, expected[name].mantissa, f"mantissas of {name}")
        assert result.operation_cycles == self.reference.cycles
        assert result.cycles == sum(self.reference.cycles)
        counted = (result.overflow, result.underflow, result.status)
        assert counted == (self.reference.overflow, self.reference.underflow, int(self.reference.status))
        return result


def output_size(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def random_weights(rng: np.random.Generator, config: KernelConfig, flags: Flag, shape: tuple[int, ...]) -> np.ndarray:
    """Any weights that a layer may have: mantissas, or codes of shift units."""
    limit = config.format.mantissa_max
    if not flags:
        return rng.integers(-limit, limit + 1, shape)
    assert config.shift is not None
    if flags & Flag.POWER_OF_TWO:
        return rng.integers(0, 1 << config.shift.field_bits, shape)
    codes = np.arange(1 << config.shift.word_bits)
    if config.shift_columns:  # columns of DSP slices hold them as mantissas
        codes = np.array([code for code in codes if abs(word_values(config.shift, int(code))[0]) <= limit])
    return rng.choice(codes, shape)


def run_convolution(
    pair: KernelPair, seed: int = 0, channels: tuple[int, int] = (3, 6), size: tuple[int, int] = (5, 6),
    kernel: tuple[int, int] = (3, 3), stride: tuple[int, int] = (1, 1), pad: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1), pitch: int | None = None, parameters: bool = True, exponent: int = -5,
    **fields: int,
) -> np.ndarray:  # fmt: skip
    """A convolution of random data with random weights, or with random codes if ``flags`` say that they are such."""
    rng, config, flags = np.random.default_rng(seed), pair.kernel.config, Flag(fields.pop("flags", 0))
    program, form = Program(config), flags & (Flag.TWO_HOT | Flag.POWER_OF_TWO)
    x = program.tensor(*size, channels[0], pitch)
    shape = [output_size(size[k], kernel[k], stride[k], pad[k], dilation[k]) for k in range(2)]
    y = program.tensor(*shape, channels[1])
    weights = random_weights(rng, config, form, (channels[1], *kernel, channels[0]))
    bias = rng.integers(-(1 << (config.bias_bits - 1)), 1 << (config.bias_bits - 1), channels[1])
    program.load("x", x)
    rows = (bias, rng.integers(-3, 3, channels[1])) if parameters else (None, None)
    layer = program.weights(weights, *rows, flags=form)
    layer["flags"] |= Flag.FIRST | Flag.LAST | flags
    layer |= {"output_exponent": exponent + config.format.mantissa_bits, "bias_exponent": exponent} | fields
    program.compute(
        Operation.GEMM, x, y, stride=stride, pad=pad, kernel_height=kernel[0], kernel_width=kernel[1],
        dilation_y=dilation[0], dilation_x=dilation[1], **layer,
    )  # fmt: skip
    program.store("y", y)
    tensors = {"x": random_tensor(rng, x, config, exponent), "y": empty(y)}
    pair.run(program, tensors)
    return tensors["y"].mantissa[0]
