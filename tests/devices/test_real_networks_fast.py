"""The fast route on trained networks: every array layer is proven and gives the engines' bits."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import bfpga
from bfpga.contract.program import HostNode
from bfpga.data import load_samples
from bfpga.devices.emulator import Emulator
from bfpga.devices.graph_route import GraphRoute

pytest.importorskip("onnxruntime")
MODELS = os.environ.get("BFPGA_MODELS")
NETWORKS = {
    "mlp_mnist": ("mnist_test_even", (784,)),
    "lenet_mnist": ("mnist_test_even", (1, 28, 28)),
    "resnet8_cifar10": ("cifar10_test_shared", (3, 32, 32)),
    "dscnn_kws": ("kws_mfcc_shared", (1, 49, 10)),
    "mobilenetv1_025_vww": ("vww_shared", (3, 96, 96)),
}


@pytest.mark.skipif(MODELS is None, reason="BFPGA_MODELS names no folder of networks")
@pytest.mark.parametrize("name", NETWORKS)
def test_trained_networks_take_the_fast_route_whole(name: str) -> None:
    """R81."""
    folder, (data, shape) = Path(str(MODELS)), NETWORKS[name]
    x = load_samples(folder / "data" / f"{data}.npz", shape, 24).x
    program = bfpga.compile(folder / "models" / f"{name}.onnx", "pynq_z2_dense", x)
    array_nodes = {index for index, node in enumerate(program.nodes) if not isinstance(node, HostNode)}
    assert GraphRoute(program).covered == array_nodes
    emulator = Emulator(program)
    inputs = {next(iter(program.inputs)): x}
    expected = emulator.run(inputs).outputs
    found = emulator.run(inputs, statistics=False).outputs
    assert emulator._route is not None
    for output, value in expected.items():
        np.testing.assert_array_equal(value, found[output])
