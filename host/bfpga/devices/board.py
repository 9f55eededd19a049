"""Boards: one driver for virtual, local and remote ones, on PYNQ's own classes. See docs/board.md.

Importing it costs nothing; PYNQ is loaded when a board is opened.
"""

from __future__ import annotations

from bfpga.devices.board_errors import BoardDiagnosis, BoardError
from bfpga.devices.board_kernel import BoardKernel
from bfpga.devices.board_overlay import BoardOverlay, load, open_overlay, open_program
from bfpga.devices.board_target import TARGETS, default_target, on_board, open_target

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
    "open_target",
]
