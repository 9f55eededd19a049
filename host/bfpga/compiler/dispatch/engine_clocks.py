"""Predicted cycles of single layers on every engine: what a kernel counts for one sample (ZS R53, SC R13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bfpga.compiler.schedule.pitch_choice import PitchChoice
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.weight_plan import NodeWeights, plan_weights
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, Step, TensorSpec, Tile
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.beside.tiles import input_rectangle
from bfpga.engines.registry import operation_engine
from bfpga.formats.arrays import IntArray
from bfpga.program.cycles import CycleCount


class EngineClocks:
    """Clocks of the nodes of a network, one sample, with their descriptors and the weights that are loaded for them.

    A node is scheduled alone in an empty memory. Loads and stores of activations are left out: they are the same on all
    engines. Weights are resident, loaded or streamed as the plan of the whole network has them.
    """

    def __init__(
        self,
        config: SystolicConfig,
        tensors: dict[str, TensorSpec],
        stages: Sequence[Sequence[ArrayNode]],
        reserved: tuple[int, int],
        inputs: Mapping[str, IntArray],
    ) -> None:
        """stages: nodes that are scheduled together; reserved: as for ``plan_weights``; inputs: mantissas of samples
        (samples, height, width, channels) by tensor name."""
        self.config = config
        self.tensors = tensors
        self.stages = stages
        self.reserved = reserved
        self.inputs = inputs
        self._counted: dict[tuple[object, ...], int] = {}
        self._plans: dict[tuple[EngineName, ...], dict[str, NodeWeights]] = {}
        self.settle()

    def settle(self) -> None:
        """Take the nodes' engines as those of the network that the next figures are for."""
        # Pitches are chosen when they are asked for, by the engines that the nodes have then.
        self._pitches: dict[tuple[int | EngineName, ...], PitchChoice] = {}

    def cycles(self, node: ArrayNode, engine: EngineName) -> int:
        """Clocks of ``node`` on ``engine`` while all other nodes stay on theirs.

        Where data decides: the mean over the samples of its input; without samples as many as with no zero at all.
        """
        variant = replace(node, engine=engine, tiles=[])
        plan = self._plan(node, variant)
        pitches = self._pitches_with(node, variant)
        key = (
            node.name, engine, plan.mode, *((tile.m0, tile.m1) for tile in plan.tiles),
            *map(pitches.of, (*node.inputs, node.output)),
        )  # fmt: skip
        if key not in self._counted:
            self._counted[key] = self._count(variant, plan, pitches)
        return self._counted[key]

    def _plan(self, node: ArrayNode, variant: ArrayNode) -> NodeWeights:
        """The plan of ``variant`` in the network in which it takes the place of ``node``."""
        nodes = [variant if other is node else other for stage in self.stages for other in stage]
        engines = tuple(other.engine for other in nodes)
        if engines not in self._plans:
            self._plans[engines] = plan_weights(nodes, self.config, self.reserved)
        return self._plans[engines][node.name]

    def _pitches_with(self, node: ArrayNode, variant: ArrayNode) -> PitchChoice:
        """Pitches of the stage of ``node`` with ``variant`` in its place."""
        number = next(n for n, stage in enumerate(self.stages) if any(other is node for other in stage))
        nodes = [variant if other is node else other for other in self.stages[number]]
        key: tuple[int | EngineName, ...] = (number, *(other.engine for other in nodes))
        if key not in self._pitches:
            self._pitches[key] = PitchChoice(self.config, self.tensors, nodes)
        return self._pitches[key]

    def _count(self, node: ArrayNode, plan: NodeWeights, pitches: PitchChoice) -> int:
        scheduler = Scheduler(self.config, dict(self.tensors), [node], {node.name: plan}, set())
        scheduler.pitches = pitches
        steps = scheduler.run()
        measure_strips(steps, [node], self.tensors, self.config, self.inputs)
        count = CycleCount()
        for operation in (operation for step in steps for operation in step.operations):
            moves = operation.descriptor.operation in (Operation.LOAD, Operation.STORE)
            if not moves and not operation.first_only:
                count.add_operation(self.config, operation)
        return count.total


def measure_strips(
    steps: Sequence[Step],
    nodes: Sequence[ArrayNode],
    tensors: Mapping[str, TensorSpec],
    config: SystolicConfig,
    inputs: Mapping[str, IntArray],
) -> None:
    """Give operations whose cycles depend on data their mean on samples, for nodes whose input is in ``inputs``.

    inputs: mantissas (samples, height, width, channels) by tensor name.
    """
    for operation, node, tile in engine_operations(steps, nodes):
        x, engine = inputs.get(node.inputs[0]), operation_engine(operation)
        if engine is not None and engine.by_inputs is not None and x is not None:
            image = tensors[node.inputs[0]]
            part = input_rectangle(node.window, image, tile)
            weights = embedded_weights(node, image, tile.m0, tile.m1)
            engine.by_inputs.measure(config, operation, weights, x[:, part.y0 : part.y1, part.x0 : part.x1])


def engine_operations(
    steps: Sequence[Step], nodes: Sequence[ArrayNode]
) -> Iterator[tuple[KernelOperation, ArrayNode, Tile]]:
    """Operations of the other engines than the array, each with its node and what it computes of it."""
    known = {node.name: node for node in nodes}
    seen: Counter[str] = Counter()
    for step in steps:
        for operation in step.operations if isinstance(step, LaunchStep) else ():
            if operation_engine(operation) is not None:
                node = known[operation.layer]
                # A policy that measures first computes all tiles twice.
                yield operation, node, node.tiles[seen[node.name] % len(node.tiles)]
                seen[node.name] += 1
