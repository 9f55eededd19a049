"""The order of each group's entries in the stored words, so that no group waits for what another one blocks.

All groups are fed from one list of words, a word when every group has room for its entry: a group that does not go on
stops them all once its queue is full. A group that has finished a kernel goes on to the end of its next one, and waits
there until the sums of the first have left; sums leave in rounds, group after group, and a chunk ends when all groups
have ended it. So while the sums of one kernel are awaited, every other group takes its entries up to the last one of
the kernel after the one that leaves next; what it gets beyond that, until the awaited kernel is complete, must fit its
queue. That is checked for every kernel of a pass; where it does not hold, entries of the group that waits are in
later words. A pass begins after all words of the one before, and every list ends in it: passes are independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfpga.formats.arrays import BoolArray, Int64Array


@dataclass(frozen=True)
class Turns:
    """counts: (chunks, rounds, groups) entries of each group in each round. there: whether it has a kernel in it.

    A group without a kernel in a chunk has the entry that ends it in round 0.
    """

    counts: Int64Array
    there: BoolArray


@dataclass(frozen=True)
class _Waits:
    """What is awaited, in the order in which it leaves.

    group, end: (events,) whose kernel it is, and its last entry's place in the group's list. taken: (events, groups)
    entries that every group has taken at least before it waits.
    """

    group: Int64Array
    end: Int64Array
    taken: Int64Array


def places(turns: Turns, queue: int) -> list[Int64Array]:
    """The word of every entry of each group's list; queue: entries of a group that wait for it."""
    lengths = turns.counts.sum(axis=(0, 1))
    waits = _waits(turns, lengths)
    if not _blocks(waits, lengths, queue).any():
        return [np.arange(length) for length in lengths.tolist()]
    return _moved(waits, lengths, queue)


def _waits(turns: Turns, lengths: Int64Array) -> _Waits:
    chunks, rounds, groups = turns.counts.shape
    # Places of the marked entries, after which a group may have to wait: the last one of every round.
    marks = np.cumsum(turns.counts.reshape(-1, groups), axis=0).reshape(turns.counts.shape) - 1
    most = np.maximum(turns.there.sum(axis=1), 1)  # rounds of each group in a chunk, (chunks, groups)
    next_mark = np.empty_like(marks)  # the mark after each one
    next_mark[:, :-1] = marks[:, 1:]
    following = np.concatenate([marks[1:, 0], lengths[None]])
    chunk, group = np.indices(most.shape)
    next_mark[chunk, most - 1, group] = following
    # In a round the groups before the awaited one have sent that of this round; the others are about to.
    number = np.arange(rounds)[None, :, None]
    same = np.take_along_axis(next_mark, np.minimum(number, most[:, None] - 1), axis=1)
    next_ = np.take_along_axis(next_mark, np.minimum(number + 1, most[:, None] - 1), axis=1)
    before = np.tri(groups, k=-1, dtype=np.bool_)  # awaited group, other group: the other one is before it
    taken = np.where(before, next_[:, :, None], same[:, :, None])
    # Then the chunk: all groups end it.
    ended = next_mark[chunk, most - 1, group]
    last = marks[chunk, most - 1, group]
    taken = np.concatenate([taken, np.broadcast_to(ended[:, None, None], (chunks, 1, groups, groups))], axis=1)
    end = np.concatenate([marks, last[:, None]], axis=1)
    awaited = np.concatenate([turns.there, np.ones((chunks, 1, groups), np.bool_)], axis=1)
    whose = np.broadcast_to(np.arange(groups), awaited.shape)
    return _Waits(whose[awaited], end[awaited], taken[awaited])


def _blocks(waits: _Waits, lengths: Int64Array, queue: int) -> BoolArray:
    """Of every event whether a group would get more than its queue holds, if no entry were moved."""
    found: BoolArray = (np.minimum(waits.end[:, None] + 1, lengths) - waits.taken > queue).any(axis=1)
    return found


def _moved(waits: _Waits, lengths: Int64Array, queue: int) -> list[Int64Array]:
    """Places where the entry after a full queue follows what is awaited, event after event."""
    groups = len(lengths)
    shifts = np.zeros(groups, np.int64)
    steps: list[list[tuple[int, int]]] = [[(0, 0)] for _ in range(groups)]
    for group, end, taken in zip(waits.group.tolist(), waits.end.tolist(), waits.taken, strict=True):
        word = end + next(shift for first, shift in reversed(steps[group]) if first <= end)
        first = taken + queue  # of each group the entry that finds its queue full
        late = np.flatnonzero((first < lengths) & (first + shifts <= word))
        for other in late.tolist():
            shifts[other] = word + 1 - first[other]
            steps[other].append((int(first[other]), int(shifts[other])))
    result = []
    for length, parts in zip(lengths.tolist(), steps, strict=True):
        place = np.arange(length)
        for (first_, shift), (last_, _) in zip(parts, [*parts[1:], (length, 0)], strict=True):
            place[first_:last_] += shift
        result.append(place)
    return result
