"""The same accelerator on other boards."""

from __future__ import annotations

from dataclasses import replace

from bfpga.accelerator.boards import Board, load_boards
from bfpga.accelerator.constraints import board_findings
from bfpga.accelerator.loader import Accelerator, digest


def on_board(accelerator: Accelerator, board: Board) -> Accelerator:
    """The accelerator with another board and the digest that follows; nothing is checked."""
    number = digest(board, accelerator.clock_mhz, accelerator.systolic)
    return replace(accelerator, board=board, digest=number)


def fitting_boards(accelerator: Accelerator) -> list[Board]:
    """The accelerator's own board, then every other one of the same family that holds it at its clock."""
    own, clock = accelerator.board, accelerator.clock_mhz
    others = [
        board
        for board in load_boards()
        if board.name != own.name
        and board.processing_system == own.processing_system
        and board.dsp_kind == accelerator.systolic.dsp
        and board.clock_min <= clock <= board.clock_max
        and not board_findings(accelerator.systolic, board)
    ]
    return [own, *others]
