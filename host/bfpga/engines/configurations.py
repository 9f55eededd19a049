"""A kernel's numbers as files hold them: each engine beside the array under its name, null where there is none.

Key ``kernel`` is of a time when there were kernels of another form; it stays as long as digests shall.
"""

from __future__ import annotations

from dataclasses import asdict, field, fields, make_dataclass
from typing import Any, Literal, get_type_hints

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.registry import BESIDE
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat

#: The form of every kernel (docs/kernel.md).
FORM = "processes"


def _filed_class() -> type:
    """The fields of ``SystolicConfig`` with one for each engine in the place of ``beside``."""
    hints = get_type_hints(SystolicConfig)
    members: list[Any] = [("kernel", Literal["processes"], field(default=FORM))]
    for item in fields(SystolicConfig):
        if item.name == "beside":
            members += [(engine.name, engine.numbers | None, field(default=None)) for engine in BESIDE]
        else:
            default = {"default": item.default} if item.name != "format" else {"default_factory": BlockFormat}
            members.append((item.name, hints[item.name], field(**default)))
    return make_dataclass(SystolicConfig.__name__, members, frozen=True)


#: The form of a configuration in files.
FILED = _filed_class()


def filed(config: SystolicConfig) -> Any:
    """An instance of ``FILED``."""
    plain = {item.name: getattr(config, item.name) for item in fields(config) if item.name != "beside"}
    return FILED(**plain, **{numbers.engine: numbers for numbers in config.beside})


def configuration_of(values: Any) -> SystolicConfig:
    """The configuration of an instance of ``FILED``."""
    names = [engine.name for engine in BESIDE]
    plain = {item.name: getattr(values, item.name) for item in fields(SystolicConfig) if item.name != "beside"}
    beside = (getattr(values, name) for name in names)
    return SystolicConfig(**plain, beside=tuple(numbers for numbers in beside if numbers is not None))


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
    for engine in BESIDE:
        if values.get(engine.name) is not None:
            values[engine.name] = engine.numbers(**values[engine.name])
    found = FILED(**values)
    if found.kernel != FORM:
        raise ValueError(f"a kernel is one of {FORM}, not {found.kernel}")
    return configuration_of(found)
