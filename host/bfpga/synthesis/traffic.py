"""What passed the streams of an IP while its kernel was simulated: what a replay of the IP reads and has to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: A word that passed a stream, or None where the stream was polled and had no word or no room.
Transfer = int | None


@dataclass(frozen=True)
class Traffic:
    """All calls of an IP's top function in their order. ``calls``: the arguments of each, by the name of the register.

    ``incoming`` and ``outgoing``: by stream, over all calls.
    """

    calls: Sequence[Mapping[str, int]]
    incoming: Mapping[str, Sequence[Transfer]]
    outgoing: Mapping[str, Sequence[Transfer]]
