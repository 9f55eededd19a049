"""Random kernels for tests of a part that only some of them have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.verify.check import verify
from bfpga.verify.random_accelerator import random_config, random_row_config


def drawn_kernels() -> list[KernelConfig]:
    """Kernels as verification draws them, every other one with a process of rows."""
    return [draw(np.random.default_rng(seed)) for seed in range(60) for draw in (random_config, random_row_config)]


def check_any_kernel(seed: int, has: Callable[[KernelConfig], bool]) -> None:
    """Three random networks on the first kernel with a part that a seed draws: C simulation equals emulator."""
    rng = np.random.default_rng(seed)
    config = next(item for item in iter(lambda: random_config(rng), None) if has(item))
    report = verify([config], ["csim"], 3, seed)
    assert report.mismatch is None, report.mismatch
