"""Which layers are computed depth first: those whose chain saves most clocks against one layer after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bfpga.compiler.schedule.depth_first import LONGEST, Chain, Layout
from bfpga.compiler.schedule.overlap import forward
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, KernelOperation
from bfpga.program.cycles import started_clocks
from bfpga.program.schedule import schedule

if TYPE_CHECKING:
    from bfpga.compiler.schedule.schedule import Scheduler


@dataclass(frozen=True)
class Choice:
    """A chain and how it lies in memory; flushed: it begins a new start."""

    chain: Chain
    layout: Layout
    flushed: bool
    saved: int


def best_chain(scheduler: Scheduler, nodes: Sequence[ArrayNode]) -> Choice | None:
    """The chain that saves most, of those that begin with the first of ``nodes``; None: none saves."""
    found = {len(chain.nodes): chain for chain in scheduler.chains(nodes)}
    if not found:
        return None
    apart = dict(enumerate(_clocks_apart(scheduler, nodes[: min(max(found), LONGEST)]), 1))
    choices = [
        Choice(chain, layout, flushed, apart[length] - _clocks(scheduler, chain, layout, flushed))
        for length, chain in found.items()
        for flushed in (False, True)[: 2 if scheduler.placed or scheduler.stored else 1]
        for layout in scheduler.trial(flushed).layouts(chain)
    ]
    best = max(choices, key=lambda choice: choice.saved, default=None)
    return best if best is not None and best.saved > 0 else None


def _clocks_apart(scheduler: Scheduler, nodes: Sequence[ArrayNode]) -> Iterator[int]:
    """Clocks of the first layer, of the first two, and so on, one after the other."""
    trial, ended, clocks = scheduler.trial(), 0, 0
    for node in nodes:
        trial.layer(node.unscheduled())
        clocks += sum(start_clocks(scheduler.config, step.operations) for step in trial.steps[ended:])
        ended = len(trial.steps)
        yield clocks + start_clocks(scheduler.config, trial.operations)


def _clocks(scheduler: Scheduler, chain: Chain, layout: Layout, flushed: bool) -> int:
    trial = scheduler.trial()
    trial.take(chain, layout, flushed)
    return sum(start_clocks(scheduler.config, part) for part in (*(s.operations for s in trial.steps), trial.operations))


def start_clocks(config: SystolicConfig, operations: list[KernelOperation]) -> int:
    """Clocks of one start, with all that overlaps."""
    if config.kernel == "loop":
        return sum(started_clocks(config, operation) for operation in operations)
    return schedule(config, forward(operations, config)).clocks if operations else 0
