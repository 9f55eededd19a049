"""Random numbers that every engine beside the array has: builds so small that layers take several groups of kernels."""

from __future__ import annotations

import numpy as np

from bfpga.contract.configuration import SystolicConfig

#: Pixels that reach an engine in a clock.
LOAD_PIXELS = (1, 2, 4, 8, 16)


def random_kernels(rng: np.random.Generator, config: SystolicConfig, most: int) -> int:
    """Kernels in flight: so few that layers take several groups, rarely as many as possible."""
    words = most // config.lanes if rng.random() < 0.1 else int(rng.integers(1, 8))
    return config.lanes * words
