"""How long a host waits for a start: as long as data without a zero takes, whatever the calibration samples had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from activation_arrays import ACTIVATIONS
from changed_kernels import changed
from cluster_configs import CLUSTER
from small_networks import Network

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.contract.configuration import KernelConfig
from bfpga.program.choices import program_operations
from bfpga.program.cycles import longest_clocks, program_cycles

#: Words of four channels, which take longer than they come where most of them are not zero, in one chunk.
FOUR_LANES = changed(ACTIVATIONS, lanes=4, array_chunk=64, array_passes=16)


@pytest.mark.parametrize("config", [FOUR_LANES, CLUSTER], ids=["skip array", "cluster"])
def test_a_board_waits_as_long_as_samples_without_a_zero_take(tmp_path: Path, config: KernelConfig) -> None:
    network = Network(4, 12, 12)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    path = tmp_path / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    dense = np.random.default_rng(1).uniform(0.5, 1.0, (4, 4, 12, 12)).astype(np.float32)
    sparse = dense * (np.random.default_rng(2).random(dense.shape) < 0.02)
    few, all_values = (
        compile_network(path, accelerator_around(config), {"x": samples.astype(np.float32)})
        for samples in (sparse, dense)
    )
    expected, slowest = program_cycles(few).dma_inclusive, program_cycles(all_values).dma_inclusive
    assert expected < slowest <= sum(longest_clocks(config, item) for item in program_operations(few))
