"""A kernel's numbers as files hold them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from bfpga.contract.arrays.base import Array
from bfpga.contract.arrays.skip_array import SkipArray, SparseArray, TwoArrays
from bfpga.contract.arrays.sparse_cluster import SparseCluster
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.arrays.zero_skip_tile import ZeroSkipTile
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.kernel.constraints import findings
from bfpga.errors import ConfigurationError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.checked_fields import shown
from bfpga.formats.shift_format import ShiftFormat

#: Every kind of array: a new one is its rooms and its line here.
ARRAYS: tuple[type[Array], ...] = (SystolicArray, SkipArray, SparseArray, TwoArrays, SparseCluster, ZeroSkipTile)
_KINDS = {array.kind: array for array in ARRAYS}


def config_to_dict(config: KernelConfig) -> dict[str, Any]:
    """Plain values of every number of a kernel, for files; those of the array with its kind."""
    values = asdict(config)
    lists = {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
    return values | lists | {"array": {"kind": config.array.kind, **values["array"]}}


def config_from_dict(values: object) -> KernelConfig:
    """The inverse of ``config_to_dict``.

    ConfigurationError that names the key for anything that is no configuration of a kernel that can be built.
    """
    config = KernelConfig(**dict(_arguments(_section(KernelConfig, values, "kernel configuration"))))
    check_config(config)
    return config


def check_config(config: KernelConfig) -> None:
    """ConfigurationError for the first number of a kernel that does not go with the others."""
    needs_shift = config.multiplier == "shift" or config.shift_columns > 0
    if needs_shift != (config.shift is not None):
        text = "is missing; shift units have words" if needs_shift else "is given; the array has no shift units"
        raise ConfigurationError(f"kernel configuration: shift {text}")
    if config.shift_columns >= config.columns:
        text = f"is {config.shift_columns}; must be less than columns = {config.columns}, which counts all"
        raise ConfigurationError(f"kernel configuration: shift_columns {text}")
    for finding in findings(config):
        raise ConfigurationError(f"kernel configuration: {finding.key} {finding.text}")


def _arguments(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments of a configuration: sections as their dataclasses, lists as tuples."""
    for name, value in values.items():
        if name == "format":
            yield name, BlockFormat(**_section(BlockFormat, value, "number format"))
        elif name == "shift" and value is not None:
            yield name, ShiftFormat(**_section(ShiftFormat, value, "shift format"))
        elif name == "array":
            yield name, _array(value)
        else:
            yield name, tuple(value) if isinstance(value, list) else value


def _array(values: object) -> Array:
    """The array of a section with its kind and its numbers."""
    given = dict(values) if isinstance(values, dict) else {}
    kind = given.pop("kind", None)
    if kind not in _KINDS:
        raise ConfigurationError(f"array: kind is {shown(kind)}; must be one of {', '.join(_KINDS)}")
    return _KINDS[kind](**_section(_KINDS[kind], given, f"array of kind {kind}"))


def _section(kind: type, values: object, what: str) -> dict[str, Any]:
    """The keys of a section, which are all fields of its dataclass."""
    if not isinstance(values, dict):
        raise ConfigurationError(f"{what} is {shown(values)}; must be a section with the keys of {kind.__name__}")
    known = [item.name for item in fields(kind)]
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise ConfigurationError(f"{what}: {shown(key)} is unknown{hint}")
    for key in known:
        if key not in values:
            raise ConfigurationError(f"{what}: {key} is missing")
    return values
