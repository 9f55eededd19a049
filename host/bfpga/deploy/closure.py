"""Which modules of this package a board needs, computed from their imports.

A board has numpy and pynq, not the compiler's packages. What is called there must load with these and the standard
library. Imports inside functions are followed where they lead to modules that load on a board; the others belong to
work that a board does not do, such as compiling a network.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bfpga.engines.configurations import ARRAYS

PACKAGE = "bfpga"
ROOT = Path(__file__).resolve().parent.parent
#: What is called on a board: the self-test, and what `bfpga.load`, `bfpga.run` and `bfpga.compare` lead to; rooms of
#: arrays are found by their names.
ENTRY_POINTS = (
    "bfpga.board.self_test",
    "bfpga.board.load",
    "bfpga.devices.emulator",
    "bfpga.board.overlays",
    "bfpga.program.file",
    "bfpga.vendor.manifest",
    "bfpga.runtime",
    "bfpga.data",
    *(array.engine for array in ARRAYS),
)
#: Packages of a PYNQ image in addition to the standard library.
IMAGE_PACKAGES = frozenset({"numpy", "pynq", "pynqmetadata", "pynqutils"})
#: Packages that an image has because Jupyter needs them. They serve imports inside functions only: the virtual board.
JUPYTER_PACKAGES = frozenset({"jinja2", "markupsafe"})


@dataclass(frozen=True)
class Imports:
    """Modules by full name. ``always``: while loading; ``later``: inside functions, or where failing is expected."""

    always: frozenset[str] = field(default_factory=frozenset)
    later: frozenset[str] = field(default_factory=frozenset)


def board_modules(entry_points: Iterable[str] = ENTRY_POINTS) -> dict[str, Path]:
    """Files of the modules a board needs, by module name, packages included.

    ValueError if an entry point cannot be loaded on a board; the message names the chain of imports.
    """
    found: dict[str, Path] = {}
    waiting = list(entry_points)
    for name in waiting:
        foreign = foreign_packages(name)
        if foreign:
            package, chain = next(iter(sorted(foreign.items())))
            raise ValueError(f"{name} cannot run on a board: {' imports '.join([*chain, package])}")
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _path(name)
        imports = imports_of(name)
        waiting += [*parents(name), *(target for target in imports.always if _ours(target))]
        later = (target for target in imports.later if _ours(target))
        waiting += [target for target in later if foreign_packages(target).keys() <= JUPYTER_PACKAGES]
    return dict(sorted(found.items()))


@cache
def foreign_packages(module: str) -> dict[str, tuple[str, ...]]:
    """Packages that loading a module needs and a board lacks, each with the chain of modules that leads to it."""
    foreign: dict[str, tuple[str, ...]] = {}
    chains: dict[str, tuple[str, ...]] = {module: (module,)}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        targets = {target for part in (name, *parents(name)) for target in imports_of(part).always}
        for target in sorted(targets):
            top = target.split(".")[0]
            if _ours(target):
                if target not in chains:
                    chains[target] = (*chains[name], target)
                    waiting.append(target)
            elif top not in sys.stdlib_module_names and top not in IMAGE_PACKAGES:
                foreign.setdefault(top, chains[name])
    return foreign


@cache
def imports_of(module: str) -> Imports:
    """What a module of this package imports; imports for type checkers alone are left out."""
    always: set[str] = set()
    later: set[str] = set()
    for node, at_load in _import_nodes(ast.parse(_path(module).read_text(encoding="utf-8")), True):
        (always if at_load else later).update(_targets(node, module))
    return Imports(frozenset(always), frozenset(later - always))


def parents(module: str) -> list[str]:
    """Packages around a module, which Python loads first."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _import_nodes(node: ast.AST, at_load: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Import statements below a node, each with whether it runs when the module is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, at_load
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield from _import_nodes(other, at_load)
        else:
            deferred = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Try))
            yield from _import_nodes(child, at_load and not deferred)


def _targets(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        package = module.split(".") if _path(module).name == "__init__.py" else module.split(".")[:-1]
        base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
    yield base
    # `from package import module` loads the module too; anything else that is imported by name is no module.
    yield from (f"{base}.{alias.name}" for alias in node.names if _ours(base) and _exists(f"{base}.{alias.name}"))


def _ours(module: str) -> bool:
    return module.split(".")[0] == PACKAGE and _exists(module)


def _exists(module: str) -> bool:
    return any(path.is_file() for path in _candidates(module))


def _path(module: str) -> Path:
    for path in _candidates(module):
        if path.is_file():
            return path
    raise ValueError(f"there is no module {module}")


def _candidates(module: str) -> tuple[Path, Path]:
    base = ROOT.joinpath(*module.split(".")[1:])
    return base.with_suffix(".py") if base != ROOT else base / "__init__.py", base / "__init__.py"
