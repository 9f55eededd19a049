"""Remainders of input images, and factors that fill the mantissas: less rounding, the same bits on every route."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_networks import WIDE, Network, compiled, float_outputs, nodes_of

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Program, TensorSpec
from bfpga.devices.emulator import Emulator
from bfpga.formats.block_float import encode_remainders, encode_samples
from bfpga.formats.block_format import BlockFormat
from bfpga.program.layout import decode_tensor, encode_tensor, unfolded
from bfpga.runtime import trace_layers

NARROW = replace(WIDE, format=BlockFormat(), accumulator_bits=32)


def pixels(network: Network, count: int = 24) -> dict[str, np.ndarray]:
    """Images of 256 levels: mantissas of 8 bits hold the even ones alone."""
    shape = (count, *network.inputs["x"])
    return {"x": np.random.default_rng(5).integers(0, 256, shape).astype(np.float32)}


def made(
    network: Network, folder: Path, config: KernelConfig = NARROW, calibrate: bool = True, **options: Any
) -> Program:
    """The network for an array, calibrated on its images."""
    path = folder / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    samples = pixels(network) if calibrate else None
    return compile_network(path, accelerator_around(config, "test"), samples, CompileOptions(**options))


def error(network: Network, program: Program) -> float:
    """Root mean square difference to the float network over its root mean square; both emulators give the same bits."""
    emulator, x = Emulator(program), pixels(network)
    (name, found), *_ = emulator.run(x).outputs.items()
    np.testing.assert_array_equal(found, Emulator(program, "numpy").run(x).outputs[name])
    (expected,) = float_outputs(network, x)
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))


def gray() -> Network:
    """One channel, and weights that cancel: what is left of the sums shows the images' rounding."""
    network = Network(1, 9, 9)
    edge = np.array([[[[1, -2, 1]]], [[[1, -1, 0]]]], np.float32) / 64
    network.add("Conv", "x", network.constant(edge), pads=[0, 1, 0, 1])
    return network


@pytest.mark.parametrize("calibrate", [True, False])
def test_remainders_keep_the_low_bits_of_images(tmp_path: Path, calibrate: bool) -> None:
    network = gray()
    kept, lost = (made(network, tmp_path, calibrate=calibrate, remainders=choice) for choice in ("auto", "never"))
    assert (kept.tensors["x"].channels, kept.tensors["x"].remainder) == (2, 4)
    assert (lost.tensors["x"].channels, lost.tensors["x"].remainder) == (1, 0)
    assert error(network, kept) < 0.8 * error(network, lost)


@pytest.mark.parametrize("exponent", [None, 0, 1, -3])
def test_a_tensor_with_remainders_is_read_back_more_exactly(exponent: int | None) -> None:
    spec = TensorSpec("x", 5, 4, 6, exponent, onnx_shape=(3, 5, 4), remainder=4)
    x = np.random.default_rng(2).uniform(-120, 120, (7, 3, 5, 4)).astype(np.float32)
    x[-1] = 0
    if exponent == -3:
        x /= 8
    tensor = encode_tensor(x, spec, BlockFormat())
    assert tensor.mantissa.shape == (7, 5, 4, 6)
    difference = np.abs(decode_tensor(tensor, spec) - x).reshape(7, -1).max(axis=1)
    steps = np.exp2(tensor.exponent.astype(np.float64))
    assert (difference <= steps / 32 + 1e-12).all()
    assert (difference[:-1] > 0).all()


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("exponent", [None, -20, 4])
def test_remainders_of_float32_are_those_of_float64(bits: int, exponent: int | None) -> None:
    fmt = BlockFormat(mantissa_bits=bits)
    x = np.random.default_rng(bits).normal(0, 50, (5, 200)).astype(np.float32)
    x *= np.array([[1], [1e-3], [1e3], [1e-30], [1e35]], np.float32)
    found = encode_samples(x, fmt, exponent)
    narrow = encode_remainders(x, *found, fmt, 6)
    np.testing.assert_array_equal(narrow, encode_remainders(x.astype(np.float64), *found, fmt, 6))


def test_remainders_that_cost_clocks_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    """Three channels become three words instead of two."""
    network = Network(3, 9, 9)
    network.conv(8, 3, 3)
    assert unfolded(made(network, tmp_path).tensors["x"]).channels == 3
    asked = made(network, tmp_path, remainders="always")
    assert unfolded(asked.tensors["x"]).channels == 6
    assert error(network, asked) < error(network, made(network, tmp_path))


def test_remainders_are_for_images_and_short_mantissas(tmp_path: Path) -> None:
    assert made(gray(), tmp_path, WIDE).tensors["x"].remainder == 0
    vector = Network(1)
    vector.add("Gemm", "x", vector.weights(4, 1), transB=1)
    assert made(vector, tmp_path, remainders="always").tensors["x"].remainder == 0
    depthwise = Network(2, 6, 6)
    depthwise.conv(2, 2, 3, group=2)
    assert made(depthwise, tmp_path, remainders="always").tensors["x"].remainder == 0


def test_images_are_in_parts_where_weights_are_too_short_for_remainders(tmp_path: Path) -> None:
    """Four parts fill the lanes of one channel; three channels take more words, and get them on request alone."""
    quad = replace(NARROW, format=BlockFormat(mantissa_bits=5), multiplier="dsp_quad")
    network = gray()
    kept, lost = (made(network, tmp_path, quad, remainders=choice) for choice in ("auto", "never"))
    assert [(item.tensors["x"].parts, item.tensors["x"].remainder) for item in (kept, lost)] == [(4, 0), (1, 0)]
    assert error(network, kept) < 0.8 * error(network, lost)
    colour = Network(3, 9, 9)
    colour.conv(8, 3, 3)
    plain, asked, said = (
        made(colour, tmp_path, quad, **options)
        for options in ({}, {"remainders": "always"}, {"remainders": "always", "layers": {"x": {"result_parts": 2}}})
    )
    assert [item.tensors["x"].parts for item in (plain, asked, said)] == [1, 4, 2]
    assert error(colour, asked) < error(colour, plain)
    assert any("x is in 4 parts, for" in note for note in asked.notes)
    assert made(network, tmp_path, quad, calibrate=False).tensors["x"].parts == 1


@pytest.mark.parametrize(("bits", "step", "parts"), [(9, 1, 4), (5, 32, 1)])
def test_images_that_a_quantizer_left_are_in_parts_where_mantissas_do_not_hold_them(
    tmp_path: Path, bits: int, step: float, parts: int
) -> None:
    network = Network(1, 9, 9)
    network.domains.append("qonnx.custom_op.general")
    numbers = [network.constant(np.float32(value)) for value in (step, 0, bits)]
    narrow = int(bits == 5)
    network.add("Quant", "x", *numbers, domain=network.domains[-1], signed=1, narrow=narrow, rounding_mode="ROUND")
    network.conv(2, 1, 3)
    quad = replace(NARROW, format=BlockFormat(mantissa_bits=5), multiplier="dsp_quad")
    assert made(network, tmp_path, quad, remainders="always").tensors["x"].parts == parts


def awkward() -> Network:
    """A result between two layers that fills little more than half of the mantissas, and an average behind them."""
    network = Network(2, 8, 8)
    network.add("Relu", network.add("Conv", "x", network.constant(np.full((4, 2, 1, 1), 1.3 / 4, np.float32))))
    network.conv(6, 4, 3)
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    network.add("Gemm", network.last, network.weights(5, 6), transB=1)
    return network


def test_factors_fill_the_mantissas_and_leave_averages_exact(tmp_path: Path) -> None:
    network = awkward()
    filled, plain = (made(network, tmp_path, fill_mantissas=choice) for choice in (True, False))
    factors = {name: spec.factor for name, spec in filled.tensors.items()}
    assert factors["x"] == 1
    assert factors[network.last] == 1
    inside = [name for name, factor in factors.items() if factor != 1]
    assert len(inside) >= 2
    assert all(spec.factor == 1 for spec in plain.tensors.values())
    error(network, filled)
    for node in nodes_of(filled):
        if node.uniform_weights:
            assert node.weights is not None
            assert node.weight_exponents is not None
            weight = np.ldexp(node.weights.reshape(-1)[0] * 1.0, node.weight_exponents[0])
            taps = node.window.kernel_height * node.window.kernel_width
            wanted = stored_times(filled, node.output) / stored_times(filled, node.inputs[0]) / taps
            assert weight == pytest.approx(wanted, rel=1e-12)
    file = network_file(network, tmp_path)
    before, after = (trace_layers(item, file, pixels(network)).sqnr_db for item in (plain, filled))
    assert all(after[name] > before[name] > 25 for name in inside if name in after)
    assert max(after[name] - before[name] for name in inside if name in after) > 1


def stored_times(program: Program, name: str) -> float:
    """What the first channel of a tensor is stored times."""
    spec = program.tensors[name]
    return spec.factor * 2.0 ** next(iter(spec.channel_shift), 0)


def network_file(network: Network, folder: Path) -> Path:
    path = folder / "float.onnx"
    path.write_bytes(network.model().SerializeToString())
    return path


@pytest.mark.parametrize("options", [{"policy": "known_range"}, {"policy": "max"}])
def test_exponents_that_samples_do_not_choose_take_no_factor(tmp_path: Path, options: dict[str, Any]) -> None:
    """A range or an exponent of a recipe is that of the values as the network has them."""
    program = made(awkward(), tmp_path, **options)
    assert all(spec.factor == 1 for spec in program.tensors.values())
    wide = compiled(awkward(), tmp_path, WIDE)
    assert all(spec.factor == 1 for spec in wide.tensors.values())
