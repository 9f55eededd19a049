"""A kernel whole in Verilog: what joins its IPs, and the files of a design."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.process_stream import POST, ProcessStream
from bfpga.contract.processes import host_streams, process_streams
from bfpga.contract.registers import CLOCK_COUNTER, CONTROL_ADDRESS_BITS, CONTROL_PORT, COUNTER_PORT
from bfpga.errors import ToolError
from bfpga.rtl.control import control_verilog
from bfpga.rtl.fifo import fifo_address_bits, fifo_module, fifo_verilog
from bfpga.rtl.ip import IpVerilog, ip_verilog
from bfpga.rtl.ports import WATCHED, Port, lite_signals, stream_ports, wire_range
from bfpga.scale.worker_side import source_digest
from bfpga.synthesis.kept import kernel_files
from bfpga.vendor.clock_counter import AXI_LITE, CONTROL_MONITOR, COUNTER_ADDRESS_BITS, INTERRUPT_PIN
from bfpga.vendor.kernel_ips import KernelIp, StreamPort, kernel_ips
from bfpga.vendor.render import render_kernel
from bfpga.vendor.source_text import source_environment

#: The module that holds all.
KERNEL_MODULE = "bfpga_kernel"
#: Bits that a simulation sees of each stream between IPs.
WATCHED_BITS = 5
_INTERRUPT = "interrupt"
#: Called with (IPs done, IPs in all).
Progress = Callable[[int, int], None]


def ips_of(accelerator: Accelerator, progress: Progress | None = None) -> list[IpVerilog]:
    """Verilog of every IP of a kernel, several made at once. progress(done, all) after each of them.

    ToolError if clang is missing or refuses the kernel, and for code that has no place in hardware.
    """
    files, ips = kernel_files(accelerator), kernel_ips(accelerator.config)
    with ProcessPoolExecutor() as pool:
        # The longest first: what has registers, memories and functions.
        ordered = sorted(ips, key=lambda ip: ip.part != POST)
        runs = {pool.submit(ip_verilog, accelerator, ip, files): ip for ip in ordered}
        for done, run in enumerate(as_completed(runs), start=1):
            run.result()
            if progress is not None:
                progress(done, len(ips))
    made = {ip.part: run.result() for run, ip in runs.items()}
    return [made[ip.part] for ip in ips]


def made_of(accelerator: Accelerator) -> list[str]:
    """All that the Verilog of the IPs follows from: device and clock, this code, the kernel's C++."""
    code = source_digest("bfpga.synthesis", "bfpga.rtl")
    sources = sorted(kernel_files(accelerator).items())
    return [accelerator.board.part, str(accelerator.clock_mhz), code, *(text for item in sources for text in item)]


def kernel_design(accelerator: Accelerator, ips: Sequence[IpVerilog]) -> dict[str, str]:
    """The files of a kernel in Verilog: name -> text. Top: ``KERNEL_MODULE``. ``ips``: those of its processes."""
    texts = {name: text for made in ips for name, text in made.modules.items()}
    uses = Counter(name for made in ips for name in made.modules)
    files = {"shared.v": "\n".join(text for name, text in texts.items() if uses[name] > 1)}
    for made in ips:
        if any(texts[name] != text for name, text in made.modules.items()):
            raise ToolError(f"two IPs have modules of one name that differ: {made.ip.function} is one of them")
        parts = [text for name, text in made.modules.items() if uses[name] == 1]
        if made.ip.control:
            parts.append(control_verilog(made.ip))
        files[f"{made.ip.function}.v"] = "\n".join(parts)
    return {name: text.rstrip() + "\n" for name, text in files.items() if text} | joining_files(accelerator)


def joining_files(accelerator: Accelerator) -> dict[str, str]:
    """What joins the IPs: FIFOs, clock counter, and the module around all."""
    config = accelerator.config
    rendered = render_kernel(accelerator.name, accelerator.digest, config)
    kernel = source_environment("kernels/rtl").get_template("kernel.v.j2").render(_context(accelerator.name, config))
    return {"fifo.v": fifo_verilog(), "clock_counter.v": rendered["rtl/clock_counter.v"], "kernel.v": kernel}


def host_ports(config: KernelConfig) -> Iterator[StreamPort]:
    """The streams of a kernel from and to the host."""
    for ip in kernel_ips(config):
        yield from (stream for stream in ip.streams if stream.name in host_streams(config))


def _context(name: str, config: KernelConfig) -> dict[str, Any]:
    return {
        "name": name,
        "module": KERNEL_MODULE,
        "watched": WATCHED,
        "watched_bits": WATCHED_BITS,
        "ports": list(_ports(config)),
        "streams": [_stream(stream) for stream in process_streams(config)],
        "ips": [
            {"function": ip.function, "cell": ip.cell, "control": ip.control, "connections": _connections(ip, config)}
            for ip in kernel_ips(config)
        ],
        "counter": {"module": CLOCK_COUNTER, "connections": _counter_connections(config)},
    }


def _ports(config: KernelConfig) -> Iterator[Port]:
    for prefix, bits in ((CONTROL_PORT, CONTROL_ADDRESS_BITS), (COUNTER_PORT, COUNTER_ADDRESS_BITS)):
        for port in lite_signals(bits):
            yield port | {"name": f"{prefix}_{port['name']}"}
    for stream in host_ports(config):
        yield from stream_ports(stream)


def _stream(stream: ProcessStream) -> dict[str, Any]:
    bits = 8 * stream.octets
    return {
        "name": stream.name, "source": stream.source, "target": stream.target, "bits": bits, "range": wire_range(bits),
        "words": stream.fifo_words, "module": fifo_module(stream), "address_bits": fifo_address_bits(stream),
    }  # fmt: skip


def _connections(ip: KernelIp, config: KernelConfig) -> Mapping[str, str]:
    """The wire at each port of an IP."""
    wires = {}
    for stream in ip.streams:
        end = "" if stream.name in host_streams(config) else "_source" if stream.master else "_target"
        for port in stream_ports(stream):
            wires[port["name"]] = port["name"].replace(f"{stream.name}_", f"{stream.name}{end}_")
    if ip.control:
        wires |= {name: name for name in (f"{CONTROL_PORT}_{signal}" for signal, _, _ in AXI_LITE)}
        wires[_INTERRUPT] = _INTERRUPT
    return wires


def _counter_connections(config: KernelConfig) -> Mapping[str, str]:
    """The wire at each port of the clock counter, whose ports have small letters."""
    signals = [signal for signal, _, _ in AXI_LITE]
    wires = {f"{COUNTER_PORT}_{signal.lower()}": f"{COUNTER_PORT}_{signal}" for signal in signals}
    wires |= {f"{CONTROL_MONITOR}_{signal.lower()}": f"{CONTROL_PORT}_{signal}" for signal in signals}
    for stream in host_ports(config):
        wires |= {port["name"].lower(): port["name"] for port in stream_ports(stream)}
    return wires | {INTERRUPT_PIN: _INTERRUPT}
