"""Registers of the AXI DMA: offsets and bits (PG021 v7.1, register space)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Register(IntEnum):
    """Offsets within a channel; S2MM is `S2MM_OFFSET` above MM2S."""

    CONTROL = 0x00
    STATUS = 0x04
    CURRENT_DESCRIPTOR = 0x08
    CURRENT_DESCRIPTOR_HIGH = 0x0C
    TAIL_DESCRIPTOR = 0x10
    TAIL_DESCRIPTOR_HIGH = 0x14
    ADDRESS = 0x18
    ADDRESS_HIGH = 0x1C
    LENGTH = 0x28


S2MM_OFFSET = 0x30


class Control(IntFlag):
    """DMACR."""

    RUN = 1 << 0
    ALWAYS_ONE = 1 << 1
    RESET = 1 << 2
    KEYHOLE = 1 << 3
    CYCLIC = 1 << 4
    COMPLETE_INTERRUPT = 1 << 12
    DELAY_INTERRUPT = 1 << 13
    ERROR_INTERRUPT = 1 << 14


#: IRQThreshold and IRQDelay of DMACR, and their states in DMASR.
THRESHOLD_SHIFT = 16
DELAY_SHIFT = 24
BYTE = 0xFF


class Status(IntFlag):
    """DMASR."""

    HALTED = 1 << 0
    IDLE = 1 << 1
    SCATTER_GATHER = 1 << 3
    INTERNAL_ERROR = 1 << 4
    SLAVE_ERROR = 1 << 5
    DECODE_ERROR = 1 << 6
    DESCRIPTOR_INTERNAL_ERROR = 1 << 8
    DESCRIPTOR_SLAVE_ERROR = 1 << 9
    DESCRIPTOR_DECODE_ERROR = 1 << 10
    COMPLETE_INTERRUPT = 1 << 12
    DELAY_INTERRUPT = 1 << 13
    ERROR_INTERRUPT = 1 << 14


ERRORS = (
    Status.INTERNAL_ERROR
    | Status.SLAVE_ERROR
    | Status.DECODE_ERROR
    | Status.DESCRIPTOR_INTERNAL_ERROR
    | Status.DESCRIPTOR_SLAVE_ERROR
    | Status.DESCRIPTOR_DECODE_ERROR
)
INTERRUPTS = Status.COMPLETE_INTERRUPT | Status.DELAY_INTERRUPT | Status.ERROR_INTERRUPT
#: Names of the error bits as PG021 writes them.
ERROR_NAMES = {
    Status.INTERNAL_ERROR: "DMAIntErr",
    Status.SLAVE_ERROR: "DMASlvErr",
    Status.DECODE_ERROR: "DMADecErr",
    Status.DESCRIPTOR_INTERNAL_ERROR: "SGIntErr",
    Status.DESCRIPTOR_SLAVE_ERROR: "SGSlvErr",
    Status.DESCRIPTOR_DECODE_ERROR: "SGDecErr",
}


class Descriptor(IntEnum):
    """Words of a scatter-gather descriptor, as byte offsets."""

    NEXT = 0x00
    NEXT_HIGH = 0x04
    BUFFER = 0x08
    BUFFER_HIGH = 0x0C
    CONTROL = 0x18
    STATUS = 0x1C


DESCRIPTOR_BYTES = 0x34
DESCRIPTOR_ALIGNMENT = 0x40
DESCRIPTOR_LENGTH = (1 << 26) - 1


class DescriptorControl(IntFlag):
    """Control word of a descriptor (MM2S only)."""

    END = 1 << 26
    START = 1 << 27


class DescriptorStatus(IntFlag):
    """Status word of a descriptor. END and START are the packet's of S2MM."""

    END = 1 << 26
    START = 1 << 27
    INTERNAL_ERROR = 1 << 28
    SLAVE_ERROR = 1 << 29
    DECODE_ERROR = 1 << 30
    COMPLETED = 1 << 31
