"""Products on arrays with shift units against numpy: any format, any shape, and weights that an array cannot hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from array_layers import PlainKernel, static
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import reference_mantissa
from reference_weights import word_bits, word_values
from shift_strategies import shift_formats

from bfpga.contract.configuration import KernelConfig, WeightFormat
from bfpga.contract.program import ArrayNode, LaunchStep, Program, Window
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.errors import ProgramError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat
from bfpga.verify.random_network import NetworkBuilder, schedule


@dataclass(frozen=True)
class Gemm:
    """y = x @ w.T with integer mantissas: x (pixels, inner), w (outputs, inner)."""

    config: KernelConfig
    weight_format: WeightFormat
    x: np.ndarray
    w: np.ndarray

    @property
    def exponent(self) -> int:
        """Of the output: the largest sums keep all bits that the format has for them."""
        largest = int(np.abs(self.x @ self.w.T).max(initial=1))
        return max(0, largest.bit_length() + 1 - self.config.format.mantissa_bits)

    def program(self) -> Program:
        """The scheduled program of the product."""
        builder = NetworkBuilder(np.random.default_rng(0), self.config)
        pixels, inner = self.x.shape
        source = builder.tensor(1, pixels, inner, 0)
        output = builder.tensor(1, pixels, len(self.w))
        shape = Window(output_height=1, output_width=pixels)
        builder.nodes.append(
            ArrayNode(
                "product", "gemm", (source,), output, len(self.w), shape, weights=self.w[:, None, None, :],
                weight_exponents=np.zeros(len(self.w), np.int32), policy=static(self.exponent),
                weight_format=self.weight_format,
            )
        )  # fmt: skip
        return schedule(builder, output)

    def inputs(self) -> dict[str, np.ndarray]:
        return {"t0": self.x.T[None, :, None, :].astype(np.float32)}

    def expected(self) -> list[list[int]]:
        """Mantissas (pixels, outputs): sums of numpy, rounded as the format says."""
        sums = self.x.astype(np.int64) @ self.w.astype(np.int64).T
        form = self.config.format
        return [[reference_mantissa(Fraction(int(v)), self.exponent, form)[0] for v in row] for row in sums]


def weight_values(config: KernelConfig, weight_format: WeightFormat) -> list[int]:
    """Every integer that a weight may be, by the sentences of the specification."""
    limit = config.format.mantissa_max
    if weight_format == "linear":
        return list(range(-limit, limit + 1))
    assert config.shift is not None
    which = 0 if weight_format == "two_hot" else 1
    values = {word_values(config.shift, word)[which] for word in range(1 << word_bits(config.shift))}
    return sorted(value for value in values if abs(value) <= limit or not config.shift_columns)


@st.composite
def gemms(draw: st.DrawFn) -> Gemm:
    """A product on a small array: all columns shift, or the last ones beside columns of DSP blocks."""
    mantissa_bits, mixed = draw(st.integers(4, 16)), draw(st.booleans())
    words = draw(
        shift_formats()
        .map(lambda fmt: replace(fmt, x_width=mantissa_bits, x_signed=True, base_log2=1 if fmt.exp_width > 2 else 2))
        .filter(lambda fmt: fmt.weight_signed and fmt.zero_code != "none" and fmt.d <= 8)
        .map(lambda fmt: replace(fmt, zero_scope="both"))
    )
    lanes, beside = draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 3)) if mixed else 0
    config = KernelConfig(
        format=BlockFormat(mantissa_bits=mantissa_bits, rounding=draw(st.sampled_from(["rne", "trunc", "half_away"]))),
        columns=draw(st.integers(1, 4)) + beside, rows=lanes * draw(st.sampled_from([2, 4])), lanes=lanes,
        multiplier="dsp" if mixed else "shift", shift_columns=beside, shift=words, accumulator_bits=58,
        activation_words=512, weight_words=512, parameter_rows=256, stream_bits=128,
    )  # fmt: skip
    weight_format = draw(st.sampled_from(config.weight_formats))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    pixels, inner, outputs = (draw(st.integers(1, most)) for most in (9, 12, 30))
    limit = config.format.mantissa_max
    x = rng.integers(-limit, limit + 1, (pixels, inner))
    x[0] = limit
    return Gemm(config, weight_format, x, rng.choice(weight_values(config, weight_format), (outputs, inner)))


def mantissas(result: np.ndarray, exponent: int) -> list[list[int]]:
    """Outputs (1, channels, 1, pixels) as mantissas (pixels, channels)."""
    return np.rint(np.ldexp(result[0, :, 0].astype(np.float64), -exponent)).astype(int).T.tolist()


@settings(deadline=None, max_examples=drawn(60))
@given(gemms())
def test_matrix_products_of_any_format_are_those_of_numpy(gemm: Gemm) -> None:
    """SM R32, SM R34: emulator, and a kernel of plain integers on the words of the weight stream."""
    program = gemm.program()
    expected = gemm.expected()
    found = Emulator(program).run(gemm.inputs())
    assert mantissas(found.outputs["t1"], gemm.exponent) == expected
    plain = KernelDevice(program, PlainKernel(gemm.config), "plain").run(gemm.inputs())
    assert mantissas(plain.outputs["t1"], gemm.exponent) == expected
    assert plain.cycles == found.cycles


SHIFT = KernelConfig(
    columns=3, rows=4, lanes=2, multiplier="shift", shift=ShiftFormat(), activation_words=256, weight_words=512
)
MIXED = replace(SHIFT, multiplier="dsp_packed", columns=4, shift_columns=2)


@pytest.mark.parametrize("config", [SHIFT, MIXED], ids=["shift", "mixed"])
@pytest.mark.parametrize("inner", [1, 7, 64])
def test_matrix_vector_products_on_the_compiled_kernel_are_those_of_numpy(config: KernelConfig, inner: int) -> None:
    """SM R32, SM R34: one activation for all units of a column; every format of weights, one pixel and several."""
    rng, kernel = np.random.default_rng(inner), CSimulation(config)
    for weight_format in config.weight_formats:
        for pixels in (1, 6):
            x = rng.integers(-127, 128, (pixels, inner))
            gemm = Gemm(config, weight_format, x, rng.choice(weight_values(config, weight_format), (19, inner)))
            result = KernelDevice(gemm.program(), kernel, "csim").run(gemm.inputs())
            assert mantissas(result.outputs["t1"], gemm.exponent) == gemm.expected()


@pytest.mark.parametrize(
    ("config", "weight_format", "weight", "message"),
    [
        (SHIFT, "two_hot", 11, "11 is no two_hot weight of this array"),
        (SHIFT, "two_hot", 257, "257 is no two_hot weight"),
        (SHIFT, "power_of_two", 3, "3 is no pow2 weight"),
        (SHIFT, "power_of_two", -1, "-1 is no pow2 weight"),  # its word means zero
        (SHIFT, "linear", 1, "its weights are linear; the array takes two_hot or power_of_two"),
        (MIXED, "power_of_two", 1, "its weights are power_of_two; the array takes linear or two_hot"),
        (KernelConfig(), "two_hot", 1, "its weights are two_hot; the array takes linear"),
    ],
)
def test_weights_that_an_array_cannot_hold_are_refused(
    config: KernelConfig, weight_format: WeightFormat, weight: int, message: str
) -> None:
    """SM R33, SM R35"""
    weights = np.ones((3, 4), np.int32)
    weights[1, 2] = weight
    with pytest.raises(ProgramError, match=message):
        Gemm(config, weight_format, np.ones((2, 4), int), weights).program()


def test_two_layers_of_one_network_have_formats_of_their_own() -> None:
    """SM R27, SM R28, SM R33: formats, row exponents and numbers of terms differ; the kernel agrees with plain
    integers."""
    rng = np.random.default_rng(5)
    builder = NetworkBuilder(rng, SHIFT)
    source, last = builder.tensor(1, 5, 6, 0), builder.tensor(1, 5, 9)
    output = builder.tensor(1, 5, 10)
    formats: list[WeightFormat] = ["two_hot", "power_of_two"]
    for read, written, weight_format in ((source, last, formats[0]), (last, output, formats[1])):
        inner, outputs = builder.tensors[read].channels, builder.tensors[written].channels
        weights = rng.choice(weight_values(SHIFT, weight_format), (outputs, 1, 1, inner))
        builder.nodes.append(
            ArrayNode(
                weight_format, "gemm", (read,), written, outputs, Window(output_height=1, output_width=5),
                weights=weights, weight_exponents=rng.integers(-8, 0, outputs).astype(np.int32), policy=static(6),
                weight_format=weight_format,
            )
        )  # fmt: skip
    program = schedule(builder, output)
    assert [type(step) for step in program.steps] == [LaunchStep]
    inputs = {"t0": rng.integers(-127, 128, (2, 6, 1, 5)).astype(np.float32)}
    expected = KernelDevice(program, PlainKernel(SHIFT), "plain").run(inputs, trace=True)
    for found in (
        Emulator(program).run(inputs, trace=True),
        KernelDevice(program, CSimulation(SHIFT), "csim").run(inputs, trace=True),
    ):
        for name, tensor in expected.tensors.items():
            np.testing.assert_array_equal(found.tensors[name].mantissa, tensor.mantissa)
        assert [layer.cycles for layer in found.layers] == [layer.cycles for layer in expected.layers]
    assert all(np.unique(tensor.mantissa).size > 8 for tensor in expected.tensors.values())
