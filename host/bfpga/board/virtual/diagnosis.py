"""What a board would hide: what waits for what, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.board.axi_dma_registers import Control
from bfpga.board.virtual.dma_channel import Channel, SimpleChannel
from bfpga.board.virtual.fabric import Fabric
from bfpga.board.virtual.faults import (
    CorruptedTransfer,
    DmaError,
    DroppedInterrupt,
    Fault,
    KernelNeverDone,
    MissingLast,
    ShortPacket,
    SlowKernel,
    SlowStream,
    StuckStream,
    WrongClock,
)
from bfpga.board.virtual.hls_slave import HlsSlave
from bfpga.board.virtual.kernel_slave import KernelSlave
from bfpga.board.virtual.stream_faults import BoardStream
from bfpga.errors import DeviceError


def explain(fabric: Fabric) -> list[str]:
    """Sentences about everything that waits; one that nothing does."""
    sentences = [
        *(sentence for dma in fabric.dmas for channel in dma.channels.values() for sentence in _channel(channel)),
        *(sentence for kernel in fabric.kernels for sentence in _kernel(kernel)),
        *(sentence for stream in fabric.streams for sentence in _stream(stream, fabric)),
    ]
    return sentences or ["Nothing is under way: no transfer, no kernel, no data in a stream."]


def _channel(channel: Channel) -> Iterator[str]:
    if channel.error:
        yield f"`{channel.name}` stopped with {channel.error}; only a soft reset brings it back."
    if isinstance(channel, SimpleChannel) and channel.halted and channel.ignored_length:
        yield (
            f"`{channel.name}` is halted and ignored a LENGTH of {channel.ignored_length:,} bytes: set RS in its "
            "control register first."
        )
    if channel.mover.stray:
        yield f"`{channel.name}` {channel.mover.stray}."
    transfer = channel.transfer
    if transfer is None:
        return
    stream = channel.mover.stream
    if stream is None:
        yield f"`{channel.name}` has a transfer, but its stream is not connected to anything that is modelled."
    elif channel.mover.name == "mm2s":
        yield (
            f"`{channel.name}` has sent {transfer.moved:,} of {transfer.length:,} bytes and cannot go on: the stream "
            f"`{stream.name}` accepts no more ({stream.level:,} bytes wait in it)."
        )
    elif transfer.moved == transfer.length:
        yield (
            f"`{channel.name}` has received all {transfer.length:,} bytes of its LENGTH and still waits for TLAST from "
            f"`{stream.name}`."
        )
    else:
        yield (
            f"`{channel.name}` has received {transfer.moved:,} of at most {transfer.length:,} bytes and waits for more "
            f"data or TLAST from `{stream.name}`."
        )
    if not channel.control & Control.RUN:
        yield f"`{channel.name}` is stopping and halts when this transfer has ended; a soft reset ends it now."


def _kernel(kernel: KernelSlave) -> Iterator[str]:
    if not kernel.running:
        waiting = [s for port in kernel.kernel.inputs if (s := kernel.streams[port]).level]
        began = "was never started" if kernel.starts == 0 else "has finished and was not started again"
        for stream in waiting:
            yield f"Kernel `{kernel.name}` {began}, and {stream.level:,} bytes wait for it in `{stream.name}`."
    elif kernel.withheld:
        yield f"Kernel `{kernel.name}` was started and does not finish; it moves no more data."
    else:
        reason = kernel.kernel.waiting or "its model gives no reason"
        yield f"Kernel `{kernel.name}` was started and has not finished; it waits: {reason}."


def _stream(stream: BoardStream, fabric: Fabric) -> Iterator[str]:
    if stream.stuck:
        yield f"Stream `{stream.name}` has stopped: it accepts no more data, {stream.level:,} bytes are in it."
    for dma in fabric.dmas:
        channel = dma.channels.get("s2mm")
        if channel and channel.mover.stream is stream and stream.level and not channel.busy and not channel.error:
            yield (
                f"{stream.level:,} bytes wait in `{stream.name}`, but `{channel.name}` is not armed: no receive "
                "transfer was started."
            )


def check_fault(fault: Fault, fabric: Fabric) -> None:
    """DeviceError for a fault that names what the design does not have."""
    if isinstance(fault, DmaError | CorruptedTransfer):
        known = {dma.name: dma for dma in fabric.dmas}
        _need(fault.dma, list(known), "DMA")
        _need(fault.channel, list(known[fault.dma].channels), f"channel of {fault.dma}")
    elif isinstance(fault, ShortPacket | MissingLast | StuckStream | SlowStream):
        _need(fault.stream, [end for stream in fabric.streams for end in stream.ends], "end of a stream")
    elif isinstance(fault, KernelNeverDone | SlowKernel):
        _need(fault.kernel, [kernel.name for kernel in fabric.kernels], "kernel")
        if not isinstance(fabric.slaves[fault.kernel], HlsSlave):
            raise DeviceError(f"fault injection: {type(fault).__name__} is for models; `{fault.kernel}` is Verilog")
    elif isinstance(fault, DroppedInterrupt):
        sources = [source for controller in fabric.controllers for source, _ in controller.inputs]
        _need(fault.source, sources, "source of an interrupt controller")
    elif isinstance(fault, WrongClock):
        _need(str(fault.clock), [str(clock.index) for clock in fabric.hardware.clocks], "clock of the logic")


def _need(name: str, known: list[str], what: str) -> None:
    if name not in known:
        raise DeviceError(f"fault injection: `{name}` is no {what} of the design; there are: {', '.join(known)}")
