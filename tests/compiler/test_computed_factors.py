"""Products of two computed values (issue 17, item 3): factors of channels become weights at run time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_networks import WIDE, Network, compiled, largest_error

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower import placement
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.formats.shift_format import ShiftFormat
from bfpga.program.file import load_program, save_program
from bfpga.runtime import open_device
from bfpga.verify.virtual_boards import VirtualBoards

PROCESSES = "tiny"
#: How exponents are found, in turn: from samples, measured first, by a rule on bins, from kept sums.
OPTIONS = (
    CompileOptions(), CompileOptions(policy="max"), CompileOptions(policy="dynamic", rule="rate"),
    CompileOptions(policy="dynamic", flow="keep"),
)  # fmt: skip
SEEDS = 8


def program_of(
    network: Network, folder: Path, options: CompileOptions | None = None, calibrate: bool = True
) -> Program:
    path = folder / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    samples = network.samples(16) if calibrate else None
    return compile_network(path, load_accelerator(PROCESSES), samples, options)


def scaled(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.factors]


def excited(seed: int) -> Network:
    """Convolutions with excitation blocks, some behind a residual addition, and a gate of single pixels."""
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(2, 13))
    network = Network(channels, *(int(size) for size in rng.integers(2, 9, 2)))
    network.conv(channels, channels, 1)
    for _ in range(rng.integers(1, 3)):
        first = network.last
        network.add("Relu", network.conv(channels, channels, 3, pads=[1, 1, 1, 1]))
        network.excitation(channels, str(rng.choice(["HardSigmoid", "Relu", "Sigmoid"])))
        if rng.integers(2):
            network.add("Add", network.last, first)
        network.add(str(rng.choice(["Relu", "Tanh"])))
    network.add("GlobalAveragePool")
    if rng.integers(2):
        vector = network.last
        gate = network.add("Sigmoid", network.conv(channels, channels, 1))
        network.add("Mul", gate, network.add("Tanh", network.conv(channels, channels, 1, vector)))
    network.conv(3, channels, 1)
    return network


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_networks_give_the_same_bits_on_emulator_and_c_simulation(seed: int, tmp_path: Path) -> None:
    """All ways to find exponents, with every start alone and together; counters and clocks too."""
    network, options = excited(seed), OPTIONS[seed % len(OPTIONS)]
    program = program_of(network, tmp_path, options, calibrate=options.policy == "auto")
    assert scaled(program)
    assert not any(isinstance(node, HostNode) for node in program.nodes)
    samples = {name: value[:3] for name, value in network.samples().items()}
    device = open_device("csim", program)
    for trace in (True, False):
        expected, found = Emulator(program).run(samples, trace=trace), device.run(samples, trace=trace)
        assert first_mismatch(program, expected, found) is None
        assert [layer.cycles for layer in found.layers] == [layer.cycles for layer in expected.layers]
        device.reset()
    device.close()


def test_a_virtual_board_gives_them_too(boards: VirtualBoards, tmp_path: Path) -> None:
    for seed in range(2):
        network = excited(seed)
        program = program_of(network, tmp_path, OPTIONS[seed], calibrate=False)
        samples = {name: value[:2] for name, value in network.samples().items()}
        device = boards.open(program)
        assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
        device.close()


def test_results_are_those_of_the_float_network(tmp_path: Path) -> None:
    network = excited(3)
    program = compiled(network, tmp_path, replace(WIDE, functions=tuple(item.key for item in Function)))
    assert scaled(program)
    assert largest_error(network, program) < 1e-2
    save_program(program, tmp_path / "small.bfpga")
    again = Emulator(load_program(tmp_path / "small.bfpga")).run(network.samples())
    assert first_mismatch(program, Emulator(program).run(network.samples()), again) is None


def test_factors_may_come_from_the_host(tmp_path: Path) -> None:
    """The accelerator lacks the gate's function: the array still multiplies the image, which it has."""
    network = Network(8, 6, 6)
    network.conv(8, 8, 3)
    network.excitation(8, "Softplus")
    network.conv(4, 8, 1)
    program = compiled(network, tmp_path)
    assert [node.operators for node in program.nodes if isinstance(node, HostNode)] == [("Softplus",)]
    assert len(scaled(program)) == 1
    assert largest_error(network, program) < 1e-2


def test_factors_of_pixels_are_host_work_with_the_reason(tmp_path: Path) -> None:
    network = Network(8, 6, 6)
    first = network.conv(8, 8, 1)
    network.add("Mul", network.conv(8, 8, 1, "x"), first)
    network.conv(4, 8, 1)
    program = compiled(network, tmp_path)
    assert scaled(program) == []
    assert any(placement.MANY_FACTORS in note for note in program.notes)


def test_shift_units_leave_them_to_the_host(tmp_path: Path) -> None:
    """Their weights are powers of two only, and factors are not."""
    network = Network(8, 6, 6)
    network.conv(8, 8, 3)
    network.excitation(8)
    network.conv(4, 8, 1)
    config = KernelConfig(multiplier="shift", shift=ShiftFormat(), columns=4, rows=8, lanes=2)
    program = compiled(network, tmp_path, config)
    assert scaled(program) == []
    assert any("powers of two" in note for note in program.notes)
