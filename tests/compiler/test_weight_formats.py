"""Formats of weights on arrays with shift units: rows of integers, the choice for each layer, listings, commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from shift_arrays import MIXED, SHIFT
from small_networks import Network, compiled, float_outputs, nodes_of

from bfpga.accelerator.variants import accelerator_around
from bfpga.cli import main
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.numbers.quantize import quantize_rows
from bfpga.compiler.numbers.shift_weights import Moments, representable_integers
from bfpga.compiler.numbers.weight_formats import choose_format, format_figures
from bfpga.compiler.options import CompileOptions, LayerOptions
from bfpga.compiler.partition import lower_fitting
from bfpga.compiler.read.network import read_network
from bfpga.contract.configuration import KernelConfig, WeightFormat
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import FormatFigures, LaunchStep, Program
from bfpga.data import load_samples
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.engines.kernel.cycles import kernel_steps, passes
from bfpga.engines.systolic.shift_words import with_zero
from bfpga.errors import ConfigurationError, ProgramError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat
from bfpga.program.file import load_program, save_program
from bfpga.program.listing import listing

SLOW = pytest.mark.slow
MODELS = Path(__file__).parents[2] / "examples" / "models"
FORMATS: tuple[WeightFormat, ...] = ("two_hot", "power_of_two")


def real(mantissas: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    return np.ldexp(mantissas.astype(np.float64), exponents[:, None])


def nearest_by_hand(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The nearest value to each number, the smaller magnitude of two: every pair is compared."""
    order = np.argsort(np.abs(values), kind="stable")
    found = np.argmin(np.abs(y[..., None] - values[order]), axis=-1)
    return np.asarray(values[order][found])


# Rows


@settings(max_examples=drawn(60))
@given(
    st.integers(0, 10**6), st.sampled_from([1, 2, 3, 4]), st.sampled_from([0, 1, 2]), st.booleans(),
    st.sampled_from(["neg_min", "exp_max", "flag"]), st.sampled_from(FORMATS),
)  # fmt: skip
def test_rows_have_the_best_scale_and_the_nearest_integers(
    seed: int, exp_width: int, d: int, mixed: bool, zero_code: Any, weight_format: WeightFormat
) -> None:
    """SM R36"""
    form = with_zero(ShiftFormat(exp_width=exp_width, d=d, zero_code=zero_code))
    config = replace(MIXED if mixed else SHIFT, shift=form, accumulator_bits=48)
    weight_format = "two_hot" if mixed else weight_format
    weights = np.random.default_rng(seed).laplace(size=(3, 20)) * np.array([[1e-3], [1.0], [700.0]])
    rows = quantize_rows(weights, config, weight_format=weight_format)
    values = representable_integers(config, weight_format)
    for row, mantissas, exponent in zip(weights, rows.mantissas, rows.exponents, strict=True):
        np.testing.assert_array_equal(mantissas, nearest_by_hand(values, np.ldexp(row, -exponent)))
        errors = []
        for other in range(exponent - 6, exponent + 7):
            errors.append(((np.ldexp(nearest_by_hand(values, np.ldexp(row, -other)), other) - row) ** 2).sum())
        assert errors[6] <= min(errors) * (1 + 1e-6)  # of two scales as good as each other either is right


def test_weights_beside_columns_of_dsp_blocks_stay_mantissas() -> None:
    weights = np.random.default_rng(0).normal(size=(40, 30))
    rows = quantize_rows(weights, MIXED, weight_format="two_hot")
    assert rows.mantissas.dtype == np.int8
    assert np.abs(rows.mantissas).max() <= MIXED.format.mantissa_max
    assert representable_integers(SHIFT, "two_hot").max() > MIXED.format.mantissa_max


def test_zero_rows_stay_zero_beside_others() -> None:
    weights = np.zeros((3, 4))
    weights[1] = [1.0, -0.5, 0.25, 0.0]
    for weight_format in FORMATS:
        rows = quantize_rows(weights, SHIFT, weight_format=weight_format)
        np.testing.assert_array_equal(real(rows.mantissas, rows.exponents), weights)


def test_rows_give_up_bits_rather_than_leave_the_accumulator() -> None:
    """SM R24"""
    config = replace(SHIFT, accumulator_bits=20)
    rows = quantize_rows(np.ones((2, 64)), config, weight_format="two_hot")
    limit = (1 << (config.accumulator_bits - 2)) - 1
    assert rows.lowered == 2
    assert np.abs(rows.mantissas).sum(axis=1).max() * config.format.mantissa_max <= limit


@pytest.mark.parametrize("weight_format", FORMATS)
def test_inputs_that_do_not_go_together_leave_every_weight_the_nearest(weight_format: WeightFormat) -> None:
    weights = np.random.default_rng(1).normal(size=(6, 40))
    moments = Moments(np.eye(40)[None] * np.linspace(0.1, 3, 40))
    alone = quantize_rows(weights, SHIFT, weight_format=weight_format)
    together = quantize_rows(weights, SHIFT, weight_format=weight_format, moments=moments)
    np.testing.assert_array_equal(alone.mantissas, together.mantissas)


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("groups", [1, 3])
def test_weights_make_good_each_others_errors(weight_format: WeightFormat, groups: int) -> None:
    """Sums over inputs that go together come at least 3 dB closer than with the nearest weights."""
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(groups, 500, 12)) @ rng.normal(size=(groups, 12, 50)) + 0.5
    weights = rng.normal(size=(groups * 8, 50))
    moments = Moments(np.matmul(inputs.transpose(0, 2, 1), inputs) / 500)
    errors = []
    for given_moments in (None, moments):
        rows = quantize_rows(weights, SHIFT, weight_format=weight_format, moments=given_moments)
        error = (real(rows.mantissas, rows.exponents) - weights).reshape(groups, 8, 50)
        errors.append((np.matmul(inputs, error.transpose(0, 2, 1)) ** 2).sum())
        assert np.isin(rows.mantissas, representable_integers(SHIFT, weight_format)).all()
    assert errors[1] < errors[0] / 2


def test_inputs_that_never_were_anything_but_zero_do_no_harm() -> None:
    weights = np.random.default_rng(3).normal(size=(4, 10))
    rows = quantize_rows(weights, SHIFT, weight_format="two_hot", moments=Moments(np.zeros((1, 10, 10))))
    np.testing.assert_array_equal(rows.mantissas, quantize_rows(weights, SHIFT, weight_format="two_hot").mantissas)


# The choice


def two_layers(channels: int = 16) -> Network:
    """A convolution whose passes are long enough to gain by powers of two, and one whose are not."""
    network = Network(8, 8, 8)
    network.add("Relu", network.conv(32, 8, 3, pads=[1, 1, 1, 1]))
    network.conv(channels, 32, 1)
    return network


def layer_of(network: Network, config: KernelConfig, folder: Path) -> Any:
    path = folder / "layer.onnx"
    path.write_bytes(network.model().SerializeToString())
    return lower_fitting(read_network(path).graph(), config, True, CompileOptions()).layers[0]


@pytest.mark.parametrize(
    ("config", "needed", "expected", "reason"),
    [
        (SHIFT, 10.0, "power_of_two", "faster, and keeps 10 dB"),
        (SHIFT, 25.0, "two_hot", "power_of_two does not keep 25 dB"),
        (MIXED, 25.0, "two_hot", "faster, and keeps 25 dB"),
        (MIXED, 35.0, "linear", "two_hot does not keep 35 dB"),
    ],
)
def test_auto_takes_the_faster_format_if_it_is_exact_enough(
    config: KernelConfig, needed: float, expected: str, reason: str, tmp_path: Path
) -> None:
    """SM R33, R37"""
    layer = layer_of(two_layers(), config, tmp_path)
    choice = choose_format(layer, config, LayerOptions(weight_snr_db=needed), "mse")
    assert (choice.weight_format, choice.reason) == (expected, reason)
    assert [item.weight_format for item in choice.figures] == list(config.weight_formats)


def test_auto_keeps_the_exact_format_where_nothing_is_faster(tmp_path: Path) -> None:
    network = Network(2)
    network.add("Gemm", "x", network.weights(2, 8))
    for config, expected in ((SHIFT, "two_hot"), (MIXED, "linear")):
        choice = choose_format(layer_of(network, config, tmp_path), config, LayerOptions(weight_snr_db=0), "mse")
        assert (choice.weight_format, choice.reason) == (expected, "nothing is faster")


def test_sums_decide_where_samples_were_measured(tmp_path: Path) -> None:
    layer = layer_of(two_layers(), SHIFT, tmp_path)
    direction = np.ones((72, 1))
    figures = format_figures(layer, SHIFT, "mse", Moments((direction @ direction.T)[None] + 1e-3 * np.eye(72)))
    assert all(item.sum_snr_db is not None and item.sum_snr_db > item.weight_snr_db for item in figures)


def test_figures_are_those_of_the_weights(tmp_path: Path) -> None:
    """SM R37: signal to noise by its definition, and a fixed 14 and 28 dB for many normal weights (SM 2.5)"""
    layer = layer_of(two_layers(), SHIFT, tmp_path)
    weights = np.asarray(layer.weights).reshape(layer.channels, -1)
    for item, usual in zip(format_figures(layer, SHIFT, "mse"), (28.6, 14.2), strict=True):
        rows = quantize_rows(weights, SHIFT, weight_format=item.weight_format)
        noise = ((real(rows.mantissas, rows.exponents) - weights) ** 2).sum()
        assert item.weight_snr_db == pytest.approx(10 * np.log10((weights**2).sum() / noise), abs=1e-3)
        assert item.weight_snr_db == pytest.approx(usual, abs=1.0)
        assert item.sum_snr_db is None


@pytest.mark.parametrize("config", [SHIFT, MIXED], ids=["shift", "mixed"])
def test_cycles_of_the_formats_are_those_of_the_descriptors(config: KernelConfig, tmp_path: Path) -> None:
    """SM R31, R37"""
    network = Network(8, 6, 6)
    network.conv(32, 8, 3, pads=[1, 1, 1, 1])
    network.conv(20, 32, 1)
    network.conv(20, 20, 3, group=20)
    network.conv(24, 20, 1, group=4)
    for wanted in config.weight_formats:
        program = compiled(network, tmp_path, config, CompileOptions(formats=wanted))
        spent = dict.fromkeys((node.name for node in nodes_of(program)), 0)
        for step in program.steps:
            for operation in step.operations if isinstance(step, LaunchStep) else []:
                descriptor = operation.descriptor
                if descriptor.operation == Operation.GEMM:
                    steps = max(kernel_steps(config, descriptor), config.block_rows(wanted))
                    assert descriptor.read_slots == 1
                    assert steps == descriptor.steps or descriptor.write_slots > 1
                    spent[operation.layer] += passes(config, descriptor) * steps
        for node in nodes_of(program):
            assert node.weight_format == wanted
            figures = {item.weight_format: item.cycles for item in node.weight_choices}
            assert figures[wanted] == spent[node.name]


def test_powers_of_two_take_half_the_clocks_of_two_hot_weights(tmp_path: Path) -> None:
    """SM R31"""
    layer = layer_of(two_layers(), SHIFT, tmp_path)
    two_hot, power = (item.cycles for item in format_figures(layer, SHIFT, "mse"))
    assert two_hot == 2 * power


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (SHIFT, {"formats": "linear"}, "format linear are not for this array; it takes two_hot or power_of_two"),
        (MIXED, {"formats": "power_of_two"}, "power_of_two are not for this array; it takes linear or two_hot"),
        (replace(SHIFT, multiplier="dsp", shift=None), {"formats": "two_hot"}, "it takes linear$"),
        (SHIFT, {"layers": {"Conv_0": {"formats": "linear"}}}, "layer Conv_0: weights of format linear"),
    ],
)  # fmt: skip
def test_a_format_that_the_array_does_not_have_is_an_error(
    config: KernelConfig, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        compiled(two_layers(), tmp_path, config, CompileOptions(**options))


# Programs


MODES = {"Conv_0": {"formats": "power_of_two"}, "Conv_2": {"formats": "two_hot"}}


@pytest.fixture(scope="module")
def kernels() -> dict[str, CSimulation]:
    return {name: CSimulation(config) for name, config in (("shift", SHIFT), ("mixed", MIXED))}


def assert_same_bits(program: Program, kernel: CSimulation, samples: dict[str, np.ndarray]) -> None:
    expected = Emulator(program).run(samples, trace=True)
    found = KernelDevice(program, kernel, "csim").run(samples, trace=True)
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], value)
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[name].mantissa, tensor.mantissa, err_msg=name)
    assert found.cycles == expected.cycles


def test_layers_of_one_network_have_modes_of_their_own(kernels: dict[str, CSimulation], tmp_path: Path) -> None:
    """SM R30, R33: two layers, two modes, one start of the kernel"""
    network = two_layers()
    program = compiled(network, tmp_path, SHIFT, CompileOptions(layers=MODES))
    assert [node.weight_format for node in nodes_of(program)] == ["power_of_two", "two_hot"]
    assert len([step for step in program.steps if isinstance(step, LaunchStep)]) == 1
    assert_same_bits(program, kernels["shift"], network.samples(3))


def test_the_mode_follows_the_format_that_is_stored(tmp_path: Path) -> None:
    """SM R35: a program file holds the format of each layer's weights; the descriptors' modes are derived from it"""
    program = compiled(two_layers(), tmp_path, SHIFT, CompileOptions(layers=MODES))
    save_program(program, tmp_path / "net.program")
    loaded = load_program(tmp_path / "net.program", "0" * 64)
    assert [node.weight_format for node in nodes_of(loaded)] == ["power_of_two", "two_hot"]
    flags = {"power_of_two": Flag.POWER_OF_TWO, "two_hot": Flag.TWO_HOT}
    wanted = {node.name: flags[node.weight_format] for node in nodes_of(loaded)}
    modes = Flag.POWER_OF_TWO | Flag.TWO_HOT
    for step in loaded.steps:
        for operation in step.operations if isinstance(step, LaunchStep) else []:
            if operation.descriptor.operation == Operation.GEMM:
                assert Flag(operation.descriptor.flags) & modes == wanted[operation.layer]


def test_both_figures_are_listed_and_survive_a_file(tmp_path: Path) -> None:
    """SM R37"""
    program = compiled(two_layers(), tmp_path, SHIFT)
    save_program(program, tmp_path / "net.program")
    loaded = load_program(tmp_path / "net.program", "0" * 64)
    assert listing(loaded) == listing(program)
    text = listing(program)
    for node in nodes_of(program):
        assert node.weight_choices
        lines = [line for line in text.splitlines() if line.startswith(f" {node.name} ")]
        line = next(line for line in lines if node.weight_reason in line)
        for item in node.weight_choices:
            assert item.sum_snr_db is not None
            assert f"{item.weight_snr_db:.1f} / {item.sum_snr_db:.1f} dB, {item.cycles:,}" in line


def test_arrays_of_one_format_list_no_choice(tmp_path: Path) -> None:
    program = compiled(two_layers(), tmp_path, replace(SHIFT, multiplier="dsp", shift=None))
    assert "Formats of weights" not in listing(program)


def test_a_file_with_an_unknown_format_is_refused(tmp_path: Path) -> None:
    program = compiled(two_layers(), tmp_path, SHIFT)
    nodes_of(program)[0].weight_choices = [FormatFigures("ternary", 1.0, None, 1)]  # type: ignore[arg-type]
    save_program(program, tmp_path / "net.program")
    with pytest.raises(ProgramError, match="damaged"):
        load_program(tmp_path / "net.program")


@pytest.mark.parametrize("weight_format", FORMATS)
def test_bias_correction_takes_out_the_mean_error_of_any_format(weight_format: WeightFormat, tmp_path: Path) -> None:
    network = Network(8, 6, 6)
    network.add("Relu", network.conv(16, 8, 1))
    network.conv(16, 16, 1)
    errors = []
    for correction in (False, True):
        options = CompileOptions(formats=weight_format, bias_correction=correction, compensation=False)
        program = compiled(network, tmp_path, replace(SHIFT, format=BlockFormat(mantissa_bits=12)), options)
        samples = network.samples(16)
        found = next(iter(Emulator(program).run(samples).outputs.values()))
        mean = (found - float_outputs(network, samples)[0]).mean(axis=(0, 2, 3))
        errors.append(float(np.abs(mean).max()))
    assert errors[1] < errors[0] / 2


# Whole networks


def lenet(config: KernelConfig, options: CompileOptions) -> Program:
    calibration = load_samples(MODELS / "mnist_calibration.npz").x
    return compile_network(MODELS / "lenet_mnist.onnx", accelerator_around(config), calibration, options)


@pytest.mark.parametrize("kind", ["shift", "mixed"])
def test_an_image_classifier_runs_end_to_end(kind: str, kernels: dict[str, CSimulation]) -> None:
    """SM R38, R33: convolutions of a trained network, kernel against emulator, and the right digits"""
    program = lenet(SHIFT if kind == "shift" else MIXED, CompileOptions())
    formats = {node.weight_format for node in nodes_of(program)}
    assert formats == ({"two_hot", "power_of_two"} if kind == "shift" else {"linear", "two_hot"})
    test = load_samples(MODELS / "mnist_test.npz")
    samples = {next(iter(program.inputs)): test.x[:4].reshape(4, 1, 28, 28)}
    assert_same_bits(program, kernels[kind], {name: value[:1] for name, value in samples.items()})
    assert test.y is not None
    found = next(iter(Emulator(program).run(samples).outputs.values()))
    np.testing.assert_array_equal(found.argmax(axis=1), test.y[:4])


@pytest.mark.parametrize(
    ("config", "formats"),
    [
        (MIXED, "auto"), pytest.param(SHIFT, "power_of_two", marks=SLOW),
        pytest.param(SHIFT, "two_hot", marks=SLOW), pytest.param(SHIFT, "auto", marks=SLOW),
        pytest.param(MIXED, "two_hot", marks=SLOW),
    ],
)  # fmt: skip
def test_digits_are_read_as_well_as_in_float(config: KernelConfig, formats: Any) -> None:
    """Float reads 99.0 % of the shipped samples; one point is five of them."""
    program = lenet(config, CompileOptions(formats=formats))
    test = load_samples(MODELS / "mnist_test.npz")
    assert test.y is not None
    outputs = Emulator(program).run({next(iter(program.inputs)): test.x.reshape(-1, 1, 28, 28)})
    right = (next(iter(outputs.outputs.values())).argmax(axis=1) == test.y).mean()
    assert right >= 0.98


# Commands


def accelerator_file(folder: Path, multiplier: str) -> Path:
    """The smallest ready accelerator with other multipliers."""
    text = (Path(__file__).parents[2] / "configs" / "accelerators" / "tiny.yaml").read_text()
    lines = [line if "multiplier:" not in line else f"    multiplier: {multiplier}" for line in text.splitlines()]
    path = folder / "tried.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_commands_show_and_take_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SM R37"""
    model = tmp_path / "net.onnx"
    model.write_bytes(two_layers().model().SerializeToString())
    described, result = str(accelerator_file(tmp_path, "shift")), tmp_path / "result.json"
    for formats in ("auto", "two_hot", "power_of_two"):
        arguments = ["estimate", described, str(model), "--formats", formats, "--json", str(result)]
        assert main(arguments) == 0
        layers = json.loads(result.read_text())["program"]["weight_formats"]
        assert [layer["layer"] for layer in layers] == ["Conv_0", "Conv_2"]
        assert {layer["chosen"] for layer in layers} == {"two_hot" if formats == "auto" else formats}
        for layer in layers:
            assert [item["weight_format"] for item in layer["formats"]] == list(FORMATS)
            assert all(item["weight_snr_db"] > 0 and item["cycles"] > 0 for item in layer["formats"])
    capsys.readouterr()
    assert (
        main(["compile", str(model), "-a", described, "-o", str(tmp_path / "net.program"), "--formats", "two_hot"]) == 0
    )
    assert "Formats of weights" in capsys.readouterr().out
