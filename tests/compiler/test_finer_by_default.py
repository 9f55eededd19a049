"""The default calibration of short mantissas: factors of channels, weights that go together, cheap results in parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from skip_arrays import SKIPS
from small_networks import WIDE, Network, float_outputs

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.numbers.measurements import measure
from bfpga.compiler.numbers.quantize import QuantizedRows, quantize_rows
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.numbers.tail import channel_tails, fit_tail
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.partition import lower_expanded
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import Program
from bfpga.devices.emulator import Emulator
from bfpga.formats.block_format import BlockFormat

NARROW = replace(WIDE, format=BlockFormat(), accumulator_bits=32)


def images(network: Network, seed: int, count: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).normal(size=(count, *network.inputs["x"])).astype(np.float32)}


def classifier() -> Network:
    """Channels of sizes between one power of two and the next, a depthwise layer, few scores at the end."""
    network = Network(2, 12, 12)
    sizes = np.array([1, 0.55, 0.52, 0.54, 0.51, 0.53, 0.56, 0.5], np.float32)
    weights = np.random.default_rng(1).uniform(0.5, 1, (8, 2, 1, 1)).astype(np.float32) * sizes[:, None, None, None]
    network.add("Relu", network.add("Conv", "x", network.constant(weights)))
    network.conv(8, 8, 3, group=8)
    network.add("Relu")
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    network.add("Gemm", network.last, network.weights(5, 8), transB=1)
    return network


def made(network: Network, folder: Path, samples: int = 16, **options: Any) -> Program:
    path = folder / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    calibration = images(network, 2, samples)
    return compile_network(path, accelerator_around(NARROW, "test"), calibration, CompileOptions(**options))


def error(network: Network, program: Program) -> float:
    """Root mean square error of the outputs on samples that did not calibrate, over their root mean square."""
    x = images(network, 3, 200)
    emulator, twin = Emulator(program).run(x), Emulator(program, "numpy").run(x)
    (name, found), *_ = emulator.outputs.items()
    np.testing.assert_array_equal(found, twin.outputs[name])
    (expected,) = float_outputs(network, x)
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))


def test_channels_fill_the_mantissas_and_held_out_samples_gain(tmp_path: Path) -> None:
    """Issue: few calibration samples lose little. Seven of eight channels use half of the mantissas without factors."""
    network = classifier()
    filled, plain = (made(network, tmp_path, fill_mantissas=choice) for choice in (True, False))
    first = next(node.output for node in filled.nodes)
    shifts = np.array(filled.tensors[first].channel_shift)
    assert (shifts % 1 != 0).any()
    assert error(network, filled) < 0.8 * error(network, plain)
    assert all(float(shift).is_integer() for spec in plain.tensors.values() for shift in spec.channel_shift)


def test_linear_weights_make_good_each_others_errors() -> None:
    """Issue: few calibration samples lose little. Inputs go together, so sums may come closer than weights do."""
    generator = np.random.default_rng(7)
    common = generator.normal(size=(4000, 4)) @ generator.normal(size=(4, 24))
    inputs = common + 0.2 * generator.normal(size=common.shape)
    known, others = inputs[:2000], inputs[2000:]
    weights = generator.normal(size=(30, 24))
    rows = [quantize_rows(weights, NARROW, moments=item) for item in (Moments((known.T @ known / 2000)[None]), None)]
    left = [weights - np.ldexp(item.mantissas.astype(float), item.exponents[:, None]) for item in rows]
    together, apart = (np.square(others @ item.T).mean() for item in left)
    assert together < 0.5 * apart
    assert all(np.abs(item.mantissas).max() <= NARROW.format.mantissa_max for item in rows)


def test_zeros_stay_where_they_take_no_time() -> None:
    """What a zero would make good, others do: still nearer than weights rounded alone. Other arrays use the zeros."""
    generator = np.random.default_rng(8)
    common = generator.normal(size=(4000, 6)) @ generator.normal(size=(6, 24))
    inputs = common + 0.2 * generator.normal(size=common.shape)
    known, others = inputs[:2000], inputs[2000:]
    weights = np.where(generator.random((30, 24)) < 0.5, generator.normal(size=(30, 24)), 0)
    moments = Moments((known.T @ known / 2000)[None])
    rows = [quantize_rows(weights, config, moments=item) for config, item in (
        (SKIPS, moments), (SKIPS, None), (NARROW, moments),
    )]  # fmt: skip
    assert not rows[0].mantissas[weights == 0].any()
    assert rows[2].mantissas[weights == 0].any()
    errors = [np.square(others @ (weights - _floats(found)).T).mean() for found in rows]
    assert errors[0] < 0.8 * errors[1]


def _floats(rows: QuantizedRows) -> np.ndarray:
    return np.ldexp(rows.mantissas.astype(np.float64), rows.exponents[:, None])


@pytest.mark.parametrize("choice", [True, False])
def test_the_compiler_lets_linear_weights_do_so(choice: bool, tmp_path: Path) -> None:
    network = classifier()
    path = tmp_path / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    samples = images(network, 2, 16)
    graph = read_network(path).graph(separate_averages=True)
    options = CompileOptions(compensation=choice)
    graph, lowered = lower_expanded(graph, NARROW, True, options)
    measured = measure(graph, lowered, NARROW, options, samples)
    assert (measured.moments is not None) == choice


def test_small_results_are_in_parts_by_default_and_the_listing_says_so(tmp_path: Path) -> None:
    """Issue: few calibration samples lose little. Scores have finer steps, for few cycles."""
    network = classifier()
    finer, plain = (made(network, tmp_path, cheap_parts=choice) for choice in (True, False))
    (output,) = finer.outputs
    assert finer.tensors[output].parts > 1
    assert plain.tensors[output].parts == 1
    assert error(network, finer) < error(network, plain)
    assert any(output in note and "results in several parts" in note for note in finer.notes)
    assert not any("several parts" in note for note in plain.notes)


def test_results_that_cost_cycles_stay_whole(tmp_path: Path) -> None:
    """The output is most of the work: nothing is taken that the recipe did not ask for; what it names stays."""
    network = Network(4, 8, 8)
    network.conv(16, 4, 3)
    assert all(spec.parts == 1 for spec in made(network, tmp_path, cheap_parts=True).tensors.values())
    small = classifier()
    (output,) = made(small, tmp_path, cheap_parts=True).outputs
    kept = made(small, tmp_path, cheap_parts=True, layers={output: {"result_parts": 1}})
    assert kept.tensors[output].parts == 1


@pytest.mark.parametrize("samples", [1, 2, 16, 100])
def test_tails_of_channels_are_those_of_tensors(samples: int) -> None:
    peaks = np.random.default_rng(samples).lognormal(size=(samples, 6))
    peaks[:, 1] = 3  # an upper end
    peaks[1:, 2] = 0
    tails, limits = channel_tails(peaks), np.linspace(0.5, 4, 6)
    wanted = [fit_tail(peaks[:, k]).squared_excess(limits[k]) for k in (0, 1, 3, 4, 5)]
    np.testing.assert_allclose(np.delete(tails.squared_excess(limits), 2), wanted, rtol=1e-9)
    assert np.isfinite(tails.squared_excess(limits)).all()
