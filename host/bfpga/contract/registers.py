"""The AXI-Lite registers of the kernel and of the clock counter: one table for C++, Verilog, handoff, manifest, driver
and documentation.

Offsets are given to the HLS tool explicitly (`offset=` of the interface pragma), so they do not depend on its version.
Every argument has one data word and leaves the next word to the tool's handshake of outputs (UG1399, S_AXILITE offset).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

#: Name of the AXI-Lite port and of the top function, as the HLS tool names them.
CONTROL_PORT = "s_axi_control"
TOP_FUNCTION = "bfpga_systolic"
#: Verilog module that counts the clocks of a start next to the kernel, and its AXI-Lite port.
CLOCK_COUNTER = "bfpga_clock_counter"
COUNTER_PORT = "s_axi_counter"
#: Stream ports of the top function. `input` and `output` alone would be renamed: they are words of Verilog.
INPUT_STREAM = "input_stream"
WEIGHT_STREAM = "weight_stream"
OUTPUT_STREAM = "output_stream"
#: Size of the register space in bytes.
REGISTER_SPACE = 0x10000


class Control(IntFlag):
    """Bits of the block-level control register (UG1399, ap_ctrl_hs)."""

    START = 1 << 0
    DONE = 1 << 1
    IDLE = 1 << 2
    READY = 1 << 3
    AUTO_RESTART = 1 << 7
    INTERRUPT = 1 << 9


@dataclass(frozen=True)
class Register:
    """One 32-bit register; ``access``: `rw` for what the host gives, `r` for what the kernel reports."""

    name: str
    offset: int
    access: str
    description: str


#: Registers that every ap_ctrl_hs kernel has.
BLOCK_REGISTERS = (
    Register("CTRL", 0x00, "rw", "start, done (cleared by reading), idle, ready (cleared by reading)"),
    Register("GIER", 0x04, "rw", "bit 0 enables the interrupt output"),
    Register("IP_IER", 0x08, "rw", "bit 0: interrupt when done; bit 1: when ready"),
    Register("IP_ISR", 0x0C, "rw", "bit 0: done, bit 1: ready; writing 1 toggles"),
)

#: Arguments of the top function in the order of its declaration.
ARGUMENT_REGISTERS = (
    Register("descriptor_count", 0x10, "rw", "descriptors to execute"),
    Register("control", 0x20, "rw", "bit 0 clears what the exponent policies have learned"),
    Register("cycles", 0x30, "r", "clocks of the schedule in this start, counted by the kernel itself: no stall shows"),
    Register("overflow", 0x40, "r", "values that overflowed in this start"),
    Register("underflow", 0x50, "r", "values that underflowed in this start"),
    Register("status", 0x60, "r", "sticky status bits of this start"),
    Register("identification", 0x70, "r", "first 32 bits of the accelerator's digest; written by every start"),
    Register("input_checksum", 0x80, "r", "checksum of the beats read from the input stream in this start"),
    Register("weight_checksum", 0x90, "r", "checksum of the beats read from the weight stream in this start"),
    Register("output_checksum", 0xA0, "r", "checksum of the beats written to the output stream in this start"),
)

REGISTERS = BLOCK_REGISTERS + ARGUMENT_REGISTERS
#: Bits of an address at the kernel's port: the word after the last argument is that of its handshake.
CONTROL_ADDRESS_BITS = (ARGUMENT_REGISTERS[-1].offset + 7).bit_length()

#: Registers of the clock counter. All hold from the end of a start to the next one, and at their largest value.
COUNTER_REGISTERS = (
    Register("clocks", 0x00, "r", "clocks from the start to the kernel's interrupt, stalls included"),
    Register("waits", 0x04, "r", "those of them in which any stream kept the kernel waiting"),
    Register("input_waits", 0x08, "r", "clocks in which the input stream had room and no beat, and a beat followed"),
    Register("weight_waits", 0x0C, "r", "clocks in which the weight stream had room and no beat, and a beat followed"),
    Register("output_waits", 0x10, "r", "clocks in which the output stream had a beat that nobody took"),
)


_OFFSETS = {register.name: register.offset for register in REGISTERS}
_COUNTER_OFFSETS = {register.name: register.offset for register in COUNTER_REGISTERS}


def offset_of(name: str) -> int:
    """Byte offset of a register of the kernel by its name."""
    return _OFFSETS[name]


def counter_offset_of(name: str) -> int:
    """Byte offset of a register of the clock counter by its name."""
    return _COUNTER_OFFSETS[name]
