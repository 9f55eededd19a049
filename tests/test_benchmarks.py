"""Every benchmark starts, and documents name benchmarks that exist."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if "def main(" in path.read_text()
)
#: Files that may name a benchmark.
KINDS = ("pyproject.toml", "*.md", "docs/**/*.md", "host/**/*.py")
READERS = [path for kind in KINDS for path in ROOT.glob(kind)]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks run in the root of the clone; what they add to the path goes with the test."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_starts_and_tells_how_it_is_called(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(name).main(["--help"])
    assert ended.value.code == 0
    assert f"python -m {name}" in capsys.readouterr().out


def test_benchmarks_that_files_name_exist() -> None:
    missing = []
    for path in READERS:
        text = path.read_text()
        named = re.findall(r"(?<![\w/])(benchmarks/[\w/]+\.\w+)", text)
        named += [f"{name.replace('.', '/')}.py" for name in re.findall(r"python -m (benchmarks[.\w]+)", text)]
        missing += [(str(path.relative_to(ROOT)), name) for name in named if not (ROOT / name).is_file()]
    assert missing == []
