"""The house: imports go down only and in no circle, and everything in it is reached."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cpp_units import compiler
from row_kernels import ROWS

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.vendor.render import kernel_sources, library_directory, render_kernel, top_files, write_project

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "host" / "bfpga"
#: Floors from the ground up; a module may import its own floor and those below.
FLOORS = [
    "errors", "formats", "scale", "contract", "engines", "program", "accelerator", "compiler", "estimate", "vendor",
    "synthesis", "rtl", "devices", "board", "data", "runtime", "precision", "dynamic_graph", "training", "verify",
    "deploy", "report", "pruning", "explore", "api", "cli",
]  # fmt: skip
MODULES = sorted(ROOT.rglob("*.py"))
#: All whose kernels have headers.
ACCELERATORS = sorted(path.stem for path in (REPOSITORY / "configs" / "accelerators").glob("*.yaml"))


@functools.cache
def read_nodes(path: Path) -> tuple[ast.AST, ...]:
    """The imports of a file, in functions and for types too, and its texts: a walk takes longer than the parser."""
    kept = (ast.Import, ast.ImportFrom, ast.Constant)
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kept))


def floor(module: str) -> int:
    """Floor of a module given relative to the package (`engines.systolic` -> floor of `engines`)."""
    return FLOORS.index(module.split(".")[0])


def imported_modules(path: Path) -> Iterator[str]:
    for node in read_nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bfpga."):
            yield node.module.removeprefix("bfpga.")
        elif isinstance(node, ast.Import):
            yield from (name.name.removeprefix("bfpga.") for name in node.names if name.name.startswith("bfpga."))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_imports_go_down_only() -> None:
    upwards = [
        f"{name} imports {target}, which lies above it"
        for name, path in ((module_name(path), path) for path in MODULES if path.parent != ROOT or path.stem in FLOORS)
        for target in imported_modules(path)
        if not target.startswith("configs") and floor(target) > floor(name)
    ]
    assert upwards == []


# Circles

Graph = Mapping[str, set[str]]


def full_name(path: Path) -> str:
    """`host/bfpga/board/kernel.py` -> `bfpga.board.kernel`; a package has the name of its folder."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


#: Every module of the wheel: name -> file.
FILES = {full_name(path): path for path in MODULES}


def imports(path: Path) -> Iterator[str]:
    """Modules of the package that are imported anywhere in a file, in functions and for types too."""
    for node in read_nodes(path):
        if isinstance(node, ast.ImportFrom):
            for item in node.names:
                submodule = f"{node.module}.{item.name}"
                yield submodule if submodule in FILES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (item.name for item in node.names)


@functools.cache
def import_graph() -> Graph:
    """Module -> the modules it imports."""
    return {name: set(imports(path)) & FILES.keys() for name, path in FILES.items()}


def room(module: str) -> str:
    """Where a module stands: a folder of a floor, with all below, or the module itself if it stands on the floor."""
    return ".".join(module.split(".")[:3])


def room_graph(modules: Graph) -> Graph:
    """Room -> the other rooms its modules import."""
    rooms: dict[str, set[str]] = {}
    for name, targets in modules.items():
        rooms.setdefault(room(name), set()).update(room(target) for target in targets if room(target) != room(name))
    return rooms


def circle(graph: Graph) -> list[str]:
    """Arrows of all circles of a graph, and of what lies between two circles; none if it has no circle."""
    left = set(graph)
    while True:
        targets = {target for name in left for target in graph[name]}
        inner = {name for name in left if name in targets and graph[name] & left}
        if inner == left:
            return [f"{name} -> {target}" for name in sorted(left) for target in sorted(graph[name] & left)]
        left = inner


def test_circles_are_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == ["b -> c", "c -> b"]


def test_no_module_imports_itself_through_others() -> None:
    assert circle(import_graph()) == []


def test_no_room_imports_itself_through_others() -> None:
    assert circle(room_graph(import_graph())) == []


# What is reached


def references(path: Path) -> set[str]:
    """Modules that a file imports or names: `python -m` and `import_module` take names, a board gets a sibling file."""
    texts = {node.value for node in read_nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    siblings = {path.with_name(text) for text in texts if re.fullmatch(r"\w+\.py", text)}
    named = {full_name(sibling) for sibling in siblings if sibling in MODULES}
    return {*imports(path), *texts, *named} & FILES.keys()


def shown_imports() -> Iterator[str]:
    """Modules that the documents show being imported: with what ``bfpga`` exports, the public Python interface."""
    for document in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("**/*.md"))]:
        for code in re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE):
            yield from re.findall(r"^(?:from|import) (bfpga[\w.]*)", code, re.MULTILINE)


@functools.cache
def reached() -> frozenset[str]:
    """Modules of the wheel that the command line, the scripts or the public interface use, one through another."""
    waiting = {"bfpga", "bfpga.__main__", "bfpga.cli", *shown_imports()}
    for script in (REPOSITORY / "scripts").glob("*.py"):
        waiting |= references(script)
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        packages = {name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)}
        waiting |= (references(FILES[name]) | packages) - found
    return frozenset(found)


def place_of(path: Path, base: Path) -> str:
    return path.relative_to(base).with_suffix("").as_posix()


def test_every_module_is_reached() -> None:
    modules = [place_of(path, ROOT) for name, path in FILES.items() if name not in reached()]
    assert [place for place in modules if not place.endswith("__init__")] == []


def library_headers() -> Iterable[Path]:
    return sorted(library_directory().rglob("*.hpp"))


@functools.cache
def headers_of(accelerator: str) -> frozenset[str]:
    """Headers of the library in an accelerator's kernel, without their suffix."""
    described = load_accelerator(accelerator)
    return headers_in(described.name, described.digest, described.config)


def headers_in(name: str, digest: str, config: KernelConfig) -> frozenset[str]:
    sources = kernel_sources(render_kernel(name, digest, config))
    return frozenset(path.removesuffix(".hpp") for path in sources if path.startswith("include/"))


def test_every_header_is_in_a_kernel() -> None:
    """Of a ready accelerator, or of one with a process of rows and a program memory, which no ready one has."""
    used = headers_in("rows", "0" * 8, replace(ROWS, program_descriptors=8)).union(*map(headers_of, ACCELERATORS))
    places = [place_of(path, library_directory().parent) for path in library_headers()]
    assert [place for place in places if place not in used] == []


@pytest.mark.parametrize("accelerator", ["tiny", "pynq_z2_shift", "zcu104_hetero"])
def test_a_project_holds_the_headers_of_its_kernel_and_no_other(accelerator: str, tmp_path: Path) -> None:
    """The compiler itself says which headers top function, bridge and testbench include, simulated or synthesized."""
    described = load_accelerator(accelerator)
    project = write_project(described.name, described.digest, described.config, tmp_path / "project")
    flags = [flag for folder in ("include", "src", "shim") for flag in ("-I", str(project / folder))]
    tops = [project / path for path in top_files(described.config)]
    simulated = [*tops, project / "src" / "bridge.cpp", project / "tb" / "testbench.cpp"]
    views = [(["-DBFPGA_NATIVE_INTEGERS"], simulated), (["-DBFPGA_EXACT_INTEGERS", "-D__SYNTHESIS__"], tops)]
    included = set()
    for defines, sources in views:
        command = [compiler(), "-std=c++14", "-MM", *defines, *flags, *map(str, sources)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        included |= {Path(word) for word in listed.replace("\\\n", " ").split() if word.endswith(".hpp")}
    assert set(project.rglob("*.hpp")) == included


def test_a_kernel_without_sparse_engines_has_no_header_of_them() -> None:
    assert not any("shift" in place for place in headers_of("tiny"))


# What a board runs


def test_onnx_runtime_comes_through_one_door() -> None:
    """Which turns its telemetry off before it is imported."""
    assert [name for name, path in FILES.items() if "onnxruntime" in roots_of(path)] == ["bfpga.formats.onnx_runtime"]


def test_all_caches_have_one_place() -> None:
    """Which is private: what lies in a cache is run, or believed."""
    naming = [name for name, path in FILES.items() if '"XDG_CACHE_HOME"' in path.read_text()]
    assert naming == ["bfpga.formats.cache"]
    pickling = [name for name, path in FILES.items() if "pickle" in roots_of(path)]
    assert [name for name in pickling if not name.startswith("bfpga.scale.")] == []


def roots_of(path: Path) -> set[str]:
    """Top packages that a module imports."""
    return {root for node in read_nodes(path) for root in roots(node)}


def roots(node: ast.AST) -> set[str]:
    """Top packages that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        return {str(node.module).split(".")[0]}
    return {item.name.split(".")[0] for item in node.names} if isinstance(node, ast.Import) else set()


def test_board_side_loads_numpy_and_standard_library_only() -> None:
    """Architecture 3.3: formats, engines, programs and devices run on a PYNQ image."""
    script = (
        "import sys\n"
        "import bfpga.formats.block_float, bfpga.formats.map_beats\n"
        "import bfpga.engines.kernel.arithmetic, bfpga.contract.program, bfpga.program.file\n"
        "import bfpga.engines.kernel.streams, bfpga.devices.emulator, bfpga.devices.csim, bfpga.runtime, bfpga.data\n"
        "top = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(top & {'onnx', 'onnxruntime', 'pydantic', 'jinja2', 'yaml', 'typer', 'rich', 'onnxslim'}))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
