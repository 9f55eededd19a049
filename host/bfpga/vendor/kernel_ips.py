"""The IPs that C synthesis makes of a kernel, one for each process; their place in the block design's first core.

What is said here once reaches the HLS scripts, the checks of what the tools export, the cells and links of the design.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.cores import KERNEL
from bfpga.contract.position_stream import AWAITED_EXPONENTS, POSITION_STREAM, TOLD_EXPONENTS
from bfpga.contract.process_stream import POST, SEQUENCER, ProcessStream
from bfpga.contract.processes import host_streams, kernel_processes, process_function, process_streams
from bfpga.contract.registers import OUTPUT_STREAM, WEIGHT_STREAM

#: Vendor and library of the IPs, and their version.
LIBRARY = "xilinx.com:hls"
KERNEL_VERSION = "1.0"
#: The address block of the kernel's registers, as C synthesis calls it.
REGISTER_BLOCK = "Reg"
#: FIFO of a stream between two processes (PG085).
FIFO_IP, FIFO_VERSION = "xilinx.com:ip:axis_data_fifo", "2.0"


@dataclass(frozen=True)
class StreamPort:
    """An AXI-Stream port of an IP. ``packets``: it has TLAST, as the DMA engines need it."""

    name: str
    master: bool
    bits: int
    packets: bool

    @property
    def signals(self) -> dict[str, int]:
        """Its signals, with their bits."""
        return {"TDATA": self.bits, **({"TLAST": 1} if self.packets else {}), "TVALID": 1, "TREADY": 1}


@dataclass(frozen=True)
class KernelIp:
    """An IP of a kernel. ``part``: its process. ``source``: path in the project.

    ``control``: it has the registers and the interrupt; the others run by themselves (ap_ctrl_none).
    """

    part: str
    cell: str
    function: str
    source: str
    control: bool
    streams: tuple[StreamPort, ...]

    @property
    def ip(self) -> str:
        """Vendor, library and name."""
        return f"{LIBRARY}:{self.function}"

    @property
    def vlnv(self) -> str:
        """Vendor, library, name and version."""
        return f"{self.ip}:{KERNEL_VERSION}"

    @property
    def stem(self) -> str:
        """What the files of its C synthesis are called after: script, result, report, log, project."""
        return f"hls_{self.part}"

    @property
    def packaging(self) -> str:
        """What the files are called after that make an IP of its Verilog: script, result, log, project."""
        return f"ip_{self.part}"

    @property
    def title(self) -> str:
        """The IP in a message."""
        return f"the IP {self.function}"


@lru_cache(maxsize=64)
def kernel_ips(config: KernelConfig) -> tuple[KernelIp, ...]:
    """The IPs of a kernel, that with the registers first."""
    return tuple(_process_ip(config, process) for process in kernel_processes(config))


def host_stream_cell(config: KernelConfig, stream: str) -> str:
    """The cell that reads or writes a stream from or to the host."""
    return process_cell(host_streams(config)[stream])


def process_cell(process: str) -> str:
    """The cell of a process."""
    return KERNEL if process == SEQUENCER else process


def fifo_cell(stream: ProcessStream) -> str:
    """The cell of the FIFO of a stream."""
    return f"{stream.name}_fifo"


def fifo_parameters(stream: ProcessStream) -> dict[str, str]:
    """CONFIG of the FIFO of a stream."""
    return {
        "TDATA_NUM_BYTES": str(stream.octets),
        "HAS_TLAST": "0",
        "FIFO_DEPTH": str(stream.fifo_words),
        "FIFO_MEMORY_TYPE": "block" if stream.is_in_blocks else "distributed",
    }


def _process_ip(config: KernelConfig, process: str) -> KernelIp:
    outer = tuple(_host_port(config, name) for name, owner in host_streams(config).items() if owner == process)
    inner = tuple(
        StreamPort(stream.name, stream.source == process, 8 * stream.octets, packets=False)
        for stream in process_streams(config)
        if process in (stream.source, stream.target)
    )
    if config.position_stream and process == POST:
        ends = ((TOLD_EXPONENTS, True), (AWAITED_EXPONENTS, False))
        inner += tuple(StreamPort(name, master, POSITION_STREAM.bits, packets=False) for name, master in ends)
    source = f"src/{process}.cpp"
    return KernelIp(
        process, process_cell(process), process_function(process), source, process == SEQUENCER, outer + inner
    )


def _host_port(config: KernelConfig, name: str) -> StreamPort:
    bits = config.weight_stream_bits if name == WEIGHT_STREAM else config.stream_bits
    return StreamPort(name, name == OUTPUT_STREAM, bits, packets=True)
