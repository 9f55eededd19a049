"""The AXI DMA v7.1: two channels with one register slave (PG021)."""

from __future__ import annotations

from collections.abc import Mapping

from bfpga.board.axi_dma_registers import S2MM_OFFSET, Control, Register
from bfpga.board.virtual.bus import WORD, Poll, Slave
from bfpga.board.virtual.dma_channel import Channel, DmaConfiguration, SimpleChannel
from bfpga.board.virtual.dma_mover import MemoryPort, MemoryToStream, StreamToMemory
from bfpga.board.virtual.dma_scatter_gather import ScatterGatherChannel
from bfpga.board.virtual.faults import Channel as ChannelName
from bfpga.board.virtual.faults import Faults
from bfpga.board.virtual.memory import Memory


class AxiDma(Slave):
    """Both channels of one register slave. ``ports``: the memory side of the channels that exist."""

    # The register interface of the core has no byte enables.
    byte_strobes = False

    def __init__(
        self,
        name: str,
        configuration: DmaConfiguration,
        memory: Memory,
        ranges: Mapping[ChannelName, tuple[int, int]],
        faults: Faults,
        descriptor_range: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(name)
        self.configuration = configuration
        self.channels: dict[ChannelName, Channel] = {}
        everything = (0, 1 << configuration.address_bits)
        for channel, bits in configuration.memory_bits.items():
            alignment = 1 if configuration.realignment[channel] else bits // 8
            port = MemoryPort(memory, *ranges.get(channel, everything), alignment)
            mover = (MemoryToStream if channel == "mm2s" else StreamToMemory)(name, port, faults)
            if configuration.scatter_gather:
                descriptors = MemoryPort(memory, *(descriptor_range or everything), 1)
                self.channels[channel] = ScatterGatherChannel(name, mover, configuration, descriptors)
            else:
                self.channels[channel] = SimpleChannel(name, mover, configuration)

    def read(self, offset: int) -> int:
        channel, register = self._decode(offset)
        return channel.read(register) if channel else 0

    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        channel, register = self._decode(offset)
        if channel is None:
            return
        if register == Register.CONTROL and value & Control.RESET:
            self.reset()
        else:
            channel.write(register, value)

    def poll(self, offset: int) -> Poll:
        channel, register = self._decode(offset)
        if channel is None or register != Register.STATUS or (channel.idle and not channel.halted):
            return Poll.NOTHING
        return Poll.UNDER_WAY if channel.busy else Poll.NOT_BEGUN

    def step(self) -> bool:
        # Every channel gets its turn: no short circuit.
        return any(moved for moved in [channel.step() for channel in self.channels.values()])

    def interrupt(self, pin: str) -> bool:
        channel = {"mm2s_introut": self.channels.get("mm2s"), "s2mm_introut": self.channels.get("s2mm")}.get(pin)
        return channel is not None and channel.interrupt

    def reset(self) -> None:
        for channel in self.channels.values():
            channel.reset()

    def _decode(self, offset: int) -> tuple[Channel | None, int]:
        if offset < S2MM_OFFSET:
            return self.channels.get("mm2s"), offset
        return self.channels.get("s2mm"), offset - S2MM_OFFSET
