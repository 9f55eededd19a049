"""What Vivado's packager is told about an IP whose Verilog this toolkit makes: interfaces, registers, clock, reset.

The vendor's C synthesis says the same about the IPs that it exports (UG1399), so the block design takes either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bfpga.contract.registers import CONTROL_ADDRESS_BITS, CONTROL_PORT, REGISTER_SPACE
from bfpga.vendor.clock_counter import AXI_LITE
from bfpga.vendor.ip_registers import WIDTH, IpRegister, kernel_registers
from bfpga.vendor.kernel_ips import REGISTER_BLOCK, KernelIp, StreamPort
from bfpga.vendor.source_text import braced

CLOCK, RESET, INTERRUPT = "ap_clk", "ap_rst_n", "interrupt"


@dataclass(frozen=True)
class Bus:
    """An interface of an IP. ``kind``: library and name of its definition; ``ports``: signal -> port of the module."""

    name: str
    kind: str
    mode: str
    ports: Mapping[str, str]
    parameters: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """Its definition."""
        return f"xilinx.com:{self.kind}:1.0"

    @property
    def abstraction(self) -> str:
        """Its definition at the level of wires."""
        return f"xilinx.com:{self.kind}_rtl:1.0"


def buses(ip: KernelIp) -> Iterator[Bus]:
    """All interfaces of an IP; the last two are clock and reset."""
    named = [stream.name for stream in ip.streams]
    yield from map(_stream, ip.streams)
    if ip.control:
        named.append(CONTROL_PORT)
        yield _registers()
        yield Bus(INTERRUPT, "signal:interrupt", "master", {"INTERRUPT": INTERRUPT}, {"SENSITIVITY": "LEVEL_HIGH"})
    clock = {"ASSOCIATED_BUSIF": ":".join(named), "ASSOCIATED_RESET": RESET}
    yield Bus(CLOCK, "signal:clock", "slave", {"CLK": CLOCK}, clock)
    yield Bus(RESET, "signal:reset", "slave", {"RST": RESET}, {"POLARITY": "ACTIVE_LOW"})


def _stream(stream: StreamPort) -> Bus:
    ports = {signal: f"{stream.name}_{signal}" for signal in stream.signals}
    sizes = {"TDATA_NUM_BYTES": stream.bits // 8, "TDEST_WIDTH": 0, "TID_WIDTH": 0, "TUSER_WIDTH": 0}
    has = {"HAS_TREADY": 1, "HAS_TSTRB": 0, "HAS_TKEEP": 0, "HAS_TLAST": int(stream.packets)}
    return Bus(stream.name, "interface:axis", "master" if stream.master else "slave", ports, sizes | has)


def _registers() -> Bus:
    ports = {signal: f"{CONTROL_PORT}_{signal}" for signal, _, _ in AXI_LITE}
    said: dict[str, str | int] = {"PROTOCOL": "AXI4LITE", "DATA_WIDTH": WIDTH, "ADDR_WIDTH": CONTROL_ADDRESS_BITS,
            "READ_WRITE_MODE": "READ_WRITE"}  # fmt: skip
    return Bus(CONTROL_PORT, "interface:aximm", "slave", ports, said)


def packaging_context(ip: KernelIp) -> dict[str, Any]:
    """What the template of the script needs."""
    block = {
        "map": CONTROL_PORT,
        "name": REGISTER_BLOCK,
        "range": REGISTER_SPACE,
        "width": WIDTH,
        "registers": [_register(register) for register in kernel_registers()],
    }
    return {
        "part": ip.part,
        "title": braced(f"bfpga {ip.part}"),
        "clock": CLOCK,
        "buses": list(buses(ip)),
        "block": block if ip.control else None,
    }


def _register(register: IpRegister) -> dict[str, Any]:
    return {
        "name": register.name,
        "offset": f"0x{register.offset:02x}",
        "size": WIDTH,
        "access": register.access,
        "description": braced(register.description),
        "fields": register.fields,
    }
