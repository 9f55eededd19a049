"""Layers whose exponent an operation before them finds: its flow, what it measures, its cycles and the alternatives.

A table for people and the same for machines. FP R33, R35, R36, R49.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bfpga.contract.descriptor import Flag, LeadRule, Operation, Policy
from bfpga.contract.flows import Sample
from bfpga.contract.program import ArrayNode, LaunchStep, PolicySpec, Program
from bfpga.program.cycles import program_cycles

#: What the columns of ``flow_rows`` hold.
FLOWS_TITLE = (
    "Exponents from the data of the same pass: cycles of one sample, those compared without whole tensors' transfers"
)
FLOW_HEADINGS = ("layer", "flow", "rule", "measured", "cycles", "flows that were compared")
#: Of these what falls away on a narrow terminal, in this order.
FLOW_DROPPED = ("flows that were compared", "rule", "measured")


def rule_text(policy: PolicySpec) -> str:
    """A rule in words: `rate 1/4096`, `max + 1`; the lead of the largest result is `largest`."""
    names = {LeadRule.LEAD: "largest", LeadRule.RATE: f"rate 1/{1 << policy.rate}"}
    name = names.get(policy.rule, policy.rule.name.lower())
    return name + (f" + {policy.margin}" if policy.margin else "")


def flow_rows(program: Program) -> list[tuple[str, ...]]:
    """Layers with a preceding operation: flow, rule, share of outputs that it measures, cycles, alternatives."""
    cycles, kept = program_cycles(program).layers, kept_places(program)
    return [
        (
            node.name, _flow(node, kept), rule_text(node.policy), _measured(node, node.policy.sample),
            f"{cycles[node.name].total:,}", _compared(node),
        )
        for node in measured_nodes(program)
    ]  # fmt: skip


def kept_places(program: Program) -> dict[str, str]:
    """Where layers keep accumulators (FP R24): `buffer`, `memory` (activation memory) or `host`."""
    places: dict[str, str] = {}
    for step in program.steps:
        operations = step.operations if isinstance(step, LaunchStep) else []
        for operation, following in zip(operations, [*operations, None][1:], strict=True):
            if operation.descriptor.flags & Flag.KEEP:
                moved = following is not None and following.descriptor.operation == Operation.STORE
                wide = operation.descriptor.flags & Flag.WIDE
                places[operation.layer] = "buffer" if not wide else "host" if moved else "memory"
    return places


def measured_nodes(program: Program) -> Iterator[ArrayNode]:
    """Layers with a preceding operation (FP R35: not every layer has one)."""
    for node in program.nodes:
        if isinstance(node, ArrayNode) and node.policy.policy == Policy.MAX and not node.policy.inherit:
            yield node


def has_choices(program: Program) -> bool:
    """Whether some layer was measured otherwise than by the largest of all results."""
    return any(node.policy.flow != "two_pass" or node.policy.rule != LeadRule.LEAD for node in measured_nodes(program))


def measured_share(node: ArrayNode, sample: Sample | None) -> float:
    """Share of a layer's outputs that the preceding operation looks at."""
    if sample is None:
        return 1.0
    height = node.window.output_height
    channels = sum(m1 - m0 for m0, m1 in sample.blocks)
    return len(sample.rows(height)) * channels / (height * node.channels)


def flow_choices(program: Program) -> list[dict[str, Any]]:
    """The same for machines; ``compared``: cycles by flow, empty where there was no choice.

    kept: where accumulators are kept, as ``kept_places`` says; empty where none are.
    """
    cycles, kept = program_cycles(program).layers, kept_places(program)
    return [
        {
            "layer": node.name,
            "flow": node.policy.flow,
            "kept": kept.get(node.name, ""),
            "rule": node.policy.rule.name.lower(),
            "rate": node.policy.rate,
            "margin": node.policy.margin,
            "measured": measured_share(node, node.policy.sample),
            "cycles": cycles[node.name].total,
            "compared": dict(node.flow_clocks),
        }
        for node in measured_nodes(program)
    ]


def _measured(node: ArrayNode, sample: Sample | None) -> str:
    share = measured_share(node, sample)
    if sample is None or share == 1:
        return "all"
    what = f"rows, 1 of {sample.step}" if sample.step > 1 else "blocks of channels"
    return f"{100 * share:.1f} % ({what})"


def _flow(node: ArrayNode, kept: dict[str, str]) -> str:
    """The flow, and where it keeps what the buffer does not hold."""
    place = {"memory": ", in activation memory", "host": ", in the host's memory"}
    return node.policy.flow + place.get(kept.get(node.name, ""), "")


def _compared(node: ArrayNode) -> str:
    return ", ".join(f"{flow} {clocks:,}" for flow, clocks in node.flow_clocks.items())
