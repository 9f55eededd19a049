"""Steps that make one layer, or one tensor, of a program finer (or cheaper): what a recipe can say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bfpga.compiler.numbers.parts import refusal, tied
from bfpga.compiler.numbers.remainders import holds_remainders
from bfpga.compiler.options import RESULT_PARTS, CompileOptions
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, HostNode, MatMulNode, Program

#: What steps change, in words; the second value of a step replaces {}.
TEXTS = {
    "formats": "{} weights",
    "weight_parts": "weights in {} parts",
    "result_parts": "results in {} parts",
    "policy": "exponents of each result ({})",
    "remainders": "remainders of the input",
}


@dataclass(frozen=True)
class Step:
    """One key of a recipe for one layer or tensor; without a layer for the whole network."""

    layer: str
    key: str
    value: Any

    @property
    def text(self) -> str:
        """The step in words."""
        return TEXTS[self.key].format(str(self.value).replace("_", "-"))


def applied(options: CompileOptions, steps: list[Step]) -> CompileOptions:
    """The options with steps on top; of two for the same key of a layer the last one counts."""
    layers = {name: dict(values) for name, values in options.layers.items()}
    whole: dict[str, Any] = {}
    for step in steps:
        (layers.setdefault(step.layer, {}) if step.layer else whole)[step.key] = step.value
    return replace(options, layers=layers, **whole)


def steps_of(program: Program, options: CompileOptions, coarser: bool = True) -> list[Step]:
    """All steps that a program's layers allow, in the order of the network. coarser: those to coarser formats too."""
    nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
    found = list(_input_steps(program, options))
    fixed, families, done = _fixed(program), tied(nodes), set[str]()
    made = {node.output for node in nodes}
    for node in nodes:
        for name in (*(name for name in node.inputs if name not in made), node.output):
            if name not in done:
                done |= families[name]
                found += _result_steps(name if name not in made else node.name, families[name], nodes, fixed, program)
        found += _weight_steps(node, program, coarser)
        measured = node.policy.policy == Policy.STATIC and not node.policy.inherit
        if measured and program.side_by_side == 1 and not _joined(node, nodes):
            # The exponent of a sum is that of the addition, which has no node of its own in a product that adds.
            found.append(Step(node.output if node.adds_second else node.name, "policy", "max"))
    return found


def _joined(node: ArrayNode, nodes: list[ArrayNode]) -> bool:
    return sum(other.output == node.output for other in nodes) > 1


def _input_steps(program: Program, options: CompileOptions) -> Iterator[Step]:
    narrow = program.config.weight_formats == ("linear",) and program.config.format.mantissa_bits <= 8
    whole = all(not spec.remainder for name, spec in program.tensors.items() if name in program.inputs)
    if options.remainders == "auto" and narrow and whole and holds_remainders(program.config):
        yield Step("", "remainders", "always")


def _result_steps(
    name: str, family: frozenset[str], nodes: list[ArrayNode], fixed: Mapping[str, str], program: Program
) -> Iterator[Step]:
    """Results in more parts than they are in; of a family its first layer represents all."""
    parts = max(program.tensors[member].parts for member in family)
    static = all(node.policy.policy == Policy.STATIC for node in nodes if node.output in family)
    if static and not refusal(family, nodes, fixed):
        yield from (Step(name, "result_parts", count) for count in RESULT_PARTS if count > parts)


def _weight_steps(node: ArrayNode, program: Program, coarser: bool) -> Iterator[Step]:
    if node.weights is None or node.uniform_weights or node.factors:
        return
    formats = program.config.weight_formats  # the most exact one first
    chosen = formats.index(node.weight_format)
    for weight_format in (*formats[:chosen], *(formats[chosen + 1 :] if coarser else ())):
        yield Step(node.name, "formats", weight_format)
    window = node.window
    folded = program.tensors[node.inputs[0]].folded is not None
    repeated = folded + (window.dilation_y, window.dilation_x).count(0)
    if not repeated and min(window.kernel_height, window.kernel_width) == 1:
        yield Step(node.name, "weight_parts", 2)


def _fixed(program: Program) -> dict[str, str]:
    """Tensors that cannot be in parts, each with the reason."""
    remaining = [name for name, spec in program.tensors.items() if spec.remainder]
    result = {name: f"{name} has channels for its remainders" for name in remaining}
    seen = set(program.leaving)
    for node in program.nodes:
        if isinstance(node, (HostNode, MatMulNode)):
            seen.update(node.inputs)
        elif node.factors:
            seen.add(node.factors)
        if isinstance(node, MatMulNode):
            seen.add(node.output)
    return result | {name: f"{name} leaves the array" for name in seen}
