"""What an IP of a block design shows to the outside: pins, interfaces, address spaces, parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pin:
    """``role``: clock, reset, interrupt, monitor (it only watches an interrupt) or other.

    ``required``: an input that must have a driver.
    """

    output: bool
    role: str
    active_low: bool = False
    required: bool = True


@dataclass(frozen=True)
class Interface:
    """``clock``: the pin that clocks it. ``space``: a master's address space; ``segments``: a slave's address blocks.

    ``bits``: data width, None where the IP adapts to what is connected. ``monitor``: it only watches a connection of
    two others.
    """

    master: bool
    protocol: str
    clock: str
    bits: int | None = None
    space: str = ""
    segments: tuple[str, ...] = ()
    monitor: bool = False


@dataclass(frozen=True)
class Parameter:
    """A CONFIG parameter: its default in the IP and what it takes."""

    default: str
    takes: Callable[[str], bool]
    expected: str


@dataclass(frozen=True)
class Component:
    """An IP with its parameters set.

    ``unstated``: interfaces that the preset of a board may add, each with the parameter that nobody has set.
    """

    pins: Mapping[str, Pin] = field(default_factory=dict)
    interfaces: Mapping[str, Interface] = field(default_factory=dict)
    unstated: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ip:
    """The parameters of an IP, and what it shows for the values that were set."""

    parameters: Mapping[str, Parameter]
    component: Callable[[Mapping[str, str]], Component]

    def value(self, values: Mapping[str, str], name: str) -> str:
        """A parameter as set, else its default."""
        return values.get(name, self.parameters[name].default)


def flag(default: str = "0") -> Parameter:
    return Parameter(default, lambda text: text in ("0", "1"), "0 or 1")


def choice(default: str, *values: str) -> Parameter:
    return Parameter(default, lambda text: text in values, f"one of {', '.join(values)}")


def number(default: str, least: int, most: int) -> Parameter:
    return Parameter(default, lambda text: text.isdecimal() and least <= int(text) <= most, f"{least}..{most}")


def power_of_two(default: str, least: int, most: int) -> Parameter:
    values = [str(1 << n) for n in range(32) if least <= 1 << n <= most]
    return Parameter(default, lambda text: text in values, f"a power of two in {least}..{most}")


def megahertz(default: str) -> Parameter:
    def takes(text: str) -> bool:
        try:
            return 0 < float(text) < 1000
        except ValueError:
            return False

    return Parameter(default, takes, "a frequency in MHz")


CLOCK = Pin(False, "clock")
RESET = Pin(False, "reset", active_low=True)
INTERRUPT = Pin(True, "interrupt")
