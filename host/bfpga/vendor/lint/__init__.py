"""Lint of HLS kernels: what compiles as C++ and yet cannot become the hardware that was meant.

clang gives the syntax tree, with `__SYNTHESIS__` defined: code for the simulation alone is exempt. Pragmas and
comments are read from the text. A finding is allowed by `// lint: allow(rule) reason` on its line or the line above.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bfpga.accelerator.boards import Board
from bfpga.errors import DataError
from bfpga.vendor.finding import Finding
from bfpga.vendor.lint import parser
from bfpga.vendor.lint.accesses import check_accesses
from bfpga.vendor.lint.arrays import check_arrays
from bfpga.vendor.lint.language import check_language
from bfpga.vendor.lint.loops import check_divisions, check_loops
from bfpga.vendor.lint.pragmas import check_pragmas
from bfpga.vendor.lint.rules import RULES, format_findings
from bfpga.vendor.lint.unit import Unit

__all__ = ["RULES", "Finding", "format_findings", "lint_file", "lint_paths", "lint_sources"]

#: Endings of C++ sources.
SUFFIXES = (".cpp", ".cc", ".cxx", ".hpp", ".h")


def lint_file(
    path: Path, include_directories: Sequence[Path] = (), defines: Sequence[str] = (), board: Board | None = None
) -> list[Finding]:
    """Findings in a source file and in what it includes from ``include_directories`` or its own directory.

    ``defines``: `NAME` or `NAME=value`. ``board``: whose memory arrays must fit, else the largest known.
    DataError if the file is missing, ToolError if libclang or g++ is.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} is no file; give a C++ source or a directory with some")
    return _unit_findings(Unit([path], include_directories, defines), board)


def lint_paths(
    paths: Sequence[Path], include_directories: Sequence[Path] = (), board: Board | None = None
) -> list[Finding]:
    """Findings in files and directories.

    In a directory the sources with a top function (a `#pragma HLS INTERFACE`) are read with all they include, so that
    testbenches stay out; a directory without any is read file by file. Its `include` directory is on the path.
    DataError if a path does not exist or a directory has no C++ source.
    """
    findings: set[Finding] = set()
    for path in map(Path, paths):
        directories = [*include_directories, path / "include"] if path.is_dir() else include_directories
        files = _kernels(path)
        together = _unit_together(files, directories)
        if together is not None:
            findings.update(_unit_findings(together, board))
        else:
            findings.update(bad for file in files for bad in lint_file(file, directories, board=board))
    return sorted(findings)


def lint_sources(
    sources: Mapping[str, str], include_directories: Sequence[Path] = (), board: Board | None = None
) -> list[Finding]:
    """Findings in sources that are not on disk yet: name in the project -> text (as `render_kernel` gives them)."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name).resolve()
        for file, text in sources.items():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_text(text)
        findings = lint_paths([directory], include_directories, board)
    return sorted(replace(finding, file=finding.file.removeprefix(f"{directory}/")) for finding in findings)


def _kernels(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise DataError(f"{path} holds no C++ source ({', '.join(SUFFIXES)})")
    tops = [file for file in files if "#pragma HLS INTERFACE" in file.read_text(errors="replace")]
    return tops or files


def _unit_together(files: Sequence[Path], directories: Sequence[Path]) -> Unit | None:
    """Several sources as one unit, so that the headers they share are walked once.

    None where that could hide what a source alone would show: it lacks a header of its own, defines what headers ask
    for, clashes with another one, or is in another directory.
    """
    if len(files) < 2 or len({file.parent for file in files}) > 1:
        return None
    if any(b"#define" in file.read_bytes() for file in files):
        return None
    if any(parser.errors(parser.parse([file], directories)) for file in files):
        return None
    unit = Unit(files, directories)
    return None if parser.errors(unit.tree) else unit


def _unit_findings(unit: Unit, board: Board | None) -> list[Finding]:
    """Findings of every rule but those that the sources allow."""
    rules = (_check_parse, check_pragmas, check_loops, check_divisions, check_language, check_accesses)
    findings = {finding for rule in rules for finding in rule(unit)} | set(check_arrays(unit, board))
    kept = [finding for finding in findings if not unit.sources[finding.file].allows(finding)]
    return sorted({*kept, *(bad for source in unit.sources.values() for bad in source.check_allowances())})


def _check_parse(unit: Unit) -> Iterator[Finding]:
    """Errors of clang, in the project's own files or, where a vendor's header is to blame, in the main file."""
    for diagnostic in parser.errors(unit.tree):
        file = diagnostic.location.file.name if diagnostic.location.file else ""
        inside = file in unit.sources
        where = "" if inside else f" ({file}:{diagnostic.location.line})"
        line = diagnostic.location.line if inside else 1
        problem = f"{diagnostic.spelling}{where}"
        yield Finding(file if inside else unit.path, line, "parse", problem, "mend it so that g++ takes it")
