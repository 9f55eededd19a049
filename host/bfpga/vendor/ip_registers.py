"""Registers of the IP cores around a kernel, as Vivado lists them in a hardware handoff.

Sources: UG1399 (ap_ctrl_hs), PG021 (AXI DMA, register space), PG099 (AXI INTC, register space).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bfpga.contract.registers import ARGUMENT_REGISTERS, BLOCK_REGISTERS, COUNTER_REGISTERS, Control, Register

READ_WRITE, READ_ONLY, WRITE_ONLY = "read-write", "read-only", "write-only"
#: Bits of every register.
WIDTH = 32
_ACCESS = {"rw": READ_WRITE, "r": READ_ONLY}
#: Bits of the control register that the host writes; the kernel reports the others.
_WRITABLE = Control.START | Control.AUTO_RESTART
_NAMES = {
    Control.START: "AP_START",
    Control.DONE: "AP_DONE",
    Control.IDLE: "AP_IDLE",
    Control.READY: "AP_READY",
    Control.AUTO_RESTART: "AUTO_RESTART",
    Control.INTERRUPT: "INTERRUPT",
}


@dataclass(frozen=True)
class BitField:
    """Bits of a register: ``offset`` of the lowest and their number."""

    name: str
    offset: int
    width: int
    access: str = READ_WRITE


@dataclass(frozen=True)
class IpRegister:
    """A 32-bit register with its fields. ``enabled``: whether this configuration of the IP has it."""

    name: str
    offset: int
    access: str
    description: str
    fields: tuple[BitField, ...]
    enabled: bool = True


# The kernel


def kernel_registers() -> tuple[IpRegister, ...]:
    """Block-level control and arguments of the top function, from `engines.registers`."""
    blocks = {
        "CTRL": [
            BitField(_NAMES[bit], bit.bit_length() - 1, 1, READ_WRITE if bit & _WRITABLE else READ_ONLY)
            for bit in Control
        ],
        "GIER": [BitField("Enable", 0, 1)],
        "IP_IER": [BitField("CHAN0_INT_EN", 0, 1), BitField("CHAN1_INT_EN", 1, 1)],
        "IP_ISR": [BitField("CHAN0_INT_ST", 0, 1), BitField("CHAN1_INT_ST", 1, 1)],
    }
    control = [_own_register(register, _with_reserved(blocks[register.name])) for register in BLOCK_REGISTERS]
    return (*control, *map(_whole_register, ARGUMENT_REGISTERS))


def counter_registers() -> tuple[IpRegister, ...]:
    """Registers of the clock counter. Vivado has none of those of a Verilog module; this handoff lists them."""
    return tuple(map(_whole_register, COUNTER_REGISTERS))


def _whole_register(register: Register) -> IpRegister:
    return _own_register(register, (BitField(register.name, 0, WIDTH, _ACCESS[register.access]),))


def _own_register(register: Register, fields: tuple[BitField, ...]) -> IpRegister:
    return IpRegister(register.name, register.offset, _ACCESS[register.access], register.description, fields)


def _with_reserved(fields: Sequence[BitField]) -> tuple[BitField, ...]:
    """The fields with the bits between and above them, numbered where there are several gaps."""
    result: list[BitField] = []
    for item in (*fields, BitField("", WIDTH, 0)):
        start = result[-1].offset + result[-1].width if result else 0
        if item.offset > start:
            result.append(BitField("RESERVED", start, item.offset - start, READ_ONLY))
        result.append(item)
    result.pop()
    gaps = [item for item in result if item.name == "RESERVED"]
    names = {gap: f"RESERVED_{n}" if len(gaps) > 1 else "RESERVED" for n, gap in enumerate(gaps, 1)}
    return tuple(replace(item, name=names.get(item, item.name)) for item in result)


# AXI DMA

_DMA_CONTROL = (
    BitField("RS", 0, 1),
    BitField("Reset", 2, 1),
    BitField("Keyhole", 3, 1),
    BitField("Cyclic_BD_Enable", 4, 1),
    BitField("IOC_IrqEn", 12, 1),
    BitField("Dly_IrqEn", 13, 1),
    BitField("Err_IrqEn", 14, 1),
    BitField("IRQThreshold", 16, 8),
    BitField("IRQDelay", 24, 8),
)
_DMA_STATUS = (
    *(
        BitField(name, bit, 1, READ_ONLY)
        for name, bit in (
            ("Halted", 0),
            ("Idle", 1),
            ("SGIncld", 3),
            ("DMAIntErr", 4),
            ("DMASlvErr", 5),
            ("DMADecErr", 6),
            ("SGIntErr", 8),
            ("SGSlvErr", 9),
            ("SGDecErr", 10),
        )
    ),
    *(BitField(name, bit, 1) for name, bit in (("IOC_Irq", 12), ("Dly_Irq", 13), ("Err_Irq", 14))),
    BitField("IRQThresholdSts", 16, 8, READ_ONLY),
    BitField("IRQDelaySts", 24, 8, READ_ONLY),
)
#: Channel -> offset of its registers, name of its address register, what the address is.
_DMA_CHANNELS = (("MM2S", 0x00, "SA", "Source_Address"), ("S2MM", 0x30, "DA", "Destination_Address"))


def dma_registers(parameters: Mapping[str, str]) -> tuple[IpRegister, ...]:
    """Registers of an AXI DMA with these parameters; those of absent channels and of scatter-gather are disabled."""
    scatter_gather = parameters["c_include_sg"] == "1"
    length_bits = int(parameters["c_sg_length_width"])
    sg_control = IpRegister(
        "SG_CTL",
        0x2C,
        READ_WRITE,
        "Scatter/Gather User and Cache Control Register",
        (BitField("SG_CACHE", 0, 4), BitField("SG_USER", 8, 4)),
        scatter_gather,
    )
    channels = [
        register
        for channel, base, address, field in _DMA_CHANNELS
        for register in _dma_channel(channel, base, address, field, length_bits, scatter_gather)
    ]
    included = {channel: parameters[f"c_include_{channel.lower()}"] == "1" for channel, *_ in _DMA_CHANNELS}
    channels = [
        replace(register, enabled=register.enabled and included[register.name.partition("_")[0]])
        for register in channels
    ]
    return tuple(sorted((*channels, sg_control), key=lambda register: register.offset))


def _dma_channel(
    channel: str, base: int, address: str, field: str, length_bits: int, scatter_gather: bool
) -> list[IpRegister]:
    """One channel; addresses have a low and a high word, descriptors are aligned to 64 bytes."""

    def register(name: str, offset: int, what: str, fields: tuple[BitField, ...], enabled: bool = True) -> IpRegister:
        return IpRegister(f"{channel}_{name}", base + offset, READ_WRITE, f"{channel} {what}", fields, enabled)

    kind = field.replace("_", " ")
    result = [
        register("DMACR", 0x00, "DMA Control Register", _DMA_CONTROL),
        register("DMASR", 0x04, "DMA Status Register", _DMA_STATUS),
        register(address, 0x18, f"{kind} Register", (BitField(field, 0, WIDTH),)),
        register(f"{address}_MSB", 0x1C, f"{kind} Register, upper word", (BitField(field, 0, WIDTH),)),
        register("LENGTH", 0x28, "DMA Transfer Length Register", (BitField("Length", 0, length_bits),)),
    ]
    for name, offset, which in (("CURDESC", 0x08, "Current"), ("TAILDESC", 0x10, "Tail")):
        pointer, title = f"{which}_Descriptor_Pointer", f"DMA {which} Descriptor Pointer Register"
        result += [
            register(name, offset, title, (BitField(pointer, 6, 26),), scatter_gather),
            register(f"{name}_MSB", offset + 4, f"{title}, upper word", (BitField(pointer, 0, WIDTH),), scatter_gather),
        ]
    return result


# AXI INTC


def interrupt_controller_registers(inputs: int) -> tuple[IpRegister, ...]:
    """Registers of an AXI interrupt controller of ``inputs`` lines without fast interrupts and without levels."""
    lines = {
        "ISR": (0x00, READ_WRITE, "Interrupt Status Register", True),
        "IPR": (0x04, READ_ONLY, "Interrupt Pending Register", True),
        "IER": (0x08, READ_WRITE, "Interrupt Enable Register", True),
        "IAR": (0x0C, WRITE_ONLY, "Interrupt Acknowledge Register", True),
        "SIE": (0x10, READ_WRITE, "Set Interrupt Enables", True),
        "CIE": (0x14, READ_WRITE, "Clear Interrupt Enables", True),
        "IMR": (0x20, READ_WRITE, "Interrupt Mode Register", False),
    }
    registers = [
        IpRegister(name, offset, access, description, (BitField("INT", 0, inputs, access),), enabled)
        for name, (offset, access, description, enabled) in lines.items()
    ]
    master = (BitField("ME", 0, 1), BitField("HIE", 1, 1))
    vector, level = (BitField("IVN", 0, 5, READ_ONLY),), (BitField("ILN", 0, 5),)
    registers += [
        IpRegister("IVR", 0x18, READ_ONLY, "Interrupt Vector Register", vector),
        IpRegister("MER", 0x1C, READ_WRITE, "Master Enable Register", master),
        IpRegister("ILR", 0x24, READ_WRITE, "Interrupt Level Register", level, enabled=False),
    ]
    return tuple(sorted(registers, key=lambda register: register.offset))
