"""Versions of the vendor's tools, as the tools themselves print them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bfpga.errors import ConfigurationError

#: `Vivado v2022.1_AR76780 (64-bit)`, `v++ v2023.2 (64-bit)`, `Vitis HLS - ... v2021.2.1 (64-bit)`.
_BANNER = re.compile(r"\bv(20\d\d)\.(\d)(?:\.(\d+))?(?![\d.])")
_PLAIN = re.compile(r"(20\d\d)\.(\d)(?:\.(\d+))?")


@dataclass(frozen=True, order=True)
class Version:
    """Year, release of the year, update of the release."""

    year: int
    release: int
    update: int = 0

    def __str__(self) -> str:
        return f"{self.year}.{self.release}" + (f".{self.update}" if self.update else "")

    @property
    def base(self) -> Version:
        """The release without its update: tools of one base belong together."""
        return Version(self.year, self.release)


def banner_version(text: str) -> Version | None:
    """Version in what a tool prints about itself; None if there is none."""
    return _version(_BANNER.search(text))


def path_version(path: str) -> Version | None:
    """Version in the name of an installation directory, the last one if several."""
    matches = [match for part in path.split("/") if (match := _PLAIN.fullmatch(part))]
    return _version(matches[-1]) if matches else None


def parse_version(text: str) -> Version:
    """Version that a user typed (`2022.1`, `v2022.1`); ConfigurationError if it is none."""
    match = _PLAIN.fullmatch(text.strip().removeprefix("v"))
    found = _version(match)
    if found is None:
        raise ConfigurationError(f"{text!r} is no version of Vivado; versions look like 2022.1")
    return found


def _version(match: re.Match[str] | None) -> Version | None:
    return Version(int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


#: Vivado with which AMD made each PYNQ image (change log of PYNQ).
PYNQ_IMAGES = {
    "2.7": Version(2020, 2),
    "3.0": Version(2022, 1),
    "3.1": Version(2024, 1),
    "4.0": Version(2025, 2),
}
