"""The streams of a kernel with a sparse cluster: no depth from the stated one on, and none of a cluster's own streams
however short, keeps its processes waiting for each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from cluster_configs import VARIANTS
from effort import drawn, each_once
from stream_depths import DepthTrial, sufficient_depths

from bfpga.contract.arrays.sparse_cluster import cluster_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.processes import POST, SCRATCHPAD, SEQUENCER, STORE, process_streams
from bfpga.devices.csim import CSimulation

#: Between processes that every kernel has; and the operands, which credits fill.
OTHERS = {SEQUENCER, SCRATCHPAD, POST, STORE}


def own_streams(config: KernelConfig) -> list[str]:
    """Streams of the cluster, and the parameters, which its weights do not wait for."""
    return [stream.name for stream in process_streams(config) if not {stream.source, stream.target} & OTHERS]


#: Of each the compiled kernel of other tests.
KERNELS = ("A", "B", "C", "E")


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> Iterator[CSimulation]:
    simulation = CSimulation(VARIANTS[request.param])
    yield simulation
    simulation.disturb(0)
    simulation.hold({})


@pytest.mark.parametrize("kernel", KERNELS, indirect=True)
def test_streams_as_deep_as_stated_or_deeper_never_keep_processes_waiting(kernel: CSimulation) -> None:
    """SC R62: random depths at or above the stated ones, processes in an order drawn by chance."""
    rng = np.random.default_rng(14)
    for _ in range(drawn(3)):
        trial = DepthTrial(rng, kernel)
        assert [trial.run(sufficient_depths(rng, kernel.config), int(rng.integers(9))) for _ in range(5)] == [None] * 5


@pytest.mark.parametrize(("kernel", "words"), each_once(KERNELS, (1, 2)), indirect=["kernel"])
def test_a_cluster_needs_no_room_but_for_its_operands(kernel: CSimulation, words: int) -> None:
    """SC R62: whatever stands in a stream of the cluster belongs to a block, and needs nothing of a later one; weights
    of a block do not wait behind its parameters, though these fill their stream."""
    own = own_streams(kernel.config)
    assert {"cells", "steps_0", "sums_3", "blocks", "limits"} <= set(own)
    assert ("tiles_2" in own) == (cluster_array(kernel.config.array).variant != "E")
    assert ("rounds_2" in own) == (cluster_array(kernel.config.array).variant == "C")
    rng = np.random.default_rng(words)
    depths = dict.fromkeys([*own, "parameters", "sums"], words)
    for _ in range(drawn(3)):
        trial = DepthTrial(rng, kernel)
        assert [trial.run(depths, order) for order in (0, 1, 2)] == [None] * 3
