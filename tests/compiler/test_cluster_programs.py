"""Programs for a kernel with a sparse cluster in the place of its array: their descriptors, executed one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from array_layers import PlainKernel
from watched_kernel import Watched

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.limits import problems
from bfpga.contract.program import LaunchStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.engines.array.constraints import findings
from bfpga.engines.skip_array.unit_maps import map_fits, run_passes
from bfpga.verify.random_network import random_program

CLUSTER = SystolicConfig(
    columns=4, rows=4, lanes=4, multiplier="dsp_packed", kernel="processes", activation_words=1024, weight_words=1024,
    parameter_rows=256, functions=("none", "relu", "clip"), skip_groups=4, skip_source="activations", skip_chunk=4,
    skip_queue=16, skip_passes=4096, cluster_rows=2, cluster_columns=2, cluster_words=16, cluster_lines=16,
    cluster_blocks=64,
)  # fmt: skip


class WatchedKernel(PlainKernel):
    """Fails where an operation uses words that it has not stated."""

    def __init__(self, config: SystolicConfig) -> None:
        super().__init__(config)
        self.kernel = Watched(config)


def drawn(seed: int) -> Program:
    rng = np.random.default_rng(seed)
    config = replace(
        CLUSTER, columns=int(rng.choice([1, 3, 4, 7])), rows=int(rng.choice([4, 8])),
        cluster_rows=int(rng.choice([1, 2, 3])), cluster_words=int(rng.choice([4, 8, 16])),
        cluster_lines=int(rng.choice([4, 8, 16])), activation_words=int(rng.choice([64, 1024])),
    )  # fmt: skip
    passes = run_passes(config.columns, config.cluster_lines, config.cluster_kernel)
    config = replace(config, skip_groups=config.cluster_units, skip_passes=passes)
    return random_program(rng, config) if not list(findings(config)) else drawn(seed + 1000)


@pytest.mark.parametrize("seed", range(40))
def test_descriptors_give_the_bits_and_the_work_of_the_emulator(seed: int) -> None:
    program = drawn(seed)
    (name, shape), *_ = program.inputs.items()
    samples = {name: np.random.default_rng(seed).normal(0, 1, (1, *shape)).astype(np.float32)}
    expected = Emulator(program, "numpy").run(samples)
    found = KernelDevice(program, WatchedKernel(program.config), "plain").run(samples)
    for output, value in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[output], value)
    assert found.cycles == expected.cycles


@pytest.mark.parametrize("seed", range(40))
def test_maps_have_room_and_registers_hold_them(seed: int) -> None:
    program = drawn(seed)
    config = program.config
    for step in program.steps:
        assert isinstance(step, LaunchStep)
        for operation in step.operations:
            d = operation.descriptor
            assert not list(problems(config, d))
            if d.operation == Operation.GEMM:
                assert d.flags & Flag.CLUSTER
                assert map_fits(d.input_height, d.input_width, config)
                assert max(d.stride_y, d.stride_x) <= config.cluster_kernel
