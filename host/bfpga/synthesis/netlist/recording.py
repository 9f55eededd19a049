"""What a loop did while the program ran: the iterations that a netlist has to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.netlist.interpret import Outcome, iterate


@dataclass(frozen=True, slots=True)
class Iteration:
    """Data that came in, by operation (an access that was not enabled may be missing); what the iteration did."""

    reads: Mapping[int, int]
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """Iterations of a loop from one entry on. ``initial``: state at its entry; ``invariants``: by operation."""

    initial: tuple[int, ...]
    invariants: Mapping[int, int]
    iterations: Sequence[Iteration]


def interpreted_run(
    body: LoopBody, initial: Sequence[int], invariants: Mapping[int, int], reads: Iterable[Mapping[int, int]]
) -> Run:
    """What the graph itself says that a loop does with given inputs, one mapping of ``reads`` an iteration."""
    state = tuple(initial)
    iterations = []
    for given in reads:
        outcome = iterate(body, state, invariants, given)
        iterations.append(Iteration(given, outcome))
        state = outcome.state
    return Run(tuple(initial), invariants, iterations)
