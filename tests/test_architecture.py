"""The house: imports go down only, and what a board runs needs numpy and the standard library alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bfpga.engines.registry import BESIDE

ROOT = Path(__file__).parent.parent / "host" / "bfpga"
#: Floors from the ground up; a module may import its own floor and those below.
FLOORS = [
    "errors", "formats", "contract", "engines", "program", "accelerator", "compiler", "estimate", "vendor", "devices",
    "board", "data", "runtime", "dynamic_graph", "training", "verify", "deploy", "cli",
]  # fmt: skip
MODULES = sorted(ROOT.rglob("*.py"))
#: Names of engines, and the modules outside the engines' own rooms that may have them: the keys of a file, the array.
ENGINE_NAMES = re.compile(r"\b(systolic_array|zero_skip|sparse_cluster)\b")
WITH_ENGINE_NAMES = {"accelerator.schema", "contract.engine_numbers", "engines.beside.constraints"}


def floor(module: str) -> int:
    """Floor of a module given relative to the package (`engines.systolic` -> floor of `engines`)."""
    return FLOORS.index(module.split(".")[0])


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bfpga."):
            yield node.module.removeprefix("bfpga.")
        elif isinstance(node, ast.Import):
            yield from (name.name.removeprefix("bfpga.") for name in node.names if name.name.startswith("bfpga."))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent != ROOT or path.stem in FLOORS], ids=str)
def test_imports_go_down_only(path: Path) -> None:
    name = module_name(path)
    for target in imported_modules(ast.parse(path.read_text())):
        if not target.startswith("configs"):
            assert floor(target) <= floor(name), f"{name} imports {target}, which lies above it"


def test_board_side_loads_numpy_and_standard_library_only() -> None:
    """Architecture 3.3: formats, engines, programs and devices run on a PYNQ image."""
    script = (
        "import sys\n"
        "import bfpga.formats.block_float, bfpga.formats.compressed.payloads, bfpga.formats.compressed.kernel_decoder\n"
        "import bfpga.engines.array.arithmetic, bfpga.contract.program, bfpga.program.file\n"
        "import bfpga.engines.array.streams, bfpga.devices.emulator, bfpga.devices.csim, bfpga.runtime, bfpga.data\n"
        "top = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(top & {'onnx', 'onnxruntime', 'pydantic', 'jinja2', 'ruamel', 'typer', 'rich', 'onnxslim'}))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def texts(tree: ast.AST) -> Iterator[str]:
    """Texts of a module but for its docstrings."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


def engine_room(path: Path) -> bool:
    """Whether a module is in the room of one engine: one that holds its record."""
    return any((folder / "engine.py").is_file() and (folder / "numbers.py").is_file() for folder in path.parents)


@pytest.mark.parametrize("path", [path for path in MODULES if not engine_room(path)], ids=str)
def test_engines_are_known_by_their_records(path: Path) -> None:
    """Who compares names of engines has to be found and changed for every new one."""
    named = {text for text in texts(ast.parse(path.read_text())) if ENGINE_NAMES.search(text)}
    assert not named or module_name(path) in WITH_ENGINE_NAMES, named


def test_rooms_of_engines_have_the_same_files() -> None:
    """Same file name for the same idea; what only one engine has is its own."""
    idea = {"engine", "numbers", "fit", "constraints", "tiles", "descriptors", "streams", "cycles", "resources"}
    for engine in BESIDE:
        files = {path.stem for path in (ROOT / "engines" / engine.name).glob("*.py")}
        assert idea <= files, engine.name


def test_only_the_registry_knows_the_rooms_of_engines() -> None:
    """Outside: what a section of a file describes, and commands about one engine's own host software."""
    rooms = tuple(f"engines.{engine.name}." for engine in BESIDE)
    importing = {
        module_name(path)
        for path in MODULES
        if not engine_room(path)
        for target in imported_modules(ast.parse(path.read_text()))
        if target.startswith(rooms)
    }
    assert importing == {"engines.registry", "accelerator.schema", "cli.report_partition"}
