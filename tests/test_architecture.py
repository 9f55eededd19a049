"""The house: imports go down only, and what a board runs needs numpy and the standard library alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "host" / "bfpga"
#: Floors from the ground up; a module may import its own floor and those below.
FLOORS = [
    "errors", "formats", "contract", "engines", "program", "accelerator", "compiler", "estimate", "vendor", "devices",
    "board", "data", "runtime", "dynamic_graph", "training", "verify", "deploy", "cli",
]  # fmt: skip
MODULES = sorted(ROOT.rglob("*.py"))


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
        "print(sorted(top & {'onnx', 'onnxruntime', 'pydantic', 'jinja2', 'yaml', 'typer', 'rich', 'onnxslim'}))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
