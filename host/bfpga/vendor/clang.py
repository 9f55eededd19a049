"""A clang with exact integers (`_BitInt(N)`), and the flags that kernels take with them.

The same headers in two views: simulated, with their checks, and as a synthesis tool sees them (``ANALYSIS_FLAGS``).
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from bfpga.errors import ToolError

#: The oldest release with `_BitInt` of more than 128 bits, which beats and words of weights have.
OLDEST = 16
#: Exact integers. Their widths wrap around, as registers do.
EXACT_FLAGS = ("-DBFPGA_EXACT_INTEGERS", "-fwrapv", "-Wno-bit-int-extension")
#: A kernel without the simulation's checks, its streams as volatile accesses (ports/visible_stream.hpp); checks leave
#: their parameters unused.
ANALYSIS_FLAGS = (
    *EXACT_FLAGS,
    "-D__SYNTHESIS__",
    "-fno-exceptions",
    "-fno-threadsafe-statics",
    "-Wno-unused-parameter",
)


def find_clang() -> tuple[str, ...]:
    """Command of a clang that has exact integers: clang++ of the PATH, else that of the package ziglang.

    The package's clang takes the C++ library of g++ where that is installed, else it builds its own once (a minute).
    ToolError without any.
    """
    found = shutil.which("clang++")
    if found is not None and _release(found) >= OLDEST:
        return (found,)
    specification = importlib.util.find_spec("ziglang")
    for location in (specification.submodule_search_locations or []) if specification else []:
        program = Path(location) / "zig"
        if program.is_file() and shutil.which("g++"):
            return (str(program), "clang", "--driver-mode=g++", "-resource-dir", str(Path(location) / "lib"))
        if program.is_file():
            return (str(program), "c++", "-fno-sanitize=undefined")
    raise ToolError(
        f"exact integers need clang {OLDEST} or later, and none was found: pip install 'bfpga[synthesis]' (the package "
        "ziglang has one), or install clang"
    )


@functools.cache
def clang_version() -> str:
    """First line of what the clang of ``find_clang`` says about itself.

    Raises:
        ToolError: there is none, or it says nothing.
    """
    result = subprocess.run([*find_clang(), "--version"], capture_output=True, text=True, check=False)
    if result.returncode or not result.stdout:
        raise ToolError(f"{find_clang()[0]} does not report its version: {result.stderr.strip()}")
    return result.stdout.splitlines()[0]


@functools.cache
def _release(program: str) -> int:
    """Main release of a clang; 0 if it does not report one."""
    try:
        result = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r"clang version (\d+)", result.stdout)
    return int(match.group(1)) if match else 0
