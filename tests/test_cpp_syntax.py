"""All C++ of the project through a second compiler's front end: complete and without warnings; its formatting."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bfpga.accelerator.lint.parser import system_include_directories
from bfpga.accelerator.render import write_project
from bfpga.devices.toolchain import find_ap_types
from bfpga.engines.configuration import BlockFormat, SystolicConfig

cindex = pytest.importorskip("clang.cindex", reason="libclang is not installed")

#: An array with packed products and one with a wide format: between them every branch on a configuration.
CONFIGURATIONS = {
    "packed": SystolicConfig(lanes=4, multiplier="dsp_packed", rows=8),
    "wide": SystolicConfig(BlockFormat(18, 10, "half_away", "wrap", "ceil"), columns=1, accumulator_bits=58),
}
BUILDS = {"native": ["-DBFPGA_NATIVE_INTEGERS"], "ap_int": []}


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rendered HLS project."""
    return write_project("checked", "0" * 16, CONFIGURATIONS[request.param], tmp_path_factory.mktemp("hls") / "project")


def diagnostics(source: Path, includes: Sequence[Path], build: str) -> list[str]:
    """What clang has to say about a file, the vendor's headers aside."""
    arguments = ["-x", "c++", "-std=c++14", "-nostdinc", "-Wall", "-Wextra", "-Wno-unknown-pragmas", *BUILDS[build]]
    # A header that is checked by itself has functions nobody calls and is the main file.
    arguments += ["-Wno-pragma-once-outside-header", "-Wno-unused-const-variable", "-Wno-unused-label"]
    arguments += [f"-I{directory}" for directory in includes]
    for directory in (*system_include_directories(), str(find_ap_types())):
        arguments += ["-isystem", directory]
    unit: Any = cindex.Index.create().parse(str(source), args=arguments)
    return [f"{item.location.file}:{item.location.line}: {item.spelling}" for item in unit.diagnostics]


@pytest.mark.parametrize(("name", "build"), [("top.cpp", "ap_int"), ("bridge.cpp", "native")])
def test_rendered_sources_are_clean(project: Path, name: str, build: str) -> None:
    """C++14 for two independent front ends; the templates are instantiated here."""
    assert diagnostics(project / "src" / name, [project / "include", project / "src"], build) == []


def test_every_header_stands_alone(tmp_path: Path) -> None:
    """A header includes what it uses: each compiles by itself."""
    project = write_project("headers", "0" * 16, SystolicConfig(), tmp_path / "project")
    includes = [project / "include"]
    headers = sorted((project / "include" / "bfpga").glob("*.hpp"))
    assert len(headers) > 20
    assert [problem for header in headers for problem in diagnostics(header, includes, "native")] == []


def test_a_warning_would_be_seen(tmp_path: Path) -> None:
    source = tmp_path / "warned.cpp"
    source.write_text("int answer(int unused, unsigned a, int b) { return a < b; }\n")
    found = diagnostics(source, [], "native")
    assert len(found) == 2
    assert "unused parameter" in found[0]


def test_sources_are_formatted() -> None:
    """One style for headers and tests, that of .clang-format."""
    if shutil.which("clang-format") is None:
        pytest.skip("clang-format is not installed")
    script = Path(__file__).parent.parent / "scripts" / "format_cpp.py"
    result = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
