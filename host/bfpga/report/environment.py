"""What a report was made with: versions, the machine, and digests that distinguish states of a file."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from bfpga.devices.host_time import cpu_name
from bfpga.formats.files import check_regular
from bfpga.formats.version import VERSION

#: Packages whose versions may change results or times.
PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxslim")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class FileDigest:
    """A file that was read, by its role, with its SHA-256."""

    role: str
    name: str
    octets: int
    sha256: str


@dataclass(frozen=True)
class Environment:
    """versions: of bfpga, Python and packages, by name."""

    created: str
    machine: str
    system: str
    versions: dict[str, str]
    files: list[FileDigest]


def environment(files: dict[str, Path | None]) -> Environment:
    """This machine, now. files: by role; those that are None or are no regular files are left out."""
    versions = {"bfpga": VERSION, "Python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in PACKAGES}
    return Environment(
        datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        cpu_name(),
        f"{platform.system()} {platform.machine()}",
        versions,
        [file_digest(role, path) for role, path in files.items() if path is not None and path.is_file()],
    )


def file_digest(role: str, path: Path) -> FileDigest:
    """SHA-256 of a file; OSError if it cannot be read."""
    check_regular(path)
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return FileDigest(role, path.name, path.stat().st_size, digest.hexdigest())
