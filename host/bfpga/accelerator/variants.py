"""The same accelerator on other boards, and accelerators without a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bfpga.accelerator.boards import Board, load_boards
from bfpga.accelerator.clocks import speed_grade
from bfpga.accelerator.constraints import board_findings, cores_excess
from bfpga.accelerator.loader import Accelerator, digest
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.names import DIGEST_DIGITS


def accelerator_around(
    config: KernelConfig, name: str = "unnamed", digest: str = "0" * DIGEST_DIGITS, clock_mhz: float = 100.0
) -> Accelerator:
    """An accelerator with these numbers that no file describes, on the first board with DSP blocks of its kind.

    Whether it fits the board is not checked: emulators and virtual boards have room for any.
    """
    boards = load_boards()
    board = next((board for board in boards if board.dsp_kind == config.dsp), boards[0])
    return Accelerator(name, "", board, clock_mhz, config, digest, Path())


def on_board(accelerator: Accelerator, board: Board) -> Accelerator:
    """The accelerator with another board and the digest that follows; nothing is checked."""
    number = digest(board, accelerator.clock_mhz, accelerator.config, accelerator.cores)
    return replace(accelerator, board=board, digest=number)


def with_cores(accelerator: Accelerator, cores: int) -> Accelerator:
    """The accelerator with so many copies of its kernel and the digest that follows; nothing is checked."""
    number = digest(accelerator.board, accelerator.clock_mhz, accelerator.config, cores)
    return replace(accelerator, cores=cores, digest=number)


def fitting_boards(accelerator: Accelerator) -> list[Board]:
    """The accelerator's own board, then every other one of the same family that holds it at its clock.

    On a device of a slower speed grade nothing says that it does.
    """
    own, clock = accelerator.board, accelerator.clock_mhz
    others = [
        board
        for board in load_boards()
        if board.name != own.name
        and board.processing_system == own.processing_system
        and board.dsp_kind == accelerator.config.dsp
        and speed_grade(board.part) >= speed_grade(own.part)
        and board.clock_min <= clock <= board.clock_max
        and not board_findings(accelerator.config, board)
        and not cores_excess(accelerator.config, board, accelerator.cores)
    ]
    return [own, *others]
