"""Which layers are computed depth first: those whose chain saves most cycles against one layer after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bfpga.compiler.schedule.depth_first import Chain, Layout
from bfpga.compiler.schedule.held_weights import SharedMemory
from bfpga.compiler.schedule.overlap import start_clocks, usual_way
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep
from bfpga.engines.kernel.regions import Region
from bfpga.program.schedule import works


class Schedule(Protocol):
    """What has been scheduled, and copies of it that try how it goes on."""

    config: KernelConfig
    shared: SharedMemory | None
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
    """A chain and its place in memory; flushed: it begins a new start. starts: operations of each, the last one open.
    """

    chain: Chain
    layout: Layout
    flushed: bool
    starts: Sequence[list[KernelOperation]]

    @property
    def length(self) -> int:
        return len(self.chain.nodes)


def best_chain(done: Schedule, nodes: Sequence[ArrayNode]) -> Choice | None:
    """The chain that saves most, of those that begin with the first of ``nodes``; None: none saves.

    Those that promise most are looked at first, and none any more when they promise less than what was found.
    """
    choices = list(_choices(done, nodes))
    if not choices:
        return None
    apart = _clocks_apart(done, nodes, {choice.length for choice in choices})
    promised = [apart[choice.length] - _least_clocks(done, choice.starts) for choice in choices]
    best, most = None, 1
    for index in sorted(range(len(choices)), key=lambda index: -promised[index]):
        if promised[index] < most:
            break
        choice = choices[index]
        saved = apart[choice.length] - _clocks(done, choice.starts)
        # Of equal ones the first.
        if saved > most or (saved == most and (best is None or index < best)):
            best, most = index, saved
    return None if best is None else choices[best]


def _choices(done: Schedule, nodes: Sequence[ArrayNode]) -> Iterator[Choice]:
    """The chains that begin with the first of ``nodes``, in every layout."""
    for chain in done.chains(nodes):
        for flushed in (False, True) if done.placed or done.stored else (False,):
            for layout in done.trial(flushed).layouts(chain):
                trial = done.trial()
                trial.take(chain, layout, flushed)
                yield Choice(chain, layout, flushed, [*(step.operations for step in trial.steps), trial.operations])


def _clocks_apart(done: Schedule, nodes: Sequence[ArrayNode], lengths: Collection[int]) -> dict[int, int]:
    """Cycles of so many first layers, one after the other, by their number."""
    trial, ended, clocks, result = done.trial(), 0, 0, {}
    for count, node in enumerate(nodes[: max(lengths)], 1):
        trial.layer(node.unscheduled())
        clocks += _clocks(done, [step.operations for step in trial.steps[ended:]])
        ended = len(trial.steps)
        if count in lengths:
            result[count] = clocks + start_clocks(done.config, trial.operations, done.shared)
    return result


def _clocks(done: Schedule, starts: Sequence[list[KernelOperation]]) -> int:
    return sum(start_clocks(done.config, operations, done.shared) for operations in starts)


def _least_clocks(done: Schedule, starts: Sequence[list[KernelOperation]]) -> int:
    """Cycles that starts take at least: what overlaps is the work of different engines."""
    orders = starts
    if done.shared is not None:  # pieces that stay are brought once
        orders = [usual_way(operations, done.config, done.shared) for operations in starts]
    return sum(max(works(done.config, order).values(), default=0) for order in orders)
