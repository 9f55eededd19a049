"""The table of requirements is true: every row exists, and the tests it gives name the requirement."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from requirement_tables import file_of_test

TESTS = Path(__file__).parent
TABLE = TESTS.parent / "docs" / "requirements.md"
ROW = re.compile(r"^\| R(\d+) \| ([MS]) \| (.+?) \| (met|partly|absent) \| (.*?) \| (.*?) \|$", re.MULTILINE)
ROWS = {int(match[1]): match for match in ROW.finditer(TABLE.read_text())}


def named(path: Path) -> set[int]:
    """Requirements that a test file names. A range in a module's docstring does not count: it is a topic, no test."""
    text = path.read_text()
    heading = ast.get_docstring(ast.parse(text), clean=False) or ""
    text = text.replace(heading, re.sub(r"\bR\d+-R?\d+\b", "", heading), 1)
    found: set[int] = set()
    for match in re.finditer(r"\bR(\d+)(?:-R?(\d+))?\b", text):
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def test_every_requirement_has_a_row() -> None:
    assert sorted(ROWS) == list(range(1, 87))


@pytest.mark.parametrize("number", sorted(ROWS))
def test_the_tests_of_a_row_name_its_requirement(number: int) -> None:
    _, _, _, _, state, tests, remark = (ROWS[number][index] for index in range(7))
    names = [name for name in tests.split(", ") if name]
    assert names or state != "met", f"R{number} is met without a test"
    assert remark or state == "met", f"R{number} is {state} without a reason"
    for name in names:
        assert number in named(file_of_test(name)), f"test_{name}.py does not name R{number}"


def test_every_must_that_is_not_met_is_listed_above_the_table() -> None:
    open_musts = [f"R{number}" for number, row in ROWS.items() if row[2] == "M" and row[4] != "met"]
    assert f"MUST and not fully met: {', '.join(open_musts)}." in TABLE.read_text()
