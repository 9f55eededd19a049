"""Boards without a network between: a virtual one in this process, and the one this program runs on."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bfpga.board.errors import BoardError
from bfpga.board.target import FPGA_MANAGER, MINIMUM_SECONDS, Family, free_all, on_board

if TYPE_CHECKING:
    from bfpga.board.virtual.board import VirtualBoard
    from bfpga.board.virtual.kernel_model import KernelFactory


class VirtualTarget:
    """A virtual board in this process; a new one unless given. ``board`` is open to tests, which inject faults.

    kernels: makes its kernels, by default of the compiled HLS sources. name: as the user gives it.
    """

    emulated = True
    interrupts = True
    #: It says itself when nothing can move any more; until then a machine with other work is slow, not wrong.
    minimum_seconds = 60.0
    slowest_rate = 50e6

    def __init__(
        self, family: Family, board: VirtualBoard | None = None, kernels: KernelFactory | None = None,
        name: str = "virtual",
    ) -> None:  # fmt: skip
        from bfpga.board.virtual.pynq_device import virtual_device

        self.name = name
        self.device: Any = virtual_device(family, board, kernels=kernels)
        self.board = self.device.board

    def explain(self, error: BaseException) -> list[str]:
        return list(self.board.explain())

    def stalled(self, error: BaseException) -> bool:
        from bfpga.board.virtual.board import BoardStall

        return isinstance(error, BoardStall)

    def lost(self, error: BaseException) -> bool:
        return False

    def reconnect(self) -> None:
        """The board is in this process."""

    def free(self, arrays: list[Any]) -> None:
        free_all(arrays)

    def close(self) -> None:
        self.device.close()


class LocalTarget:
    """The board this program runs on. BoardError says what is missing: board, root, XRT or PYNQ."""

    emulated = False
    interrupts = True
    minimum_seconds = MINIMUM_SECONDS
    slowest_rate = 50e6

    def __init__(self, family: Family) -> None:
        self.name = "board"
        if not FPGA_MANAGER.exists() and not on_board():
            raise BoardError(
                "this machine is no PYNQ board; use the target remote:HOST for a board in the network, or virtual"
            )
        if os.geteuid() != 0:
            raise BoardError(
                "programming the logic needs root; start with `sudo -E` after `source /etc/profile.d/pynq_venv.sh`"
            )
        pynq = _import_on_board()
        self.device = self._active(pynq)
        _check_family(self.device, family)
        _forget_stale_metadata(pynq)

    @staticmethod
    def _active(pynq: Any) -> Any:
        try:
            return pynq.Device.active_device
        except RuntimeError as error:
            raise BoardError(
                f"PYNQ finds no device ({error}); its XRT environment is not set. "
                "Run `source /etc/profile.d/xrt_setup.sh` (it sets XILINX_XRT), then start with `sudo -E`"
            ) from None

    def explain(self, error: BaseException) -> list[str]:
        return []

    def stalled(self, error: BaseException) -> bool:
        return False

    def lost(self, error: BaseException) -> bool:
        return False

    def reconnect(self) -> None:
        """The board is this machine."""

    def free(self, arrays: list[Any]) -> None:
        free_all(arrays)

    def close(self) -> None:
        """PYNQ keeps the device."""


def _import_on_board() -> Any:
    """PYNQ with the environment as it is; BoardError if it is missing or does not load."""
    try:
        return import_module("pynq")
    except ImportError as error:
        raise BoardError(
            f"PYNQ does not load ({error}); on a board run `source /etc/profile.d/pynq_venv.sh`, then `sudo -E`"
        ) from None


def _check_family(device: Any, family: Family) -> None:
    machines = {"zynq7": "armv7l", "zynqmp": "aarch64"}
    machine = getattr(device, "arch", None) or os.uname().machine
    if machine != machines[family]:
        raise BoardError(
            f"the overlay is for a {family} board ({machines[family]}); this one is {machine}. Load an overlay of an "
            "accelerator for this board"
        )


def _forget_stale_metadata(pynq: Any) -> None:
    """PYNQ 3.0 serves an older description of a file that was built again under its name."""
    if pynq.__version__.startswith("3.0"):
        with suppress(Exception):  # nothing was kept
            pynq.PL.reset()
