"""Random kernels for tests of a part that only some of them have."""

from __future__ import annotations

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.verify.random_accelerator import random_config, random_row_config


def drawn_kernels() -> list[KernelConfig]:
    """Kernels as verification draws them, every other one with a process of rows."""
    return [draw(np.random.default_rng(seed)) for seed in range(60) for draw in (random_config, random_row_config)]
