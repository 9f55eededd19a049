"""Random rules and flows of layers whose exponent is that of their own results (docs/kernel-positions.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from bfpga.engines.configuration import SystolicConfig
from bfpga.engines.descriptor import LeadRule

Generator = np.random.Generator


def random_rule(rng: Generator, config: SystolicConfig) -> dict[str, Any]:
    """Fields of a policy that say how results become an exponent; bins that are rarely the compiler's."""
    if not config.position_bins or rng.random() < 0.3:
        return {}
    return {
        "rule": LeadRule(int(rng.integers(1, 5))),
        "rate": int(rng.choice([0, 1, 2, 4, 8, 12])),
        "margin": int(rng.choice([0, 0, 1, 3])),
        "base": int(rng.integers(-12, 12)),
    }


def random_flow(rng: Generator, config: SystolicConfig) -> dict[str, Any]:
    """Fields of a policy that say what is measured, and what is kept."""
    flows = ["two_pass", "two_pass_sampled"] + ["keep", "keep_sampled"] * bool(config.wide_words)
    return {
        "flow": str(rng.choice(flows)),
        "sample_period": int(rng.choice([1, 2, 3, 8])),
        "sample_offset": int(rng.integers(0, 12)),
    }
