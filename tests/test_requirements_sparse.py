"""The tables of the sparse cluster's and the zero-skip engine's requirements are true, row by row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROW = re.compile(r"^\| R(\d+) \| ([MS]) \| (.+?) \| (met|partly|absent) \| (.*?) \| (.*?) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """A requirement of a table; ``tag`` names its specification in tests."""

    tag: str
    number: int
    level: str
    state: str
    tests: tuple[str, ...]
    remark: str


def read(tag: str, table: Path) -> list[Row]:
    return [
        Row(tag, int(number), level, state, tuple(name for name in tests.split(", ") if name), remark)
        for number, level, _, state, tests, remark in ROW.findall(table.read_text())
    ]


TABLES = {
    tag: TESTS.parent / "docs" / f"requirements-{name}.md" for tag, name in (("SC", "sparse"), ("ZS", "zero-skip"))
}
ROWS = {tag: read(tag, table) for tag, table in TABLES.items()}
ALL = [row for rows in ROWS.values() for row in rows]


def named(path: Path, tag: str) -> set[int]:
    """Requirements of a specification that a test file names: `SC R7`, `SC R7-R9` or `SC R7, R9, R11-R13`."""
    one = r"R\d+(?:-R?\d+)?\b"
    found: set[int] = set()
    for names in re.finditer(rf"\b{tag} ({one}(?:,\s+{one})*)", path.read_text()):
        for first, last in re.findall(r"R(\d+)(?:-R?(\d+))?", names[1]):
            found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize(("tag", "count"), [("SC", 155), ("ZS", 54)])
def test_every_requirement_has_a_row(tag: str, count: int) -> None:
    assert [row.number for row in ROWS[tag]] == list(range(1, count + 1))


@pytest.mark.parametrize("row", ALL, ids=lambda row: f"{row.tag}-R{row.number}")
def test_the_tests_of_a_row_name_its_requirement(row: Row) -> None:
    what = f"{row.tag} R{row.number}"
    assert row.remark or row.state == "met", f"{what} is {row.state} without a reason"
    assert bool(row.tests) == (row.state != "absent"), f"{what} is {row.state}, its tests are {row.tests}"
    for name in row.tests:
        assert row.number in named(TESTS / f"test_{name}.py", row.tag), f"test_{name}.py does not name {what}"


@pytest.mark.parametrize("tag", TABLES)
def test_every_must_that_is_not_met_is_listed_above_the_table(tag: str) -> None:
    open_musts = [f"R{row.number}" for row in ROWS[tag] if row.level == "M" and row.state != "met"]
    wanted = f"MUST and not fully met: {', '.join(open_musts) or 'none'}."
    assert wanted in TABLES[tag].read_text(), wanted


@pytest.mark.parametrize("tag", TABLES)
def test_tests_name_no_requirement_that_does_not_exist(tag: str) -> None:
    known = {row.number for row in ROWS[tag]}
    for path in sorted(TESTS.glob("test_*.py")):
        assert named(path, tag) <= known, path.name
