"""Which layers are computed depth first: those whose chain saves most clocks against one layer after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bfpga.compiler.schedule.depth_first import LONGEST, Chain, Layout
from bfpga.compiler.schedule.overlap import forward
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep
from bfpga.engines.array.regions import Region
from bfpga.program.cycles import started_clocks
from bfpga.program.schedule import schedule


class Schedule(Protocol):
    """What has been scheduled, and copies of it that try how it goes on."""

    config: SystolicConfig
    steps: list[LaunchStep]
    operations: list[KernelOperation]
    placed: dict[str, Region]
    stored: set[str]

    def trial(self, flushed: bool = False) -> Schedule:
        """A copy with nothing to its name; flushed: in a new start."""

    def chains(self, nodes: Sequence[ArrayNode]) -> Iterator[Chain]:
        """Chains that begin with the first of ``nodes``."""

    def layouts(self, chain: Chain) -> Iterator[Layout]:
        """Layouts of a chain in what memory has left."""

    def layer(self, node: ArrayNode) -> None:
        """Compute a layer by itself."""

    def take(self, chain: Chain, layout: Layout, flushed: bool = False) -> None:
        """Compute a chain in a layout; flushed: in a new start."""


@dataclass(frozen=True)
class Choice:
    """A chain and how it lies in memory; flushed: it begins a new start."""

    chain: Chain
    layout: Layout
    flushed: bool
    saved: int


def best_chain(done: Schedule, nodes: Sequence[ArrayNode]) -> Choice | None:
    """The chain that saves most, of those that begin with the first of ``nodes``; None: none saves."""
    found = {len(chain.nodes): chain for chain in done.chains(nodes)}
    if not found:
        return None
    apart = dict(enumerate(_clocks_apart(done, nodes[: min(max(found), LONGEST)]), 1))
    choices = [
        Choice(chain, layout, flushed, apart[length] - _clocks(done, chain, layout, flushed))
        for length, chain in found.items()
        for flushed in ((False, True) if done.placed or done.stored else (False,))
        for layout in done.trial(flushed).layouts(chain)
    ]
    best = max(choices, key=lambda choice: choice.saved, default=None)
    return best if best is not None and best.saved > 0 else None


def _clocks_apart(done: Schedule, nodes: Sequence[ArrayNode]) -> Iterator[int]:
    """Clocks of the first layer, of the first two, and so on, one after the other."""
    trial, ended, clocks = done.trial(), 0, 0
    for node in nodes:
        trial.layer(node.unscheduled())
        clocks += sum(start_clocks(done.config, step.operations) for step in trial.steps[ended:])
        ended = len(trial.steps)
        yield clocks + start_clocks(done.config, trial.operations)


def _clocks(done: Schedule, chain: Chain, layout: Layout, flushed: bool) -> int:
    trial = done.trial()
    trial.take(chain, layout, flushed)
    starts = [*(step.operations for step in trial.steps), trial.operations]
    return sum(start_clocks(done.config, operations) for operations in starts)


def start_clocks(config: SystolicConfig, operations: list[KernelOperation]) -> int:
    """Clocks of one start, with all that overlaps."""
    if config.kernel == "loop":
        return sum(started_clocks(config, operation) for operation in operations)
    return schedule(config, forward(operations, config)).clocks if operations else 0
