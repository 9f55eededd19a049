"""clang's syntax tree of a kernel, as a synthesis sees it (`__SYNTHESIS__` defined)."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bfpga.errors import ToolError

#: Declarations of the vendor's headers, enough to parse a kernel; used where no include directory has the real ones.
VENDOR_HEADERS = Path(__file__).parent / "vendor"
#: Headers of the vendor are not the project's to mend.
_VENDOR_NAME = re.compile(r"(ap|hls)_\w+\.h$")
#: A source that is on no disk: it includes several that are.
_TOGETHER = "together_for_the_lint.cpp"


def load_clang() -> Any:
    """The module `clang.cindex`; ToolError if it or its library is missing."""
    try:
        from clang import cindex

        cindex.conf.lib  # noqa: B018  (loads the library)
    except ImportError as error:
        raise ToolError("libclang is not installed: `pip install libclang` to lint kernels") from error
    except cindex.LibclangError as error:
        raise ToolError(f"libclang cannot be loaded: {error}; `pip install --force-reinstall libclang`") from error
    return cindex


@functools.cache
def system_include_directories() -> tuple[str, ...]:
    """Where g++ finds the standard headers; ToolError if g++ is missing or does not say."""
    if shutil.which("g++") is None:
        raise ToolError("g++ is not on the PATH: install it (Debian, Ubuntu: apt install g++) to lint kernels")
    command = ["g++", "-std=c++14", "-E", "-x", "c++", "-v", "/dev/null"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env=None)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolError(f"`{' '.join(command)}` failed: {error}") from error
    found = re.search(r"^#include <\.\.\.>.*?\n(.*?)^\S", result.stderr, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ToolError(f"`{' '.join(command)}` names no include directories; is g++ the GNU compiler?")
    return tuple(line.strip() for line in found[1].splitlines())


def parse(paths: Sequence[Path], include_directories: Sequence[Path], defines: Sequence[str] = ()) -> Any:
    """The translation unit of a source file or header, or of several in one directory. ``defines``: `NAME[=value]`."""
    cindex = load_clang()
    main, path = str(paths[0]), paths[0]
    text: list[tuple[str, str]] = []
    if len(paths) > 1:
        main = str(path.parent / _TOGETHER)
        text = [(main, "".join(f'#include "{source.name}"\n' for source in paths))]
    arguments = ["-x", "c++", "-std=c++14", "-nostdinc", "-ferror-limit=20", "-D__SYNTHESIS__", "-Wno-everything"]
    arguments += [f"-D{define}" for define in defines]
    arguments += [f"-I{directory}" for directory in include_directories]
    for directory in (*system_include_directories(), str(VENDOR_HEADERS)):
        arguments += ["-isystem", directory]
    options = cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
    try:
        return cindex.Index.create().parse(main, args=arguments, unsaved_files=text, options=options)
    except cindex.TranslationUnitLoadError as error:
        raise ToolError(f"{path}: clang cannot read the file; is it C++ text?") from error


def errors(unit: Any) -> list[Any]:
    """Diagnostics of clang that are errors."""
    return [diagnostic for diagnostic in unit.diagnostics if diagnostic.severity >= diagnostic.Error]


def project_files(unit: Any, paths: Sequence[Path], directories: Sequence[Path]) -> list[str]:
    """The sources and what they include from ``directories``, without the vendor's headers."""
    names = [*map(str, paths), *dict.fromkeys(str(inclusion.include.name) for inclusion in unit.get_includes())]
    roots = [directory.resolve() for directory in (*directories, paths[0].parent)]
    inside = [name for name in names if any(root in Path(name).resolve().parents for root in roots)]
    return [name for name in dict.fromkeys(inside) if not _VENDOR_NAME.match(Path(name).name)]


class _RangeList(ctypes.Structure):
    """CXSourceRangeList of libclang."""

    _fields_ = [("count", ctypes.c_uint), ("ranges", ctypes.c_void_p)]


def skipped_ranges(unit: Any, path: str) -> list[tuple[int, int]]:
    """The parts of a file that the preprocessor leaves out, as bytes from and to."""
    cindex = load_clang()
    library = cindex.conf.lib
    library.clang_getSkippedRanges.restype = ctypes.POINTER(_RangeList)
    library.clang_disposeSourceRangeList.argtypes = [ctypes.POINTER(_RangeList)]
    pointer = library.clang_getSkippedRanges(unit, unit.get_file(path))
    listed = pointer.contents
    array = ctypes.cast(listed.ranges, ctypes.POINTER(cindex.SourceRange))
    ranges = [(array[i].start.offset, array[i].end.offset) for i in range(listed.count)]
    library.clang_disposeSourceRangeList(pointer)
    return ranges
