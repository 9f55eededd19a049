"""The block design around a kernel: cells, pins, links, addresses, interrupts.

One description from which the Vivado script, the hardware handoff of the virtual board and the overlay's manifest are
rendered. Names of cells are what a user sees in `overlay.ip_dict`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bfpga.accelerator.clocks import ClockSetting, clock_setting
from bfpga.accelerator.loader import Accelerator
from bfpga.contract.processes import process_streams
from bfpga.contract.registers import (
    CLOCK_COUNTER,
    CONTROL_PORT,
    COUNTER_PORT,
    INPUT_STREAM,
    OUTPUT_STREAM,
    REGISTER_SPACE,
    WEIGHT_STREAM,
)
from bfpga.vendor.clock_counter import CONTROL_MONITOR, INTERRUPT_PIN
from bfpga.vendor.kernel_ips import (
    FIFO_IP,
    FIFO_VERSION,
    KERNEL_CELL,
    KERNEL_VERSION,
    REGISTER_BLOCK,
    fifo_cell,
    fifo_parameters,
    host_stream_cell,
    kernel_ips,
    process_cell,
)
from bfpga.vendor.processing_systems import PROCESSING_SYSTEMS, ProcessingSystem

#: Bits of the DMA's length register: the most that the IP offers (PG021), 64 MiB - 1 byte.
DMA_LENGTH_BITS = 26
#: Vendor and library under which Vivado lists a module of plain Verilog (UG994, module references).
MODULE_REFERENCE = "xilinx.com:module_ref"


@dataclass(frozen=True)
class Cell:
    """One IP of the design. ``ip``: vendor:library:name; ``version``: what the virtual handoff says.

    Vivado is asked for the newest version it has, except for the kernel and for modules of plain Verilog.
    ``parameters``: CONFIG names and values.
    """

    name: str
    ip: str
    version: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str | None:
        """Name of the Verilog module where the cell is no packaged IP."""
        return self.ip.rpartition(":")[2] if self.ip.startswith(f"{MODULE_REFERENCE}:") else None


@dataclass(frozen=True)
class Link:
    """An interface connection, master to slave, ends as `cell/interface`. ``protocol``: aximm or axis.

    ``bits``: data width of the link at both ends, None where an interconnect converts. ``monitor``: an interface that
    watches the link and drives none of its wires. ``packets``: a stream has TLAST; those between processes have none.
    """

    master: str
    slave: str
    protocol: str
    bits: int | None = None
    monitor: str | None = None
    packets: bool = True

    @property
    def name(self) -> str:
        """Name of the connection: that of its master."""
        return self.master.replace("/", "_")


@dataclass(frozen=True)
class Net:
    """A wire: one driver, its loads, all as `cell/pin`. ``bits``: 1 or the width of a vector."""

    name: str
    driver: str
    loads: tuple[str, ...]
    bits: int = 1


@dataclass(frozen=True)
class Segment:
    """An address range: what ``master`` (`cell/interface`) sees of ``slave`` (`cell/interface`).

    ``block``: the slave's address block as Vivado names it; ``usage``: register or memory.
    """

    master: str
    slave: str
    block: str
    base: int
    size: int
    usage: str = "register"


@dataclass(frozen=True)
class BlockDesign:
    """Everything that a Vivado script, a handoff file or a driver has to know of the hardware."""

    accelerator: Accelerator
    system: ProcessingSystem
    clock: ClockSetting
    cells: tuple[Cell, ...]
    links: tuple[Link, ...]
    nets: tuple[Net, ...]
    segments: tuple[Segment, ...]

    def cell(self, name: str) -> Cell:
        """The cell of that name; KeyError if there is none."""
        return {cell.name: cell for cell in self.cells}[name]

    def base_address(self, cell: str) -> int:
        """Where the processor finds the registers of a cell."""
        return next(s.base for s in self.segments if s.usage == "register" and s.slave.split("/")[0] == cell)


def block_design(accelerator: Accelerator) -> BlockDesign:
    """The design of an accelerator on its board: tensors by one DMA on port HP0, weights by another on HP1.

    A kernel is six IPs or more with a FIFO in every stream between them, so that a stream holds what it must.
    """
    system = PROCESSING_SYSTEMS[accelerator.board.processing_system]
    clock = clock_setting(system.name, accelerator.clock_mhz)
    return BlockDesign(
        accelerator,
        system,
        clock,
        _cells(accelerator, system, clock),
        _links(accelerator, system),
        (*_clock_and_reset(accelerator, system), *_interrupts(system)),
        _segments(accelerator, system),
    )


def _cells(accelerator: Accelerator, system: ProcessingSystem, clock: ClockSetting) -> tuple[Cell, ...]:
    config = accelerator.config
    smartconnect = "xilinx.com:ip:smartconnect"
    return (
        Cell("ps", system.ip, system.version, system.parameters(clock, accelerator.board.port_bits)),
        Cell("reset", "xilinx.com:ip:proc_sys_reset", "5.0"),
        *(Cell(ip.cell, ip.ip, KERNEL_VERSION) for ip in kernel_ips(config)),
        *(Cell(fifo_cell(item), FIFO_IP, FIFO_VERSION, fifo_parameters(item)) for item in process_streams(config)),
        Cell("clock_counter", f"{MODULE_REFERENCE}:{CLOCK_COUNTER}", "1.0"),
        Cell("tensor_dma", "xilinx.com:ip:axi_dma", "7.1", _dma(accelerator, system, config.stream_bits, True)),
        Cell("weight_dma", "xilinx.com:ip:axi_dma", "7.1", _dma(accelerator, system, config.weight_stream_bits, False)),
        Cell("tensor_interconnect", smartconnect, "1.0", {"NUM_SI": "2", "NUM_MI": "1"}),
        Cell("weight_interconnect", smartconnect, "1.0", {"NUM_SI": "1", "NUM_MI": "1"}),
        Cell("control_interconnect", smartconnect, "1.0", {"NUM_SI": "1", "NUM_MI": "5"}),
        Cell("interrupt_concat", "xilinx.com:ip:xlconcat", "2.1", {"NUM_PORTS": "4"}),
        Cell("interrupt_controller", "xilinx.com:ip:axi_intc", "4.1", {"C_IRQ_CONNECTION": "1"}),
    )


def _dma(accelerator: Accelerator, system: ProcessingSystem, bits: int, both: bool) -> dict[str, str]:
    """Parameters of a DMA; memory side at least as wide as its stream (PG021). Simple mode, no realignment."""
    memory = str(max(bits, accelerator.board.port_bits))
    parameters = {
        "c_include_sg": "0",
        "c_sg_include_stscntrl_strm": "0",
        "c_sg_length_width": str(DMA_LENGTH_BITS),
        "c_addr_width": str(system.address_bits),
        "c_include_mm2s": "1",
        "c_m_axi_mm2s_data_width": memory,
        "c_m_axis_mm2s_tdata_width": str(bits),
        "c_mm2s_burst_size": "16",
        "c_include_mm2s_dre": "0",
        "c_include_s2mm": "1" if both else "0",
    }
    if both:
        parameters |= {
            "c_m_axi_s2mm_data_width": memory,
            "c_s_axis_s2mm_tdata_width": str(bits),
            "c_s2mm_burst_size": "16",
            "c_include_s2mm_dre": "0",
        }
    return parameters


def _links(accelerator: Accelerator, system: ProcessingSystem) -> tuple[Link, ...]:
    config = accelerator.config
    tensors, weights = config.stream_bits, config.weight_stream_bits
    ports = {name: f"{host_stream_cell(config, name)}/{name}" for name in (INPUT_STREAM, WEIGHT_STREAM, OUTPUT_STREAM)}
    return (
        _watched("tensor_dma/M_AXIS_MM2S", ports[INPUT_STREAM], "axis", tensors, INPUT_STREAM),
        _watched("weight_dma/M_AXIS_MM2S", ports[WEIGHT_STREAM], "axis", weights, WEIGHT_STREAM),
        _watched(ports[OUTPUT_STREAM], "tensor_dma/S_AXIS_S2MM", "axis", tensors, OUTPUT_STREAM),
        *_inner_links(accelerator),
        Link("tensor_dma/M_AXI_MM2S", "tensor_interconnect/S00_AXI", "aximm"),
        Link("tensor_dma/M_AXI_S2MM", "tensor_interconnect/S01_AXI", "aximm"),
        Link("tensor_interconnect/M00_AXI", f"ps/{system.memory_ports[0]}", "aximm"),
        Link("weight_dma/M_AXI_MM2S", "weight_interconnect/S00_AXI", "aximm"),
        Link("weight_interconnect/M00_AXI", f"ps/{system.memory_ports[1]}", "aximm"),
        Link(f"ps/{system.control_port}", "control_interconnect/S00_AXI", "aximm"),
        _watched("control_interconnect/M00_AXI", f"{KERNEL_CELL}/{CONTROL_PORT}", "aximm", 32, CONTROL_MONITOR),
        Link("control_interconnect/M01_AXI", "tensor_dma/S_AXI_LITE", "aximm", 32),
        Link("control_interconnect/M02_AXI", "weight_dma/S_AXI_LITE", "aximm", 32),
        Link("control_interconnect/M03_AXI", "interrupt_controller/s_axi", "aximm", 32),
        Link("control_interconnect/M04_AXI", f"clock_counter/{COUNTER_PORT}", "aximm", 32),
    )


def _inner_links(accelerator: Accelerator) -> Iterator[Link]:
    """From the port of a process into the FIFO of the stream, and on to the port of that name of the other process."""
    for stream in process_streams(accelerator.config):
        fifo, bits = fifo_cell(stream), 8 * stream.octets
        source, target = (f"{process_cell(process)}/{stream.name}" for process in (stream.source, stream.target))
        yield Link(source, f"{fifo}/S_AXIS", "axis", bits, packets=False)
        yield Link(f"{fifo}/M_AXIS", target, "axis", bits, packets=False)


def _watched(master: str, slave: str, protocol: str, bits: int, monitor: str) -> Link:
    """A link of the kernel that the clock counter watches."""
    return Link(master, slave, protocol, bits, f"clock_counter/{monitor}")


def _clock_and_reset(accelerator: Accelerator, system: ProcessingSystem) -> tuple[Net, ...]:
    kernel = [ip.cell for ip in kernel_ips(accelerator.config)]
    fifos = [fifo_cell(stream) for stream in process_streams(accelerator.config)]
    interconnects = ("tensor_interconnect", "weight_interconnect", "control_interconnect")
    clocks = (
        "reset/slowest_sync_clk",
        *(f"{cell}/ap_clk" for cell in kernel),
        *(f"{cell}/s_axis_aclk" for cell in fifos),
        "clock_counter/aclk",
        "tensor_dma/s_axi_lite_aclk",
        "tensor_dma/m_axi_mm2s_aclk",
        "tensor_dma/m_axi_s2mm_aclk",
        "weight_dma/s_axi_lite_aclk",
        "weight_dma/m_axi_mm2s_aclk",
        "interrupt_controller/s_axi_aclk",
        *(f"{name}/aclk" for name in interconnects),
        *(f"ps/{pin}" for pin in system.port_clocks),
    )
    resets = (
        *(f"{cell}/ap_rst_n" for cell in kernel),
        *(f"{cell}/s_axis_aresetn" for cell in fifos),
        "clock_counter/aresetn",
        "tensor_dma/axi_resetn",
        "weight_dma/axi_resetn",
        "interrupt_controller/s_axi_aresetn",
        *(f"{name}/aresetn" for name in interconnects),
    )
    return (
        Net("clock", f"ps/{system.clock_pin}", clocks),
        Net("board_reset", f"ps/{system.reset_pin}", ("reset/ext_reset_in",)),
        Net("peripheral_reset", "reset/peripheral_aresetn", resets),
    )


#: Interrupt sources in the order of the controller's inputs.
INTERRUPTS = (
    "tensor_dma/mm2s_introut",
    "tensor_dma/s2mm_introut",
    "weight_dma/mm2s_introut",
    "accelerator/interrupt",
)


def _interrupts(system: ProcessingSystem) -> tuple[Net, ...]:
    """PYNQ finds an interrupt only through `xlconcat` and `axi_intc`, on the first line of the processor."""
    loads = {"accelerator/interrupt": (f"clock_counter/{INTERRUPT_PIN}",)}
    sources = (
        Net(f"interrupt_{n}", source, (f"interrupt_concat/In{n}", *loads.get(source, ())))
        for n, source in enumerate(INTERRUPTS)
    )
    return (
        *sources,
        Net("interrupts", "interrupt_concat/dout", ("interrupt_controller/intr",), bits=len(INTERRUPTS)),
        Net("interrupt", "interrupt_controller/irq", (f"ps/{system.interrupt_pin}",)),
    )


def _segments(accelerator: Accelerator, system: ProcessingSystem) -> tuple[Segment, ...]:
    control, base = f"ps/{system.control_port}", system.register_base
    slaves = (
        (f"{KERNEL_CELL}/{CONTROL_PORT}", REGISTER_BLOCK),
        ("tensor_dma/S_AXI_LITE", "Reg"),
        ("weight_dma/S_AXI_LITE", "Reg"),
        ("interrupt_controller/s_axi", "Reg"),
        # The name that Vivado gives to the address block of a module of plain Verilog.
        (f"clock_counter/{COUNTER_PORT}", "reg0"),
    )
    registers = [
        Segment(control, slave, block, base + n * REGISTER_SPACE, REGISTER_SPACE)
        for n, (slave, block) in enumerate(slaves)
    ]
    size = min(accelerator.board.ddr_mib << 20, system.low_memory)
    masters = (
        ("tensor_dma/M_AXI_MM2S", 0),
        ("tensor_dma/M_AXI_S2MM", 0),
        ("weight_dma/M_AXI_MM2S", 1),
    )
    memory = [
        Segment(master, f"ps/{system.memory_ports[port]}", system.memory_blocks[port], 0, size, "memory")
        for master, port in masters
    ]
    return (*registers, *memory)
