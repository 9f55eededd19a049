"""Which Python the scripts take: the lowest supported one for tests, and all that are installed for the package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Variables of a machine with Python 3.11, 3.13 and a python3, all of which answer and do nothing."""
    versions = tmp_path / "pyenv" / "versions" / "3.13.2" / "bin"
    versions.mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    for path in (programs / "python3.11", programs / "python3", versions / "python3.13", tmp_path / "own python"):
        path.write_text(
            '#!/bin/sh\ncase "$1" in\n--version) echo Python X ;;\n-m) echo no venv >&2; exit 1 ;;\nesac\n'
        )
        path.chmod(0o755)
    (programs / "python3.10").write_text("#!/bin/sh\nexit 127\n")  # as a shim of pyenv for a version not in use
    (programs / "python3.10").chmod(0o755)
    for version in ("3.12", "3.14"):  # hides those of this machine
        (programs / f"python{version}").symlink_to("python3.10")
    return {
        **os.environ,
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYENV_ROOT": str(tmp_path / "pyenv"),
        "TMPDIR": str(tmp_path),
    }


def found(machine: dict[str, str], extra: str) -> str:
    command = ["bash", "-c", '. scripts/environment.sh; find_python "$1"', "bash", extra]
    result = subprocess.run(command, cwd=ROOT, env=machine, capture_output=True, text=True, check=True)
    return result.stdout.strip().rsplit("/", 1)[-1]


def test_tests_take_the_lowest_python_that_is_installed(machine: dict[str, str], tmp_path: Path) -> None:
    machine.pop("PYTHON", None)
    assert found(machine, "dev") == "python3.11"
    assert found(machine, "") == "python3"
    assert found({**machine, "PYTHON": str(tmp_path / "own python")}, "dev") == "own python"
    (tmp_path / "bin" / "python3.11").write_text("#!/bin/sh\nexit 127\n")
    assert found(machine, "dev") == "python3.13"


def test_versions_that_are_not_installed_are_named_and_one_that_fails_fails(machine: dict[str, str]) -> None:
    script = ["bash", str(ROOT / "scripts" / "test_python_versions.sh"), "--only", "3.10", "--only", "3.13"]
    result = subprocess.run(script, env=machine, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    absent, failed = result.stdout.splitlines()
    assert absent == "Python 3.10: not run, it is not installed"
    assert failed.startswith("Python X: FAILED after ")
    assert "no venv" in result.stderr
