"""The block design around the cores, which are copies of one kernel: cells, pins, links, addresses, interrupts.

One description from which the Vivado script, the hardware handoff of the virtual board and the overlay's manifest are
rendered. Names of cells are what a user sees in `overlay.ip_dict`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bfpga.accelerator.clocks import ClockSetting, clock_setting
from bfpga.accelerator.loader import Accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.cores import Core, cores_of
from bfpga.contract.position_stream import AWAITED_EXPONENTS, POSITION_STREAM, TOLD_EXPONENTS, core_fifos, following
from bfpga.contract.process_stream import POST
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
    KERNEL_VERSION,
    REGISTER_BLOCK,
    fifo_cell,
    fifo_parameters,
    host_stream_cell,
    kernel_ips,
    process_cell,
)
from bfpga.vendor.processing_systems import PROCESSING_SYSTEMS, MemoryPort, ProcessingSystem

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
    cores: tuple[Core, ...]
    cells: tuple[Cell, ...]
    links: tuple[Link, ...]
    nets: tuple[Net, ...]
    segments: tuple[Segment, ...]

    def cell(self, name: str) -> Cell:
        """The cell of that name; KeyError if there is none."""
        return {cell.name: cell for cell in self.cells}[name]

    @property
    def interrupts(self) -> tuple[str, ...]:
        """Interrupt sources in the order of the controller's inputs."""
        return tuple(source for core in self.cores for source in core.interrupts)

    def base_address(self, cell: str) -> int:
        """Where the processor finds the registers of a cell."""
        return next(s.base for s in self.segments if s.usage == "register" and s.slave.split("/")[0] == cell)


@dataclass(frozen=True)
class _Interconnect:
    """A SmartConnect that leads DMA engines to a port of the memory. ``masters``: their interfaces."""

    cell: str
    port: MemoryPort
    masters: tuple[str, ...]


@dataclass(frozen=True)
class _Registers:
    """A slave of the control interconnect, as `cell/interface`. ``block``: its address block."""

    slave: str
    block: str
    monitor: str | None = None


def block_design(accelerator: Accelerator) -> BlockDesign:
    """The design of an accelerator on its board: tensors of a core by one DMA, its weights by another.

    Each DMA has a port of the memory to itself, from HP0 on; where there are more DMAs than ports, some share one. A
    kernel is six IPs or more with a FIFO in every stream between them, so that a stream holds what it must.
    """
    system, cores = PROCESSING_SYSTEMS[accelerator.board.processing_system], cores_of(accelerator.cores)
    clock = clock_setting(system.name, accelerator.clock_mhz)
    interconnects, registers = _interconnects(system, cores), _registers(cores)
    return BlockDesign(
        accelerator,
        system,
        clock,
        cores,
        _cells(accelerator, system, clock, cores, interconnects),
        _links(accelerator.config, system, cores, interconnects),
        (*_clock_and_reset(accelerator.config, system, cores, interconnects), *_interrupts(system, cores)),
        (*_register_segments(system, registers), *_memory_segments(accelerator, system, interconnects)),
    )


def _interconnects(system: ProcessingSystem, cores: Sequence[Core]) -> tuple[_Interconnect, ...]:
    """One for each port in use; DMAs beyond the number of ports join those of the first ones."""
    dmas = [
        dma
        for core in cores
        for dma in (
            (core.cell("tensor_interconnect"), (f"{core.tensor_dma}/M_AXI_MM2S", f"{core.tensor_dma}/M_AXI_S2MM")),
            (core.cell("weight_interconnect"), (f"{core.weight_dma}/M_AXI_MM2S",)),
        )
    ]
    ports = system.memory_ports[: len(dmas)]
    shared = [dmas[number :: len(ports)] for number in range(len(ports))]
    return tuple(
        _Interconnect(group[0][0], port, tuple(master for _, masters in group for master in masters))
        for port, group in zip(ports, shared, strict=True)
    )


def _registers(cores: Sequence[Core]) -> tuple[_Registers, ...]:
    """All slaves of the control interconnect, in the order of its masters and of their addresses."""
    (kernel, *dmas, counter), *others = (_core_registers(core) for core in cores)
    controller = _Registers("interrupt_controller/s_axi", "Reg")
    return (kernel, *dmas, controller, counter, *(item for own in others for item in own))


def _core_registers(core: Core) -> tuple[_Registers, ...]:
    return (
        _Registers(f"{core.kernel}/{CONTROL_PORT}", REGISTER_BLOCK, f"{core.clock_counter}/{CONTROL_MONITOR}"),
        _Registers(f"{core.tensor_dma}/S_AXI_LITE", "Reg"),
        _Registers(f"{core.weight_dma}/S_AXI_LITE", "Reg"),
        # The name that Vivado gives to the address block of a module of plain Verilog.
        _Registers(f"{core.clock_counter}/{COUNTER_PORT}", "reg0"),
    )


def _cells(
    accelerator: Accelerator,
    system: ProcessingSystem,
    clock: ClockSetting,
    cores: Sequence[Core],
    interconnects: Sequence[_Interconnect],
) -> tuple[Cell, ...]:
    ports = [interconnect.port for interconnect in interconnects]
    smartconnect = "xilinx.com:ip:smartconnect"
    masters, interrupts = len(_registers(cores)), sum(len(core.interrupts) for core in cores)
    return (
        Cell("ps", system.ip, system.version, system.parameters(clock, ports, accelerator.board.port_bits)),
        Cell("reset", "xilinx.com:ip:proc_sys_reset", "5.0"),
        *(cell for core in cores for cell in _core_cells(accelerator, system, core)),
        *(
            Cell(item.cell, smartconnect, "1.0", {"NUM_SI": str(len(item.masters)), "NUM_MI": "1"})
            for item in interconnects
        ),
        Cell("control_interconnect", smartconnect, "1.0", {"NUM_SI": "1", "NUM_MI": str(masters)}),
        Cell("interrupt_concat", "xilinx.com:ip:xlconcat", "2.1", {"NUM_PORTS": str(interrupts)}),
        Cell("interrupt_controller", "xilinx.com:ip:axi_intc", "4.1", {"C_IRQ_CONNECTION": "1"}),
    )


def _core_cells(accelerator: Accelerator, system: ProcessingSystem, core: Core) -> Iterator[Cell]:
    config, dma = accelerator.config, "xilinx.com:ip:axi_dma"
    for ip in kernel_ips(config):
        yield Cell(core.cell(ip.cell), ip.ip, KERNEL_VERSION)
    for stream in core_fifos(config):
        yield Cell(core.cell(fifo_cell(stream)), FIFO_IP, FIFO_VERSION, fifo_parameters(stream))
    yield Cell(core.clock_counter, f"{MODULE_REFERENCE}:{CLOCK_COUNTER}", "1.0")
    yield Cell(core.tensor_dma, dma, "7.1", _dma(accelerator, system, config.stream_bits, True))
    yield Cell(core.weight_dma, dma, "7.1", _dma(accelerator, system, config.weight_stream_bits, False))


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


def _links(
    config: KernelConfig, system: ProcessingSystem, cores: Sequence[Core], interconnects: Sequence[_Interconnect]
) -> tuple[Link, ...]:
    return (
        *(link for core in cores for link in _core_links(config, core)),
        *(link for pair in following(cores) if config.position_stream for link in _position_links(*pair)),
        *(link for interconnect in interconnects for link in _memory_links(interconnect)),
        Link(f"ps/{system.control_port}", "control_interconnect/S00_AXI", "aximm"),
        *(
            Link(f"control_interconnect/M{number:02}_AXI", item.slave, "aximm", 32, item.monitor)
            for number, item in enumerate(_registers(cores))
        ),
    )


def _core_links(config: KernelConfig, core: Core) -> Iterator[Link]:
    """Streams from and to the DMA engines, which the clock counter watches, and those between the processes."""
    tensors, weights = config.stream_bits, config.weight_stream_bits
    for stream, bits, dma in (
        (INPUT_STREAM, tensors, f"{core.tensor_dma}/M_AXIS_MM2S"),
        (WEIGHT_STREAM, weights, f"{core.weight_dma}/M_AXIS_MM2S"),
        (OUTPUT_STREAM, tensors, f"{core.tensor_dma}/S_AXIS_S2MM"),
    ):
        own = f"{core.cell(host_stream_cell(config, stream))}/{stream}"
        master, slave = (own, dma) if stream == OUTPUT_STREAM else (dma, own)
        yield Link(master, slave, "axis", bits, f"{core.clock_counter}/{stream}")
    yield from _inner_links(config, core)


def _inner_links(config: KernelConfig, core: Core) -> Iterator[Link]:
    """From the port of a process into the FIFO of the stream, and on to the port of that name of the other process."""
    for stream in process_streams(config):
        fifo, bits = core.cell(fifo_cell(stream)), 8 * stream.octets
        ends = (stream.source, stream.target)
        source, target = (f"{core.cell(process_cell(process))}/{stream.name}" for process in ends)
        yield Link(source, f"{fifo}/S_AXIS", "axis", bits, packets=False)
        yield Link(f"{fifo}/M_AXIS", target, "axis", bits, packets=False)


def _position_links(core: Core, after: Core) -> Iterator[Link]:
    """From the output stage of a core into the FIFO of its exponents, and on to that of the next core."""
    fifo, bits = core.cell(fifo_cell(POSITION_STREAM)), POSITION_STREAM.bits
    source, target = (item.cell(process_cell(POST)) for item in (core, after))
    yield Link(f"{source}/{TOLD_EXPONENTS}", f"{fifo}/S_AXIS", "axis", bits, packets=False)
    yield Link(f"{fifo}/M_AXIS", f"{target}/{AWAITED_EXPONENTS}", "axis", bits, packets=False)


def _memory_links(interconnect: _Interconnect) -> Iterator[Link]:
    for number, master in enumerate(interconnect.masters):
        yield Link(master, f"{interconnect.cell}/S{number:02}_AXI", "aximm")
    yield Link(f"{interconnect.cell}/M00_AXI", f"ps/{interconnect.port.name}", "aximm")


def _clock_and_reset(
    config: KernelConfig, system: ProcessingSystem, cores: Sequence[Core], interconnects: Sequence[_Interconnect]
) -> tuple[Net, ...]:
    names = (*(interconnect.cell for interconnect in interconnects), "control_interconnect")
    clocks = (
        "reset/slowest_sync_clk",
        *(pin for core in cores for pin in _core_clocks(config, core)),
        "interrupt_controller/s_axi_aclk",
        *(f"{name}/aclk" for name in names),
        f"ps/{system.control_clock}",
        *(f"ps/{interconnect.port.clock}" for interconnect in interconnects),
    )
    resets = (
        *(pin for core in cores for pin in _core_resets(config, core)),
        "interrupt_controller/s_axi_aresetn",
        *(f"{name}/aresetn" for name in names),
    )
    return (
        Net("clock", f"ps/{system.clock_pin}", clocks),
        Net("board_reset", f"ps/{system.reset_pin}", ("reset/ext_reset_in",)),
        Net("peripheral_reset", "reset/peripheral_aresetn", resets),
    )


def _core_clocks(config: KernelConfig, core: Core) -> tuple[str, ...]:
    return (
        *(f"{core.cell(ip.cell)}/ap_clk" for ip in kernel_ips(config)),
        *(f"{core.cell(fifo_cell(stream))}/s_axis_aclk" for stream in core_fifos(config)),
        f"{core.clock_counter}/aclk",
        f"{core.tensor_dma}/s_axi_lite_aclk",
        f"{core.tensor_dma}/m_axi_mm2s_aclk",
        f"{core.tensor_dma}/m_axi_s2mm_aclk",
        f"{core.weight_dma}/s_axi_lite_aclk",
        f"{core.weight_dma}/m_axi_mm2s_aclk",
    )


def _core_resets(config: KernelConfig, core: Core) -> tuple[str, ...]:
    return (
        *(f"{core.cell(ip.cell)}/ap_rst_n" for ip in kernel_ips(config)),
        *(f"{core.cell(fifo_cell(stream))}/s_axis_aresetn" for stream in core_fifos(config)),
        f"{core.clock_counter}/aresetn",
        f"{core.tensor_dma}/axi_resetn",
        f"{core.weight_dma}/axi_resetn",
    )


def _interrupts(system: ProcessingSystem, cores: Sequence[Core]) -> tuple[Net, ...]:
    """PYNQ finds an interrupt only through `xlconcat` and `axi_intc`, on the first line of the processor."""
    watched = {core.interrupts[-1]: (f"{core.clock_counter}/{INTERRUPT_PIN}",) for core in cores}
    sources = [source for core in cores for source in core.interrupts]
    return (
        *(
            Net(f"interrupt_{n}", source, (f"interrupt_concat/In{n}", *watched.get(source, ())))
            for n, source in enumerate(sources)
        ),
        Net("interrupts", "interrupt_concat/dout", ("interrupt_controller/intr",), bits=len(sources)),
        Net("interrupt", "interrupt_controller/irq", (f"ps/{system.interrupt_pin}",)),
    )


def _register_segments(system: ProcessingSystem, registers: Sequence[_Registers]) -> Iterator[Segment]:
    for number, item in enumerate(registers):
        base = system.register_base + number * REGISTER_SPACE
        yield Segment(f"ps/{system.control_port}", item.slave, item.block, base, REGISTER_SPACE)


def _memory_segments(
    accelerator: Accelerator, system: ProcessingSystem, interconnects: Sequence[_Interconnect]
) -> Iterator[Segment]:
    size = min(accelerator.board.ddr_mib << 20, system.low_memory)
    for interconnect in interconnects:
        port = interconnect.port
        for master in interconnect.masters:
            yield Segment(master, f"ps/{port.name}", port.block, 0, size, "memory")
