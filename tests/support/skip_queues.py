"""What the groups of a skip array do with their queues, without clocks: whether they ever stop.

Words go to all queues while each has room; a group takes its entries, but not a marked one while the sums of its kernel
before wait, or while its chunk has ended and not that of others; sums leave in rounds (skip_array/forwarder.hpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bfpga.engines.skip_array.shape import SkipShape


@dataclass(frozen=True)
class Lists:
    """Of each group its entries: the word that each comes in, and its marks."""

    words: list[list[int]]
    last: list[list[bool]]
    ends: list[list[bool]]


def lists_of(words: Sequence[Any], shape: SkipShape) -> Lists:
    """words: (words, groups) of entries."""
    columns = np.asarray(words, np.int64).T
    where = [np.flatnonzero(column) for column in columns]
    marks = [column[place] >> shape.last_bit for column, place in zip(columns, where, strict=True)]
    return Lists([place.tolist() for place in where], [(m & 1 == 1).tolist() for m in marks],
                 [(m >> 1 & 1 == 1).tolist() for m in marks])  # fmt: skip


def stuck_at(lists: Lists, queue: int, buffers: int = 2) -> int | None:
    """The word that never reaches the queues; None if all groups come to the end of their lists."""
    groups = range(len(lists.words))
    count = max(words[-1] for words in lists.words) + 1
    taken, chunks = [0 for _ in groups], [0 for _ in groups]
    sent = [0 for _ in groups]  # entries in a queue or behind it
    there, over = [False for _ in groups], [False for _ in groups]
    word = turn = 0
    moved = True
    while moved:
        moved = False
        while word < count and all(sent[g] - taken[g] < queue or not _in(lists, g, sent[g], word) for g in groups):
            for g in groups:
                sent[g] += _in(lists, g, sent[g], word)
            word, moved = word + 1, True
        for g in groups:
            while taken[g] < sent[g] and chunks[g] < min(chunks) + buffers:
                last, ends = lists.last[g][taken[g]], lists.ends[g][taken[g]]
                if (last or ends) and (there[g] or over[g]):
                    break
                there[g], over[g] = there[g] or last, over[g] or ends
                chunks[g] += ends
                taken[g], moved = taken[g] + 1, True
        while there[turn]:
            there[turn], turn, moved = False, (turn + 1) % len(groups), True
        if over[turn]:
            turn, moved = 0, moved or turn > 0
            if all(over) and not any(there):
                over, moved = [False for _ in groups], True
    return None if word == count and all(taken[g] == len(lists.words[g]) for g in groups) else word


def _in(lists: Lists, group: int, entry: int, word: int) -> bool:
    """Whether a group's next entry comes in a word."""
    return entry < len(lists.words[group]) and lists.words[group][entry] == word
