"""Small designs, kernels and a host for tests of the virtual board. The designs are written by hand, without a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.kernel_model import OperationTime
from bfpga.board.virtual.stream import Stream

BASE = {"zynq7": 0x43C00000, "zynqmp": 0xA0000000}
#: Offsets of the cells from the base of the register window.
KERNEL, DMA, CONTROLLER, SPARE = 0x00000, 0x10000, 0x20000, 0x30000
LINE = {"zynq7": 61, "zynqmp": 121}


class AddOne:
    """Reads `count` bytes, adds one to each, writes them as one packet; `total` is their sum."""

    inputs = ("input_stream",)
    outputs = ("output_stream",)

    def __init__(self) -> None:
        self.closed = False
        self.starts = 0
        self.reset()

    def start(self, arguments: Mapping[str, int]) -> None:
        self.left = arguments["count"]
        self.total = 0
        self.finished = self.left == 0
        self.starts += 1
        self._pending: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def step(self, streams: Mapping[str, Stream]) -> bool:
        moved = False
        while not self.finished:
            if not len(self._pending):
                data, _ = streams["input_stream"].pop(min(self.left, 1024))
                self.left -= len(data)
                self.total += int(data.sum())
                self._pending = data + np.uint8(1)
            accepted = streams["output_stream"].push(self._pending, self.left == 0)
            self._pending = self._pending[accepted:]
            self.finished = self.left == 0 and not len(self._pending)
            if not accepted:
                break
            moved = True
        return moved

    @property
    def waiting(self) -> str | None:
        return "room in `output_stream`" if len(self._pending) else f"stream `input_stream`: {self.left} more bytes"

    def results(self) -> Mapping[str, int]:
        return {"total": self.total & 0xFFFFFFFF}

    def operations(self) -> tuple[OperationTime, ...]:
        return ()

    def reset(self) -> None:
        self.finished = True
        self.left = self.total = 0
        self._pending = np.empty(0, np.uint8)

    def close(self) -> None:
        self.closed = True


def register(name: str, offset: int, access: str = "read-write", bits: int = 32) -> str:
    return (
        f'<REGISTER NAME="{name}"><PROPERTY NAME="ADDRESS_OFFSET" VALUE="{offset:#x}"/>'
        f'<PROPERTY NAME="SIZE" VALUE="{bits}"/><PROPERTY NAME="ACCESS" VALUE="{access}"/></REGISTER>'
    )


def module(name: str, vlnv: str, body: str = "", parameters: Mapping[str, object] | None = None) -> str:
    values = "".join(f'<PARAMETER NAME="{key}" VALUE="{value}"/>' for key, value in (parameters or {}).items())
    flat = name.replace("/", "_")
    return (
        f'<MODULE FULLNAME="/{name}" INSTANCE="{flat}" VLNV="{vlnv}"><PARAMETERS>{values}</PARAMETERS>{body}</MODULE>'
    )


def ports(*entries: tuple[str, str, str, str]) -> str:
    """direction, name, connected instance, connected port."""
    return (
        "<PORTS>"
        + "".join(
            f'<PORT DIR="{direction}" NAME="{name}"><CONNECTIONS><CONNECTION INSTANCE="{cell}" PORT="{pin}"/>'
            "</CONNECTIONS></PORT>"
            for direction, name, cell, pin in entries
        )
        + "</PORTS>"
    )


def streams(*entries: tuple[str, str, str]) -> str:
    """type, name, net; four bytes wide."""
    return (
        "<BUSINTERFACES>"
        + "".join(
            f'<BUSINTERFACE BUSNAME="{net}" DATAWIDTH="32" NAME="{name}" TYPE="{kind}" '
            'VLNV="xilinx.com:interface:axis:1.0"/>'
            for kind, name, net in entries
        )
        + "</BUSINTERFACES>"
    )


@dataclass(frozen=True)
class Design:
    """One DMA, one kernel, one interrupt controller; ``dma``: parameters that differ from the defaults."""

    family: str = "zynq7"
    dma: Mapping[str, object] = field(default_factory=dict)
    controller: Mapping[str, object] = field(default_factory=dict)
    fifo_depth: int = 0
    memory_end: int = 0xFFFFFFFF

    def text(self) -> str:
        return (
            '<?xml version="1.0" encoding="UTF-8"?><EDKSYSTEM VIVADOVERSION="hand">'
            '<SYSTEMINFO NAME="add_one"/><MODULES>'
            + self._system()
            + self._dma()
            + self._kernel()
            + module("adder_spare", "xilinx.com:ip:axi_gpio:2.0")
            + self._interrupts()
            + "</MODULES></EDKSYSTEM>"
        )

    def _system(self) -> str:
        base = BASE[self.family]
        cells = {
            "adder": (KERNEL, "s_axi_control"),
            "dma": (DMA, "S_AXI_LITE"),
            "controller": (CONTROLLER, "s_axi"),
            "adder_spare": (SPARE, "S_AXI"),
        }
        ranges = "".join(
            f'<MEMRANGE BASEVALUE="{base + offset:#x}" HIGHVALUE="{base + offset + 0xFFFF:#x}" INSTANCE="{cell}" '
            f'MASTERBUSINTERFACE="M" MEMTYPE="REGISTER" SLAVEBUSINTERFACE="{interface}"/>'
            for cell, (offset, interface) in cells.items()
        )
        if self.family == "zynq7":
            vlnv, pin = "xilinx.com:ip:processing_system7:5.5", "IRQ_F2P"
            clock = {
                "PCW_FPGA_FCLK0_ENABLE": 1,
                "PCW_FCLK0_PERIPHERAL_CLKSRC": "IO PLL",
                "PCW_FCLK0_PERIPHERAL_DIVISOR0": 7,
                "PCW_FCLK0_PERIPHERAL_DIVISOR1": 1,
                "PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ": "142.857132",
            }
        else:
            vlnv, pin = "xilinx.com:ip:zynq_ultra_ps_e:3.4", "pl_ps_irq0"
            clock = {
                "PSU__FPGA_PL0_ENABLE": 1,
                "PSU__CRL_APB__PL0_REF_CTRL__SRCSEL": "RPLL",
                "PSU__CRL_APB__PL0_REF_CTRL__DIVISOR0": 5,
                "PSU__CRL_APB__PL0_REF_CTRL__DIVISOR1": 1,
                "PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ": "299.997009",
            }
        body = f"<MEMORYMAP>{ranges}</MEMORYMAP>" + ports(("I", pin, "controller", "irq"))
        return module("ps", vlnv, body, clock)

    def _dma(self) -> str:
        parameters = {
            "c_include_sg": 0,
            "c_sg_length_width": 14,
            "c_addr_width": 32,
            "c_include_mm2s": 1,
            "c_m_axi_mm2s_data_width": 32,
            "c_include_mm2s_dre": 0,
            "c_include_s2mm": 1,
            "c_m_axi_s2mm_data_width": 32,
            "c_include_s2mm_dre": 0,
        } | dict(self.dma)
        ranges = "".join(
            f'<MEMRANGE BASEVALUE="0x0" HIGHVALUE="{self.memory_end:#x}" INSTANCE="ps" MASTERBUSINTERFACE="{port}" '
            'MEMTYPE="MEMORY" SLAVEBUSINTERFACE="S_AXI_HP0"/>'
            for port in ("M_AXI_MM2S", "M_AXI_S2MM", "M_AXI_SG")
        )
        body = f"<MEMORYMAP>{ranges}</MEMORYMAP>" + ports(
            ("O", "mm2s_introut", "concat", "In0"), ("O", "s2mm_introut", "concat", "In1")
        )
        body += streams(("MASTER", "M_AXIS_MM2S", "to_kernel"), ("SLAVE", "S_AXIS_S2MM", "from_kernel"))
        return module("dma", "xilinx.com:ip:axi_dma:7.1", body, parameters)

    def _kernel(self) -> str:
        registers = "".join(register(name, 4 * n) for n, name in enumerate(("CTRL", "GIER", "IP_IER", "IP_ISR")))
        registers += register("count", 0x10) + register("total", 0x20, "read-only")
        block = f'<ADDRESSBLOCK INTERFACE="s_axi_control"><REGISTERS>{registers}</REGISTERS></ADDRESSBLOCK>'
        source = "fifo_out" if self.fifo_depth else "to_kernel"
        body = f"<ADDRESSBLOCKS>{block}</ADDRESSBLOCKS>" + ports(("O", "interrupt", "concat", "In2"))
        body += streams(("TARGET", "input_stream", source), ("INITIATOR", "output_stream", "from_kernel"))
        kernel = module("adder", "xilinx.com:hls:adder:1.0", body)
        if self.fifo_depth:
            wires = streams(("SLAVE", "S_AXIS", "to_kernel"), ("MASTER", "M_AXIS", "fifo_out"))
            depth = {"FIFO_DEPTH": self.fifo_depth, "TDATA_NUM_BYTES": 4}
            kernel += module("fifo", "xilinx.com:ip:axis_data_fifo:2.0", wires, depth)
        return kernel

    def _interrupts(self) -> str:
        concat = ports(
            ("I", "In0", "dma", "mm2s_introut"),
            ("I", "In1", "dma", "s2mm_introut"),
            ("I", "In2", "adder", "interrupt"),
            ("O", "dout", "controller", "intr"),
        )
        wires = ports(("I", "intr", "concat", "dout"), ("O", "irq", "ps", "IRQ"))
        return module("concat", "xilinx.com:ip:xlconcat:2.1", concat) + module(
            "controller", "xilinx.com:ip:axi_intc:4.1", wires, self.controller
        )


class Host:
    """A program on the board: registers by offset from the register window, buffers in DDR."""

    def __init__(self, design: Design | None = None, **options: object) -> None:
        self.design = design or Design()
        self.kernel = AddOne()
        settings = {"ddr_bytes": 1 << 20, "stream_bytes": 64, "stall_reads": 20} | options
        self.board = VirtualBoard(self.design.family, **settings)  # type: ignore[arg-type]
        self.board.configure(self.design.text(), {"adder": self.kernel})

    def read(self, offset: int) -> int:
        return int.from_bytes(self.board.read(BASE[self.design.family] + offset), "little")

    def write(self, offset: int, value: int) -> None:
        self.board.write(BASE[self.design.family] + offset, value.to_bytes(4, "little"))

    def poll(self, offset: int, reads: int = 2000) -> int:
        """A program that waits for a change and never gives up by itself."""
        return max(self.read(offset) for _ in range(reads))

    def buffer(self, data: bytes | int) -> int:
        """Physical address of a buffer with these bytes, or of so many zeros."""
        size = data if isinstance(data, int) else len(data)
        physical = self.board.memory.allocate(size)
        if isinstance(data, bytes):
            self.ddr(physical, size)[:] = np.frombuffer(data, np.uint8)
        return physical

    def ddr(self, physical: int, size: int) -> npt.NDArray[np.uint8]:
        view = self.board.memory.view(physical, size)
        assert view is not None
        return view

    # The two channels of the DMA in simple mode.

    def run_channels(self, interrupts: int = 0) -> None:
        self.write(DMA + 0x30, 1 | interrupts)
        self.write(DMA + 0x00, 1 | interrupts)

    def receive(self, physical: int, length: int) -> None:
        self.write(DMA + 0x48, physical & 0xFFFFFFFF)
        self.write(DMA + 0x58, length)

    def send(self, physical: int, length: int) -> None:
        self.write(DMA + 0x18, physical & 0xFFFFFFFF)
        self.write(DMA + 0x28, length)

    def start_kernel(self, count: int) -> None:
        self.write(KERNEL + 0x10, count)
        self.write(KERNEL, 1)

    @property
    def mm2s(self) -> int:
        return self.read(DMA + 0x04)

    @property
    def s2mm(self) -> int:
        return self.read(DMA + 0x34)

    def add_one(self, data: bytes) -> bytes:
        """A whole run as a driver does it: receive armed first."""
        source, target = self.buffer(data), self.buffer(len(data))
        self.run_channels()
        self.receive(target, len(data))
        self.start_kernel(len(data))
        self.send(source, len(data))
        result = self.ddr(target, len(data)).tobytes()
        self.board.memory.free(source)
        self.board.memory.free(target)
        return result


def plus_one(data: bytes) -> bytes:
    return (np.frombuffer(data, np.uint8) + np.uint8(1)).tobytes()
