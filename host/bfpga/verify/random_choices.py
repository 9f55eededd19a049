"""Choices of the compiler that change clocks and no bit, made at random: what it would never choose must work too."""

from __future__ import annotations

import numpy as np

from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, Program, Tile
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.beside.engine import BesideEngine
from bfpga.engines.registry import engine_beside, operation_engine

Generator = np.random.Generator


def with_random_choices(rng: Generator, program: Program) -> Program:
    """The program with random orders of entries and counted channel words on its engines; their clocks follow."""
    for node in program.nodes:
        engine = engine_beside(node) if isinstance(node, ArrayNode) else None
        if not isinstance(node, ArrayNode) or engine is None:
            continue
        draws = rng.integers(1 << 30, size=len(node.tiles))
        for number, operation in enumerate(_operations(program, node)):
            # A tile is measured as it is computed.
            tile = number % len(node.tiles)
            _choose(program, node, engine, operation, node.tiles[tile], int(draws[tile]))
    return program


def _operations(program: Program, node: ArrayNode) -> list[KernelOperation]:
    """Operations of a node's engine: its tiles in their order, now and then twice."""
    steps = [step for step in program.steps if isinstance(step, LaunchStep)]
    own = [operation for step in steps for operation in step.operations if operation.layer == node.name]
    return [operation for operation in own if operation_engine(operation) is not None]


def _choose(
    program: Program, node: ArrayNode, engine: BesideEngine, operation: KernelOperation, tile: Tile, draw: int
) -> None:
    weights = embedded_weights(node, program.tensors[node.inputs[0]], tile.m0, tile.m1)
    density = 1.0 if node.input_density is None else node.input_density
    engine.random.vary(program.config, operation, weights, density, draw)
