"""Which group multiplies for which kernel: the longest first.

Kernels go to the groups in rounds, a kernel a group, so that their sums can leave in rounds as well: in a round one
group after the other. So a dealing is an order of the kernels: the one at place p is in round p // groups, and group
p % groups has it.
"""

from __future__ import annotations

import numpy as np

from bfpga.formats.arrays import Int64Array, IntArray


def deal(entries: IntArray, groups: int) -> Int64Array:
    """The order of kernels (kernels,) that gives every group about as many entries.

    entries: (kernels,). A round takes the longest kernels that are left; the longest of them goes to the group with the
    fewest entries so far. Then no group has more entries than another by more than the largest difference of two
    kernels of one round, the last round being filled up with kernels of none.
    """
    kernels = len(entries)
    rounds = -(-kernels // groups)
    longest = np.argsort(-np.asarray(entries, np.int64), kind="stable")
    missing = rounds * groups - kernels
    places = np.concatenate([longest, np.full(missing, kernels)]).reshape(rounds, groups)
    lengths = np.concatenate([entries, [0]]).astype(np.int64)[places]
    loads, dealt = np.zeros(groups, np.int64), np.empty((rounds, groups), np.int64)
    for number in range(rounds):
        fewest = np.argsort(loads, kind="stable")
        loads[fewest] += lengths[number]
        dealt[number, fewest] = places[number]
    # Sums leave from the first groups first, so those without a kernel of the last round are named last.
    order = dealt[:, np.argsort(dealt[-1] == kernels, kind="stable")].reshape(-1) if rounds else longest
    return order[:kernels]


def loads_of(entries: IntArray, order: IntArray, groups: int) -> Int64Array:
    """Entries of each group (..., groups) if kernels with ``entries`` (kernels, ...) are dealt in ``order``."""
    dealt = np.moveaxis(np.asarray(entries, np.int64)[order], 0, -1)
    padded = np.concatenate([dealt, np.zeros((*dealt.shape[:-1], -dealt.shape[-1] % groups), np.int64)], axis=-1)
    loads: Int64Array = padded.reshape(*padded.shape[:-1], -1, groups).sum(axis=-2)
    return loads
