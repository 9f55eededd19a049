"""The table of the shift multiplier's requirements is true: every row exists, and its tests name the requirement."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from requirement_tables import file_of_test

TESTS = Path(__file__).parent
TABLE = TESTS.parent / "docs" / "requirements-shift.md"
ROW = re.compile(
    r"^\| R(\d+) \| ([MS-]) \| (.+?) \| (met|partly|absent|not applicable) \| (.*?) \| (.*?) \|$", re.MULTILINE
)
ROWS = {int(match[1]): match for match in ROW.finditer(TABLE.read_text())}


def named(path: Path) -> set[int]:
    """Requirements of this specification that a test file names: `SM R7`, or `SM R7-R9`."""
    found: set[int] = set()
    for match in re.finditer(r"\bSM R(\d+)(?:-R?(\d+))?\b", path.read_text()):
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def test_every_requirement_has_a_row() -> None:
    assert sorted(ROWS) == list(range(1, 39))


@pytest.mark.parametrize("number", sorted(ROWS))
def test_the_tests_of_a_row_name_its_requirement(number: int) -> None:
    state, tests, remark = ROWS[number][4], ROWS[number][5], ROWS[number][6]
    names = [name for name in tests.split(", ") if name]
    assert names or state != "met", f"R{number} is met without a test"
    assert remark or state == "met", f"R{number} is {state} without a reason"
    for name in names:
        assert number in named(file_of_test(name)), f"test_{name}.py does not name SM R{number}"


def test_every_must_that_is_not_met_is_listed_above_the_table() -> None:
    open_musts = [f"R{number}" for number, row in ROWS.items() if row[2] == "M" and row[4] != "met"]
    wanted = f"MUST and not fully met: {', '.join(open_musts) or 'none'}."
    assert wanted in TABLE.read_text(), wanted
