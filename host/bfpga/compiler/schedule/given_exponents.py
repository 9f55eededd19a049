"""A compiled network with other exponent policies: the program of a side that is given its exponents (FP 3.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.table_plan import place_tables
from bfpga.compiler.schedule.weight_plan import plan_weights, setup_launch
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, HostNode, HostStep, PolicySpec, Program, Step
from bfpga.errors import ModelError


def with_given_exponents(program: Program) -> Program:
    """The same network where every exponent is given before its layer runs: nothing is measured. FP R37, R38.

    Static exponents are 0 in the program; the start of a layer writes another one into its descriptors.
    """
    return with_policies(program, lambda node: PolicySpec(Policy.STATIC, inherit=node.policy.inherit))


def with_policies(program: Program, policy: Callable[[ArrayNode], PolicySpec]) -> Program:
    """The same layers scheduled with other policies.

    ModelError for products of two activations, whose second operand's exponent the host would need.
    """
    nodes: list[ArrayNode | HostNode] = []
    for node in program.nodes:
        if isinstance(node, ArrayNode):
            nodes.append(replace(node.unscheduled(), policy=policy(node)))
        elif isinstance(node, HostNode):
            nodes.append(node)
        else:
            raise ModelError(f"layer {node.name} multiplies two activations; its exponents cannot come from outside")
    array = [node for node in nodes if isinstance(node, ArrayNode)]
    plans = plan_weights(array, program.config)
    steps: list[Step] = []
    begun: set[str] = set()
    for on_array, numbered in groupby(enumerate(nodes), lambda item: isinstance(item[1], ArrayNode)):
        stage = list(numbered)
        if not on_array:
            steps += [HostStep(index) for index, _ in stage]
            continue
        layers = [node for _, node in stage if isinstance(node, ArrayNode)]
        outside = {name for node in nodes if node not in layers for name in node.inputs}
        leaving = {node.output for node in layers} & (outside | set(program.leaving))
        steps += Scheduler(program.config, program.tensors, layers, plans, leaving, begun).run()
        begun |= {node.output for node in layers}
    setup = setup_launch(array, plans, program.config)
    place_tables(setup, steps, program.config)
    return replace(program, nodes=list(nodes), setup=setup, steps=steps)
