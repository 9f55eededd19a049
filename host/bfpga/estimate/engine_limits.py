"""What the clocks of an engine beside the array are spent on (docs/engines.md, section 8)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, KernelOperation, Tile
from bfpga.engines.array.products import IntArray
from bfpga.engines.beside.cycles import drain_cycles, fixed_cycles, group_sizes, output_rows
from bfpga.engines.beside.embedded_kernels import ImageSize, embedded_weights
from bfpga.engines.sparse_cluster.cycles import ClusterOperation
from bfpga.engines.zero_skip.cycles import entry_steps, zero_skip_clocks


def engine_limits(
    config: SystolicConfig, node: ArrayNode, image: ImageSize, tile: Tile, operation: KernelOperation
) -> dict[str, int]:
    """Clocks of one ZERO_SKIP or SPARSE operation by what they are spent on; the sum is ``operation.clocks``.

    `entries`: coefficients applied to the tile; `densest unit`: non-zero elements that the busiest unit has beyond what
    hides behind loading; `loading`: input and kernels that come in; `drain`: sums that leave; `pipeline`: the rest.
    image: what the node reads.
    """
    weights = embedded_weights(node, image, tile.m0, tile.m1)
    if operation.descriptor.operation == Operation.ZERO_SKIP:
        return _zero_skip(config, operation, weights)
    return _cluster(config, operation, weights)


def _zero_skip(config: SystolicConfig, operation: KernelOperation, weights: IntArray) -> dict[str, int]:
    """Loading: the clocks that would be saved if the tile were there at once; headers and decoding are the rest."""
    assert config.zero_skip is not None
    descriptor = operation.descriptor
    groups = output_rows(descriptor) * -(-descriptor.output_width // config.columns)
    kernels = group_sizes(len(weights), config.zero_skip.kernels_in_flight)
    shares = {
        "entries": int(np.count_nonzero(weights)) * entry_steps(config.zero_skip, descriptor),
        "loading": operation.clocks - zero_skip_clocks(config, replace(descriptor, input_height=0), weights),
        "drain": drain_cycles(config, descriptor, kernels, groups),
    }
    return {**shares, "pipeline": operation.clocks - sum(shares.values())}


def _cluster(config: SystolicConfig, operation: KernelOperation, weights: IntArray) -> dict[str, int]:
    """Without non-zero elements nothing is left but what comes in and goes out."""
    build = config.sparse_cluster
    assert build is not None
    descriptor = operation.descriptor
    idle = ClusterOperation(config, descriptor, weights).expected(0.0)
    blocks = -(-output_rows(descriptor) // build.kernel) * -(-descriptor.output_width // build.kernel)
    drain = drain_cycles(config, descriptor, group_sizes(len(weights), build.kernels_in_flight), blocks)
    fixed = fixed_cycles(config, build.load_pixels)
    return {
        "densest unit": operation.clocks - idle, "loading": idle - drain - fixed, "drain": drain, "pipeline": fixed,
    }  # fmt: skip
