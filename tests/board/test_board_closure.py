"""Which modules go to a board: found by their imports, at load time and inside functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bfpga.deploy import closure
from bfpga.deploy.closure import board_modules, foreign_packages, imports_of

FILES = {
    "__init__.py": "",
    "start.py": """
from typing import TYPE_CHECKING
import json
import numpy as np
from bfpga import beside
from bfpga.package.inner import value
if TYPE_CHECKING:
    from bfpga import hints
try:
    import bfpga.perhaps
except ImportError:
    pass

def late():
    from bfpga.package import later
    import bfpga.compiler

class Thing:
    import bfpga.in_class

    def method(self):
        from bfpga.renders import text
""",
    "beside.py": "import bfpga.start",  # a circle
    "hints.py": "",
    "perhaps.py": "",
    "in_class.py": "",
    "compiler.py": "from bfpga.reader import read",
    "reader.py": "import onnx",
    "renders.py": "import jinja2",
    "package/__init__.py": "",
    "package/inner.py": "from . import sibling",
    "package/sibling.py": "value = 1",
    "package/later.py": "from pynq import Overlay",
    "package/unused.py": "",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = tmp_path / "bfpga"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(closure, "ROOT", root)
    for function in (imports_of, foreign_packages):
        function.cache_clear()
    yield root
    for function in (imports_of, foreign_packages):
        function.cache_clear()


def test_everything_a_board_can_load_is_found(package: Path) -> None:
    names = {name.removeprefix("bfpga").removeprefix(".") for name in board_modules(["bfpga.start"])}
    assert names == {
        "", "start", "beside", "perhaps", "in_class", "renders", "package", "package.inner", "package.sibling",
        "package.later",
    }  # fmt: skip


def test_files_belong_to_their_modules(package: Path) -> None:
    files = board_modules(["bfpga.start"])
    assert files["bfpga"] == package / "__init__.py"
    assert files["bfpga.package.inner"] == package / "package" / "inner.py"


def test_an_entry_point_that_a_board_cannot_load_is_refused_with_the_chain(package: Path) -> None:
    with pytest.raises(ValueError, match=r"bfpga\.compiler imports bfpga\.reader imports onnx"):
        board_modules(["bfpga.compiler"])


def test_what_jupyter_brings_serves_no_entry_point(package: Path) -> None:
    with pytest.raises(ValueError, match=r"bfpga\.renders imports jinja2"):
        board_modules(["bfpga.renders"])


def test_an_unknown_entry_point_is_refused(package: Path) -> None:
    with pytest.raises(ValueError, match=r"no module bfpga\.nothing"):
        board_modules(["bfpga.nothing"])


def test_the_entry_points_of_this_package_load_on_a_board() -> None:
    modules = board_modules()
    assert set(closure.ENTRY_POINTS) <= set(modules)
    assert not any(name.startswith(("bfpga.cli", "bfpga.deploy", "bfpga.verify")) for name in modules)
