"""The test bench of a rendered project: the top functions side by side, with the streams between them, on vectors."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bfpga.contract.configuration import KernelConfig
from bfpga.devices import toolchain
from bfpga.vendor.render import top_files


def compiled_bench(project: Path, config: KernelConfig) -> Path:
    """All of it as one source, for which a compiler reads their headers once. `make`, of another test, compiles them
    one by one.
    """
    sources = [project / path for path in ("tb/testbench.cpp", *top_files(config))]
    joined, bench = project / "bench.cpp", project / "bench"
    joined.write_text("".join(f'#include "{source}"\n' for source in sources))
    places = [f"-I{project / folder}" for folder in ("shim", "include", "src")]
    flags = [*toolchain.WARNINGS, "-O0", "-DBFPGA_NATIVE_INTEGERS", *places]
    toolchain.run_compiler([*flags, str(joined), "-o", str(bench)])
    return bench


def said_by_bench(bench: Path, project: Path) -> str:
    """What it prints of the project's vectors."""
    return subprocess.run([bench, project / "tb" / "vectors"], capture_output=True, text=True, check=False).stdout
