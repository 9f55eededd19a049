"""The test bench of a rendered project: the top functions side by side, with the streams between them, on vectors."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from bfpga.contract.configuration import KernelConfig
from bfpga.devices import toolchain
from bfpga.devices.library_cache import cached_library
from bfpga.formats.cache import cache_directory
from bfpga.vendor.render import top_files


def compiled_bench(project: Path, config: KernelConfig) -> Path:
    """All of it as one source, for which a compiler reads their headers once. `make`, of another test, compiles them
    one by one. It is kept for projects of the same text.
    """
    text = "".join(f'#include "{path}"\n' for path in ("tb/testbench.cpp", *top_files(config)))
    flags = [*toolchain.WARNINGS, "-O0", "-DBFPGA_NATIVE_INTEGERS"]
    content = hashlib.sha256(" ".join([toolchain.compiler_version(toolchain.find_compiler()), *flags, text]).encode())
    for path in sorted(path for path in project.rglob("*") if path.suffix in (".cpp", ".hpp", ".h")):
        content.update(f"\0{path.relative_to(project)}\0".encode() + path.read_bytes())

    def build(built: Path, folder: Path) -> None:
        joined = folder / "bench.cpp"
        joined.write_text(text)
        places = [f"-I{project / place}" for place in (".", "shim", "include", "src")]
        toolchain.run_compiler([*flags, *places, str(joined), "-o", str(built)])

    return cached_library(cache_directory("units") / f"bench-{content.hexdigest()[:32]}", build)


def said_by_bench(bench: Path, project: Path) -> str:
    """What it prints of the project's vectors."""
    return subprocess.run([bench, project / "tb" / "vectors"], capture_output=True, text=True, check=False).stdout
