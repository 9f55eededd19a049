"""A compiled network with other exponent policies: programs of sides that are given exponents, that keep
accumulators for another kernel, or that are given them (FP 3.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.table_plan import place_tables
from bfpga.compiler.schedule.weight_plan import plan_weights, setup_launch
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, HostNode, HostStep, PolicySpec, Program, Step
from bfpga.errors import ConfigurationError, ModelError
from bfpga.program.streamed_exponents import finds_exponent


def with_given_exponents(program: Program) -> Program:
    """The same network where every exponent is given before its layer runs: nothing is measured. FP R37, R38.

    Static exponents are 0 in the program; the start of a layer writes another one into its descriptors.
    """
    return with_policies(program, lambda node: PolicySpec(Policy.STATIC, inherit=node.policy.inherit))


def with_streamed_exponents(program: Program, awaits: bool = False, hands_on: bool = False) -> Program:
    """The same network on a core whose exponents go to the next one, or come from the core before. FP R37, R38, R42.

    Layers that find their exponents by measuring do so and tell them; with ``awaits`` they take those that the core
    before tells, and with ``hands_on`` tell them again. Exponents that both cores know are told by neither.
    ConfigurationError for an accelerator without `positions: stream`, or with too few policy slots.
    """
    config = program.config
    if not config.position_stream:
        raise ConfigurationError(
            f"accelerator {program.accelerator}: its cores have no stream of exponents; give it `positions: stream` "
            "and `cores: 2` or more"
        )
    found = [node.name for node in program.nodes if isinstance(node, ArrayNode) and finds_exponent(node.policy)]
    if len(found) >= config.policy_slots:
        raise ConfigurationError(
            f"accelerator {program.accelerator}: {len(found)} layers take a policy slot each, beside the one of all "
            f"others; give it {len(found) + 1} policy_slots, it has {config.policy_slots}"
        )
    slots = {name: slot for slot, name in enumerate(found, 1)}

    def policy(node: ArrayNode) -> PolicySpec:
        if node.name not in slots:
            return node.policy
        if awaits:
            return PolicySpec(Policy.STATIC, int(hands_on), slots[node.name], preset=True)
        return replace(node.policy, slot=slots[node.name], preset=True, sample=None)

    return with_policies(program, policy)


def with_given_accumulators(program: Program, rows: int) -> Program:
    """The same, where the accumulators of the last rows of every result come from another kernel. FP R39, R40, R44.

    ConfigurationError for an accelerator without `wide_memory`.
    """
    _check_wide_memory(program)

    def policy(node: ArrayNode) -> PolicySpec:
        inherit = node.policy.inherit
        return PolicySpec(Policy.STATIC, inherit=inherit, flow="two_pass" if inherit else "keep")

    return with_policies(program, policy, moved=rows)


def with_kept_accumulators(program: Program) -> Program:
    """The same network whose layers keep everything that they measure, by the host, for another kernel. FP R39, R40.

    ConfigurationError for an accelerator without `wide_memory`.
    """
    _check_wide_memory(program)
    rows = max(spec.height for spec in program.tensors.values())
    return with_policies(program, lambda node: replace(node.policy, flow="keep", sample=None), moved=rows)


def _check_wide_memory(program: Program) -> None:
    if not program.config.wide_memory:
        raise ConfigurationError(
            f"accelerator {program.accelerator}: wide_memory is false, so none of its accumulators can be stored or "
            "loaded; a pair that moves them needs wide_memory: true on both sides"
        )


def with_policies(program: Program, policy: Callable[[ArrayNode], PolicySpec], moved: int = 0) -> Program:
    """The same layers scheduled with other policies; moved: as for ``NodeOperations``.

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
    tensors = dict(program.tensors)
    begun: set[str] = set()
    for on_array, numbered in groupby(enumerate(nodes), lambda item: isinstance(item[1], ArrayNode)):
        stage = list(numbered)
        if not on_array:
            steps += [HostStep(index) for index, _ in stage]
            continue
        layers = [node for _, node in stage if isinstance(node, ArrayNode)]
        outside = {name for node in nodes if node not in layers for name in node.inputs}
        leaving = {node.output for node in layers} & (outside | set(program.leaving))
        steps += Scheduler(program.config, tensors, layers, plans, leaving, begun, moved).run()
        begun |= {node.output for node in layers}
    setup = setup_launch(array, plans, program.config)
    place_tables(setup, steps, program.config)
    return replace(program, tensors=tensors, nodes=list(nodes), setup=setup, steps=steps)
