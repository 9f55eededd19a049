"""Arrays on virtual boards: each gets an overlay of its own, which is loaded once for all programs of the array."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Program
from bfpga.devices.base import Device
from bfpga.verify.orders import order_of

if TYPE_CHECKING:
    from bfpga.board.overlay import BoardOverlay


class VirtualBoards:
    """Opens programs on the virtual board; the board stays until a program of another array comes.

    DeviceError at once where PYNQ is missing.
    """

    def __init__(self) -> None:
        from bfpga.board.virtual.pynq_internals import import_pynq

        import_pynq()
        self._config: KernelConfig | None = None
        self._overlay: BoardOverlay | None = None
        self._opened = ExitStack()

    def open(self, program: Program) -> Device:
        """The program on a board with its array; closing the device leaves the board as it is.

        Half of the programs in an order of streams and processes drawn by chance: see `CompiledKernel.disturb`.
        """
        if self._overlay is None or program.config != self._config:
            self.close()
            self._overlay, self._config = self._load(program), program.config
        self._disturb(self._overlay, order_of(program))
        return self._overlay.open(program)

    @staticmethod
    def _disturb(overlay: BoardOverlay, seed: int) -> None:
        board: Any = overlay.target  # a virtual board, which has a fabric
        for slave in board.board.fabric.kernels:
            slave.kernel.disturb(seed)

    def _load(self, program: Program) -> BoardOverlay:
        from bfpga.accelerator.variants import accelerator_around
        from bfpga.board.overlay import open_overlay
        from bfpga.board.overlays import load_overlay
        from bfpga.vendor.overlay_files import write_overlay

        directory = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="bfpga_verify_")))
        described = accelerator_around(program.config, program.accelerator, program.digest, program.clock_mhz)
        write_overlay(described, directory)
        return self._opened.enter_context(open_overlay(load_overlay(directory), "virtual"))

    def close(self) -> None:
        """Release the board. Another program may be opened afterwards."""
        self._overlay = None
        self._opened.close()
