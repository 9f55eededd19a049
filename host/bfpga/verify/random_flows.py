"""Random rules and flows of layers whose exponent is that of their own results (docs/kernel-positions.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import LeadRule

Generator = np.random.Generator
#: A base of bins that no result of a random network comes near.
FAR = 1000


def random_rule(rng: Generator, config: KernelConfig) -> dict[str, Any]:
    """Fields of a policy that say how results become an exponent; bins that are rarely the compiler's.

    Now and then all results are above the last bin, or below the first one.
    """
    margin = int(rng.choice([0, 0, 0, 1, 3, 15]))
    if not config.position_bins or rng.random() < 0.3:
        return {"margin": margin}
    reach = 12 if rng.random() < 0.8 else FAR
    return {
        "rule": LeadRule(int(rng.integers(1, 5))),
        "rate": int(rng.choice([0, 1, 2, 4, 8, 12, 16])),
        "margin": margin,
        "base": int(rng.integers(-reach, reach)),
    }


def random_flow(rng: Generator, config: KernelConfig) -> dict[str, Any]:
    """Fields of a policy that say what is measured, and what is kept; mostly kept where memory takes accumulators."""
    keeping = 4 if config.wide_memory else int(config.keeps)
    flows = ["auto", "two_pass", "two_pass_sampled"] + ["keep", "keep_sampled"] * keeping
    return {
        "flow": str(rng.choice(flows)),
        "sample_period": int(rng.choice([1, 2, 3, 8])),
        "sample_offset": int(rng.integers(0, 12)),
    }
