"""Layers of a skip array that multiplies by activations: the order in which their results leave, and its readers.

Weights of a block of output channels stay for all passes of a run, so its sums leave for all of them before those of
the next block: run, block, group of pixels, row. Of an operation of one block that is group and row, as everywhere.
"""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode

#: Flows that keep accumulators, and the one that may become one of them.
_KEEPING = ("auto", "keep", "keep_sampled")


def order_is_seen(node: ArrayNode, config: KernelConfig) -> bool:
    """Whether an operation of a layer may have one block only: the order of its results is that of a systolic array.

    Kept accumulators are taken group by group, and statistics take values one after the other.
    """
    policy = node.policy
    keeps = policy.policy == Policy.MAX and config.keeps and policy.flow in _KEEPING
    return config.array.computes_runs and (keeps or policy.policy == Policy.STATISTICS)
