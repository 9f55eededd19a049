"""What a design configures: slaves, streams and interrupt wires, made from a hardware description."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from bfpga.board.virtual.bus import AddressMap, PlainRegisters, Slave
from bfpga.board.virtual.clock_counter import ClockCounter, HostClock
from bfpga.board.virtual.dma import AxiDma
from bfpga.board.virtual.dma_channel import DmaConfiguration
from bfpga.board.virtual.faults import Channel as ChannelName
from bfpga.board.virtual.faults import Faults
from bfpga.board.virtual.hardware_description import HardwareDescription, Instance
from bfpga.board.virtual.hls_slave import Argument, HlsSlave, is_block_register, is_own_kernel, own_arguments
from bfpga.board.virtual.interrupt_controller import InterruptController
from bfpga.board.virtual.kernel_model import AnyKernel, Kernel, KernelModel, KernelWithRegisters, TellingKernel
from bfpga.board.virtual.kernel_processes import check_processes, process_cells
from bfpga.board.virtual.kernel_slave import CounterPort, KernelSlave, RegisterPort
from bfpga.board.virtual.memory import Memory
from bfpga.board.virtual.stream_faults import BoardStream
from bfpga.contract.position_stream import AWAITED_EXPONENTS, TOLD_EXPONENTS
from bfpga.errors import DeviceError

#: Stream port of each DMA channel.
DMA_PORTS: Mapping[ChannelName, str] = {"mm2s": "M_AXIS_MM2S", "s2mm": "S_AXIS_S2MM"}
#: Memory port of each DMA channel.
_DMA_MEMORY: Mapping[ChannelName, str] = {"mm2s": "M_AXI_MM2S", "s2mm": "M_AXI_S2MM"}
#: Reads the level of a wire.
Level: TypeAlias = Callable[[], bool]


@dataclass
class Fabric:
    """The configured logic. ``slaves`` by instance name; ``lines``: interrupt line number to its driver."""

    hardware: HardwareDescription
    slaves: dict[str, Slave] = field(default_factory=dict)
    streams: list[BoardStream] = field(default_factory=list)
    lines: dict[int, tuple[Slave, str]] = field(default_factory=dict)

    @property
    def dmas(self) -> list[AxiDma]:
        """The DMAs in the order of the handoff."""
        return [slave for slave in self.slaves.values() if isinstance(slave, AxiDma)]

    @property
    def kernels(self) -> list[KernelSlave]:
        """The kernels in the order of the handoff."""
        return [slave for slave in self.slaves.values() if isinstance(slave, KernelSlave)]

    @property
    def controllers(self) -> list[InterruptController]:
        """The interrupt controllers."""
        return [slave for slave in self.slaves.values() if isinstance(slave, InterruptController)]

    def reset(self) -> None:
        """The reset inputs of all cells."""
        for slave in self.slaves.values():
            slave.reset()
        for stream in self.streams:
            stream.clear()

    def close(self, keep: Iterable[Kernel] = ()) -> None:
        """Release the kernels, except those in ``keep``."""
        kept = {id(kernel) for kernel in keep}
        for slave in self.kernels:
            if id(slave.kernel) not in kept:
                slave.kernel.close()


class FabricBuilder:
    """Builds a `Fabric`; ``stream_bytes``: what a link holds without the data FIFOs of the design."""

    def __init__(self, hardware: HardwareDescription, memory: Memory, faults: Faults, stream_bytes: int) -> None:
        self._hardware = hardware
        self._memory = memory
        self._faults = faults
        self._stream_bytes = stream_bytes

    def build(self, kernels: Mapping[str, AnyKernel]) -> Fabric:
        """The logic with these kernels by instance name; DeviceError for one that has no place in the design."""
        fabric = Fabric(self._hardware)
        self._check_kernels(kernels)
        for name, kernel in kernels.items():
            check_processes(self._hardware, name, kernel)
        for address_range in self._hardware.ranges:
            name = address_range.instance
            if name not in fabric.slaves:
                fabric.slaves[name] = self._slave(self._hardware.instances[name], kernels.get(name))
        self._connect_clock_counters(fabric)
        self._connect_streams(fabric)
        self._connect_tellers(fabric)
        self._connect_interrupts(fabric)
        return fabric

    def map_into(self, fabric: Fabric, address_map: AddressMap) -> None:
        """Put the slaves at their addresses."""
        for address_range in self._hardware.ranges:
            address_map.add(address_range.base, address_range.size, fabric.slaves[address_range.instance])

    def _check_kernels(self, kernels: Mapping[str, AnyKernel]) -> None:
        for name in kernels:
            if self._hardware.range_of(name) is None:
                found = ", ".join(sorted({r.instance for r in self._hardware.ranges})) or "none"
                raise DeviceError(f"kernel `{name}` has no registers in the design; instances with registers: {found}")

    def _slave(self, instance: Instance, kernel: AnyKernel | None) -> Slave:
        if isinstance(kernel, KernelWithRegisters):
            return RegisterPort(instance.name, kernel)
        if kernel is not None:
            return HlsSlave(instance.name, self._arguments(instance, kernel), kernel, self._faults)
        if instance.ip == "axi_dma":
            return self._dma(instance)
        if instance.ip == "axi_intc":
            return InterruptController(instance.name, self._faults, _edge_inputs(instance))
        return PlainRegisters(instance.name)

    def _arguments(self, instance: Instance, kernel: KernelModel) -> tuple[Argument, ...]:
        if is_own_kernel(instance.vlnv):
            return own_arguments()
        # Every range of the instance may hold registers: a kernel can have more than one AXI-Lite port.
        entries = [e for r in self._hardware.ranges if r.instance == instance.name for e in r.registers]
        return tuple(
            Argument(entry.name, entry.offset, entry.bits, output=entry.access == "read-only")
            for entry in entries
            if not is_block_register(entry.name)
        )

    def _dma(self, instance: Instance) -> AxiDma:
        configuration = DmaConfiguration.from_parameters(instance.name, instance.parameters)
        ranges = {
            channel: reach
            for channel, port in _DMA_MEMORY.items()
            if (reach := self._hardware.memory_of(instance.name, port)) is not None
        }
        descriptors = self._hardware.memory_of(instance.name, "M_AXI_SG")
        return AxiDma(instance.name, configuration, self._memory, ranges, self._faults, descriptors)

    def _connect_clock_counters(self, fabric: Fabric) -> None:
        """Counters that watch a kernel with a model; others stay plain registers."""
        host = HostClock()
        for name, watched in self._hardware.clock_counters.items():
            kernel = fabric.slaves.get(watched)
            if name in fabric.slaves and isinstance(kernel, HlsSlave):
                fabric.slaves[name] = ClockCounter(name, kernel, self._faults, host)
            elif name in fabric.slaves and isinstance(kernel, RegisterPort):
                fabric.slaves[name] = CounterPort(name, kernel.kernel)

    def _connect_tellers(self, fabric: Fabric) -> None:
        """Counters of kernels that await exponents know the counters of those that tell them."""
        counters = {id(slave.kernel): slave for slave in fabric.slaves.values() if isinstance(slave, ClockCounter)}
        tellers = {id(kernel.streams.get(TOLD_EXPONENTS)): kernel for kernel in fabric.kernels}
        for kernel in fabric.kernels:
            awaited = kernel.streams.get(AWAITED_EXPONENTS)
            if awaited is not None and id(kernel) in counters:
                counters[id(kernel)].before = counters.get(id(tellers.get(id(awaited))))

    def _connect_streams(self, fabric: Fabric) -> None:
        processes = self._processes(fabric)
        for link in self._hardware.streams:
            between = link.source_port == TOLD_EXPONENTS
            if link.source in processes and link.sink in processes and not between:
                continue  # inside of the kernel's model
            # From kernel to kernel there is nothing but the FIFO.
            room = link.buffer_bytes + (0 if between else self._stream_bytes)
            stream = BoardStream(link.ends, room or link.beat_bytes, link.beat_bytes, self._faults)
            source, sink = (fabric.slaves.get(processes.get(name, name)) for name in (link.source, link.sink))
            if isinstance(source, AxiDma) or isinstance(sink, AxiDma) or isinstance(source, KernelSlave):
                fabric.streams.append(stream)
            for slave, port in ((source, link.source_port), (sink, link.sink_port)):
                if isinstance(slave, KernelSlave):
                    slave.streams[port] = stream
                elif isinstance(slave, AxiDma):
                    for channel, dma_port in DMA_PORTS.items():
                        if port == dma_port and channel in slave.channels:
                            slave.channels[channel].mover.stream = stream
        for kernel in fabric.kernels:
            words = kernel.kernel.words if isinstance(kernel.kernel, TellingKernel) else ()
            ports = (*kernel.kernel.inputs, *kernel.kernel.outputs, *words)
            missing = [port for port in ports if port not in kernel.streams]
            if missing:
                raise DeviceError(f"stream ports of kernel `{kernel.name}` that the design does not connect: {missing}")

    def _processes(self, fabric: Fabric) -> dict[str, str]:
        """The cells of a kernel, each with the cell whose model represents all of them."""
        owned: dict[str, str] = {}
        for kernel in fabric.kernels:
            if is_own_kernel(self._hardware.instances[kernel.name].vlnv):
                owned |= dict.fromkeys(process_cells(self._hardware, kernel.name).values(), kernel.name)
        return owned

    def _connect_interrupts(self, fabric: Fabric) -> None:
        inputs: dict[str, dict[int, tuple[str, str]]] = {}
        for entry in self._hardware.interrupt_inputs:
            inputs.setdefault(entry.controller, {})[entry.index] = (entry.source, entry.pin)
        for controller in fabric.controllers:
            wired = inputs.get(controller.name, {})
            controller.connect([self._input(fabric, wired.get(n)) for n in range(max(wired, default=-1) + 1)])
        for line in self._hardware.interrupt_lines:
            if line.source in fabric.slaves:
                fabric.lines[line.number] = (fabric.slaves[line.source], line.pin)

    @staticmethod
    def _input(fabric: Fabric, source: tuple[str, str] | None) -> tuple[str, Level]:
        slave = fabric.slaves.get(source[0]) if source else None
        if source is None or slave is None:
            return "/".join(source or ()), lambda: False
        pin = source[1]
        return f"{source[0]}/{pin}", lambda: slave.interrupt(pin)


def _edge_inputs(instance: Instance) -> int:
    """Inputs captured at their edge: bits that are 1 in C_KIND_OF_INTR (PG099); levels where the file is silent."""
    values = {key.upper(): value for key, value in instance.parameters.items()}
    try:
        return int(values.get("C_KIND_OF_INTR", "0"), 0)
    except ValueError:
        return 0
