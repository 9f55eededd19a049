"""A virtual board as a device of PYNQ: stock `Overlay`, `allocate`, `MMIO`, `DMA`, `Clocks`, `Interrupt` run on it.

Importing this module imports PYNQ. Registers go through the capability REGISTER_RW, which PYNQ has for devices without
mapped memory: every access is a call, so that reading a status register can have effects, as in hardware.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.board.virtual.board import Family, VirtualBoard
from bfpga.board.virtual.interrupt_line import InterruptLine
from bfpga.board.virtual.kernel_model import KernelFactory
from bfpga.board.virtual.memory import CachedView
from bfpga.board.virtual.programming import program_board, read_design
from bfpga.board.virtual.pynq_internals import (
    BOARD_NAMES,
    MACHINES,
    clocks_follow_device,
    complete_clocks,
    import_pynq,
    interrupt_lines,
    metadata_parser,
    release_clocks,
)
from bfpga.errors import DeviceError

pynq = import_pynq()


class VirtualDevice(pynq.Device):  # type: ignore[misc, name-defined]
    """A `pynq.Device` whose logic, memory and clocks are those of a virtual board.

    owns_board: `close` closes the board too. Errors of the board (BusError, BoardStall) pass through PYNQ.
    """

    def __init__(
        self, board: VirtualBoard, name: str, kernels: KernelFactory | None = None, owns_board: bool = False
    ) -> None:
        super().__init__(f"virtual {id(self):x}")
        self.board = board
        self.name = name
        self.arch = MACHINES[board.family]
        self.capabilities = {"REGISTER_RW": True, "MEMORY_MAPPED": False, "CALLABLE": False}
        self.devicetree_dict: dict[str, str] = {}
        self._kernels = kernels
        self._owns_board = owns_board
        self._lines: dict[int, InterruptLine] = {}

    def __enter__(self) -> VirtualDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave nothing in PYNQ's caches that belongs to this device."""
        self._disconnect_interrupts()
        release_clocks()
        if self._owns_board:
            self.board.close()

    # Registers

    def read_registers(self, address: int, length: int) -> bytes:
        """Bytes from the register bus; BusError where no slave answers, BoardStall in a wait without end."""
        return self.board.read(address, length)

    def write_registers(self, address: int, data: bytes) -> None:
        """Bytes to the register bus; BusError where no slave answers."""
        self.board.write(address, bytes(data))

    # Configuration

    def get_bitfile_metadata(self, bitfile_name: str, partial: bool = False) -> Any:
        """PYNQ's description of the design in the `.hwh` file next to a bitstream."""
        handoff = Path(bitfile_name).with_suffix(".hwh")
        if not handoff.is_file():
            raise RuntimeError("Unable to find metadata for bitstream")  # As a real board says it.
        parser = metadata_parser(handoff)
        complete_clocks(parser)
        parser.mem_dict["PSDDR"] = self._memory_description()
        parser.refresh_hierarchy_dict()
        if not clocks_follow_device():
            parser.clock_dict = {}
        release_clocks()
        return parser

    def download(self, bitstream: Any, parser: Any = None) -> None:
        """Configure the board with the design of a bitstream file; the device becomes PYNQ's active one.

        Interrupts and the state of the logic belong to the active device in PYNQ. DeviceError for a bitstream of real
        hardware and for partial ones.
        """
        if bitstream.partial:
            raise DeviceError(f"{bitstream.bitfile_name}: partial bitstreams do not exist for a virtual board")
        design = read_design(bitstream.bitfile_name)
        parser = parser or self.get_bitfile_metadata(bitstream.bitfile_name)
        self.shutdown()
        self._disconnect_interrupts()
        program_board(self.board, design, self._kernels)
        self._connect_interrupts(parser)
        pynq.Device.active_device = self
        self.post_download(bitstream, parser, self.name)

    def gen_cache(self, bitstream: Any, parser: Any = None) -> None:
        """Nothing: metadata is never kept from one process to another, so it is never out of date."""

    def shutdown(self) -> None:
        """Nothing: a virtual board has no transfers left open that a new design could disturb."""

    def set_axi_port_width(self, parser: Any) -> None:
        """Nothing: ports have the widths of the handoff."""

    def insert_device_tree(self, abs_dtbo: str) -> None:
        """Note a device tree overlay as inserted."""
        self.devicetree_dict[Path(abs_dtbo).stem] = abs_dtbo

    def remove_device_tree(self, abs_dtbo: str) -> None:
        """Note a device tree overlay as removed."""
        self.devicetree_dict.pop(Path(abs_dtbo).stem, None)

    def clear_devicetree(self) -> None:
        """Note all device tree overlays as removed."""
        self.devicetree_dict.clear()

    def _connect_interrupts(self, parser: Any) -> None:
        for controller in parser.interrupt_controllers.values():
            number = controller["raw_irq"]
            line = self._lines.setdefault(number, InterruptLine())
            self.board.interrupt_listeners[number] = line.change_level
            interrupt_lines()[number] = line

    def _disconnect_interrupts(self) -> None:
        table = interrupt_lines()
        for number, line in self._lines.items():
            self.board.interrupt_listeners.pop(number, None)
            if table.get(number) is line:
                del table[number]
        self._lines = {}

    # Memory

    @property
    def default_memory(self) -> VirtualDevice:
        """The DDR memory."""
        return self

    def get_memory(self, description: Any) -> VirtualDevice:
        """The DDR memory, the only one that buffers come from."""
        return self

    def allocate(
        self, shape: int | Sequence[int], dtype: npt.DTypeLike = "u4", cacheable: int = 0, **options: Any
    ) -> Any:
        """A `PynqBuffer` of zeros in the board's DDR.

        cacheable: the processor works on its own copy, as through a cache, until `flush` or `invalidate`; otherwise
        the buffer is the DDR itself. DeviceError if the pool is exhausted.
        """
        kind = np.dtype(dtype)
        count = math.prod(shape) if isinstance(shape, Sequence) else int(shape)
        size = max(count * kind.itemsize, 1)
        physical = self.board.memory.allocate(size)
        view = self.board.memory.cached_view(physical, size) if cacheable else None
        data = view.data if view else self.board.memory.view(physical, size)
        buffer = pynq.buffer.PynqBuffer(
            shape, kind, buffer=data, device=self, device_address=physical, coherent=False, bo=view
        )
        # How PYNQ's buffers are given back to a memory that is not XRT's; without `freed`, a second release would
        # unmap memory that was never mapped.
        buffer.memory = buffer.return_to = self
        buffer.pointer = physical
        buffer.freed = True
        return buffer

    def return_pointer(self, pointer: int) -> None:
        """A buffer is given back."""
        self.board.memory.free(pointer)

    def flush(self, bo: CachedView | None, offset: int, vaddr: int, nbytes: int) -> None:
        """Write the processor's copy back to DDR, as whole cache lines."""
        if bo is not None:
            bo.flush(offset, nbytes)

    def invalidate(self, bo: CachedView | None, offset: int, vaddr: int, nbytes: int) -> None:
        """Forget the processor's copy and read DDR again."""
        if bo is not None:
            bo.invalidate(offset, nbytes)

    def _memory_description(self) -> dict[str, Any]:
        """The entry that PYNQ adds to every design for the memory of the processor."""
        memory = self.board.memory
        return {
            "raw_type": 2, "used": 1, "base_address": 0, "size": memory.base + memory.size, "type": "DDR4",
            "streaming": False, "idx": 0, "tag": "PSDDR",
        }  # fmt: skip


def virtual_device(
    family: Family = "zynq7",
    board: VirtualBoard | None = None,
    name: str | None = None,
    kernels: KernelFactory | None = None,
) -> VirtualDevice:
    """A virtual board as the active device of PYNQ; a new one, closed with the device, unless ``board`` is given.

    name: the board's name in PYNQ; by default that of a common board of the family. kernels: makes the kernels of
    emulation bitstreams, by default the compiled HLS sources. DeviceError if ``board`` is of another family.
    """
    if board is not None and board.family != family:
        raise DeviceError(f"the virtual board is a {board.family}; the device shall be a {family}")
    device = VirtualDevice(board or VirtualBoard(family), name or BOARD_NAMES[family], kernels, board is None)
    pynq.Device.active_device = device
    return device
