"""Layers of random networks that are computed in one of two ways, as the values other than zero of their input decide.

Both ways give the same bits; the second one takes more clocks to read its operands, so the work shows which one ran. In
a kernel with two arrays it is the other array that computes it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import COMPUTING, Flag, Operation
from bfpga.contract.predicates import Predicate, count, run_by
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, Program
from bfpga.engines.kernel.cycles import pass_steps, skips_zeros
from bfpga.engines.skip_array.two_arrays import may_choose, on_other_array, on_skip_array
from bfpga.program.choices import program_operations

Generator = np.random.Generator
#: Flags of operations that measure or keep, which belong to others, and of those whose weights come while they run.
_TIED = int(Flag.MEASURE | Flag.KEEP | Flag.KEPT | Flag.STREAM_WEIGHTS | Flag.SLIDES)


def with_random_predicates(rng: Generator, program: Program) -> Program:
    """The program with two ways for layers that may have them, of a kernel with count registers."""
    config = program.config
    nodes = {node.output: node for node in program.nodes if isinstance(node, ArrayNode)}
    writers = Counter(node.output for node in program.nodes if isinstance(node, ArrayNode))
    registers: dict[str, int] = {}
    for node in program.nodes:
        assert isinstance(node, ArrayNode)
        source = nodes.get(node.inputs[0])
        if source is None or writers[source.output] > 1 or not _splits(program, node) or rng.random() < 0.2:
            continue
        if not _counted_before(program, source, node):
            continue
        register = registers.get(source.name)
        if register is None:
            if len(registers) == config.count_registers:
                break
            register = registers[source.name] = len(registers) + 1
            _count(rng, program, source, register)
        _split(rng, program, node, register)
    return replace(program, choices=int(rng.integers(1 << config.count_registers)) << 1)


def with_random_arrays(rng: Generator, program: Program) -> Program:
    """The program with some of its products on the skip array, of a kernel that has a systolic array in parallel."""
    share = rng.random()
    for operation in program_operations(program):
        if may_choose(program.config, operation.descriptor) and rng.random() < share:
            node = _node(program, operation)
            operation.descriptor = on_skip_array(program.config, node, operation.descriptor)
    return program


def _node(program: Program, operation: KernelOperation) -> ArrayNode:
    return next(node for node in program.nodes if isinstance(node, ArrayNode) and node.name == operation.layer)


def _computing(program: Program, node: ArrayNode) -> list[KernelOperation]:
    operations = (item for item in program_operations(program) if item.layer == node.name)
    return [item for item in operations if item.descriptor.operation in COMPUTING]


def _splits(program: Program, node: ArrayNode) -> bool:
    return not any(item.descriptor.flags & _TIED or item.first_only for item in _computing(program, node))


def _counted_before(program: Program, source: ArrayNode, node: ArrayNode) -> bool:
    """Whether all of a layer is stored before a later one begins: strip by strip only a part of it would be counted."""
    layers = [operation.layer for operation in program_operations(program)]
    return node.name not in layers or source.name not in layers[layers.index(node.name) :]


def _count(rng: Generator, program: Program, node: ArrayNode, register: int) -> None:
    """Count what a layer stores; half of the values is what a threshold is most near to."""
    spec = program.tensors[node.output]
    size = spec.height * spec.width * node.channels
    threshold = int(rng.choice([0, size // 2, int(rng.integers(size + 1)), size]))
    for operation in _computing(program, node):
        if not operation.descriptor.flags & Flag.MEASURE:
            count(operation.descriptor, register, threshold)


def _split(rng: Generator, program: Program, node: ArrayNode, register: int) -> None:
    """Every operation of a layer as two of which one runs."""
    unless = bool(rng.random() < 0.5)
    for step in program.steps:
        assert isinstance(step, LaunchStep)
        result: list[KernelOperation] = []
        ahead = step.ahead
        for index, operation in enumerate(step.operations):
            ways = [operation]
            if operation.layer == node.name and operation.descriptor.operation in COMPUTING:
                ways = _ways(program.config, node, operation, Predicate(register, unless))
                ahead += index < step.ahead
            result += ways
        step.operations, step.ahead = result, ahead


def _ways(
    config: KernelConfig, node: ArrayNode, operation: KernelOperation, predicate: Predicate
) -> list[KernelOperation]:
    second = replace(operation.descriptor)
    if config.array.has_both and second.operation == Operation.GEMM:
        second = on_other_array(config, node, second)
    run_by(operation.descriptor, predicate)
    run_by(second, replace(predicate, unless=not predicate.unless))
    if not second.read_runs:
        second.read_slots += 1
        if not (config.array.has_both and skips_zeros(config, second)):
            second.steps = pass_steps(config, second)
    return [operation, replace(operation, descriptor=second)]
