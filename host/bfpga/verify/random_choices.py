"""Choices of the compiler that change clocks and no bit, made at random: what it would never choose must work too."""

from __future__ import annotations

import numpy as np

from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, Program, Tile
from bfpga.engines.array.cycles import ENGINES
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.sparse_cluster.cycles import ClusterOperation
from bfpga.engines.zero_skip.cycles import ORDERS, zero_skip_clocks

Generator = np.random.Generator


def with_random_choices(rng: Generator, program: Program) -> Program:
    """The program with random orders of entries and counted channel words on its engines; their clocks follow."""
    for node in program.nodes:
        if not isinstance(node, ArrayNode) or node.engine == "systolic_array":
            continue
        draws = rng.integers(1 << 30, size=len(node.tiles))
        for number, operation in enumerate(_operations(program, node)):
            # A tile is measured as it is computed.
            tile = number % len(node.tiles)
            _choose(program, node, operation, node.tiles[tile], int(draws[tile]))
    return program


def _operations(program: Program, node: ArrayNode) -> list[KernelOperation]:
    """Operations of a node's engine: its tiles in their order, now and then twice."""
    steps = [step for step in program.steps if isinstance(step, LaunchStep)]
    own = [operation for step in steps for operation in step.operations if operation.layer == node.name]
    return [operation for operation in own if operation.descriptor.operation in ENGINES]


def _choose(program: Program, node: ArrayNode, operation: KernelOperation, tile: Tile, draw: int) -> None:
    descriptor = operation.descriptor
    weights = embedded_weights(node, program.tensors[node.inputs[0]], tile.m0, tile.m1)
    if node.engine == "zero_skip":
        descriptor.entry_order = draw % len(ORDERS)
        operation.clocks = zero_skip_clocks(program.config, descriptor, weights)
        return
    descriptor.count_step = draw % (descriptor.channel_words + 1)
    density = 1.0 if node.input_density is None else node.input_density
    operation.clocks = ClusterOperation(program.config, descriptor, weights).expected(density)
