"""Plausible files of the vendor's tools for a block design: IP, reports, bitstream, handoff."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.process_stream import SEQUENCER
from bfpga.contract.registers import (
    ARGUMENT_REGISTERS,
    BLOCK_REGISTERS,
    CONTROL_PORT,
)
from bfpga.vendor.bitstream.hls_stages import ip_loops
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.handoff import render_handoff
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips
from bfpga.vendor.stated_loops import StatedLoop

#: Row of a utilization report by family, in the order of `usage`.
ROWS = {
    "zynq7": ("Slice LUTs", "Slice Registers", "Block RAM Tile", "DSPs"),
    "zynqmp": ("CLB LUTs", "CLB Registers", "Block RAM Tile", "DSPs", "URAM"),
}


def component_xml(design: BlockDesign, widths: Mapping[str, int] | None = None, offset: int = 0, tlast: bool = True,
                  vlnv: str = "", pins: Sequence[str] = (), part: str = SEQUENCER,
                  control: bool | None = None) -> str:  # fmt: skip
    """IP-XACT of an IP as Vitis HLS writes it; the options make it wrong. ``offset``: added to every argument.

    ``part``: the process that the IP is. ``control``: whether it has an AXI-Lite port.
    """
    ip = ip_of(design, part)
    control = ip.control if control is None else control
    pins = pins or ("ap_clk", "ap_rst_n", *(["interrupt"] if control else []))
    buses, ports = [], []
    for stream in ip.streams:
        name, width = stream.name, (widths or {}).get(stream.name, stream.bits)
        mode = "master" if stream.master else "slave"
        signals = ["TDATA", "TVALID", "TREADY", *(["TLAST"] if tlast and stream.packets else [])]
        maps = "".join(
            f"<spirit:portMap><spirit:logicalPort><spirit:name>{signal}</spirit:name></spirit:logicalPort>"
            f"<spirit:physicalPort><spirit:name>{name}_{signal}</spirit:name></spirit:physicalPort></spirit:portMap>"
            for signal in signals
        )
        buses.append(
            f"<spirit:busInterface><spirit:name>{name}</spirit:name>"
            f'<spirit:busType spirit:vendor="xilinx.com" spirit:library="interface" spirit:name="axis"/>'
            f"<spirit:{mode}/><spirit:portMaps>{maps}</spirit:portMaps></spirit:busInterface>"
        )
        ports.append(
            f"<spirit:port><spirit:name>{name}_TDATA</spirit:name><spirit:wire><spirit:vector>"
            f"<spirit:left>{width - 1}</spirit:left><spirit:right>0</spirit:right></spirit:vector></spirit:wire>"
            "</spirit:port>"
        )
    if control:
        buses.append(
            f'<spirit:busInterface><spirit:name>{CONTROL_PORT}</spirit:name><spirit:busType spirit:name="aximm"/>'
            "<spirit:slave/></spirit:busInterface>"
        )
    ports += [f"<spirit:port><spirit:name>{pin}</spirit:name></spirit:port>" for pin in pins]
    registers = [(item.name, item.offset) for item in BLOCK_REGISTERS if control]
    registers += [(item.name, item.offset + offset) for item in ARGUMENT_REGISTERS if control]
    listed = "".join(
        f"<spirit:register><spirit:name>{name}</spirit:name><spirit:addressOffset>0x{place:02x}</spirit:addressOffset>"
        "</spirit:register>"
        for name, place in registers
    )
    vendor, library, name, version = (vlnv or ip.vlnv).split(":")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<spirit:component xmlns:spirit="http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009">'
        f"<spirit:vendor>{vendor}</spirit:vendor><spirit:library>{library}</spirit:library>"
        f"<spirit:name>{name}</spirit:name><spirit:version>{version}</spirit:version>"
        f"<spirit:busInterfaces>{''.join(buses)}</spirit:busInterfaces>"
        f"<spirit:memoryMaps><spirit:memoryMap><spirit:name>{CONTROL_PORT}</spirit:name><spirit:addressBlock>"
        f"<spirit:name>Reg</spirit:name>{listed}</spirit:addressBlock></spirit:memoryMap></spirit:memoryMaps>"
        f"<spirit:model><spirit:ports>{''.join(ports)}</spirit:ports></spirit:model></spirit:component>\n"
    )


def driver_header(offset: int = 0) -> str:
    """`xbfpga_systolic_hw.h`."""
    blocks = zip(("AP_CTRL", "GIE", "IER", "ISR"), BLOCK_REGISTERS, strict=True)
    lines = [f"#define XBFPGA_SYSTOLIC_CONTROL_ADDR_{name} 0x{item.offset:02x}" for name, item in blocks]
    for item in ARGUMENT_REGISTERS:
        lines.append(f"#define XBFPGA_SYSTOLIC_CONTROL_ADDR_{item.name.upper()}_DATA 0x{item.offset + offset:02x}")
        lines.append(f"#define XBFPGA_SYSTOLIC_CONTROL_BITS_{item.name.upper()}_DATA 32")
    return "\n".join(lines) + "\n"


def utilization_report(design: BlockDesign, share: float = 0.5, prohibited: bool = True) -> str:
    """`report_utilization`: every resource used to ``share``; older versions have no column Prohibited."""
    board = design.accelerator.board
    available = {"Slice LUTs": board.lut, "CLB LUTs": board.lut, "Slice Registers": board.ff, "CLB Registers": board.ff,
                 "Block RAM Tile": board.bram36, "DSPs": board.dsp, "URAM": board.uram}  # fmt: skip
    extra_title, extra = ("Prohibited | ", "0 | ") if prohibited else ("", "")
    rule = "+----------------+------+-------+-----------+-------+"
    lines = ["Copyright 1986-2022 Xilinx, Inc. All Rights Reserved.", "1. Slice Logic", rule,
             f"| Site Type | Used | Fixed | {extra_title}Available | Util% |", rule]  # fmt: skip
    for row in ROWS[board.processing_system]:
        star = "*" if row.endswith("LUTs") else ""
        lines.append(f"| {row}{star} | {available[row] * share:g} | 0 | {extra}{available[row]} | {100 * share:.2f} |")
        lines.append(f"|   {row} of a kind | 1 | 0 | {extra} | |")
    return "\n".join([*lines, rule]) + "\n"


def timing_report(wns: float = 0.512, whs: float = 0.021, wpws: float = 1.845) -> str:
    """`report_timing_summary`, the part that counts."""
    columns = ("WNS(ns)", "TNS(ns)", "TNS Failing Endpoints", "TNS Total Endpoints", "WHS(ns)", "THS(ns)",
               "THS Failing Endpoints", "THS Total Endpoints", "WPWS(ns)", "TPWS(ns)", "TPWS Failing Endpoints",
               "TPWS Total Endpoints")  # fmt: skip
    tns = min(0.0, wns * 10)
    values = (wns, tns, 10 if wns < 0 else 0, 12345, whs, min(0.0, whs), 0, 12345, wpws, 0.0, 0, 4321)
    header = "  ".join(f"{name:>12}" for name in columns)
    rule = "  ".join("-" * max(12, len(name)) for name in columns)
    row = "  ".join(f"{value:>12}" for value in values)
    title = "| Design Timing Summary\n| ---------------------"
    return f"Copyright 1986-2022 Xilinx, Inc.\n\n{title}\n\n    {header}\n    {rule}\n    {row}\n\n\nConclusion\n"


def bitstream(part: str, family: str, length: int = 4000) -> bytes:
    """A .bit file: header, dummy words, synchronization word, and bytes that no device would take."""
    name = part.removeprefix("xc").rpartition("-")[0] if family == "zynq7" else part
    fields = {"a": "system_wrapper;UserID=0XFFFFFFFF;Version=2022.1", "b": name, "c": "2022/04/18", "d": "15:47:01"}
    header = bytes.fromhex("00090ff00ff00ff00ff0000001")
    for key, text in fields.items():
        content = text.encode() + b"\0"
        header += key.encode() + len(content).to_bytes(2, "big") + content
    data = (b"\xff" * 32 + bytes.fromhex("aa995566")).ljust(length, b"\x20")
    return header + b"e" + len(data).to_bytes(4, "big") + data


@functools.cache
def stated(accelerator: Accelerator, part: str) -> list[StatedLoop]:
    """The loops of an IP that state an interval: rendered once, since a hundred builds have the same."""
    design = block_design(accelerator)
    return ip_loops(design, ip_of(design, part))


#: Numbers of resources that a made-up report of C synthesis uses.
CSYNTH_USED = {"BRAM_18K": 100, "DSP": 198, "FF": 32616, "LUT": 41242, "URAM": 0}


def csynth_xml(
    design: BlockDesign, intervals: Mapping[str, int | None] | None = None, without: Sequence[str] = (),
    estimated_ns: float | None = None, used: Mapping[str, int] | None = None, period_ns: float | None = None,
    part: str = SEQUENCER,
) -> str:  # fmt: skip
    """`csynth.xml` as Vitis HLS writes it, made up: every stated loop at its interval unless ``intervals`` says else.

    ``intervals``: None for a loop that is not pipelined. ``without``: labels that the report does not name.
    ``part``: the process of the IP; each takes an equal part of the resources.
    """
    ip = ip_of(design, part)
    board = design.accelerator.board
    period = design.clock.period_ns if period_ns is None else period_ns
    modules = []
    for loop in stated(design.accelerator, part):
        if loop.label in without:
            continue
        interval = {loop.label: loop.interval, **(intervals or {})}[loop.label]
        pipeline = "" if interval is None else f"<PipelineII>{interval}</PipelineII><PipelineDepth>9</PipelineDepth>"
        modules.append(
            f"<Module><Name>run_Pipeline_{loop.label}</Name><PerformanceEstimates><SummaryOfLoopLatency><{loop.label}>"
            f"<Name>{loop.label}</Name><TripCount><range><min>1</min><max>64</max></range></TripCount>"
            f"<Latency>undef</Latency>{pipeline}</{loop.label}></SummaryOfLoopLatency></PerformanceEstimates></Module>"
        )
    available = {"BRAM_18K": 2 * board.bram36, "DSP": board.dsp, "FF": board.ff, "LUT": board.lut, "URAM": board.uram}
    share = min(1.0, board.dsp / 220) / len(kernel_ips(design.accelerator.config))
    numbers = {name: int(count * share) for name, count in CSYNTH_USED.items()} | dict(used or {})
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- made up by a test in the form of a vendor\'s report -->\n'
        f"<profile><ReportVersion><Version>2022.1</Version></ReportVersion><UserAssignments><Part>{board.part}</Part>"
        f"<TopModelName>{ip.function}</TopModelName><TargetClockPeriod>{period:.2f}</TargetClockPeriod>"
        f"<ClockUncertainty>{0.27 * period:.2f}</ClockUncertainty></UserAssignments>"
        "<PerformanceEstimates><SummaryOfTimingAnalysis>"
        f"<EstimatedClockPeriod>{0.7 * period if estimated_ns is None else estimated_ns:.3f}</EstimatedClockPeriod>"
        "</SummaryOfTimingAnalysis></PerformanceEstimates>"
        f"<AreaEstimates><Resources>{_elements(numbers)}</Resources>"
        f"<AvailableResources>{_elements(available)}</AvailableResources></AreaEstimates>"
        f"<ModuleInformation>{''.join(modules)}</ModuleInformation></profile>\n"
    )


def _elements(numbers: Mapping[str, int]) -> str:
    return "".join(f"<{name}>{number}</{name}>" for name, number in numbers.items())


def ip_of(design: BlockDesign, part: str) -> KernelIp:
    """The IP of a process."""
    return next(ip for ip in kernel_ips(design.accelerator.config) if ip.part == part)


def write_artefacts(design: BlockDesign, directory: Path) -> dict[str, str]:
    """Everything the stand-ins hand out, and where it lies; what an IP has for itself follows the name of its top."""
    board = design.accelerator.board
    own = {}
    for ip in kernel_ips(design.accelerator.config):
        folder = directory / ip.part
        (folder / "ip").mkdir(parents=True)
        (folder / "ip" / "component.xml").write_text(component_xml(design, part=ip.part))
        (folder / "csynth.xml").write_text(csynth_xml(design, part=ip.part))
        if ip.control:
            drivers = folder / "ip" / "drivers" / "bfpga_systolic_v1_0" / "src"
            drivers.mkdir(parents=True)
            (drivers / "xbfpga_systolic_hw.h").write_text(driver_header())
        own |= {f"ip_{ip.function}": str(folder / "ip"), f"csynth_{ip.function}": str(folder / "csynth.xml")}
    (directory / "system.hwh").write_text(render_handoff(design))
    (directory / "system.bit").write_bytes(bitstream(board.part, board.processing_system))
    (directory / "utilization.txt").write_text(utilization_report(design))
    (directory / "timing.txt").write_text(timing_report())
    names = {"hwh": "system.hwh", "bit": "system.bit", "utilization": "utilization.txt", "timing": "timing.txt"}
    return own | {key: str(directory / name) for key, name in names.items()}
