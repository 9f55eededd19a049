"""Why a build stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from bfpga.errors import ToolError

#: What kind of reason stopped a stage.
Kind = Literal[
    "artefact", "bitstream", "board_files", "file", "interface", "interval", "handoff", "license", "memory",
    "missing_tool", "part", "timeout", "timing", "tool", "utilization", "y2k22",
]  # fmt: skip


class BuildError(ToolError):
    """A stage that failed. ``kind`` is for programs, the message for people; ``log``: file that shows it, if any."""

    def __init__(self, kind: Kind, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.log = log
