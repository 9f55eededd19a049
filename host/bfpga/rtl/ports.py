"""The ports of a kernel's modules in Verilog, as templates list them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bfpga.vendor.clock_counter import AXI_LITE
from bfpga.vendor.kernel_ips import StreamPort
from bfpga.vendor.source_text import own

#: What a simulation defines, so that it sees more of a kernel than its ports.
WATCHED = "BFPGA_WATCHED"
#: A port: name, direction, range.
Port = dict[str, str]


def lite_signals(address_bits: int, clocked: Collection[str] = ()) -> list[Port]:
    """The signals of an AXI4-Lite slave. ``clocked``: outputs that are registers of the module itself."""
    return [
        _port(signal, address_bits if bits == "address" else int(bits), driven, signal in clocked)
        for signal, bits, driven in AXI_LITE
    ]


def stream_ports(stream: StreamPort) -> Iterator[Port]:
    """The ports of an AXI-Stream."""
    for signal, bits in stream.signals.items():
        yield _port(f"{stream.name}_{signal}", bits, stream.master != (signal == "TREADY"))


def wire_range(bits: int) -> str:
    """The range of a vector, with a space behind it; nothing for one bit."""
    return own(f"[{bits - 1}:0] ") if bits > 1 else ""


def _port(name: str, bits: int, output: bool, clocked: bool = False) -> Port:
    kind = "reg" if clocked else "wire"
    return {"name": name, "direction": f"{'output' if output else 'input'} {kind}", "range": wire_range(bits)}
