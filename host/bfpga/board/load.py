"""Boards: one driver for virtual, local and remote ones, on PYNQ's own classes. See docs/board.md.

Importing it costs nothing; PYNQ is loaded when a board is opened.
"""

from __future__ import annotations

from bfpga.board.errors import BoardDiagnosis, BoardError
from bfpga.board.kernel import BoardKernel
from bfpga.board.overlay import BoardOverlay, load, open_overlay, open_program, open_program_cores
from bfpga.board.target import on_board
from bfpga.board.target_choice import TARGETS, default_target, open_target

__all__ = [
    "TARGETS",
    "BoardDiagnosis",
    "BoardError",
    "BoardKernel",
    "BoardOverlay",
    "default_target",
    "load",
    "on_board",
    "open_overlay",
    "open_program",
    "open_program_cores",
    "open_target",
]
