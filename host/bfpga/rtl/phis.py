"""Phis that share a register: where one gets the word of another that nobody asks for later, nothing has to move.

A value that goes round a loop of the function has a phi at each place where ways meet: at the loop's first body, at the
body behind a condition, in a pipelined loop that changes it. All of them are one variable of the C++.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product

from bfpga.synthesis.frontend.segments import RETURN, Bodies, Edge

#: The phi whose register an exported value is, "" for any other value.
Resolve = Callable[[str], str]


class SharedPhis:
    """Groups of phis with one register. ``homes``: phi -> the body that it belongs to; ``changed``: phis that their
    body changes; ``reads``: phis whose registers each body reads while it runs."""

    def __init__(
        self, bodies: Bodies, homes: Mapping[str, int], changed: Collection[str],
        reads: Mapping[int, Collection[str]], resolve: Resolve,
    ) -> None:  # fmt: skip
        self._bodies, self._homes, self._changed, self._resolve = bodies, homes, changed, resolve
        self._reads = {number: set(reads.get(number, ())) for number in range(len(bodies.bodies))}
        for phi, home in homes.items():
            self._reads[home].add(phi)
        self._live = self._live_words()
        self._conflicts = {frozenset(pair) for pair in self._conflicting()}

    def groups(self, widths: Mapping[str, int]) -> dict[str, list[str]]:
        """Each phi -> all that have its register, itself among them."""
        groups = {phi: [phi] for phi in self._homes}
        for edge in self._bodies.edges:
            for phi, word in edge.words.items():
                source = self._resolve(word)
                if source not in groups or phi not in groups or groups[phi] is groups[source]:
                    continue
                pairs = map(frozenset, product(groups[phi], groups[source]))
                if widths[phi] == widths[source] and not any(pair in self._conflicts for pair in pairs):
                    joined = [*groups[source], *groups[phi]]
                    groups.update(dict.fromkeys(joined, joined))
        return groups

    def _defined(self, edge: Edge) -> list[str]:
        """Phis that get a word where control goes along an edge."""
        return [phi for phi, home in self._homes.items() if home == edge.target]

    def _live_after(self, edge: Edge) -> set[str]:
        """Phis whose words are needed after an edge was taken."""
        return set() if edge.target == RETURN else self._live[edge.target]

    def _needed(self, edge: Edge) -> set[str]:
        """Phis whose words are needed where an edge is taken."""
        words = {self._resolve(word) for word in (edge.condition, *edge.words.values())} & self._homes.keys()
        return self._live_after(edge) - set(self._defined(edge)) | words

    def _live_words(self) -> list[set[str]]:
        """Phis whose words are needed when each body begins."""
        self._live = [set(self._reads[number]) for number in range(len(self._bodies.bodies))]
        changed = True
        while changed:
            changed = False
            for number, live in enumerate(self._live):
                found = live.union(*map(self._needed, self._bodies.leaving(number)))
                if found != live:
                    self._live[number], changed = found, True
        return self._live

    def _conflicting(self) -> Iterator[tuple[str, str]]:
        """Phis of which one gets another word while that of the other is needed."""
        for edge in self._bodies.edges:
            defined = self._defined(edge)
            for phi in defined:
                source = self._resolve(edge.words.get(phi, ""))
                for other in {*self._live_after(edge), *defined} - {phi}:
                    if other in defined or other != source:
                        yield phi, other
        for phi in self._changed:
            home = self._homes[phi]
            needed = set(self._reads[home]).union(*map(self._needed, self._bodies.leaving(home)))
            yield from ((phi, other) for other in needed - {phi})
