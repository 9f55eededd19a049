"""A kernel's numbers as files hold them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bfpga.contract.configuration import SystolicConfig
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat


def config_to_dict(config: SystolicConfig) -> dict[str, Any]:
    """Plain values of every number of a kernel, for files and digests."""
    return asdict(config)


def config_from_dict(values: dict[str, Any]) -> SystolicConfig:
    """The inverse of ``config_to_dict``; KeyError, TypeError or ValueError for values that are no configuration."""
    values = dict(values)
    values["format"] = BlockFormat(**values["format"])
    values.update({name: tuple(values[name]) for name in ("functions", "ultra_ram")})
    if values.get("shift") is not None:
        values["shift"] = ShiftFormat.from_dict(values["shift"])
    return SystolicConfig(**values)
