"""What a stage has done, stored with it: inputs and outputs by their hashes.

A record is written when its stage has succeeded, under a temporary name and then renamed. A stage whose record and
files still match is not done again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bfpga.formats.files import replace_file
from bfpga.vendor.manifest import file_hash


@dataclass(frozen=True)
class StageRecord:
    """A finished stage. ``key``: hash of all its inputs.

    ``artefacts``: file, relative to the build directory -> SHA-256. ``present``: what must be there too, but may be
    changed by later stages (the project of Vivado).
    """

    stage: str
    key: str
    seconds: float
    tool: str | None
    artefacts: dict[str, str]
    result: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)

    def intact(self, directory: Path) -> bool:
        """Whether every artefact is there as it was."""
        if not all((directory / name).exists() for name in self.present):
            return False
        try:
            return all(file_hash(directory / name) == digest for name, digest in self.artefacts.items())
        except OSError:
            return False

    def identity(self) -> str:
        """What the next stage depends on."""
        return text_hash(json.dumps([self.key, self.artefacts], sort_keys=True))


def text_hash(*texts: str) -> str:
    """SHA-256 of several texts; where one ends and the next begins matters."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def hashes(directory: Path, files: Iterable[Path]) -> dict[str, str]:
    """File, relative to ``directory`` -> SHA-256, sorted; OSError for a file that cannot be read."""
    return {os.path.relpath(path, directory): file_hash(path) for path in sorted(files)}


class Records:
    """The records of a build directory: `stages/NAME.json`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "stages"

    def read(self, stage: str) -> StageRecord | None:
        """The record of a stage; None if there is none that can be read."""
        try:
            return StageRecord(**json.loads((self._directory / f"{stage}.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, record: StageRecord) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(record), indent=2) + "\n"
        replace_file(self._directory / f"{record.stage}.json", text.encode())

    def forget(self, stage: str) -> None:
        """Drop a record before its stage begins to change files."""
        (self._directory / f"{stage}.json").unlink(missing_ok=True)
