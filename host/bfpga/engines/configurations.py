"""A kernel's numbers as files hold them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

from bfpga.contract.configuration import SystolicConfig
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat

#: The form of every kernel (docs/kernel.md).
FORM: Final = "processes"


@dataclass(frozen=True)
class FiledConfig(SystolicConfig):
    """A configuration in files: what kernels had before keeps its keys, for digests."""

    kernel: Literal["processes"] = FORM
    zero_skip: None = None
    sparse_cluster: None = None


def filed(config: SystolicConfig) -> FiledConfig:
    """The configuration as files hold it."""
    return FiledConfig(**{item.name: getattr(config, item.name) for item in fields(config)})


def configuration_of(values: SystolicConfig) -> SystolicConfig:
    """The inverse of ``filed``."""
    return SystolicConfig(**{item.name: getattr(values, item.name) for item in fields(SystolicConfig)})


def config_to_dict(config: SystolicConfig) -> dict[str, Any]:
    """Plain values of every number of a kernel, for files and digests."""
    return asdict(filed(config))


def config_from_dict(values: dict[str, Any]) -> SystolicConfig:
    """The inverse of ``config_to_dict``; KeyError, TypeError or ValueError for values that are no configuration."""
    values = dict(values)
    values["format"] = BlockFormat(**values["format"])
    values.update({name: tuple(values[name]) for name in ("functions", "ultra_ram")})
    if values.get("shift") is not None:
        values["shift"] = ShiftFormat.from_dict(values["shift"])
    found = FiledConfig(**values)
    if found.kernel != FORM or found.zero_skip is not None or found.sparse_cluster is not None:
        raise ValueError(f"every kernel is one of {FORM}, without engines beside its array")
    return configuration_of(found)
