"""Programming a virtual board: a design from an emulation bitstream, or registers alone from a hardware handoff."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bfpga.board.virtual.bitfile import EmulationBitstream, read_emulation_bitstream
from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.kernel_model import AnyKernel, KernelFactory, ThreadBoundKernel
from bfpga.errors import DeviceError
from bfpga.formats.checked_fields import shown


def read_design(path: str | Path) -> EmulationBitstream:
    """What a file configures: an emulation bitstream, or a `.hwh` file, whose kernels are registers and nothing else.

    DeviceError for every other file.
    """
    path = Path(path)
    if path.suffix != ".hwh":
        return read_emulation_bitstream(path)
    try:
        return EmulationBitstream(path.read_text("utf-8-sig"), {}, str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DeviceError(f"{path}: cannot read the hardware handoff: {reason}") from None


def program_board(board: VirtualBoard, design: EmulationBitstream, kernels: KernelFactory | None = None) -> None:
    """Configure a board; ``kernels`` makes kernels from their descriptions, by default the compiled HLS sources.

    The board stays as it was if a kernel cannot be made.
    """
    make = kernels or _compiled_kernel
    made: dict[str, AnyKernel] = {}
    with ExitStack() as undo:
        for instance, description in design.kernels.items():
            made[instance] = _described(make, description, f"{design.where}, kernel {shown(instance)}")
            undo.callback(made[instance].close)
        if len(made) > 1:  # each core has a thread of the host, which lets the whole board run
            for kernel in made.values():
                if isinstance(kernel, ThreadBoundKernel):
                    kernel.stay_in_one_thread()
        board.configure(design.handoff, made)
        undo.pop_all()


def _described(make: KernelFactory, description: Mapping[str, Any], where: str) -> AnyKernel:
    try:
        return make(description)
    except DeviceError as error:
        raise DeviceError(f"{where}: {error}") from None


def _compiled_kernel(description: Mapping[str, Any]) -> AnyKernel:
    """Imported only here: a compiler is needed for it, and not for boards with kernels of another kind."""
    from bfpga.board.virtual.compiled_kernel import kernel_from_description

    return kernel_from_description(description)
