"""What the script of an IP made of own Verilog must tell Vivado's packager, written down a second time (UG1118)."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.registers import ARGUMENT_REGISTERS, Register
from bfpga.vendor.kernel_ips import KernelIp
from bfpga.vendor.tcl_check.recorder import Words

_CORE = "[ipx::current_core]"
#: Interface with the registers: signals and parameters.
_LITE = (
    "AWADDR AWVALID AWREADY WDATA WSTRB WVALID WREADY BRESP BVALID BREADY ARADDR ARVALID ARREADY RDATA RRESP RVALID "
    "RREADY",
    "PROTOCOL=AXI4LITE DATA_WIDTH=32 ADDR_WIDTH=8 READ_WRITE_MODE=READ_WRITE",
)
#: Fields of the first registers (UG1399, control registers): name, lowest bit, width, access.
_FIELDS = {
    "CTRL": "AP_START 0 1 w, AP_DONE 1 1 r, AP_IDLE 2 1 r, AP_READY 3 1 r, RESERVED_1 4 3 r, AUTO_RESTART 7 1 w, "
    "RESERVED_2 8 1 r, INTERRUPT 9 1 r, RESERVED_3 10 22 r",
    "GIER": "Enable 0 1 w, RESERVED 1 31 r",
    "IP_IER": "CHAN0_INT_EN 0 1 w, CHAN1_INT_EN 1 1 w, RESERVED 2 30 r",
    "IP_ISR": "CHAN0_INT_ST 0 1 w, CHAN1_INT_ST 1 1 w, RESERVED 2 30 r",
}
_DESCRIPTIONS = {
    "CTRL": "start, done (cleared by reading), idle, ready (cleared by reading)",
    "GIER": "bit 0 enables the interrupt output",
    "IP_IER": "bit 0: interrupt when done; bit 1: when ready",
    "IP_ISR": "bit 0: done, bit 1: ready; writing 1 toggles",
}
_ACCESS = {"r": "read-only", "w": "read-write", "rw": "read-write"}


def packaged(ip: KernelIp) -> Iterator[Words]:
    """The commands that describe an IP, after what Vivado has guessed is removed."""
    yield "ipx::remove_memory_map", "[get_property NAME guessed]", _CORE
    names = [stream.name for stream in ip.streams]
    for stream in ip.streams:
        last = "TLAST " if stream.packets else ""
        said = f"TDATA_NUM_BYTES={stream.bits // 8} TDEST_WIDTH=0 TID_WIDTH=0 TUSER_WIDTH=0 HAS_TREADY=1 HAS_TSTRB=0"
        said += f" HAS_TKEEP=0 HAS_TLAST={len(last) // 6}"
        mode = "master" if stream.master else "slave"
        yield from _bus(stream.name, "interface:axis", mode, f"TDATA {last}TVALID TREADY", said)
    if ip.control:
        names.append("s_axi_control")
        yield from _bus("s_axi_control", "interface:aximm", "slave", *_LITE)
        yield from _pin("interrupt", "signal:interrupt", "master", "INTERRUPT", "SENSITIVITY=LEVEL_HIGH")
    said = f"ASSOCIATED_BUSIF={':'.join(names)} ASSOCIATED_RESET=ap_rst_n"
    yield from _pin("ap_clk", "signal:clock", "slave", "CLK", said)
    yield from _pin("ap_rst_n", "signal:reset", "slave", "RST", "POLARITY=ACTIVE_LOW")
    if ip.control:
        yield from _registers()


def _bus(name: str, kind: str, mode: str, signals: str, parameters: str) -> Iterator[Words]:
    yield from _interface(name, kind, mode, {signal: f"{name}_{signal}" for signal in signals.split()}, parameters)


def _pin(name: str, kind: str, mode: str, signal: str, parameters: str) -> Iterator[Words]:
    yield from _interface(name, kind, mode, {signal: name}, parameters)


def _interface(name: str, kind: str, mode: str, ports: dict[str, str], parameters: str) -> Iterator[Words]:
    bus = f"[ipx::add_bus_interface {name} {_CORE}]"
    yield "ipx::add_bus_interface", name, _CORE
    yield "set_property", "bus_type_vlnv", f"xilinx.com:{kind}:1.0", bus
    yield "set_property", "abstraction_type_vlnv", f"xilinx.com:{kind}_rtl:1.0", bus
    yield "set_property", "interface_mode", mode, bus
    for signal, port in ports.items():
        yield "ipx::add_port_map", signal, bus
        yield "set_property", "physical_name", port, f"[ipx::add_port_map {signal} {bus}]"
    for parameter, value in (item.split("=") for item in parameters.split()):
        yield "ipx::add_bus_parameter", parameter, bus
        yield "set_property", "value", value, f"[ipx::add_bus_parameter {parameter} {bus}]"


def _registers() -> Iterator[Words]:
    space = f"[ipx::add_memory_map s_axi_control {_CORE}]"
    block = f"[ipx::add_address_block Reg {space}]"
    yield "ipx::add_memory_map", "s_axi_control", _CORE
    yield "ipx::add_address_block", "Reg", space
    bus = f"[ipx::get_bus_interfaces s_axi_control -of_objects {_CORE}]"
    yield "set_property", "slave_memory_map_ref", "s_axi_control", bus
    for name, value in (("base_address", "0"), ("range", "65536"), ("width", "32"), ("usage", "register")):
        yield "set_property", name, value, block
    for n, (name, fields) in enumerate(_FIELDS.items()):
        yield from _register(Register(name, 4 * n, "rw", _DESCRIPTIONS[name]), fields, block)
    for item in ARGUMENT_REGISTERS:
        yield from _register(item, f"{item.name} 0 32 {item.access[-1]}", block)


def _register(item: Register, fields: str, block: str) -> Iterator[Words]:
    register = f"[ipx::add_register {item.name} {block}]"
    yield "ipx::add_register", item.name, block
    yield "set_property", "description", item.description, register
    yield "set_property", "address_offset", f"0x{item.offset:02x}", register
    yield "set_property", "size", "32", register
    yield "set_property", "access", _ACCESS[item.access], register
    for field in fields.split(", "):
        name, low, width, letter = field.split()
        yield "ipx::add_field", name, register
        for key, value in (("bit_offset", low), ("bit_width", width), ("access", _ACCESS[letter])):
            yield "set_property", key, value, f"[ipx::add_field {name} {register}]"
