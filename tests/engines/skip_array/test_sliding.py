"""Windows of a skip array that keep rows of those before (issue 16: loads of few output channels)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from changed_kernels import changed
from skip_arrays import SKIPS
from small_networks import Network, compiled

from bfpga.contract.descriptor import Flag
from bfpga.contract.program import ArrayNode, LaunchStep, Program, Tile, Window
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.engines.skip_array.sliding import group_pixels, sliding_parts


def convolution(width: int, height: int, stride: int = 1, density: float = 0.1) -> ArrayNode:
    rng = np.random.default_rng(width)
    weights = np.where(rng.random((4, 3, 3, 6)) < density, rng.integers(1, 9, (4, 3, 3, 6)), 0).astype(np.int32)
    window = Window(3, 3, stride, stride, 1, 1, output_height=height, output_width=width)
    return ArrayNode("layer", "gemm", ("x",), "y", 4, window, weights=weights)


@pytest.mark.parametrize(("width", "height", "stride"), [(16, 9, 1), (13, 4, 1), (7, 2, 1), (8, 8, 2), (12, 5, 2)])
def test_strips_cover_every_output_once(width: int, height: int, stride: int) -> None:
    """The first pass of a strip reads its windows whole; groups are whole rows of the strip, or halves of them."""
    node, config = convolution(width, height, stride), SKIPS
    parts = sliding_parts(node, Tile(0, height, 0, 4), config)
    covered = np.zeros((height, width), int)
    for tile, _ in parts:
        x0, x1 = tile.columns(width)
        covered[tile.y0 : tile.y1, x0:x1] += 1
    assert (covered == 1).all()
    for number, (tile, flag) in enumerate(parts):
        if flag & Flag.SLIDES:
            before, _ = parts[number - 1]
            assert (before.x0, before.x1, before.y1) == (tile.x0, tile.x1, tile.y0)
            assert before.rows * (tile.x1 - tile.x0) == group_pixels(tile, config) * config.array.halves
            assert before.rows * stride < node.window.kernel_height


def test_windows_slide_only_where_that_is_faster() -> None:
    """Not where products decide, in a window of several chunks, or where rows of taps lie apart."""
    tile = Tile(0, 16, 0, 4)
    assert any(flag for _, flag in sliding_parts(convolution(16, 16), tile, SKIPS))
    dense, alone = convolution(16, 16, density=1.0), changed(SKIPS, array_groups=1)
    assert not any(flag for _, flag in sliding_parts(dense, tile, alone))
    assert not any(flag for _, flag in sliding_parts(convolution(16, 16), tile, changed(SKIPS, array_chunk=8)))
    apart = convolution(16, 16)
    apart.window.dilation_y = 2
    assert not any(flag for _, flag in sliding_parts(apart, tile, SKIPS))


def pruned(network: Network, share: float) -> Network:
    rng = np.random.default_rng(2)
    for constant in network.constants:
        values = np.frombuffer(constant.raw_data, np.float32).copy()
        if len(constant.dims) == 4:
            values[rng.random(len(values)) < share] = 0
            constant.raw_data = values.tobytes()
    return network


def sliding(program: Program) -> int:
    steps = [step for step in program.steps if isinstance(step, LaunchStep)]
    return sum(bool(item.descriptor.flags & Flag.SLIDES) for step in steps for item in step.operations)


@pytest.mark.parametrize("traced", [False, True])
def test_a_network_whose_windows_slide_gives_the_bits_of_the_emulator(tmp_path: Path, traced: bool) -> None:
    """Rows and columns of padding, a stride of 2 behind, results that lie in strips beside each other."""
    network = Network(6, 12, 17)
    network.conv(4, 6, 3, pads=[1, 1, 1, 1])
    network.conv(6, 4, 3, pads=[0, 1, 2, 0])
    network.conv(2, 6, 3, strides=[2, 2])
    program = compiled(pruned(network, 0.85), tmp_path, SKIPS)
    assert sliding(program) >= 4
    samples = network.samples(2)
    expected = Emulator(program).run(samples, trace=traced)
    found = KernelDevice(program, CSimulation(SKIPS, "native"), "csim").run(samples, trace=traced)
    for name, values in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], values)
    assert found.cycles == expected.cycles
    if traced:
        for name in expected.tensors:
            np.testing.assert_array_equal(found.tensors[name].mantissa, expected.tensors[name].mantissa)
