"""The hardware of a loaded overlay as the driver uses it: channels, kernel registers, buffers, a way to wait.

Built on PYNQ's own objects: `pynq.lib.dma.DMA`, `pynq.MMIO`, `pynq.allocate`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bfpga.board.buffers import BufferPool
from bfpga.board.dma import MM2S, S2MM, BoardChannel, Registers, reset_dma, starts
from bfpga.board.errors import BoardError
from bfpga.board.registers import CounterRegisters, KernelRegisters
from bfpga.board.waiters import InterruptThread, InterruptWaiter, PollingWaiter, Waiter
from bfpga.contract.cores import TENSOR_DMA, WEIGHT_DMA, Core
from bfpga.devices.kernel_start import KernelStart
from bfpga.vendor.manifest import Manifest

#: Streams by the channel that serves them: cell of the first core, offset of the registers, attribute of PYNQ's DMA,
#: its interrupt.
CHANNELS = {
    "output": (TENSOR_DMA, S2MM, "recvchannel", "s2mm_introut"),
    "input": (TENSOR_DMA, MM2S, "sendchannel", "mm2s_introut"),
    "weights": (WEIGHT_DMA, MM2S, "sendchannel", "mm2s_introut"),
}


@dataclass
class BoardHardware:
    """One core of a loaded overlay. ``clock_mhz``: as measured."""

    registers: KernelRegisters
    counter: CounterRegisters
    output: BoardChannel
    input: BoardChannel
    weights: BoardChannel
    dmas: tuple[tuple[Registers, int], ...]
    pool: BufferPool
    waiter: Waiter
    clock_mhz: float
    stream_bits: int
    weight_stream_bits: int

    @property
    def channels(self) -> tuple[BoardChannel, ...]:
        """In the order of their start."""
        return self.output, self.input, self.weights

    def streams(self) -> dict[str, BoardChannel]:
        """Channels by what they carry."""
        return {"input": self.input, "weights": self.weights, "output": self.output}

    def check_start(self, start: KernelStart) -> None:
        """BoardError for a start that this hardware cannot take; nothing was moved then."""
        for name, data, bits in (
            ("packet", start.packet, self.stream_bits),
            ("weights", start.weights, self.weight_stream_bits),
        ):
            if len(data) % (bits // 8):
                raise BoardError(f"{name} of {len(data)} bytes are no whole number of beats of {bits} bits")
        if start.output_bytes > self.output.limit:
            raise BoardError(
                f"an output packet of {start.output_bytes} bytes does not fit one transfer of {self.output.name}, at "
                f"most {self.output.limit} bytes; run fewer samples in one start"
            )

    def reset(self) -> bool:
        """Stop all transfers; False if a DMA does not answer or does not end its reset."""
        stopped = True
        for registers, offset in self.dmas:
            try:
                stopped &= reset_dma(registers, offset)
            except Exception:  # the board is being brought back from an unknown state
                stopped = False
        for channel in self.channels:
            channel.forget()
        return stopped

    def close(self, reachable: bool = True, loaded: bool = True) -> list[Any]:
        """Stop the DMAs, free the buffers. Returns PYNQ's arrays that could not be freed.

        A buffer is not freed while a DMA might still write to it, nor over a connection that is lost. ``loaded``: the
        overlay is still there; if not, its DMAs are gone, and an access to their addresses would freeze a board.
        """
        stopped = reachable and (not loaded or self.reset())
        self.waiter.close()
        if stopped:
            with suppress(Exception):  # what cannot be freed is returned
                self.pool.close()
        return self.pool.abandon()


@dataclass(frozen=True)
class _Dma:
    name: str
    registers: Registers
    driver: Any


def open_hardware(
    pynq: Any, overlay: Any, device: Any, manifest: Manifest, clock_mhz: float, wait: str
) -> tuple[BoardHardware, ...]:
    """Drivers of the cores of an overlay that was checked, which share a thread that awaits interrupts.

    wait: `poll` or `interrupt`. BoardError if a DMA does not start.
    """
    thread = InterruptThread() if wait == "interrupt" else None
    try:
        return tuple(_core(pynq, overlay, device, manifest, core, clock_mhz, thread) for core in manifest.cores)
    except BaseException:
        if thread:
            thread.close()
        raise


def _core(
    pynq: Any, overlay: Any, device: Any, manifest: Manifest, core: Core, clock_mhz: float,
    thread: InterruptThread | None,
) -> BoardHardware:  # fmt: skip
    dmas = {role: _dma(pynq, overlay, device, core.cell(role), role, thread) for role in (TENSOR_DMA, WEIGHT_DMA)}
    channels = {stream: _channel(stream, dmas, manifest) for stream in CHANNELS}
    waiter: Waiter = _interrupt_waiter(thread, dmas) if thread else PollingWaiter()
    return BoardHardware(
        registers=kernel_registers(pynq, overlay, device, core),
        counter=CounterRegisters(_registers(pynq, overlay, device, core.clock_counter)),
        **channels,
        dmas=tuple((dma.registers, MM2S) for dma in dmas.values()),
        pool=BufferPool(_allocator(pynq, device), manifest.dma.alignment),
        waiter=waiter,
        clock_mhz=clock_mhz,
        stream_bits=manifest.dma.stream_bits,
        weight_stream_bits=manifest.dma.weight_stream_bits,
    )


def kernel_registers(pynq: Any, overlay: Any, device: Any, core: Core) -> KernelRegisters:
    """The registers of a core's kernel alone, for the probe that comes before everything else."""
    return KernelRegisters(_registers(pynq, overlay, device, core.kernel))


def _allocator(pynq: Any, device: Any) -> Callable[[int], Any]:
    return lambda size: pynq.allocate((size,), dtype="u1", target=device, cacheable=1)


def _registers(pynq: Any, overlay: Any, device: Any, cell: str) -> Registers:
    entry = overlay.ip_dict[cell]
    mmio: Registers = pynq.MMIO(entry["phys_addr"], entry["addr_range"], device=device)
    return mmio


def _dma(pynq: Any, overlay: Any, device: Any, name: str, role: str, thread: InterruptThread | None) -> _Dma:
    """PYNQ's driver of a DMA, made only after the engine was seen to start: its constructor waits for that for ever.

    Without interrupts in its description it makes no objects for them, which a Kria or a remote board could not serve.
    """
    registers = _registers(pynq, overlay, device, name)
    offsets = [offset for cell, offset, _, _ in CHANNELS.values() if cell == role]
    if not reset_dma(registers, MM2S) or not all(starts(registers, offset) for offset in offsets):
        raise BoardError(
            f"{name} does not start: it stays halted or in reset. likely cause: its clock or its reset is not "
            "connected, or the bitstream is not the one of the .hwh\ntry: load the overlay again, or power-cycle the "
            "board"
        )
    description = dict(overlay.ip_dict[name])
    if thread is None:
        description["interrupts"] = {}
        return _Dma(name, registers, import_module("pynq.lib.dma").DMA(description))
    dma = thread.build(lambda: import_module("pynq.lib.dma").DMA(description))
    for cell, _, _, interrupt in CHANNELS.values():
        if cell == role and getattr(dma, interrupt, None) is None:
            raise BoardError(
                f'interrupt {name}/{interrupt} has no device on this board, so wait="interrupt" is not possible. '
                'likely cause: no UIO device for the interrupt controller\ntry: wait="poll"'
            )
    return _Dma(name, registers, dma)


def _channel(stream: str, dmas: dict[str, _Dma], manifest: Manifest) -> BoardChannel:
    cell, offset, attribute, _ = CHANNELS[stream]
    dma = dmas[cell]
    name = f"{dma.name} {'S2MM' if offset == S2MM else 'MM2S'}"
    limit, alignment = int(dma.driver.buffer_max_size), manifest.dma.alignment
    return BoardChannel(getattr(dma.driver, attribute), dma.registers, name, offset, limit, alignment)


def _interrupt_waiter(thread: InterruptThread, dmas: dict[str, _Dma]) -> InterruptWaiter:
    interrupts = {}
    for cell, offset, _, interrupt in CHANNELS.values():
        interrupts[f"{dmas[cell].name} {'S2MM' if offset == S2MM else 'MM2S'}"] = getattr(dmas[cell].driver, interrupt)
    return InterruptWaiter(thread, interrupts)
