"""Samples side by side, one a column of the array (BFP R82: batch): the same bits in fewer clocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bfpga
from bfpga.compiler.options import CompileOptions
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import LaunchStep, Program
from bfpga.data import load_samples
from bfpga.errors import ConfigurationError, ModelError
from bfpga.program.file import load_program, save_program
from bfpga.program.layout import apart, together

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
    with pytest.raises(ModelError, match=r"lenet.*vectors"):
        bfpga.compile(EXAMPLES / "lenet_mnist.onnx", "tiny", x, CompileOptions(side_by_side=2))


def test_the_last_group_is_filled_and_the_filling_dropped() -> None:
    x = np.arange(10).reshape(5, 2)
    groups = together(x, 3)
    assert groups.shape == (2, 3, 2)
    np.testing.assert_array_equal(groups[1, 2], x[4])
    np.testing.assert_array_equal(apart(groups, 5), x)
