#!/usr/bin/env python3
"""Format the C++ of the project with clang-format; `--check` only names the files that are not formatted.

clang-format takes a pragma for code and would write `II = 1`. Tools that read HLS pragmas line by line expect `II=1`,
so the equals signs of pragmas are hidden from it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIRECTORIES = ("hls/vitis_hls_templates/include", "host/bfpga/devices/native", "tests/cpp")
PRAGMA = re.compile(r"^#pragma .*$", re.MULTILINE)
#: A letter that C++ allows in names and nobody uses.
HIDDEN = "\u01c2"


def formatted(path: Path) -> str:
    """The text of a file as clang-format would have it."""
    hidden = PRAGMA.sub(lambda line: line[0].replace("=", HIDDEN), path.read_text())
    command = ["clang-format", f"--assume-filename={path}"]
    result = subprocess.run(command, input=hidden, capture_output=True, text=True, check=True, encoding="utf-8")
    return result.stdout.replace(HIDDEN, "=")


def main(arguments: list[str]) -> int:
    if shutil.which("clang-format") is None:
        print("clang-format is not installed: pip install clang-format", file=sys.stderr)
        return 2
    paths = [path for name in DIRECTORIES for path in sorted((ROOT / name).rglob("*.[ch]pp"))]
    changed = [path for path in paths if formatted(path) != path.read_text()]
    if "--check" in arguments:
        for path in changed:
            print(f"{path.relative_to(ROOT)} is not formatted: run scripts/format_cpp.py", file=sys.stderr)
        return 1 if changed else 0
    for path in changed:
        path.write_text(formatted(path))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
