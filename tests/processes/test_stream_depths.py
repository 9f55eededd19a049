"""The rule that gives streams their depths, under attack: `needed` words suffice, whatever latencies processes have."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from activation_arrays import ACTIVATIONS
from cluster_configs import CLUSTER, TILE
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_pairs import SMALL
from operand_kernels import WITH_ROWS
from row_kernels import ROWS
from skip_arrays import SKIPS
from stream_depths import DepthTrial, any_stages, needed_depths
from two_arrays import TWO_ARRAYS

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.process_stream import LONGEST_PIPELINE
from bfpga.contract.processes import process_streams
from bfpga.devices.csim import CSimulation
from bfpga.verify.check import random_configs

#: An array of each kind, and random ones: with --all those of every kind, else one that compresses its maps.
RANDOM = [config for config in random_configs(40, seed=2026) if config.compressed_maps][: drawn(3) ** 2]
KERNELS = [SMALL, SKIPS, ACTIVATIONS, TWO_ARRAYS, CLUSTER, TILE, ROWS, WITH_ROWS, *RANDOM]


@functools.cache
def kernel(number: int) -> CSimulation:
    """A kernel is compiled once."""
    return CSimulation(KERNELS[number])


@settings(deadline=None, max_examples=drawn(27))
@given(st.integers(0, len(KERNELS) - 1), st.integers(0, 1 << 32))
def test_what_streams_need_suffices_whatever_the_depths_of_pipelines(number: int, seed: int) -> None:
    """Issue 36: all streams have it at once, loops up to a thousand stages, and streams pause: no latency counts."""
    rng = np.random.default_rng(seed)
    trial = DepthTrial(rng, kernel(number))
    depths, stages = needed_depths(rng, KERNELS[number]), any_stages(rng)
    order, pauses = (int(rng.integers(1, 1 << 60)) * int(rng.integers(2)) for _ in range(2))
    assert trial.run(depths, order, stages, pauses) is None, (depths, stages, order, pauses)


#: What a stream has in place of what it needs, and the kernel in which processes then wait for each other.
TOO_FEW = [
    (SMALL, "parameters", 2),
    (SMALL, "stored", 8),
    (ACTIVATIONS, "windows", 1),
    (TWO_ARRAYS, "windows", 1),
    (SKIPS, "results", 2),
    (SKIPS, "entries_2", 8),
    (CLUSTER, "told", 1),
]


@pytest.mark.parametrize(("config", "stream", "words"), TOO_FEW)
def test_fewer_words_than_a_stream_needs_stop_a_kernel(config: KernelConfig, stream: str, words: int) -> None:
    """Issue 36: an attack that no depth withstands would prove nothing. The stream is full, and is named."""
    needed = {item.name: item.needed for item in process_streams(config)}
    assert words < needed[stream]
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        trial = DepthTrial(rng, CSimulation(config))
        found.append(trial.run(needed | {stream: words}, pauses=seed))
        if found[-1] is not None:
            break
    assert f"writes `{stream}`, which is full" in str(found[-1])


def test_no_depth_counts_on_a_latency() -> None:
    """Issue 36: what is needed follows from numbers of the array and of the program; what is more is for speed."""
    for name in accelerator_names():
        config = load_accelerator(name).config
        streams = {stream.name: stream for stream in process_streams(config)}
        assert all(1 <= stream.needed <= stream.depth <= stream.fifo_words for stream in streams.values())
        assert streams["loads"].needed == 1 < LONGEST_PIPELINE < streams["loads"].depth
        needed = {stream.name for stream in streams.values() if stream.needed > 1}
        known = {"parameters", "results", "stored", "counts", "windows", "told", "stored_values"}
        known |= {"row_totals", "row_factors"} | ({"vectors"} if config.residual_adds else set())
        own = {item for item in needed if not item.endswith("_commands") and not item.startswith("entries_")}
        assert own <= known
