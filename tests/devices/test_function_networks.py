"""Blocks of networks that live by their functions: the array computes these, and a kernel gives the emulator's bits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effort import some_of
from small_networks import Network, compiled, float_outputs

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.functions import FUNCTION_NAMES, Function
from bfpga.contract.program import ArrayNode, HostNode
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice

EVERY = replace(load_accelerator("tiny").config, functions=FUNCTION_NAMES)


def hard_swish(network: Network, x: str) -> str:
    """As PyTorch exports it before opset 14."""
    return network.add("Mul", x, network.add("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def mobilenet_v3_block() -> Network:
    """Expansion, depthwise convolution, squeeze and excitation, projection, addition."""
    network = Network(8, 10, 10)
    wide = hard_swish(network, network.conv(16, 8, 1, "x"))
    wide = hard_swish(network, network.conv(16, 16, 3, wide, group=16, pads=[1, 1, 1, 1]))
    network.add("Relu", network.conv(4, 16, 1, network.add("GlobalAveragePool", wide)))
    gate = network.add("HardSigmoid", network.conv(16, 4, 1), alpha=1 / 6, beta=0.5)
    narrow = network.conv(8, 16, 1, network.add("Mul", wide, gate))
    network.add("Add", narrow, network.conv(8, 8, 1, "x"))
    return network


def transformer_mlp() -> Network:
    """Two linear layers on tokens with GELU between, and the addition around them."""
    network = Network(12, 16)
    hidden = network.add("Add", network.add("MatMul", "x", network.weights(16, 32)), network.weights(32))
    error = network.add("Erf", network.add("Div", hidden, network.constant(np.float32(np.sqrt(2)))))
    grown = network.add("Mul", hidden, network.add("Add", error, network.constant(np.float32(1))))
    half = network.add("Mul", grown, network.constant(np.float32(0.5)))
    narrow = network.add("Add", network.add("MatMul", half, network.weights(32, 16)), network.weights(16))
    around = network.add("Add", network.add("MatMul", "x", network.weights(16, 16)), network.weights(16))
    network.add("Add", narrow, around)
    return network


def detector_block() -> Network:
    """Convolutions that end with SiLU, and an addition between them that does."""
    network = Network(4, 9, 9)
    first = network.conv(8, 4, 3, "x", pads=[1, 1, 1, 1])
    first = network.add("Mul", first, network.add("Sigmoid", first))
    second = network.conv(8, 8, 3, first, pads=[1, 1, 1, 1])
    both = network.add("Add", first, second)
    network.conv(8, 8, 1, network.add("Mul", both, network.add("Sigmoid", both)))
    return network


def curves() -> Network:
    """Convolutions that end with a function each, as operators and composed."""
    network = Network(4, 6, 6)
    value = network.add("Softplus", network.conv(6, 4, 3, "x"))
    value = network.add("Elu", network.conv(6, 6, 1, value), alpha=1.0)
    value = network.conv(6, 6, 1, value)
    value = network.add("Mul", value, network.add("Tanh", network.add("Softplus", value)))
    network.conv(6, 6, 1, network.add("Erf", network.conv(6, 6, 1, value)))
    return network


#: Network, functions of its layers, operators of the host.
BLOCKS = {
    "mobilenet v3": (
        mobilenet_v3_block, {Function.HARD_SWISH: 2, Function.HARD_SIGMOID: 1, Function.RELU: 1}, [],
    ),
    "transformer": (transformer_mlp, {Function.GELU: 1}, []),
    "detector": (detector_block, {Function.SILU: 2}, []),
    "curves": (curves, {Function.SOFTPLUS: 1, Function.ELU: 1, Function.MISH: 1, Function.ERF: 1}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(BLOCKS, "mobilenet v3", "curves"))
def test_functions_of_a_block_stay_on_the_array_with_the_same_bits_on_a_kernel(name: str, tmp_path: Path) -> None:
    build, wanted, host = BLOCKS[name]
    network = build()
    program = compiled(network, tmp_path, EVERY)
    found = Counter(node.function for node in program.nodes if isinstance(node, ArrayNode))
    assert {function: count for function, count in found.items() if function != Function.NONE} == wanted
    assert [kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators] == host
    inputs = network.samples(8)
    expected = Emulator(program).run(inputs)
    kernel = KernelDevice(program, CSimulation(program.config), "csim").run(inputs)
    assert first_mismatch(program, expected, kernel) is None
    (exact,), (given,) = float_outputs(network, inputs), expected.outputs.values()
    assert np.abs(given - exact).max() < 0.1 * np.abs(exact).max()  # 8-bit mantissas
