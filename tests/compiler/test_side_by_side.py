"""Samples side by side, one a column of the array (BFP R82: batch): the same bits in fewer clocks.

Networks of fully connected layers, and recurrent ones, whose steps wait for each other and have one pixel each.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from effort import some_of
from row_kernels import WHOLE as KERNEL
from small_networks import Network, recurrent_network
from small_networks import compiled as compiled_small

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import LaunchStep, Program
from bfpga.data import load_samples
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.errors import ConfigurationError, ModelError
from bfpga.estimate.program import estimate_program
from bfpga.program.file import load_program, save_program
from bfpga.program.host import host_nodes
from bfpga.program.layout import apart, together
from bfpga.runtime import open_device

EXPORTED = Path(__file__).parents[1] / "data" / "exported"
EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
MODEL = EXAMPLES / "mlp_digits.onnx"
SAMPLES = load_samples(EXAMPLES / "digits_test.npz").x.reshape(-1, 64)
CALIBRATION = load_samples(EXAMPLES / "digits_calibration.npz").x.reshape(-1, 64)


def compiled(count: int, accelerator: str = "tiny") -> Program:
    return bfpga.compile(MODEL, accelerator, CALIBRATION, CompileOptions(side_by_side=count))


@pytest.mark.parametrize("count", [2, 5])
def test_samples_side_by_side_give_the_bits_of_single_samples(count: int) -> None:
    """R82: outputs do not depend on who travels beside; the last group need not be full."""
    alone = bfpga.run(compiled(1), SAMPLES[:7])
    beside = bfpga.run(compiled(count), SAMPLES[:7])
    assert beside.samples == 7
    for name, values in alone.outputs.items():
        np.testing.assert_array_equal(beside.outputs[name], values)


def test_c_simulation_computes_groups_as_the_emulator_does() -> None:
    comparison = bfpga.compare(compiled(4), SAMPLES[:6], "csim")
    assert comparison.bit_exact, comparison.mismatch


def test_a_full_group_costs_the_array_little_more_than_one_sample() -> None:
    def clocks(program: Program) -> int:
        products = [
            operation.descriptor
            for step in program.steps
            if isinstance(step, LaunchStep)
            for operation in step.operations
            if operation.descriptor.operation == Operation.GEMM
        ]
        groups = [-(-item.output_pixels // program.config.columns) for item in products]
        return sum(group * item.blocks * item.steps for group, item in zip(groups, products, strict=True))

    columns = compiled(1).config.columns
    assert clocks(compiled(columns)) == clocks(compiled(1))
    assert clocks(compiled(2 * columns)) == 2 * clocks(compiled(1))


@pytest.mark.parametrize("name", some_of(["gru_legacy", "bilstm_legacy"], "gru_legacy"))
def test_steps_of_recurrent_layers_take_samples_side_by_side(name: str) -> None:
    """Files that PyTorch exported; eight samples calibrate, so that all groups are full. Issue 37, item 4."""
    accelerator, path = load_accelerator("pynq_z2_transformer"), EXPORTED / f"{name}.onnx"
    x = np.random.default_rng(0).normal(size=(14, *read_network(path).inputs["x"])).astype(np.float32)
    alone, beside = (
        bfpga.compile(path, accelerator, x[:8], CompileOptions(side_by_side=count)) for count in (1, 4)
    )
    np.testing.assert_array_equal(bfpga.run(beside, x[8:]).outputs["y"], bfpga.run(alone, x[8:]).outputs["y"])
    times = [estimate_program(accelerator, program).stream_seconds for program in (alone, beside)]
    assert times[1] < 1.2 * times[0]  # of four samples


@pytest.mark.parametrize(("kind", "directions"), [("GRU", 1), ("LSTM", 2)])
def test_a_kernel_computes_steps_of_several_samples_as_the_emulator_does(
    kind: str, directions: int, tmp_path: Path
) -> None:
    network = recurrent_network(kind, 4, steps=3, directions=directions)
    program = compiled_small(network, tmp_path, KERNEL, CompileOptions(side_by_side=3))
    assert not host_nodes(program)
    samples = {name: together(values, 3) for name, values in network.samples(6).items()}
    device = open_device("csim", program)
    assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
    device.close()


def test_evaluation_counts_every_sample_once() -> None:
    evaluation = bfpga.evaluate(compiled(4), MODEL, SAMPLES[:10], np.zeros(10, np.int64))
    assert evaluation.samples == 10
    assert evaluation.sqnr_db
    assert evaluation.agreement >= 0.9


def test_a_program_file_keeps_the_group(tmp_path: Path) -> None:
    program = compiled(3)
    save_program(program, tmp_path / "program")
    assert load_program(tmp_path / "program").side_by_side == 3


def test_exponents_that_depend_on_the_data_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'max'.*static"):
        CompileOptions(policy="max", side_by_side=2)
    with pytest.raises(ConfigurationError, match="calibration"):
        bfpga.compile(MODEL, "tiny", None, CompileOptions(side_by_side=2))


def test_networks_with_images_are_refused() -> None:
    x = np.zeros((2, 1, 28, 28), np.float32)
    with pytest.raises(ModelError, match=r"lenet.*fully connected and recurrent layers; operator .*Conv"):
        bfpga.compile(EXAMPLES / "lenet_mnist.onnx", "tiny", x, CompileOptions(side_by_side=2))


def flattened(network: Network) -> None:
    network.add("Flatten")
    network.add("Gemm", network.last, network.weights(28 * 28, 4))


def attention(network: Network) -> None:
    network.add("MatMul", "x", network.add("Transpose", "x", perm=[0, 2, 1]))


def mean_of_channels(network: Network) -> None:
    network.add("ReduceMean", axes=[-1], keepdims=1)


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (flattened, r"\(Flatten\) makes pixels and channels of each other"),
        (attention, r"\(Transpose\) moves samples or channels"),
        (mean_of_channels, r"\(ReduceMean\) is none of their kind"),
    ],
)  # fmt: skip
def test_what_mixes_pixels_is_refused(write: Callable[[Network], None], problem: str, tmp_path: Path) -> None:
    network = Network(28, 28)
    write(network)
    with pytest.raises(ModelError, match=rf"small.*recurrent layers; operator .*{problem}"):
        compiled_small(network, tmp_path, KERNEL, CompileOptions(side_by_side=2))


def test_a_batch_that_is_built_in_is_refused() -> None:
    """As PyTorch exports if nobody asks for an open batch."""
    path = EXPORTED / "gru_dynamo_batch1.onnx"
    x = np.zeros((4, *read_network(path).inputs["x"]), np.float32)
    with pytest.raises(ModelError, match=r"gru_dynamo_batch1.*a batch of 1 is built into .* samples side by side"):
        bfpga.compile(path, "tiny", x, CompileOptions(side_by_side=2))


def test_sequences_lie_step_by_step() -> None:
    """What a step computes of all samples is adjacent."""
    x = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    (group,) = together(x, 2)
    assert group.shape == (3, 2, 4)
    np.testing.assert_array_equal(group[2, 1], x[1, 2])
    np.testing.assert_array_equal(apart(group[None], 2), x)


def test_the_last_group_is_filled_and_the_filling_dropped() -> None:
    x = np.arange(10).reshape(5, 2)
    groups = together(x, 3)
    assert groups.shape == (2, 3, 2)
    np.testing.assert_array_equal(groups[1, 2], x[4])
    np.testing.assert_array_equal(apart(groups, 5), x)
