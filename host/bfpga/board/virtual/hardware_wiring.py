"""Nets and streams of a hardware handoff: what is connected to what, through cells that only pass on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from bfpga.board.virtual.hardware_description import InterruptInput, InterruptLine, StreamLink
from bfpga.contract.registers import CLOCK_COUNTER
from bfpga.errors import DeviceError

#: Cells that hand a stream on with one input and one output.
PASS_THROUGH = frozenset(
    {
        "axis_dwidth_converter",
        "axis_data_fifo",
        "axis_register_slice",
        "axis_clock_converter",
        "axis_subset_converter",
    }
)
#: Cells that gather wires into a vector, In0 lowest.
CONCATENATIONS = frozenset({"xlconcat", "ilconcat"})
#: Interrupt pins of the processing systems: GIC numbers of their bits, lowest first (UG585 7.2.3, UG1085 13.1).
INTERRUPT_LINES: Mapping[str, Mapping[str, Sequence[int]]] = {
    "zynq7": {"IRQ_F2P": (*range(61, 69), *range(84, 92))},
    "zynqmp": {"pl_ps_irq0": range(121, 129), "pl_ps_irq1": range(136, 144)},
}
#: More bits than any interrupt vector has.
_WIDEST = 1024
#: Width of a stream where the file says nothing.
_DEFAULT_BEAT_BYTES = 4


@dataclass(frozen=True)
class _Pin:
    instance: str
    pin: str


@dataclass(frozen=True)
class _StreamPort:
    instance: str
    port: str
    bytes: int


class Wiring:
    """``names``: path in the hierarchy by flat instance name."""

    def __init__(
        self, modules: Sequence[ElementTree.Element], names: Mapping[str, str], system: str, family: str
    ) -> None:
        self._modules = {names[module.attrib["INSTANCE"]]: module for module in modules}
        self._names = names
        self._system = system
        self._family = family
        self._masters: dict[str, _StreamPort] = {}
        self._slaves: dict[str, _StreamPort] = {}
        for name, module in self._modules.items():
            self._collect_stream_ports(name, module)

    def streams(self) -> Iterator[StreamLink]:
        """Links between cells that are no pass-through, in the order of their sources."""
        for bus, source in self._masters.items():
            if self._ip(source.instance) in PASS_THROUGH or bus not in self._slaves:
                continue
            through: list[str] = []
            sink: _StreamPort | None = self._slaves[bus]
            while sink is not None and self._ip(sink.instance) in PASS_THROUGH and sink.instance not in through:
                through.append(sink.instance)
                sink = self._downstream(sink.instance)
            if sink is None or self._ip(sink.instance) in PASS_THROUGH:
                continue
            yield StreamLink(
                source=source.instance,
                source_port=source.port,
                sink=sink.instance,
                sink_port=sink.port,
                through=tuple(through),
                beat_bytes=source.bytes or sink.bytes or _DEFAULT_BEAT_BYTES,
                buffer_bytes=sum(self._fifo_bytes(name) for name in through),
                sink_bytes=sink.bytes,
            )

    def interrupt_inputs(self) -> Iterator[InterruptInput]:
        """Inputs of all interrupt controllers."""
        for name in self._modules:
            if self._ip(name) == "axi_intc":
                for index, pin in enumerate(self._bits(name, "intr")):
                    if pin is not None:
                        yield InterruptInput(name, index, pin.instance, pin.pin)

    def interrupt_lines(self) -> Iterator[InterruptLine]:
        """Lines of the processor that something drives."""
        for port, numbers in INTERRUPT_LINES[self._family].items():
            for number, pin in zip(numbers, self._bits(self._system, port), strict=False):
                if pin is not None:
                    yield InterruptLine(number, pin.instance, pin.pin)

    def clock_counters(self) -> Iterator[tuple[str, str]]:
        """Clock counters, each with the cell whose interrupt it watches."""
        for name in self._modules:
            if self._ip(name) == CLOCK_COUNTER:
                yield from ((name, pin.instance) for pin in self._bits(name, "interrupt") if pin is not None)

    def _ip(self, name: str) -> str:
        return self._modules[name].get("VLNV", "::").split(":")[2]

    def _collect_stream_ports(self, name: str, module: ElementTree.Element) -> None:
        for bus in module.iterfind("./BUSINTERFACES/BUSINTERFACE"):
            net = bus.get("BUSNAME", "__NOC__")
            if bus.get("VLNV", "").split(":")[2:3] != ["axis"] or net == "__NOC__":
                continue
            if bus.get("TYPE", "").upper() == "MONITOR":
                continue  # it only watches
            masters = bus.get("TYPE", "").upper() in ("MASTER", "INITIATOR")
            port = _StreamPort(name, bus.get("NAME", ""), _stream_bytes(bus))
            (self._masters if masters else self._slaves)[net] = port

    def _downstream(self, name: str) -> _StreamPort | None:
        """What a pass-through cell feeds."""
        for bus, source in self._masters.items():
            if source.instance == name:
                return self._slaves.get(bus)
        return None

    def _fifo_bytes(self, name: str) -> int:
        parameters = self._modules[name].iterfind("./PARAMETERS/PARAMETER")
        values = {p.get("NAME", "").upper(): p.get("VALUE", "") for p in parameters}
        depth, width = values.get("FIFO_DEPTH", ""), values.get("TDATA_NUM_BYTES", "")
        return int(depth) * int(width) if depth.isdecimal() and width.isdecimal() else 0

    def _bits(self, name: str, port: str) -> list[_Pin | None]:
        """The pins that drive the bits of an input, lowest first; None for a bit that nothing drives."""
        element = self._port(name, port)
        if element is None:
            return []
        return self._drivers(element, {name})

    def _drivers(self, element: ElementTree.Element, seen: set[str]) -> list[_Pin | None]:
        width = _width(element)
        for connection in element.iterfind("./CONNECTIONS/CONNECTION"):
            name = self._names.get(connection.get("INSTANCE", ""))
            pin = connection.get("PORT", "")
            driver = self._port(name, pin) if name else None
            if name is None or driver is None or driver.get("DIR") != "O" or name in seen:
                continue
            if self._ip(name) in CONCATENATIONS:
                return self._gather(name, seen | {name})
            return [_Pin(name, pin)] * width
        return [None] * width

    def _gather(self, name: str, seen: set[str]) -> list[_Pin | None]:
        inputs: dict[int, ElementTree.Element] = {}
        for port in self._modules[name].iterfind("./PORTS/PORT"):
            match = re.fullmatch(r"In(\d+)", port.get("NAME", ""))
            if match:
                inputs[int(match[1])] = port
        return [pin for index in sorted(inputs) for pin in self._drivers(inputs[index], seen)]

    def _port(self, name: str, port: str) -> ElementTree.Element | None:
        return next((p for p in self._modules[name].iterfind("./PORTS/PORT") if p.get("NAME") == port), None)


def _width(port: ElementTree.Element) -> int:
    left, right = port.get("LEFT", "0"), port.get("RIGHT", "0")
    width = abs(int(left) - int(right)) + 1 if left.isdecimal() and right.isdecimal() else 1
    if width > _WIDEST:
        raise DeviceError(f"port {port.get('NAME')} is {width:,} bits wide; interrupts have at most {_WIDEST:,}")
    return width


def _stream_bytes(bus: ElementTree.Element) -> int:
    """Width of a stream interface in bytes; 0 where the file is silent."""
    for parameter in bus.iter("PARAMETER"):
        if parameter.get("NAME") == "TDATA_NUM_BYTES" and parameter.get("VALUE", "").isdecimal():
            return int(parameter.get("VALUE", "0"))
    bits = bus.get("DATAWIDTH", "")
    return int(bits) // 8 if bits.isdecimal() else 0
