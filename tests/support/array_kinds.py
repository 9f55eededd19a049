"""Ready accelerators for tests that are dear: one of each kind of array, with --all every one."""

from __future__ import annotations

from typing import Any

import pytest

from bfpga.accelerator.loader import accelerator_names

#: The others have the same processes with other numbers.
KINDS = ("tiny", "pynq_z2_mixed", "pynq_z2_zero_skip", "zcu104_hetero", "zcu104_zero_skip_tile", "zcu104_cluster")


def each_kind() -> list[Any]:
    """Their names, for `pytest.mark.parametrize`."""
    return [name if name in KINDS else pytest.param(name, marks=pytest.mark.slow) for name in accelerator_names()]
