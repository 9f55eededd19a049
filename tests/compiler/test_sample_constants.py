"""Constants that differ from pixel to pixel are tensors of the array; what every sample has alike is a constant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from row_kernels import ROWS
from small_networks import WIDE, Network, compiled, float_outputs, largest_error

from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.errors import ProgramError
from bfpga.program.file import load_program, save_program
from bfpga.runtime import open_device

#: Of 16-bit mantissas; with those of 8 bits.
CLOSE, COARSE = 2e-3, 0.05


def on_host(program: Program) -> set[str]:
    return {kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators}


def drawn(network: Network, *shape: int) -> str:
    return network.constant(network.generator.normal(size=shape).astype(np.float32))


def positions(network: Network, x: str) -> str:
    """A position for every token, as transformers add it."""
    return network.add("Add", x, drawn(network, 1, 9, 10))


def difference(network: Network, x: str) -> str:
    """What is subtracted from, for every token."""
    return network.add("Sub", drawn(network, 9, 10), x)


def tokens(write: Callable[[Network, str], str]) -> Network:
    network = Network(9, 8)
    first = network.add("MatMul", "x", network.weights(8, 10))
    network.add("MatMul", write(network, first), network.weights(10, 4))
    return network


@pytest.mark.parametrize("write", [positions, difference], ids=lambda write: write.__name__)
def test_a_constant_for_every_pixel_is_added_on_the_array(write: Callable[[Network, str], str], tmp_path: Path) -> None:
    network = tokens(write)
    program = compiled(network, tmp_path)
    assert on_host(program) == set()
    assert largest_error(network, program) < CLOSE


def test_a_factor_for_every_pixel_needs_a_process_of_rows(tmp_path: Path) -> None:
    """As the strides of a detection head."""
    network = tokens(lambda network, x: network.add("Mul", x, drawn(network, 9, 10)))
    assert on_host(compiled(network, tmp_path, WIDE)) == {"Mul"}
    program = compiled(network, tmp_path, ROWS)
    assert on_host(program) == set()
    assert largest_error(network, program) < COARSE


def test_the_kernel_gets_the_constants_with_every_sample(tmp_path: Path) -> None:
    network = tokens(positions)
    program = compiled(network, tmp_path, ROWS)
    save_program(program, tmp_path / "small.bfpga")
    program, samples = load_program(tmp_path / "small.bfpga"), network.samples(3)
    device = open_device("csim", program)
    assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
    device.close()


def test_a_file_with_other_constants_is_refused(tmp_path: Path) -> None:
    program = compiled(tokens(positions), tmp_path, ROWS)
    (spec,) = [spec for spec in program.tensors.values() if spec.constant is not None]
    spec.input_exponent = None
    save_program(program, tmp_path / "small.bfpga")
    with pytest.raises(ProgramError, match="its constants have no exponent"):
        load_program(tmp_path / "small.bfpga")


def test_constants_that_are_not_finite_are_the_host_s(tmp_path: Path) -> None:
    """A mask in front of two operators of Softmax: of one it would be numbers that are low enough."""
    network = Network(9, 8)
    first = network.add("MatMul", "x", network.weights(8, 9))
    mask = network.constant(np.where(np.tri(9) > 0, 0, -np.inf).astype(np.float32))
    masked = network.add("Add", first, mask)
    both = network.add("Concat", *(network.add("Softmax", masked, axis=axis) for axis in (1, 2)), axis=2)
    network.add("MatMul", both, network.weights(18, 4))
    program = compiled(network, tmp_path, ROWS)
    assert {"Add", "Softmax"} <= on_host(program)
    assert any("not finite" in note for note in program.notes)
    assert largest_error(network, program) < COARSE


def test_a_constant_of_every_sample_joins_what_is_computed(tmp_path: Path) -> None:
    """A class token, repeated for the samples of an open batch by the shape of something else."""
    network = Network(9, 8)
    first = network.add("MatMul", "x", network.weights(8, 10))
    batch = network.add("Gather", network.add("Shape", "x"), network.constant(np.array([0])), axis=0)
    target = network.add("Concat", batch, network.constant(np.array([1, 10])), axis=0)
    token = network.add("Expand", drawn(network, 1, 1, 10), target)
    network.add("MatMul", network.add("Concat", token, first, axis=1), network.weights(10, 4))
    program = compiled(network, tmp_path)
    assert on_host(program) == set()
    assert largest_error(network, program) < CLOSE


def test_a_constant_in_front_of_the_pixels_of_an_image_joins_their_rows(tmp_path: Path) -> None:
    """A class token in front of patches: the rows of the image are copied, one behind the other."""
    network = Network(3, 12, 9)
    network.conv(8, 3, 3, strides=[3, 3])
    network.add("Reshape", network.last, network.constant(np.array([0, 8, 12])))
    patches = network.add("Transpose", network.last, perm=[0, 2, 1])
    tokens = network.add("Add", network.add("Concat", drawn(network, 1, 1, 8), patches, axis=1), drawn(network, 13, 8))
    network.add("MatMul", tokens, network.weights(8, 5))
    program, samples = compiled(network, tmp_path, batch=1), network.samples(1)
    assert on_host(program) == set()
    found, expected = Emulator(program).run(samples).outputs[network.last], own_results(network, samples)
    assert np.abs(found - expected).max() < CLOSE * np.abs(expected).max()
    # Several layers give one tensor, so it needs an exponent that samples give.
    assert on_host(compiled(network, tmp_path, calibrate=False, batch=1)) >= {"Concat"}


def own_results(network: Network, samples: dict[str, np.ndarray]) -> np.ndarray:
    """Of a network whose batch is one sample."""
    model = network.model(batch=1).SerializeToString()
    return np.asarray(onnxruntime.InferenceSession(model).run(None, samples)[0])


def test_a_value_that_depends_on_the_batch_is_no_constant(tmp_path: Path) -> None:
    """The number of samples as a factor: the same network, other results for another batch."""
    network = Network(9, 8)
    first = network.add("MatMul", "x", network.weights(8, 10))
    batch = network.add("Cast", network.add("Shape", "x"), to=1)
    count = network.add("Gather", batch, network.constant(np.array([0])), axis=0)
    network.add("MatMul", network.add("Mul", first, count), network.weights(10, 4))
    program = compiled(network, tmp_path)
    samples = network.samples(1)
    found = Emulator(program).run(samples).outputs[network.last]
    assert np.abs(found - float_outputs(network, samples)[0]).max() < CLOSE * 5


def test_the_begin_of_a_residual_block_may_be_an_input_of_the_network(tmp_path: Path) -> None:
    """The array fetches it for the products anyway."""
    network = Network(9, 8)
    first = network.add("Relu", network.add("MatMul", "x", network.weights(8, 8)))
    network.add("Add", "x", network.add("MatMul", first, network.weights(8, 8)))
    program = compiled(network, tmp_path)
    assert on_host(program) == set()
    assert [node.kind for node in program.nodes if isinstance(node, ArrayNode)] == ["gemm", "gemm", "sum"]
    assert largest_error(network, program) < CLOSE
