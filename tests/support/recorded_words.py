"""What passed the streams of an IP in a recorded C simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bfpga.synthesis.traffic import Transfer


def words(streams: Mapping[str, Sequence[Transfer]]) -> dict[str, list[int]]:
    """The words that passed streams, without the questions that found none."""
    return {name: [word for word in passed if word is not None] for name, passed in streams.items()}
