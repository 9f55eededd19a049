"""Seconds of a sample in a stream of them: the host computes what comes before and after a start beside the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bfpga.contract.program import HostNode, HostStep, Program
from bfpga.program.cycles import ProgramCycles
from bfpga.program.groups import group_samples, samples_a_call
from bfpga.program.host import host_nodes
from bfpga.program.turns import turns_of


@dataclass(frozen=True)
class TurnTime:
    """Seconds of a turn of one sample: of its start, and of the host. beside: whether they overlap."""

    array: float
    host: float
    beside: bool

    @property
    def seconds(self) -> float:
        """Of both: in a stream the slower one keeps the other waiting."""
        return max(self.array, self.host) if self.beside else self.array + self.host


@dataclass(frozen=True)
class StreamTime:
    """Seconds of a sample in a long stream, turn by turn (``devices/streaming_device.py`` runs it so)."""

    turns: tuple[TurnTime, ...]

    @property
    def seconds(self) -> float:
        return sum(turn.seconds for turn in self.turns)

    @property
    def array(self) -> float:
        """Of the kernel alone."""
        return sum(turn.array for turn in self.turns)

    @property
    def host(self) -> float:
        """Of the host alone."""
        return sum(turn.host for turn in self.turns)

    def with_array(self, seconds: float) -> StreamTime:
        """The same if the kernel took ``seconds``, each start its part of them."""
        factor = seconds / self.array if self.array else 1.0
        return StreamTime(tuple(replace(turn, array=factor * turn.array) for turn in self.turns))


def stream_time(
    program: Program, cycles: ProgramCycles, bytes_per_clock: float, host: Callable[[HostNode, int], float]
) -> StreamTime:
    """The time of each turn. cycles: of the program, or of what it might be. host: seconds of a
    node for one sample, where so many share a call of its operators."""
    group = group_samples(program, cycles)

    def spent(steps: list[HostStep]) -> float:
        nodes = [node for step in steps if isinstance(node := program.nodes[step.node], HostNode)]
        return sum((host(node, samples_a_call(program, node, group)) for node in nodes), 0.0)

    turns = turns_of(program)
    if not turns:
        return StreamTime((TurnTime(0.0, sum((host(node, 1) for node in host_nodes(program)), 0.0), False),))
    starts = {start.step: start for start in cycles.starts}
    times = []
    for turn in turns:
        start = starts.get(turn.index)
        array = cycles.start_seconds(start, bytes_per_clock) if start is not None else 0.0
        times.append(TurnTime(array, spent(turn.before) + spent(turn.after), start is not None and start.shared))
    return StreamTime(tuple(times))
