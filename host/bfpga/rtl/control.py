"""The registers of a kernel's IP in Verilog: an AXI4-Lite slave with the handshake of starts, and the IP around it."""

from __future__ import annotations

from typing import Any

from bfpga.contract.registers import (
    ARGUMENT_REGISTERS,
    CONTROL_ADDRESS_BITS,
    CONTROL_PORT,
    REGISTERS,
    Control,
    Register,
    offset_of,
)
from bfpga.rtl.ports import WATCHED, lite_signals, stream_ports
from bfpga.vendor.kernel_ips import KernelIp
from bfpga.vendor.source_text import own, source_environment

#: What the bits of the control register show.
_SHOWN = {
    Control.START: "start", Control.DONE: "done", Control.IDLE: "ap_idle", Control.READY: "ready",
    Control.AUTO_RESTART: "auto_restart", Control.INTERRUPT: "interrupt",
}  # fmt: skip
#: Signals of the port that are registers of the slave.
_CLOCKED = ("BVALID", "RDATA", "RVALID")
_STROBES = "{{8{strobes[3]}}, {8{strobes[2]}}, {8{strobes[1]}}, {8{strobes[0]}}}"


def control_verilog(ip: KernelIp) -> str:
    """Two modules: the slave, and the IP called ``ip.function``, which joins it and the module `<function>_core`."""
    return source_environment("kernels/rtl").get_template("control.v.j2").render(_context(ip))


def _context(ip: KernelIp) -> dict[str, Any]:
    return {
        "function": ip.function,
        "module": f"{ip.function}_control_s_axi",
        "control_port": CONTROL_PORT,
        "watched": WATCHED,
        "address_bits": CONTROL_ADDRESS_BITS,
        "word_bits": CONTROL_ADDRESS_BITS - 2,
        "port": lite_signals(CONTROL_ADDRESS_BITS, _CLOCKED),
        "stream_ports": [port for stream in ip.streams for port in stream_ports(stream)],
        "registers": [
            {"offset": f"0x{item.offset:02x}", "access": item.access, "name": item.name,
             "description": own(item.description)}
            for item in REGISTERS
        ],
        "bits": {bit.name: bit.bit_length() - 1 for bit in Control},
        "control_bits": {bit.bit_length() - 1: source for bit, source in _SHOWN.items()},
        "control": _word("CTRL"),
        "enabled": _word("GIER"),
        "enables": _word("IP_IER"),
        "causes": _word("IP_ISR"),
        "arguments": [_argument(item) for item in ARGUMENT_REGISTERS if item.access == "rw"],
        "results": [_argument(item) for item in ARGUMENT_REGISTERS if item.access == "r"],
        "strobe_mask": own(_STROBES),
    }  # fmt: skip


def _word(name: str) -> dict[str, str]:
    return {"word": _literal(offset_of(name))}


def _argument(register: Register) -> dict[str, str]:
    return {"name": register.name, "word": _literal(register.offset), "next": _literal(register.offset + 4)}


def _literal(offset: int) -> str:
    """An address without its two lowest bits, as Verilog writes it."""
    return f"{CONTROL_ADDRESS_BITS - 2}'d{offset // 4}"
