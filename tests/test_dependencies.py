"""Releases of other packages: none that may break what is used here, and the exact ones that were tested for CI."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
#: Named by dates, or tools of the tests alone.
NO_MAJOR_RELEASES = {"distributed", *(Requirement(text).name for text in EXTRAS["dev"])}


def asked(extra: str) -> list[Requirement]:
    """What an extra asks for, and the extras that it names."""
    found = []
    for requirement in map(Requirement, EXTRAS[extra]):
        found += [*map(Requirement, PROJECT["dependencies"])] if requirement.name == "bfpga" else [requirement]
        found += [item for other in sorted(requirement.extras) if other in EXTRAS for item in asked(other)]
    return found


def pinned(python: str) -> dict[str, str]:
    """Package -> release of constraints.txt for a Python on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    found: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            [specifier] = requirement.specifier
            assert specifier.operator == "=="
            assert requirement.name not in found, f"{requirement.name} twice for Python {python}"
            found[canonicalize_name(requirement.name)] = specifier.version
    return found


@pytest.mark.parametrize("text", [*PROJECT["dependencies"], *(item for name in EXTRAS for item in EXTRAS[name])])
def test_the_next_major_release_is_not_taken_untried(text: str) -> None:
    requirement = Requirement(text)
    bounded = any(specifier.operator in ("<", "<=") for specifier in requirement.specifier)
    assert bounded or requirement.name in NO_MAJOR_RELEASES


@pytest.mark.parametrize("python", PYTHONS)
def test_every_package_has_one_tested_release_that_the_project_allows(python: str) -> None:
    releases, environment = pinned(python), {"python_version": python, "sys_platform": "linux"}
    named = [*asked("dev"), *asked("csim")]
    wanted = [item for item in named if item.marker is None or item.marker.evaluate(environment)]
    assert len(wanted) > 20
    for requirement in wanted:
        release = releases[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(release), f"{requirement} and {release}"
