"""Products with vectors that are blocks of an image's pixels: convolutions with a stride of a block (issue 37)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from small_networks import Network, compiled, largest_error, on_host, simulates_alike

from bfpga.compiler.lower.blocks import blocks_of
from bfpga.compiler.lower.layers import ArrayTensor, positions
from bfpga.compiler.lower.lowering import Lowering
from bfpga.contract.program import ArrayNode

#: 16-bit mantissas: what is left is rounding.
CLOSE = 1e-3


def of_blocks(height: int, width: int, image_width: int = 9) -> Network:
    """An image of six rows, 8 channels of a layer; its blocks as vectors, a product with each."""
    network = Network(3, 6, image_width)
    network.conv(8, 3, 3, pads=[1, 1, 1, 1])
    rows, columns, length = 6 // height, image_width // width, 8 * height * width
    parts = network.constant(np.array([0, 8, rows, height, columns, width]))
    network.add("Transpose", network.add("Reshape", network.last, parts), perm=[0, 2, 4, 1, 3, 5])
    network.add("Reshape", network.last, network.constant(np.array([0, rows * columns, length])))
    network.add("Relu", network.add("MatMul", network.last, network.weights(length, 6)))
    network.add("MatMul", network.last, network.weights(6, 5))
    return network


@pytest.mark.parametrize(("height", "width"), [(1, 9), (6, 1), (2, 3)])
def test_nothing_is_moved(height: int, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = of_blocks(height, width)
    program = compiled(network, tmp_path)
    assert on_host(program) == Counter()
    first = [node for node in program.nodes if isinstance(node, ArrayNode)][1]
    assert (first.window.kernel_height, first.window.kernel_width) == (height, width)
    assert largest_error(network, program) < CLOSE
    samples = network.samples(2)
    assert simulates_alike(program, samples)
    monkeypatch.setattr(Lowering, "_blocks", lambda *_: None)
    assert on_host(compiled(network, tmp_path))


def test_blocks_that_all_begin_in_one_bank_are_the_hosts_to_move(tmp_path: Path) -> None:
    """Five banks: columns of the array that are five pixels apart would wait for each other."""
    network = of_blocks(1, 5, 10)
    program = compiled(network, tmp_path)
    assert set(on_host(program)) == {"Reshape"}
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("axes", [(2, 1, 0), (1, 2, 0), (0, 1, 2)])
def test_vectors_that_are_no_blocks_are_told(axes: tuple[int, ...]) -> None:
    """Every vector has one channel of all pixels, or pixels of different rows."""
    shape = (4, 6, 2)
    order = np.ascontiguousarray(positions(shape).transpose(axes).reshape(shape))
    tensor = ArrayTensor("x", (48,), positions(shape))
    found = blocks_of(tensor, order, 12)
    if axes == (0, 1, 2):
        assert found is not None
        assert (found.window.kernel_height, found.window.kernel_width) == (1, 6)
    else:
        assert found is None
