"""Compiles the C++ unit tests of tests/cpp into shared libraries, once for each content."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bfpga.contract.arrays.base import Array
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import KernelConfig
from bfpga.devices import toolchain
from bfpga.devices.csim import COUNTING_FLAGS, Integers
from bfpga.devices.library_cache import cached_library
from bfpga.errors import ToolError
from bfpga.formats.cache import cache_directory
from bfpga.vendor.clang import EXACT_FLAGS, find_clang
from bfpga.vendor.program_header import PROGRAM_HEADER, program_header_text
from bfpga.vendor.render import library_directory, render_kernel, shim_directory
from bfpga.vendor.row_numbers import ROW_NUMBERS, row_numbers

SOURCES = Path(__file__).parents[1] / "cpp"
BUILDS: tuple[Integers, ...] = ("native", "ap_int")
#: Without much optimization g++ no longer sees which variables are set; kernels are compiled with this warning.
_UNSET = "-Wno-maybe-uninitialized"
#: Units run for milliseconds, which more optimization would not pay for.
_EXACT_OPTIMIZATION = "-O0"
#: Rendered headers the library includes; but for the commands they are the same for all configurations.
_RENDERED = (
    "include/bfpga/contract/commands.hpp",
    "include/bfpga/contract/descriptor.hpp",
    "include/bfpga/contract/beats.hpp",
    "include/bfpga/output/activation_tables.hpp",
    "include/bfpga/output/table_dispatch.hpp",
)


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)


def integer_flags(integers: Integers) -> list[str]:
    """Compiler flags that choose the integers; skips the test if the machine has no ap_int headers.

    Native units check waivers and count clocks as exact ones do.
    """
    if integers == "native":
        return ["-DBFPGA_NATIVE_INTEGERS", *COUNTING_FLAGS]
    if integers == "exact":
        return [*EXACT_FLAGS, "-DBFPGA_WAIVER_CHECKS"]
    try:
        directory = toolchain.find_ap_types()
    except ToolError as error:
        pytest.skip(str(error))
    # The constructors of ap_int mask bits they have not set; g++ sees that in every use.
    return ["-isystem", str(directory), "-Wno-maybe-uninitialized", "-Wno-uninitialized"]


def compiler() -> str:
    """The C++ compiler; skips the test if the machine has none."""
    try:
        return toolchain.find_compiler()
    except ToolError as error:
        pytest.skip(str(error))


def exact_compiler() -> tuple[str, ...]:
    """Command of a clang with exact integers; skips the test if the machine has none."""
    try:
        return find_clang()
    except ToolError as error:
        pytest.skip(str(error))


#: The array of a kernel that has no other one.
PLAIN = SystolicArray()


@functools.cache
def rendered_headers(array: Array = PLAIN, row_columns: int = 0, program_descriptors: int = 0) -> dict[str, str]:
    """Rendered header -> text, by the path it is included with, of a kernel with this array and others beside it."""
    config = KernelConfig(array=array, row_columns=row_columns, program_descriptors=program_descriptors)
    files = render_kernel("units", "0" * 16, config)
    tables = {ROW_NUMBERS: row_numbers(), PROGRAM_HEADER: program_header_text()}
    return {path.removeprefix("include/"): files[path] for path in _RENDERED} | tables


def write_rendered(directory: Path, headers: Mapping[str, str] | None = None) -> None:
    """Write the rendered headers below ``directory``; without any those of a kernel without a skip array."""
    for path, text in (rendered_headers() if headers is None else headers).items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def unit_files(source: str, headers: Mapping[str, str]) -> dict[str, str]:
    """All that a unit may be compiled from: path as it is included -> text.

    The source, and every header that these include under whatever condition: rendered, of the library, of the shim or
    beside the source; those of the system have no folder here.
    """
    files = {f"{source}.cpp": (SOURCES / f"{source}.cpp").read_text()}
    waiting = list(files.values())
    while waiting:
        for name in _INCLUDE.findall(waiting.pop()):
            if name not in files and (text := _header(name, headers)) is not None:
                files[name] = text
                waiting.append(text)
    return files


def _header(name: str, headers: Mapping[str, str]) -> str | None:
    """Text of a header by the path that it is included with; None for one of the system."""
    if name in headers:
        return headers[name]
    paths = (folder / name for folder in (SOURCES, shim_directory(), library_directory()))
    return next((path.read_text() for path in paths if path.is_file()), None)


def _digest(command: Sequence[str], arguments: Sequence[str], files: Mapping[str, str]) -> str:
    """Digest of the compiler, the arguments and every file of a unit with its name."""
    content = hashlib.sha256()
    named = (part for item in sorted(files.items()) for part in item)
    for part in (*arguments, toolchain.compiler_version(*command), *named):
        content.update(part.encode() + b"\0")
    return content.hexdigest()[:32]


@functools.cache
def library(
    source: str,
    integers: Integers,
    array: Array = PLAIN,
) -> ctypes.CDLL:
    """The library of ``tests/cpp/<source>.cpp`` with integers of one kind, beside headers of a kernel with it."""
    include = library_directory()
    exact = integers == "exact"
    command = exact_compiler() if exact else (compiler(),)
    chosen = [_EXACT_OPTIMIZATION] if exact else [_UNSET, *shlex.split(os.environ["BFPGA_CXXFLAGS"])]
    arguments = [*toolchain.WARNINGS, *chosen, "-fPIC", "-shared", *integer_flags(integers)]
    headers = rendered_headers(array)
    digest = _digest(command, [source, *arguments], unit_files(source, headers))
    target = cache_directory("units") / f"{source}-{digest}.so"
    unit = [*arguments, "-I", str(shim_directory()), "-I", str(include), str(SOURCES / f"{source}.cpp")]
    cached_library(target, lambda built, directory: _build(built, directory, command, unit, headers))
    return ctypes.CDLL(str(target))


def _build(
    built: Path, directory: Path, command: Sequence[str], arguments: Sequence[str], headers: Mapping[str, str]
) -> None:
    write_rendered(directory, headers)
    toolchain.run_compiler([*arguments, "-I", str(directory), "-o", str(built)], command)
