"""Networks on a skip array that multiplies by activations: compiler, emulator and C simulation, in any order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from activation_arrays import ACTIVATIONS
from cpp_units import compiler
from effort import each_once
from small_networks import Network, attention_network, compiled, residual_network, small_network

from bfpga.compiler.options import CompileOptions
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.program import ArrayNode, MatMulNode
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY
from bfpga.devices.streaming_device import StreamingDevice

#: Memories for the networks; with 8 bits of mantissas as any array has them.
CONFIG = replace(ACTIVATIONS, activation_words=2048, weight_words=2048, parameter_rows=1024)
#: The systolic array with the same numbers.
DENSE = replace(CONFIG, array=SystolicArray())
NETWORKS = [residual_network(), small_network(), attention_network()]
IDS = ["residual", "small", "attention"]


@pytest.mark.parametrize("network", NETWORKS, ids=IDS)
def test_a_network_gives_the_bits_of_a_systolic_array(network: Network, tmp_path: Path) -> None:
    """Strides, padding, 1x1, depthwise, pooling, products, products of two activations; the bits are the same."""
    options, samples = CompileOptions(remainders="never"), network.samples(4)
    programs = [compiled(network, tmp_path, config, options) for config in (DENSE, CONFIG)]
    expected, found = (list(Emulator(program).run(samples).outputs.values()) for program in programs)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    on_array = [isinstance(node, ArrayNode | MatMulNode) for node in programs[1].nodes]
    assert on_array == [isinstance(node, ArrayNode | MatMulNode) for node in programs[0].nodes]


@pytest.mark.parametrize(("network", "order"), each_once(NETWORKS, [7, 0]))
def test_a_compiled_network_is_simulated_bit_by_bit(network: Network, order: int, tmp_path: Path) -> None:
    """Whole starts, whose operations overlap; order: of processes and streams, with random back-pressure."""
    compiler()
    program, samples = replace(compiled(network, tmp_path, CONFIG), digest="0" * 64), network.samples(3)
    kernel = CSimulation(CONFIG, "native", program.accelerator, program.digest)
    kernel.disturb(order)
    expected = Emulator(program, NUMPY).run(samples, trace=True)
    assert first_mismatch(program, expected, StreamingDevice(program, kernel, "csim").run(samples)) is None
