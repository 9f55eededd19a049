"""Trained networks with attention, or with gates, keep their accuracy on the chip (issue 37).

PyTorch trained and exported them. The GRU, whose 28 steps take long to compile, is in `benchmarks/compiler/trained.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import bfpga
from bfpga.compiler.read.network import read_network
from bfpga.data import load_samples
from bfpga.program.host import host_nodes

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
TRAINED = Path(__file__).parents[1] / "data" / "trained"


@pytest.mark.parametrize("name", ["mnist_vit", "mnist_silu_se"])
def test_nothing_is_left_on_the_host_and_digits_are_found_as_in_float(name: str) -> None:
    network, images = read_network(TRAINED / f"{name}.onnx"), load_samples(EXAMPLES / "mnist_test.npz")
    program = bfpga.compile(network, "pynq_z2_transformer", load_samples(EXAMPLES / "mnist_calibration.npz").x[:32])
    assert not host_nodes(program)
    judged = bfpga.evaluate(program, network, images.x[:100], images.y[:100])
    assert judged.accuracy is not None
    assert judged.float_accuracy is not None
    assert judged.accuracy >= max(judged.float_accuracy - 0.01, 0.9)
    assert judged.agreement >= 0.98
