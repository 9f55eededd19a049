"""Turns of a program: a start of the array for every sample, with the host's work that goes beside it.

Samples go through a program turn by turn, so that they share starts and the host works while the kernel does.
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.contract.program import HostStep, LaunchStep, MatMulStep, Program, own_weights


@dataclass(frozen=True)
class Turn:
    """A step of the array for all samples, with the host's steps before it, as far as no other goes before, and after.

    index: of the step. shared: whether samples may share a start, and the host works beside it; not where each sample,
    or each of its matrices, brings weights of its own.
    """

    index: int
    step: LaunchStep | MatMulStep
    before: list[HostStep]
    after: list[HostStep]
    shared: bool


def turns_of(program: Program) -> list[Turn]:
    """The steps of a program; none if the array has no part in it."""
    turns: list[Turn] = []
    before: list[HostStep] = []
    own = {node.name for node in program.nodes if own_weights(node)}
    for index, step in enumerate(program.steps):
        if isinstance(step, HostStep):
            (turns[-1].after if turns else before).append(step)
            continue
        brings = isinstance(step, MatMulStep) or any(operation.layer in own for operation in step.operations)
        turns.append(Turn(index, step, before, [], not brings))
        before = []
    return turns


def starts_stand_alone(program: Program, choices: bool) -> bool:
    """Whether nothing stays in the kernel from one start of a sample to its next one, so that others may come between.

    Layers whose operations are in two starts leave what they keep in the activation memory. choices: whether layers ask
    registers that others count in.
    """
    launches = [step for step in program.steps if isinstance(step, LaunchStep)]
    layers = [{operation.layer for operation in launch.operations} for launch in launches]
    alone = len(launches) < 2 or not choices
    return alone and sum(map(len, layers)) == len(set[str]().union(*layers))
