"""The compiler of tests: a clang without optimization, which parses headers of the standard library once for all."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
from pathlib import Path

from bfpga.devices.toolchain import compiler_version
from bfpga.errors import BfpgaError, ToolError
from bfpga.formats.cache import cache_directory, make_private
from bfpga.vendor.clang import find_clang

#: What kernels and units include of the system.
HEADERS = (
    "atomic", "cstddef", "cstdint", "cstdio", "cstring", "deque", "exception", "functional", "list", "map", "memory",
    "new", "set", "stdexcept", "string", "type_traits", "vector",
)  # fmt: skip


def quick_compiler() -> Path | None:
    """A clang, which makes what is no library without optimization, for the C library of g++; None without clang.

    Libraries with the flags of tests find the headers precompiled; others, and those with ap_int, read them.
    """
    try:
        clang, folder = find_clang(), cache_directory("tests")
        make_private(folder)
        units, kernels = precompiled(clang, folder, ()), precompiled(clang, folder, ("-march=native",))
    except BfpgaError:
        return None
    script = f"""#!/bin/sh
headers=
case " $* " in
*" -isystem "* | *" -O0 "*" -O"[!0]*) ;;
*" -std=c++14 "*" -march=native "*" -O0 "*) headers={kernels} ;;
*" -march="*) ;;
*" -std=c++14 "*" -O0 "*) headers={units} ;;
esac
case " $* " in
*" --version "*) exec {shlex.join(clang)} "$@" ;;
*" -shared "*) exec {shlex.join(clang)} ${{headers:+-include-pch "$headers"}} "$@" ;;
esac
exec {shlex.join(clang)} --target={platform.machine()}-linux-gnu -Wno-unknown-warning-option "$@" -O0
"""
    target = folder / "c++"
    if not target.exists() or target.read_text() != script:
        written = folder / f"c++.{os.getpid()}"
        written.write_text(script)
        written.chmod(0o700)
        written.replace(target)
    return target


def precompiled(clang: tuple[str, ...], folder: Path, flags: tuple[str, ...]) -> Path:
    """The headers as clang keeps them for a compilation with the same flags, made once for each clang."""
    text = "".join(f"#include <{name}>\n" for name in HEADERS)
    command = [*clang, "-std=c++14", "-fPIC", *flags, "-O0", "-x", "c++-header"]
    key = hashlib.sha256(" ".join([compiler_version(*clang), *command, text]).encode()).hexdigest()[:16]
    source, target = folder / f"headers-{key}.hpp", folder / f"headers-{key}.pch"
    if not target.exists():
        written = folder / f"{target.name}.{os.getpid()}"
        if not source.exists():  # what is precompiled belongs to a file of this time
            source.write_text(text)
        made = subprocess.run([*command, str(source), "-o", str(written)], capture_output=True, text=True, check=False)
        if made.returncode:
            raise ToolError(f"no header of the standard library compiles: {made.stderr}")
        written.replace(target)
    return target
