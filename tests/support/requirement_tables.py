"""Tables of requirements in `docs/`, and which tests name a requirement: what the tests of all such tables check."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"^\| R(\d+) \| ([MS]) \| (.+?) \| (met|partly|absent) \| (.*?) \| (.*?) \|$", re.MULTILINE)


def file_of_test(name: str) -> Path:
    """The file `test_<name>.py`, in whatever room it stands."""
    found = list(TESTS.rglob(f"test_{name}.py"))
    assert len(found) == 1, f"test_{name}.py: {len(found)} files"
    return found[0]


@dataclass(frozen=True)
class Row:
    """A requirement of a table; ``tag`` names its specification in tests."""

    tag: str
    number: int
    level: str
    state: str
    tests: tuple[str, ...]
    remark: str

    @property
    def name(self) -> str:
        return f"{self.tag} R{self.number}"

    def check(self) -> None:
        """State, tests and remark belong together, and the tests name the requirement."""
        assert self.remark or self.state == "met", f"{self.name} is {self.state} without a reason"
        assert bool(self.tests) == (self.state != "absent"), f"{self.name} is {self.state}, its tests are {self.tests}"
        for name in self.tests:
            found = named(file_of_test(name), self.tag)
            assert self.number in found, f"test_{name}.py does not name {self.name}"


@dataclass(frozen=True)
class Table:
    """The table of a specification: `docs/requirements-<name>.md`."""

    tag: str
    name: str

    @property
    def text(self) -> str:
        return (TESTS.parent / "docs" / f"requirements-{self.name}.md").read_text()

    @property
    def rows(self) -> list[Row]:
        return [
            Row(self.tag, int(number), level, state, tuple(name for name in tests.split(", ") if name), remark)
            for number, level, _, state, tests, remark in ROW.findall(self.text)
        ]

    def check_open_musts(self) -> None:
        """Every MUST that is not met is listed above the table."""
        open_musts = [f"R{row.number}" for row in self.rows if row.level == "M" and row.state != "met"]
        wanted = f"MUST and not fully met: {', '.join(open_musts) or 'none'}."
        assert wanted in self.text, wanted

    def check_names(self) -> None:
        """Tests name no requirement that does not exist."""
        known = {row.number for row in self.rows}
        for path in sorted(TESTS.rglob("test_*.py")):
            assert named(path, self.tag) <= known, path.name


def named(path: Path, tag: str) -> set[int]:
    """Requirements of a specification that a test file names: `SC R7`, `SC R7-R9` or `SC R7, R9, R11-R13`."""
    one = r"R\d+(?:-R?\d+)?\b"
    found: set[int] = set()
    for names in re.finditer(rf"\b{tag} ({one}(?:,\s+{one})*)", path.read_text()):
        for first, last in re.findall(r"R(\d+)(?:-R?(\d+))?", names[1]):
            found |= set(range(int(first), int(last or first) + 1))
    return found
