"""Which layers of a program tell the next core their exponents, or await those of the core before (FP R42)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bfpga.contract.descriptor import COMPUTING, STREAMS_EXPONENT, Descriptor, Flag, Policy
from bfpga.contract.program import ArrayNode, Node, PolicySpec, Program


def finds_exponent(policy: PolicySpec) -> bool:
    """Whether a layer finds its exponent by measuring its own results."""
    return policy.policy == Policy.MAX and not policy.inherit


def tells(policy: PolicySpec) -> bool:
    """Whether a layer tells the exponent that it has found."""
    return finds_exponent(policy) and policy.preset


def awaits(policy: PolicySpec) -> bool:
    """Whether a layer takes its exponent from the core before."""
    return policy.policy == Policy.STATIC and policy.preset and not policy.inherit


def streamed(program: Program) -> list[ArrayNode]:
    """The layers of a program whose exponents are told or awaited, in their order."""
    nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
    return [node for node in nodes if tells(node.policy) or awaits(node.policy)]


def problems(program: Program) -> Iterator[str]:
    """What a kernel cannot do with the exponents that its program tells or awaits."""
    slots: dict[int, str] = {}
    for node in streamed(program):
        if not program.config.position_stream:
            verb = "tells" if tells(node.policy) else "awaits"
            yield (
                f"layer {node.name} {verb} an exponent, and its kernel has no stream of exponents (`positions: stream` "
                "of the accelerator)"
            )
            return
        if node.policy.slot in slots:
            yield f"layers {slots[node.policy.slot]} and {node.name} have an exponent from the core before in one slot"
        slots[node.policy.slot] = node.name


def awaiting_operations(descriptors: Sequence[Descriptor]) -> list[int]:
    """The operations of a start, whose policies are cleared, that take a word of the core before, in their order."""
    slots: set[int] = set()
    found = []
    for index, item in enumerate(descriptors):
        if _exchanges(item) and item.policy == Policy.STATIC and item.policy_slot not in slots:
            slots.add(item.policy_slot)
            found.append(index)
    return found


def telling_operations(descriptors: Sequence[Descriptor]) -> list[int]:
    """The operations of such a start that tell the next core a word, in their order."""
    found = [index for index, item in enumerate(descriptors) if _exchanges(item) and item.policy == Policy.MAX]
    handed_on = [index for index in awaiting_operations(descriptors) if descriptors[index].output_exponent]
    return sorted(found + handed_on)


def _exchanges(item: Descriptor) -> bool:
    """Whether an operation begins a main pass whose exponent is told or awaited."""
    begins = bool(item.flags & Flag.FIRST) and not item.flags & (Flag.MEASURE | Flag.COPY_EXPONENT)
    return begins and item.operation in COMPUTING and bool(item.flags & STREAMS_EXPONENT)


def with_exponents(program: Program, exponents: Mapping[int, int]) -> Program:
    """The same program whose awaited exponents are known, by policy slot: what a core computes that was told them."""

    def known(node: Node) -> Node:
        if not isinstance(node, ArrayNode) or not awaits(node.policy):
            return node
        return replace(node, policy=replace(node.policy, preset=False, exponent=exponents[node.policy.slot]))

    return replace(program, nodes=[known(node) for node in program.nodes])
