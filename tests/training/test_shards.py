"""Batches learned in parts: images after each other in a layer, shares of a batch beside each other (FP R4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bfpga.compiler.read.network import read_network
from bfpga.training.layers import Convolution
from bfpga.training.network import LearningNetwork
from bfpga.training.products import FloatProducts
from bfpga.training.shards import SAMPLES, Shards
from bfpga.training.windows import Sliding

MODEL = Path(__file__).parents[2] / "examples" / "models" / "mlp_digits.onnx"
WINDOWS = {
    "pads": Sliding((3, 2), (1, 1), (1, 0, 2, 1)),
    "dilated": Sliding((2, 3), (1, 1), (1, 2, 2, 3), (3, 2)),
    "strided": Sliding((3, 3), (2, 1), (1, 1, 1, 1)),
    "wide pads": Sliding((2, 2), (1, 1), (2, 0, 1, 1)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_images_after_each_other_learn_as_all_at_once(name: str) -> None:
    """Windows that are made again, and input gradients as a convolution: the sums of one product over all images."""
    window, generator = WINDOWS[name], np.random.default_rng(5)
    x, weights = generator.normal(size=(5, 7, 6, 2)), generator.normal(size=(*window.kernel, 2, 3))
    bias, found = generator.normal(size=3), []
    for part in (None, 3000):
        products = FloatProducts()
        products.part = part
        layer = Convolution("c", weights, window=window, bias=bias)
        y = layer.forward(products, x)
        slope = np.random.default_rng(6).normal(size=y.shape)
        found.append((y, layer.backward(products, slope), *(item.gradient for item in layer.parameters)))
    assert (window.turned is None) == (name in ("strided", "wide pads"))
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-10, atol=1e-10)


def test_shares_of_a_batch_add_up_to_the_same_whatever_the_threads() -> None:
    graph, x = read_network(MODEL).graph(), np.random.default_rng(3).normal(size=(2 * SAMPLES + 3, 64))
    inputs, outer = {"input": x.astype(np.float32)}, np.random.default_rng(4).normal(size=(len(x), 10))
    alone = LearningNetwork(graph, "n")
    alone.forward(inputs)
    alone.backward(outer)
    sums = []
    for threads in (1, 3):
        with Shards(graph, "n", threads) as shards:
            for _ in range(2):
                for item in shards.network.parameters:
                    item.gradient[...] = 0
                shards.learn(inputs, lambda scores, part: outer[part])
            sums.append([item.gradient.copy() for item in shards.network.parameters])
    for one, three, whole in zip(*sums, [item.gradient for item in alone.parameters], strict=True):
        np.testing.assert_array_equal(one, three)
        np.testing.assert_allclose(one, whole, rtol=1e-4, atol=1e-4)
