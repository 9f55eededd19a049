"""The clock counter: a Verilog module of the block design that counts the clocks of a start next to the kernel.

It only watches: the kernel's control port for the start, its interrupt for the end, its streams for waits. As a module
reference it needs no IP repository; its interfaces are declared in attributes (UG994, X_INTERFACE_INFO and _MODE).
"""

from __future__ import annotations

from typing import Any

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.registers import (
    CLOCK_COUNTER,
    CONTROL_ADDRESS_BITS,
    COUNTER_PORT,
    COUNTER_REGISTERS,
    INPUT_STREAM,
    OUTPUT_STREAM,
    REGISTER_SPACE,
    WEIGHT_STREAM,
    Control,
    offset_of,
)
from bfpga.vendor.source_text import own

#: Interface that watches the kernel's control port; those that watch its streams have the names of the streams.
CONTROL_MONITOR = "control"
#: Pin that watches the kernel's interrupt.
INTERRUPT_PIN = "interrupt"

#: Bits of an address at the port of this module.
COUNTER_ADDRESS_BITS = (REGISTER_SPACE - 1).bit_length()

#: Signals of an AXI4-Lite slave: name, bits or what gives them, whether the slave drives it.
AXI_LITE = (
    ("AWADDR", "address", False),
    ("AWVALID", 1, False),
    ("AWREADY", 1, True),
    ("WDATA", 32, False),
    ("WSTRB", 4, False),
    ("WVALID", 1, False),
    ("WREADY", 1, True),
    ("BRESP", 2, True),
    ("BVALID", 1, True),
    ("BREADY", 1, False),
    ("ARADDR", "address", False),
    ("ARVALID", 1, False),
    ("ARREADY", 1, True),
    ("RDATA", 32, True),
    ("RRESP", 2, True),
    ("RVALID", 1, True),
    ("RREADY", 1, False),
)
#: Outputs of the register port that are registers.
_CLOCKED = ("BVALID", "RDATA", "RVALID")


def counter_context(config: KernelConfig) -> dict[str, Any]:
    """What the template of the Verilog needs, for the stream widths of ``config``."""
    # As wide as the range that the block design assigns: Vivado derives the size of the module's registers from it.
    own_bits = COUNTER_ADDRESS_BITS
    streams = (
        (INPUT_STREAM, config.stream_bits),
        (WEIGHT_STREAM, config.weight_stream_bits),
        (OUTPUT_STREAM, config.stream_bits),
    )
    return {
        "module": CLOCK_COUNTER,
        "port": COUNTER_PORT,
        "control": CONTROL_MONITOR,
        "control_offset": f"{CONTROL_ADDRESS_BITS}'h{offset_of('CTRL'):02x}",
        "start_bit": Control.START.bit_length() - 1,
        "input": INPUT_STREAM,
        "weights": WEIGHT_STREAM,
        "output": OUTPUT_STREAM,
        "registers": [
            {
                "name": register.name,
                "offset": f"0x{register.offset:02x}",
                "literal": f"{own_bits}'h{register.offset:04x}",
                "description": own(register.description),
            }
            for register in COUNTER_REGISTERS
        ],
        "interfaces": [
            _axi_lite(COUNTER_PORT, "slave", own_bits, "Registers of this module."),
            _axi_lite(CONTROL_MONITOR, "monitor", CONTROL_ADDRESS_BITS, "The kernel's control port."),
            *(_stream(name, bits) for name, bits in streams),
        ],
    }


def _axi_lite(name: str, mode: str, address_bits: int, comment: str) -> dict[str, Any]:
    ports = []
    for signal, bits, driven in AXI_LITE:
        width = address_bits if bits == "address" else int(bits)
        output = driven and mode == "slave"
        kind = ("output reg" if signal in _CLOCKED else "output wire") if output else "input wire"
        ports.append(_port(name, signal, width, kind))
    return {"name": name, "mode": mode, "vlnv": "xilinx.com:interface:aximm:1.0", "comment": comment, "ports": ports}


def _stream(name: str, bits: int) -> dict[str, Any]:
    ports = [
        _port(name, signal, width) for signal, width in (("TDATA", bits), ("TLAST", 1), ("TVALID", 1), ("TREADY", 1))
    ]
    comment = f"The kernel's stream {name}."
    return {"name": name, "mode": "monitor", "vlnv": "xilinx.com:interface:axis:1.0", "comment": comment,
            "ports": ports}  # fmt: skip


def _port(interface: str, signal: str, bits: int, direction: str = "input wire") -> dict[str, Any]:
    return {
        "name": f"{interface}_{signal.lower()}",
        "signal": signal,
        "direction": direction,
        "range": own(f"[{bits - 1}:0] " if bits > 1 else ""),
    }
