"""Arrays on virtual boards: each gets an overlay of its own, which is loaded once for all programs of the array."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.cores import MOST_CORES
from bfpga.contract.program import Program
from bfpga.devices.base import Device
from bfpga.errors import DeviceError
from bfpga.verify.orders import order_of

if TYPE_CHECKING:
    from bfpga.board.overlay import BoardOverlay


#: The target, and what may follow it.
VIRTUAL, CORES = "virtual", "cores="


def is_virtual(target: str) -> bool:
    """Whether a target is a virtual board."""
    return target == VIRTUAL or target.startswith(f"{VIRTUAL}:")


def named_cores(target: str) -> int:
    """The cores of a virtual board by its name, `virtual:cores=N`; 1 without.

    DeviceError for what it cannot say.
    """
    if target == VIRTUAL:
        return 1
    said = target.removeprefix(f"{VIRTUAL}:{CORES}")
    if said not in [str(count) for count in range(1, MOST_CORES + 1)]:
        raise DeviceError(f"device {target!r} is unknown; {VIRTUAL}:{CORES}N, N from 1 to {MOST_CORES}, has N cores")
    return int(said)


class VirtualBoards:
    """Opens programs on the virtual board; the board stays until a program of another array comes.

    ``cores``: copies of the kernel. DeviceError at once where PYNQ is missing.
    """

    def __init__(self, cores: int = 1) -> None:
        from bfpga.board.virtual.pynq_internals import import_pynq

        import_pynq()
        self._cores = cores
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
        write_overlay(replace(described, cores=self._cores), directory)  # with the digest that the program has
        return self._opened.enter_context(open_overlay(load_overlay(directory), "virtual"))

    def close(self) -> None:
        """Release the board. Another program may be opened afterwards."""
        self._overlay = None
        self._opened.close()
