"""The C++ compiler and the arbitrary-precision headers of this machine."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bfpga.errors import ToolError

_LOG = logging.getLogger(__name__)
#: Flags of every build: what the headers promise to compile with. HLS pragmas and loop labels are for another tool.
WARNINGS = ("-std=c++14", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-label")


def find_compiler() -> str:
    """Path of the C++ compiler: $CXX, else g++; ToolError if there is none."""
    wanted = os.environ.get("CXX") or "g++"
    found = shutil.which(wanted)
    if found is None:
        raise ToolError(f"C++ compiler {wanted} not found: install g++ (version 9 or later) or set CXX to a compiler")
    return found


@functools.cache
def compiler_version(*command: str) -> str:
    """First line of what the compiler says about itself."""
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    if result.returncode:
        raise ToolError(f"{' '.join(command)} --version failed: {result.stderr.strip()}")
    return result.stdout.splitlines()[0]


def find_ap_types() -> Path:
    """Directory of AMD's ap_int headers, inside the installed hls4ml package, which is not imported."""
    specification = importlib.util.find_spec("hls4ml")
    for location in (specification.submodule_search_locations or []) if specification else []:
        directory = Path(location) / "templates" / "vivado" / "ap_types"
        if (directory / "ap_int.h").is_file():
            return directory
    raise ToolError(
        "the ap_int headers were not found: they come with the package hls4ml (pip install 'bfpga[csim]'); "
        "integers='native' works without them"
    )


def run_compiler(arguments: Sequence[str], compiler: Sequence[str] = ()) -> None:
    """Run a compiler's command, that of ``find_compiler`` if none is given.

    ToolError with the first lines of its messages if it fails.
    """
    command = [*(compiler or [find_compiler()]), *arguments]
    _LOG.debug("runs %s", shlex.join(command))
    begun = time.perf_counter()
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    _LOG.info("%s ended with %d after %.1f s", command[0], result.returncode, time.perf_counter() - begun)
    if result.returncode:
        lines = "\n".join(result.stderr.splitlines()[:30])
        raise ToolError(f"the C++ compiler failed: {' '.join(command)}\n{lines}")
