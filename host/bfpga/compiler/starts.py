"""The kernel starts of a program: where weights are held, and the order in which nodes are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bfpga.compiler.dispatch.two_arrays import dispatch_layers
from bfpga.compiler.lower.host import ARRAY, HOST
from bfpga.compiler.nodes import Nodes
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.schedule.matmul import matmul_reserve, matmul_step
from bfpga.compiler.schedule.overlap import ahead
from bfpga.compiler.schedule.plan_choice import Plans, choose_plan
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.table_plan import place_tables
from bfpga.compiler.schedule.weight_plan import factor_reserve, setup_launch
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, HostStep, LaunchStep, MatMulNode, Step, own_weights, values_read
from bfpga.engines.systolic.tap_reuse import choose_tap_reuse


@dataclass(frozen=True)
class Starts:
    """The start that loads the weights which stay, the steps of a run, and what count registers choose from."""

    setup: LaunchStep
    steps: list[Step]
    choices: int

    @property
    def launches(self) -> list[LaunchStep]:
        """The kernel starts of a run."""
        return [step for step in self.steps if isinstance(step, LaunchStep)]


def schedule_starts(nodes: Nodes, outputs: Sequence[str], config: KernelConfig, options: CompileOptions) -> Starts:
    """Schedule all nodes; fills the tiles of the array's nodes. outputs: tensors that leave the program."""
    return _StartMaker(nodes, outputs, config).make(options)


class _StartMaker:
    """Makes the starts of one program."""

    def __init__(self, nodes: Nodes, outputs: Sequence[str], config: KernelConfig) -> None:
        self.nodes, self.outputs, self.config = nodes, outputs, config

    def make(self, options: CompileOptions) -> Starts:
        array, tensors = self.nodes.of_array(), self.nodes.tensors
        choose_tap_reuse(array, tensors, self.config)
        plans = choose_plan(array, self.config, self._reserve(array), self._trial)
        steps = [step for index in range(len(self.nodes.stages)) for step in self._steps(index, plans)]
        launches = [step for step in steps if isinstance(step, LaunchStep)]
        choices = dispatch_layers(launches, array, tensors, self.config, options)
        setup = setup_launch(array, plans, self.config)
        place_tables(setup, launches, self.config)
        if len(launches) == 1 and not any(map(own_weights, self.nodes.nodes)):
            launches[0].ahead = ahead(launches[0].operations, self.config)
        return Starts(setup, steps, choices)

    def _steps(self, index: int, plans: Plans) -> list[Step]:
        """Steps of a stage."""
        stage, first, last = self.nodes.stages[index]
        if stage.kind == HOST:
            return [HostStep(first)]
        if stage.kind == ARRAY:
            return [*self._starts(self.nodes.of_array(first, last), first, plans)]
        products = [node for node in self.nodes.nodes[first:last] if isinstance(node, MatMulNode)]
        assert len(products) == last - first
        return [matmul_step(first + place, node, self.config, plans) for place, node in enumerate(products)]

    def _reserve(self, array: list[ArrayNode]) -> tuple[int, int]:
        """Weight words and parameter rows that products of activations need."""
        products = [node for node in self.nodes.nodes if isinstance(node, MatMulNode)]
        words, rows = zip(matmul_reserve(products, self.config), factor_reserve(array, self.config), strict=True)
        return max(words), max(rows)

    def _starts(self, nodes: list[ArrayNode], first: int, plans: Plans) -> list[LaunchStep]:
        """Kernel starts of a stage that begins with node ``first``; fills the tiles of its nodes, given as they are."""
        leaving = self._leaving(self.nodes.of_array(first, first + len(nodes)))
        begun = {node.output for node in self.nodes.of_array(0, first)}
        return Scheduler(self.config, self.nodes.tensors, nodes, plans, leaving, begun).run()

    def _trial(self, plans: Plans) -> list[LaunchStep]:
        """Kernel starts of all stages with weights in these places; the nodes stay as they are."""
        stages = [
            (first, self.nodes.of_array(first, last)) for stage, first, last in self.nodes.stages if stage.kind == ARRAY
        ]
        copies = [(first, [node.unscheduled() for node in nodes]) for first, nodes in stages]
        return [start for first, nodes in copies for start in self._starts(nodes, first, plans)]

    def _leaving(self, nodes: list[ArrayNode]) -> set[str]:
        """Tensors that the stage gives and somebody outside it reads."""
        inside = {id(node) for node in nodes}
        read = set(self.outputs)
        for node in self.nodes.nodes:
            if id(node) not in inside:
                read |= set(values_read(node))
        return {node.output for node in nodes} & read
