"""Compiled networks on the compiled kernel: the same bits and clocks as in the emulator, however memory is cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effort import each_once
from small_networks import Network, attention_network, compiled, joined_network, residual_network

from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, HostNode, MatMulNode, Program
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat

CONFIG = KernelConfig(
    format=BlockFormat(mantissa_bits=8), columns=5, rows=4, lanes=2, activation_words=96, weight_words=200,
    parameter_rows=32,
)  # fmt: skip
ARRAYS = {
    "small": CONFIG,
    "shift": replace(CONFIG, multiplier="shift", shift=ShiftFormat()),
    "mixed": replace(CONFIG, shift_columns=2, shift=ShiftFormat()),
}


POLICIES = ["static", "max", "stats", "static_history", "rolling_max", "feedback"]


@pytest.fixture(scope="module", params=ARRAYS)
def kernel(request: pytest.FixtureRequest) -> CSimulation:
    return CSimulation(ARRAYS[request.param])


def check(network: Network, program: Program, kernel: CSimulation) -> None:
    samples = network.samples(4)
    expected = Emulator(program).run(samples, trace=True)
    device = KernelDevice(program, kernel, "csim")
    device.reset()
    found = device.run(samples, trace=True)
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], value)
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[name].mantissa, tensor.mantissa, err_msg=name)
        np.testing.assert_array_equal(found.tensors[name].exponent, tensor.exponent, err_msg=name)
    assert found.cycles == expected.cycles


@pytest.mark.parametrize(("kernel", "policy"), each_once(list(ARRAYS), POLICIES), indirect=["kernel"])
def test_a_residual_network_gives_the_same_bits(policy: str, kernel: CSimulation, tmp_path: Path) -> None:
    """R37, R68; SM R33 on arrays with shift units"""
    network = residual_network()
    options = CompileOptions(policy=policy, window=16)  # type: ignore[arg-type]
    check(network, compiled(network, tmp_path, kernel.config, options), kernel)


@pytest.mark.parametrize(("build", "calibrate"), each_once([joined_network, attention_network], [True, False]))
def test_joined_tensors_and_products_of_activations_give_the_same_bits(
    build: object, calibrate: bool, kernel: CSimulation, tmp_path: Path
) -> None:
    """Where all columns shift, products of activations are left to the host."""
    network = build()  # type: ignore[operator]
    check(network, compiled(network, tmp_path, kernel.config, calibrate=calibrate), kernel)


def test_products_of_activations_are_left_to_the_host_where_all_columns_shift(tmp_path: Path) -> None:
    """SM R33: an activation is no sum of two powers of two; columns with DSP blocks multiply with any."""
    kinds = {}
    for name in ("shift", "mixed"):
        program = compiled(attention_network(), tmp_path, ARRAYS[name])
        kinds[name] = {type(node) for node in program.nodes}
    assert kinds["shift"] == {ArrayNode, HostNode}
    assert kinds["mixed"] == {ArrayNode, HostNode, MatMulNode}
