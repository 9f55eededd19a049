"""Which group multiplies for which kernel, chunk by chunk: the longest first.

Kernels go to the groups in rounds, a kernel a group, so that their sums can leave in rounds as well: in a round one
group after the other. Only the first groups have a kernel of the last round.
"""

from __future__ import annotations

from math import lcm

import numpy as np

from bfpga.formats.arrays import Int64Array, IntArray


def even_runs(channels: int, groups: int, lanes: int, rows: int) -> list[tuple[int, int]]:
    """Output channels cut into as few runs of up to ``rows`` as can be, as equal as whole rounds of the groups are.

    Runs start at whole words of ``lanes`` channels.
    """
    unit = lcm(groups, lanes)
    unit = unit if unit <= rows else lanes
    most = rows // unit * unit
    size = -(-channels // -(-channels // most))
    size = -(-size // unit) * unit
    return [(m, min(m + size, channels)) for m in range(0, channels, size)]


def assign(entries: IntArray, groups: int, loads: Int64Array | None = None) -> Int64Array:
    """The kernels of a chunk by round and group, (rounds, groups); -1 where a group has none.

    entries: (kernels,). A round takes the longest kernels that are left; the longest of them goes to the group with the
    fewest entries so far, the last round's first: groups that have no kernel of it get longer ones of the others.
    loads: (groups,) those of the chunks before, to which these are added. So no group has more entries than another by
    more than the longest kernel of the last round, or the largest difference of two kernels of another one.
    """
    kernels = len(entries)
    rounds = max(1, -(-kernels // groups))
    loads = np.zeros(groups, np.int64) if loads is None else loads
    longest = np.argsort(-np.asarray(entries, np.int64), kind="stable")
    lengths = np.asarray(entries, np.int64)[longest]
    assigned = np.full((rounds, groups), -1, np.int64)
    for number in (rounds - 1, *range(rounds - 1)):
        mine = slice(number * groups, min((number + 1) * groups, kernels))
        count = mine.stop - mine.start
        fewest = np.argsort(loads[:count], kind="stable")
        loads[fewest] += lengths[mine]
        assigned[number, fewest] = longest[mine]
    return assigned


def assign_lanes(entries: IntArray, lane: IntArray, loads: Int64Array) -> Int64Array:
    """The kernels of a chunk of which each reads one lane, by round and group: group g has those of lane g % lanes.

    lane: (kernels,), each as often. loads: (lanes, groups of a lane), as for ``assign``.
    """
    kernels = [np.flatnonzero(lane == number) for number in range(len(loads))]
    parts = [assign(np.asarray(entries)[own], loads.shape[1], mine) for own, mine in zip(kernels, loads, strict=True)]
    found = [np.where(part >= 0, own[part], -1) for own, part in zip(kernels, parts, strict=True)]
    result: Int64Array = np.stack(found, axis=2).reshape(len(found[0]), -1)
    return result
