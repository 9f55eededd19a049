"""Tables of requirements in `docs/requirements/`: which tests name each, and how its feature is switched off."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

TESTS = Path(__file__).parents[1]
DOCUMENTS = TESTS.parent / "docs" / "requirements"
SWITCHES = TESTS / "data" / "switches"
ROW = re.compile(
    r"^\| R(\d+) \| ([MS-]) \| (.+?) \| (met|host|partly|absent|not applicable) \| (.*?) \| (.*?) \|$", re.MULTILINE
)


@dataclass(frozen=True)
class Row:
    """A requirement of a table; ``tag`` names its specification in tests.

    state: ``met`` in a kernel that an accelerator file reaches, or by software of the ``host`` alone.
    tests: `name`, a file `test_<name>.py`, or `name::function`, a test in it.
    """

    tag: str
    number: int
    level: str
    state: str
    tests: tuple[str, ...]
    remark: str

    @property
    def name(self) -> str:
        return f"{self.tag} R{self.number}"

    def problems(self) -> Iterator[str]:
        """Where state, tests and remark do not belong together, or a test does not name the requirement."""
        if self.state not in ("met", "host") and not self.remark:
            yield f"{self.name} is {self.state} without a reason"
        wanted = self.state in ("met", "host", "partly")
        if bool(self.tests) != wanted and not self.remark:
            yield f"{self.name} is {self.state}, its tests are {self.tests}"
        if self.state in ("met", "host") and not self.tests:
            yield f"{self.name} is {self.state} without a test"
        for entry in self.tests:
            name, _, function = entry.partition("::")
            path = file_of_test(name)
            if self.number not in named(path, self.tag):
                yield f"{path.name} does not name {self.name}"
            if function and function not in functions(path):
                yield f"{path.name} has no test {function}, which {self.name} names"


@dataclass(frozen=True)
class Switch:
    """How the feature of a requirement is switched off: a text of a file and what takes its place; ``test`` fails then.

    file: path in the checkout; test: what pytest is given.
    """

    row: int
    file: str
    old: str
    new: str
    test: str

    @property
    def shown_as(self) -> str:
        """The test as a row names it: `name::function`."""
        path, _, function = self.test.partition("::")
        return f"{Path(path).stem.removeprefix('test_')}::{function.partition('[')[0]}"

    def problems(self) -> Iterator[str]:
        """Unless the text is in the file once, so that the switch still means what it meant, and the test exists."""
        count = (TESTS.parent / self.file).read_text().count(self.old)
        if count != 1:
            yield f"R{self.row}: {self.file} has the text `{self.old}` {count} times"
        if self.old == self.new:
            yield f"R{self.row}: `{self.old}` is replaced by itself"
        path, _, function = self.test.partition("::")
        if function.partition("[")[0] not in functions(TESTS.parent / path):
            yield f"R{self.row}: there is no {self.test}"


@dataclass(frozen=True)
class Table:
    """The table of a specification: `docs/requirements/<name>.md`."""

    tag: str
    name: str
    #: Requirements of the specification.
    count: int

    @property
    def text(self) -> str:
        return (DOCUMENTS / f"{self.name}.md").read_text()

    @property
    def rows(self) -> list[Row]:
        return [
            Row(self.tag, int(number), level, state, tuple(name for name in tests.split(", ") if name), remark)
            for number, level, _, state, tests, remark in ROW.findall(self.text)
        ]

    @property
    def switches(self) -> list[Switch]:
        """`tests/data/switches/<name>.yaml`, in the order of the rows."""
        path = SWITCHES / f"{self.name}.yaml"
        return [Switch(**item) for item in yaml.safe_load(path.read_text()) or []] if path.exists() else []

    def check_open_musts(self) -> None:
        """Every MUST that is not met is listed above the table, those that software of the host has apart."""
        musts = [row for row in self.rows if row.level == "M"]
        on_host = [f"R{row.number}" for row in musts if row.state == "host"]
        left = [f"R{row.number}" for row in musts if row.state not in ("met", "host")]
        wanted = f"MUST and not fully met: {', '.join(left) or 'none'}."
        wanted += f"\nMUST and met by software of the host alone: {', '.join(on_host)}." if on_host else ""
        assert wanted in self.text, wanted

    def check_switched_tests(self) -> None:
        """Rows name single tests where a switch makes them fail, and nowhere else."""
        shown = {(row.number, test) for row in self.rows for test in row.tests if "::" in test}
        seen = {(switch.row, switch.shown_as) for switch in self.switches}
        assert shown == seen, sorted(shown ^ seen)

    def check_names(self) -> None:
        """Tests name no requirement that does not exist."""
        known = {row.number for row in self.rows}
        for path in sorted(TESTS.rglob("test_*.py")):
            assert named(path, self.tag) <= known, path.name


TABLES = {
    table.tag: table
    for table in (
        Table("BFP", "block-floating-point", 86),
        Table("SM", "shift-multiplier", 38),
        Table("SC", "sparse-cluster", 155),
        Table("ZS", "zero-skip-convolution", 54),
        Table("FP", "fixed-point-position", 49),
    )
}


@cache
def file_of_test(name: str) -> Path:
    """The file `test_<name>.py`, in whatever room it stands."""
    found = list(TESTS.rglob(f"test_{name}.py"))
    assert len(found) == 1, f"test_{name}.py: {len(found)} files"
    return found[0]


@cache
def functions(path: Path) -> frozenset[str]:
    """The tests of a file."""
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))


@cache
def named(path: Path, tag: str) -> frozenset[int]:
    """Requirements of a specification that a test file names: `SC R7`, `SC R7-R9` or `SC R7, R9, R11-R13`.

    Those of the block-floating-point specification need no tag (`R7`); a range in a module's docstring is a topic of
    the file and no test of all of them.
    """
    one = r"R\d+(?:-R?\d+)?\b"
    text = path.read_text()
    if tag == "BFP":
        heading = ast.get_docstring(ast.parse(text), clean=False) or ""
        text = text.replace(heading, re.sub(r"\bR\d+-R?\d+\b", "", heading), 1)
        text = re.sub(rf"\b(?:SM|SC|ZS|FP) ({one}(?:,\s+{one})*)", "", text)
        groups = re.findall(rf"\b({one})", text)
    else:
        groups = re.findall(rf"\b{tag} ({one}(?:,\s+{one})*)", text)
    found: set[int] = set()
    for names in groups:
        for first, last in re.findall(r"R(\d+)(?:-R?(\d+))?", names):
            found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)
