"""Files that Brevitas exports: its own networks, its own results (tests/data/brevitas)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_networks import WIDE

from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.program import HostNode, Program
from bfpga.data import load_samples
from bfpga.devices.base import Device
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork
from bfpga.runtime import run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "brevitas"
VARIANTS = ("four_bits", "two_bits", "powers_of_two")
KINDS = ("qonnx", "qcdq")


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return load_samples(ROOT / "examples" / "models" / "digits_test.npz").x


def read(variant: str, kind: str) -> Network:
    return read_network(FOLDER / f"{variant}_{kind}.onnx")


def results(device: Device | str, program: Program, x: np.ndarray) -> np.ndarray:
    return next(iter(run(program, x, device).outputs.values()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_reference_repeats_pytorch(variant: str, kind: str, digits: np.ndarray) -> None:
    """Issue 17, item 2: accuracy is judged by the quantized network's own results, so these have to be its own."""
    network = read(variant, kind)
    with np.load(FOLDER / "answers.npz") as answers:
        wanted = answers[variant]
    found = FloatNetwork(network, quantized=True).run({next(iter(network.inputs)): digits[: len(wanted)]})
    np.testing.assert_allclose(next(iter(found.values())), wanted, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_wide_mantissas_give_every_class_of_the_network(variant: str, kind: str, digits: np.ndarray) -> None:
    """Layers are the array's; only the first step, which is no power of two, is taken by the host."""
    network = read(variant, kind)
    program = compile_network(network, accelerator_around(WIDE, "test"))
    host = [name for node in program.nodes if isinstance(node, HostNode) for name in node.operators]
    assert host == ([] if variant == "powers_of_two" else ["Mul"])
    own = next(iter(FloatNetwork(network, quantized=True).run({next(iter(network.inputs)): digits}).values()))
    same = results(Emulator(program), program, digits).argmax(1) == own.argmax(1)
    assert same.mean() >= 0.99


@pytest.mark.parametrize("variant", VARIANTS)
def test_eight_bits_give_nearly_every_class_on_emulator_and_simulation(variant: str, digits: np.ndarray) -> None:
    network = read(variant, "qonnx")
    program = compile_network(network, load_accelerator("tiny"))
    own = next(iter(FloatNetwork(network, quantized=True).run({next(iter(network.inputs)): digits}).values()))
    found = results(Emulator(program), program, digits)
    assert (found.argmax(1) == own.argmax(1)).mean() > 0.95
    np.testing.assert_array_equal(results("csim", program, digits[:4]), found[:4])
