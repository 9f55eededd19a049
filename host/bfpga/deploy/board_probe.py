"""What a board is and has. Sent to the board and run by whatever `python3` is there, so it speaks old Python too.

Usage: python3 - DIRECTORY. Prints one line of JSON.
"""

import json
import os
import shutil
import subprocess
import sys


def main(directory: str) -> None:
    """Print the facts of the board this runs on; ``directory``: where a deployment would go."""
    place = existing_parent(directory)
    facts = {
        "python": list(sys.version_info[:3]),
        "numpy": version("numpy"),
        "pynq": version("pynq"),
        "board": board_name(),
        "machine": os.uname().machine,
        "free_bytes": shutil.disk_usage(place).free,
        "writable": os.access(place, os.W_OK | os.X_OK),
        "root": root_rights(),
        "missing_tools": [tool for tool in ("tar", "gzip", "sha256sum", "flock", "mktemp") if not shutil.which(tool)],
        "current": link_target(os.path.join(directory, "current")),
    }
    print(json.dumps(facts))


def existing_parent(path: str) -> str:
    """The deepest directory of a path that exists."""
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def version(package: str) -> "str | None":
    """Version of an installed distribution, None without; nothing is imported, pynq takes seconds."""
    try:
        from importlib import metadata
    except ImportError:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def board_name() -> str:
    """The name PYNQ gave the image: $BOARD, else the device tree; empty if neither says."""
    name = os.environ.get("BOARD", "")
    if name in ("", "Unknown"):
        try:
            with open("/proc/device-tree/chosen/pynq_board", "rb") as stream:
                name = stream.read().rstrip(b"\0\n").decode("ascii", "replace")
        except OSError:
            name = ""
    return name


def root_rights() -> str:
    """`yes` as root or where sudo asks nothing, `password` where it asks, `no` without sudo."""
    if os.geteuid() == 0:
        return "yes"
    if shutil.which("sudo") is None:
        return "no"
    quiet = subprocess.DEVNULL
    status = subprocess.call(["sudo", "-n", "true"], stdin=quiet, stdout=quiet, stderr=quiet)
    return "yes" if status == 0 else "password"


def link_target(path: str) -> "str | None":
    """Where a link leads, None if there is none."""
    return os.readlink(path) if os.path.islink(path) else None


if __name__ == "__main__":
    main(sys.argv[1])
