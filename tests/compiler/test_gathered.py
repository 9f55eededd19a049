"""Gather with constant indices, and values whose samples are not along the first axis: nothing leaves the chip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_networks import Network, compiled, largest_error

from bfpga.contract.program import HostNode, Program

#: Of 16-bit mantissas.
CLOSE = 2e-3


def on_host(program: Program) -> list[str]:
    return [kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators]


def indices(network: Network, *values: int) -> str:
    return network.constant(np.array(values if len(values) > 1 else values[0], np.int64))


@pytest.mark.parametrize("places", [(3,), (-1,), (0, 2, 4), (1, 2, 3)])
def test_elements_at_even_distances_are_copied(places: tuple[int, ...], tmp_path: Path) -> None:
    """One of them loses its axis, as the class token of a transformer does."""
    network = Network(6, 8)
    first = network.add("MatMul", "x", network.weights(8, 10))
    network.add("Gather", first, indices(network, *places), axis=1)
    network.add("MatMul", network.last, network.weights(10, 4))
    program = compiled(network, tmp_path)
    assert on_host(program) == []
    assert largest_error(network, program) < CLOSE


def test_elements_at_uneven_distances_are_the_host_s(tmp_path: Path) -> None:
    network = Network(6, 8)
    first = network.add("MatMul", "x", network.weights(8, 10))
    network.add("Gather", first, indices(network, 0, 1, 3), axis=1)
    network.add("MatMul", network.last, network.weights(10, 4))
    program = compiled(network, tmp_path)
    assert on_host(program) == ["Gather"]
    assert largest_error(network, program) < CLOSE


def test_an_operand_of_a_concatenation_is_read_where_it_is(tmp_path: Path) -> None:
    """The last of many: the concatenation and the others go if nothing else reads them."""
    network = Network(3, 8)
    parts = [network.add("MatMul", "x", network.weights(8, 10)) for _ in range(3)]
    joined = network.add("Concat", *parts, axis=1)
    network.add("Gather", joined, indices(network, 8), axis=1)
    network.add("MatMul", network.last, network.weights(10, 4))
    program = compiled(network, tmp_path)
    assert on_host(program) == []
    assert len(program.nodes) <= 4
    assert largest_error(network, program) < CLOSE


def test_samples_along_another_axis_come_first(tmp_path: Path) -> None:
    """As in attention: queries, keys and values along an axis that a transposition puts in front of the batch."""
    network = Network(6, 8)
    network.add("MatMul", "x", network.weights(8, 12))
    network.add("Reshape", network.last, network.constant(np.array([0, 6, 3, 2, 2])))
    turned = network.add("Transpose", network.last, perm=[2, 0, 3, 1, 4])
    parts = [network.add("Gather", turned, indices(network, number), axis=0) for number in range(3)]
    network.add("Add", network.add("Relu", network.add("Add", parts[0], parts[1])), parts[2])
    network.add("Transpose", network.last, perm=[0, 2, 1, 3])
    network.add("Reshape", network.last, network.constant(np.array([0, 6, 4])))
    network.add("MatMul", network.last, network.weights(4, 5))
    program = compiled(network, tmp_path)
    assert "Gather" not in on_host(program)
    assert largest_error(network, program) < CLOSE


def test_a_slice_in_front_of_the_batch_is_one_behind_it(tmp_path: Path) -> None:
    """Keras takes the last of its steps so: steps first, then samples."""
    network = Network(6, 8)
    first = network.add("MatMul", "x", network.weights(8, 10))
    turned = network.add("Transpose", first, perm=[1, 0, 2])
    bounds = [network.constant(np.array([value])) for value in (-1, 2**31, 0)]
    network.add("Squeeze", network.add("Slice", turned, *bounds), network.constant(np.array([0])))
    network.add("MatMul", network.last, network.weights(10, 4))
    program = compiled(network, tmp_path)
    assert on_host(program) == []
    assert largest_error(network, program) < CLOSE
