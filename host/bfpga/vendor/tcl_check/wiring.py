"""Rules on the wires of a built design: interfaces, widths, clocks, resets, interrupts."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.built import BuiltCell, BuiltDesign
from bfpga.vendor.tcl_check.components import Component

_CONCAT, _CONTROLLER = "xilinx.com:ip:xlconcat", "xilinx.com:ip:axi_intc"
_DMA, _RESET = "xilinx.com:ip:axi_dma", "xilinx.com:ip:proc_sys_reset"
#: Channel of a DMA -> parameter of its memory width, of its stream width.
_CHANNELS = {
    "mm2s": ("c_m_axi_mm2s_data_width", "c_m_axis_mm2s_tdata_width"),
    "s2mm": ("c_m_axi_s2mm_data_width", "c_s_axis_s2mm_tdata_width"),
}


def wiring_findings(design: BlockDesign, built: BuiltDesign) -> Iterator[Finding]:
    """Everything that is wrong with the wires."""
    parts = {name: cell.component for name, cell in built.cells.items()}
    yield from _open_interfaces(built, parts)
    yield from _stream_widths(built)
    yield from _clocks_and_resets(design, built, parts)
    yield from _interrupts(design, built, parts)
    for cell in built.cells.values():
        if cell.ip == _DMA:
            yield from _dma(cell, built)
    yield from _processing_system(design, built)


def _open_interfaces(built: BuiltDesign, parts: dict[str, Component]) -> Iterator[Finding]:
    linked = {end for link in built.links for end in (link.master, link.slave)}
    linked |= {item.monitor for item in built.monitors}
    for cell, component in parts.items():
        line = built.cells[cell].line
        for name in component.interfaces:
            if f"{cell}/{name}" not in linked:
                yield _finding(built, line, "interface-open", f"`{cell}/{name}` is not connected", "connect it")
        for name, parameter in component.unstated.items():
            problem = f"the preset of the board may switch `{cell}/{name}` on"
            yield _finding(built, line, "interface-open", problem, f"set {parameter} to 0, or to 1 and connect it")


def _stream_widths(built: BuiltDesign) -> Iterator[Finding]:
    for link in built.links:
        master, slave = built.interface(link.master), built.interface(link.slave)
        if master is None or slave is None or master.protocol != "axis":
            continue
        if master.bits != slave.bits:
            problem = f"`{link.master}` has {master.bits} bits, `{link.slave}` has {slave.bits}"
            yield _finding(built, link.line, "stream-width", problem, "give both ends the same width")


def _clocks_and_resets(design: BlockDesign, built: BuiltDesign, parts: dict[str, Component]) -> Iterator[Finding]:
    for cell, component in parts.items():
        for name, pin in component.pins.items():
            path, line = f"{cell}/{name}", built.cells[cell].line
            if pin.output or pin.role not in ("clock", "reset"):
                continue
            net = built.net_of(path)
            line = net.pins[path] if net else line
            driver = built.driver_of(path)
            if driver is None:
                if pin.required or net:
                    yield _finding(built, line, "pin-open", f"the {pin.role} `{path}` has no driver", "connect it")
            elif pin.role == "clock":
                yield from _clock(design, built, path, driver, line)
            else:
                yield from _reset(built, path, driver, line)


def _clock(design: BlockDesign, built: BuiltDesign, path: str, driver: str, line: int) -> Iterator[Finding]:
    cell, _, name = driver.partition("/")
    if built.cells[cell].ip != design.system.ip or name != design.system.clock_pin:
        problem, remedy = f"the clock `{path}` hangs on `{driver}`", f"use {design.system.clock_pin} for all"
        yield _finding(built, line, "clock-source", problem, remedy)


def _reset(built: BuiltDesign, path: str, driver: str, line: int) -> Iterator[Finding]:
    source, load = built.pin(driver), built.pin(path)
    if source is None or load is None:
        return
    if source.role != "reset" or source.active_low != load.active_low:
        problem = f"the reset `{path}` is driven by `{driver}`, which is no reset of its polarity"
        yield _finding(built, line, "reset-source", problem, "use peripheral_aresetn of proc_sys_reset")
    synchronised = built.cells[driver.split("/")[0]].ip == _RESET
    if not synchronised and built.cells[path.split("/")[0]].ip != _RESET:
        problem = f"the reset `{path}` comes from `{driver}` without being synchronised"
        yield _finding(built, line, "reset-source", problem, "lead it through proc_sys_reset")


def _interrupts(design: BlockDesign, built: BuiltDesign, parts: dict[str, Component]) -> Iterator[Finding]:
    for cell, component in parts.items():
        for name, pin in component.pins.items():
            if pin.role == "interrupt" and pin.output:
                yield from _interrupt(design, built, f"{cell}/{name}")
            elif pin.role in ("interrupt", "monitor") and built.driver_of(f"{cell}/{name}") is None:
                problem = f"the input `{cell}/{name}` for an interrupt has no driver"
                yield _finding(built, built.cells[cell].line, "pin-open", problem, "connect it")


def _interrupt(design: BlockDesign, built: BuiltDesign, path: str) -> Iterator[Finding]:
    """An interrupt goes to a concat, a concat to a controller, a controller to the first line of the processor."""
    cell = built.cells[path.split("/")[0]]
    net = built.net_of(path)
    ends = {pin: built.pin(pin) for pin in net.pins if pin != path} if net else {}
    loads = [pin for pin, end in ends.items() if end is None or end.role != "monitor"]
    if not loads:
        yield _finding(built, cell.line, "pin-open", f"the interrupt `{path}` leads nowhere", "connect it")
        return
    wanted = {_CONCAT: (_CONTROLLER, "intr"), _CONTROLLER: (design.system.ip, design.system.interrupt_pin)}
    ip, pin = wanted.get(cell.ip, (_CONCAT, "In"))
    for load in loads:
        name, _, end = load.partition("/")
        if built.cells[name].ip != ip or not (end == pin or (pin == "In" and end.startswith("In"))):
            problem = f"the interrupt `{path}` leads to `{load}`"
            remedy = "PYNQ finds interrupts only as xlconcat -> axi_intc -> first line of the processor"
            yield _finding(built, net.pins[load] if net else cell.line, "interrupt-path", problem, remedy)


def _dma(cell: BuiltCell, built: BuiltDesign) -> Iterator[Finding]:
    for channel, (memory_name, stream_name) in _CHANNELS.items():
        if cell.value(f"c_include_{channel}") != "1":
            continue
        memory, stream = int(cell.value(memory_name)), int(cell.value(stream_name))
        if memory < max(stream, 32):
            problem = f"{memory_name} of `{cell.name}` is {memory}, its stream has {stream} bits"
            yield _finding(built, cell.line, "memory-width", problem, "make it as wide as the stream or wider")
    width = cell.parameters.get("c_sg_length_width")
    if width != "26":
        problem = f"c_sg_length_width of `{cell.name}` is {width or 'left at 14'}"
        yield _finding(built, cell.line, "length-register", problem, "set it to 26: a transfer of 64 MiB - 1 byte")


def _processing_system(design: BlockDesign, built: BuiltDesign) -> Iterator[Finding]:
    system = next((cell for cell in built.cells.values() if cell.ip == design.system.ip), None)
    if system is None:
        problem = f"there is no {design.system.ip}"
        yield _finding(built, built.end, "board-preset", problem, "create the processing system")
        return
    config = system.automation.options.get("-config", "") if system.automation else ""
    wanted = ['apply_board_preset "1"'] + ['make_external "FIXED_IO, DDR"'] * (design.system.name == "zynq7")
    rule = system.automation.options.get("-rule") if system.automation else None
    for text in wanted:
        if rule != design.system.automation or text not in config:
            problem = f"`{system.name}` is not automated with {text}"
            line = system.automation.line if system.automation else system.line
            yield _finding(built, line, "board-preset", problem, f"apply {design.system.automation} to it first")
    for port in design.system.memory_ports:
        interface = built.interface(f"{system.name}/{port}")
        if interface is not None and interface.bits != design.accelerator.board.port_bits:
            problem = f"`{system.name}/{port}` has {interface.bits} bits"
            remedy = f"{design.accelerator.board.title} has ports of {design.accelerator.board.port_bits}"
            yield _finding(built, system.line, "memory-width", problem, remedy)


def _finding(built: BuiltDesign, line: int, rule: str, problem: str, remedy: str) -> Finding:
    return Finding(built.script, line, rule, problem, remedy)
