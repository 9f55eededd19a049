"""Values in parts (issue: two passes of 8 bits where the accelerator has 8): finer sums, the same bits everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory_walk import MemoryWalk, check_coverage
from shift_arrays import SHIFT
from small_networks import Network, compiled, float_outputs, nodes_of

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import BlockTensor, Program, TensorSpec
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.errors import ConfigurationError
from bfpga.formats.block_format import BlockFormat
from bfpga.program.cycles import program_cycles
from bfpga.program.file import load_program, save_program
from bfpga.program.layout import decode_tensor, encode_tensor
from bfpga.runtime import trace_layers

PROCESSES = "tiny"
NARROW = KernelConfig(columns=4, rows=8, lanes=2, accumulator_bits=32)


def residual() -> Network:
    """Windows with and without borders, strides, maxima, an addition, groups, a kernel of one column."""
    network = Network(3, 10, 9)
    first = network.add("Relu", network.conv(6, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2]))
    network.conv(6, 6, 1, source=first)
    second = network.add("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    network.add("Relu", network.add("Add", first, second))
    network.conv(6, 6, 3, pads=[1, 1, 1, 1], group=6)
    network.add("Conv", network.last, network.weights(4, 6, 3, 1))
    network.add("LeakyRelu", alpha=0.25)
    return network


def random_network(seed: int) -> tuple[Network, CompileOptions]:
    """A few layers of random geometry, and random parts for their values."""
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(1, 5))
    network = Network(channels, int(rng.integers(6, 10)), int(rng.integers(6, 10)))
    layers: dict[str, dict[str, Any]] = {"x": {"result_parts": int(rng.choice([1, 2, 4]))}}
    for _ in range(3):
        outputs = channels if rng.random() < 0.3 else int(rng.integers(1, 7))
        kernel = int(rng.choice([1, 3]))
        groups = channels if outputs == channels and rng.random() < 0.5 else 1
        name = f"Conv_{len(network.nodes)}"
        strides = [int(rng.integers(1, 3))] * 2
        network.conv(outputs, channels, kernel, pads=[kernel // 2] * 4, group=groups, strides=strides)
        channels = outputs
        layers[name] = {"result_parts": int(rng.choice([1, 2, 4])), "weight_parts": 2 if kernel == 1 else 1}
        if rng.random() < 0.6:
            network.add("Relu")
    layers[name]["result_parts"] = 1  # leaves the array
    return network, CompileOptions(layers=layers, remainders="never")


def program_of(network: Network, folder: Path, accelerator: Any, options: CompileOptions) -> Program:
    path = folder / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    return compile_network(path, accelerator, network.samples(16), options)


def same_bits(program: Program, kernel: CSimulation | None, samples: dict[str, np.ndarray]) -> None:
    """Native and numpy emulator and the simulated kernel; the schedule is followed word by word."""
    expected = Emulator(program, "numpy").run(samples, trace=True)
    native = Emulator(program).run(samples, trace=True)
    device = "csim" if kernel is None else KernelDevice(program, kernel, "csim")
    comparison = bfpga.compare(program, samples, device)
    assert comparison.bit_exact, comparison.mismatch
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(native.tensors[name].mantissa, tensor.mantissa, err_msg=name)
        np.testing.assert_array_equal(comparison.got.tensors[name].mantissa, tensor.mantissa, err_msg=name)
    MemoryWalk(program).run()
    check_coverage(program)


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_in_parts_give_the_same_bits(seed: int, tmp_path: Path) -> None:
    network, options = random_network(seed)
    program = program_of(network, tmp_path, load_accelerator(PROCESSES), options)
    same_bits(program, None, network.samples(3))


def test_two_hot_weights_in_parts_give_the_same_bits_and_less_error(tmp_path: Path) -> None:
    network = residual()
    errors = {}
    for parts in (1, 2):
        options = CompileOptions(formats="two_hot", result_parts=parts, weight_parts=parts)  # type: ignore[arg-type]
        program = compiled(network, tmp_path, SHIFT, options)
        errors[parts] = error(network, program)
    same_bits(program, CSimulation(SHIFT), network.samples(3))
    assert errors[2] < 0.5 * errors[1]


def error(network: Network, program: Program) -> float:
    """Energy of the outputs' errors over theirs."""
    samples = network.samples(32)
    (found,) = Emulator(program).run(samples).outputs.values()
    (wanted,) = float_outputs(network, samples)
    return float(np.square(found - wanted).sum() / np.square(wanted).sum())


def test_each_doubling_of_the_parts_takes_noise_away(tmp_path: Path) -> None:
    """Half the step takes 6 dB of the noise of rounding (what saturates and weights remain); the cost is stated."""
    network = Network(3, 10, 9)
    network.add("Relu", network.conv(6, 3, 3, pads=[1, 1, 1, 1]))
    measured = network.add("Relu", network.conv(6, 6, 3, pads=[1, 1, 1, 1], group=6))
    network.conv(2, 6, 1)
    found, cycles = {}, {}
    for parts in (1, 2, 4):
        options = CompileOptions(result_parts=parts, remainders="never")  # type: ignore[arg-type]
        program = compiled(network, tmp_path, NARROW, options)
        samples = network.samples(32)
        found[parts] = trace_layers(program, tmp_path / "small.onnx", samples).sqnr_db[measured]
        cycles[parts] = program_cycles(program).schedule
    assert found[2] > found[1] + 4
    assert found[4] > found[2] + 2
    assert cycles[1] < cycles[2] < cycles[4]


def test_tied_tensors_are_in_as_many_parts(tmp_path: Path) -> None:
    """Additions and maxima go part by part, so what they tie has the same parts; nothing else has."""
    network = residual()
    first = network.nodes[0].name
    options = CompileOptions(layers={first: {"result_parts": 2}})
    program = compiled(network, tmp_path, NARROW, options)
    parts = {name: spec.parts for name, spec in program.tensors.items()}
    assert sorted(parts.values()) == [1] * (len(parts) - 4) + [2] * 4
    assert parts["x"] == 1
    assert all(parts[name] == 1 for name in program.outputs)


def test_a_value_in_parts_is_read_back_from_their_mean() -> None:
    spec = TensorSpec("x", 4, 4, 6, -3, (3, 4, 4), (1, 2, 0), (0, 0, 1, 1, 2, 2))
    assert spec.parts == 2
    x = np.random.default_rng(3).uniform(-3, 3, (2, 3, 4, 4)).astype(np.float32)
    tensor = encode_tensor(x, spec, BlockFormat())
    assert isinstance(tensor, BlockTensor)
    step = 2.0**-3 / np.array([1, 2, 4]).reshape(3, 1, 1)
    assert (np.abs(decode_tensor(tensor, spec) - x) <= step / 4 + 1e-6).all()
    alone = TensorSpec("x", 4, 4, 3, -3, (3, 4, 4), (1, 2, 0), (0, 1, 2))
    assert np.abs(decode_tensor(encode_tensor(x, alone, BlockFormat()), alone) - x).max() > 2.0**-5


def test_programs_with_parts_are_read_back_from_a_file(tmp_path: Path) -> None:
    network = residual()
    program = compiled(network, tmp_path, NARROW, CompileOptions(result_parts=2, weight_parts=2))
    save_program(program, tmp_path / "a.bfpga")
    loaded, samples = load_program(tmp_path / "a.bfpga"), network.samples(2)
    for name, value in Emulator(program).run(samples).outputs.items():
        np.testing.assert_array_equal(Emulator(loaded).run(samples).outputs[name], value)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({"Conv_7": {"result_parts": 2}}, "layer Conv_7: result_parts = 2 cannot be: .* leaves the array"),
        ({"Conv_0": {"weight_parts": 2}}, "kernels with one row or one column; this one has 3 x 3.*result_parts: 2"),
        ({"Conv_0": {"result_parts": 2}, "Conv_2": {"policy": "max"}}, "exponents must be known before the run"),
    ],
)
def test_what_cannot_be_in_parts_is_refused_with_the_reason(
    layers: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        compiled(residual(), tmp_path, NARROW, CompileOptions(layers=layers))


def test_weights_in_parts_read_each_value_twice(tmp_path: Path) -> None:
    """No copy of the tensor: the tap is repeated in place."""
    network = Network(4, 6, 6)
    network.conv(5, 4, 1)
    program = compiled(network, tmp_path, NARROW, CompileOptions(weight_parts=2))
    (node,) = nodes_of(program)
    assert (node.window.kernel_width, node.window.dilation_x) == (2, 0)
    assert node.weights is not None
    assert (node.weights[:, :, 0] != node.weights[:, :, 1]).any()
    alone = compile_network(tmp_path / "small.onnx", accelerator_around(NARROW, "test"), network.samples(16))
    (before,) = nodes_of(alone)
    assert before.weights is not None
    assert error(network, program) < error(network, alone)
