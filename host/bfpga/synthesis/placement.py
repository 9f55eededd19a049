"""Accesses on ports, cycle by cycle: which access waits when more fall on a cycle than there are ports.

Every access has its earliest cycle; those of one group of ports take turns on the cycles of an interval. Accesses that
exclude each other, and reads of one word, share a turn if they are in the same cycle of an iteration. An access that
finds no turn is pushed to the next cycle that has one. What was pushed before chooses first, so that two accesses
cannot alternate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bfpga.synthesis.dependences import Dependences
from bfpga.synthesis.ports import PortGroup
from bfpga.synthesis.timing_graph import EarliestTimes

#: Rounds of pushes before an interval counts as too short.
_MOST_ROUNDS = 400


class NoRoomError(Exception):
    """The accesses of a group do not fit their ports at the interval."""


@dataclass(slots=True)
class Placement:
    """Pushes accesses until all have ports. ``shares_first``: an access rather waits for a turn to share.

    ``backwards``: of accesses that start together, the last of the program chooses first.
    """

    dependences: Dependences
    groups: list[PortGroup]
    shares_first: bool = False
    backwards: bool = False
    _pushed: dict[int, int] = field(default_factory=dict)

    def settle(self, times: EarliestTimes) -> None:
        """Push accesses in ``times`` until all have ports.

        Raises ``NoRoomError`` where they do not fit, ``ImpossibleError`` where a push closes a circle.
        """
        for _ in range(_MOST_ROUNDS):
            pushes: dict[int, int] = {}
            for group in self.groups:
                for access, clock in self._waiting(group, times).items():
                    pushes[access] = max(clock, pushes.get(access, 0))
            if not pushes:
                return
            for access in pushes:
                self._pushed[access] = self._pushed.get(access, 0) + 1
            times.push(pushes)
        raise NoRoomError

    def _waiting(self, group: PortGroup, times: EarliestTimes) -> dict[int, int]:
        """Accesses of a group that cannot start in their cycle, and the cycle in which they could."""
        waiting: dict[int, int] = {}
        slots: dict[int, list[list[int]]] = {}
        clocks: dict[int, int] = {}
        ties = -1 if self.backwards else 1
        order = sorted(group.accesses, key=lambda each: (-self._pushed.get(each, 0), times.starts[each], ties * each))
        for access in order:
            start = times.starts[access]
            clocks[access] = self._take(group, slots, clocks, access, start, times.interval)
            if clocks[access] != start:
                waiting[access] = clocks[access]
        return waiting

    def _take(
        self,
        group: PortGroup,
        slots: dict[int, list[list[int]]],
        clocks: dict[int, int],
        access: int,
        start: int,
        interval: int,
    ) -> int:
        """Take the first turn from cycle ``start`` on; the cycle that it is in."""
        choices = range(start, start + interval)
        for wants_shared in (True, False) if self.shares_first else (None,):
            for clock in choices:
                taken = slots.setdefault(clock % interval, [])
                turn = self._shared(taken, clocks, access, clock)
                if turn is not None and wants_shared is not False:
                    turn.append(access)
                    return clock
                if len(taken) < group.count and wants_shared is not True:
                    taken.append([access])
                    return clock
        raise NoRoomError

    def _shared(self, taken: list[list[int]], clocks: dict[int, int], access: int, clock: int) -> list[int] | None:
        """A turn in ``clock`` that ``access`` may share with all that have it, if there is one."""
        for turn in taken:
            if all(clocks[other] == clock and self.dependences.may_share(access, other) for other in turn):
                return turn
        return None
