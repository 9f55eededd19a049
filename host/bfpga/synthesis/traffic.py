"""What passed the streams of an IP while its kernel was simulated: what a replay of the IP reads and has to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: A word that was read, or None where the stream was asked and had none.
Incoming = int | None


@dataclass(frozen=True)
class Traffic:
    """All calls of an IP's top function in their order. ``calls``: the arguments of each, by the name of the register.

    ``incoming`` and ``outgoing``: by stream, over all calls.
    """

    calls: Sequence[Mapping[str, int]]
    incoming: Mapping[str, Sequence[Incoming]]
    outgoing: Mapping[str, Sequence[int]]
