"""Reads a hardware handoff (.hwh): cells, address map, clocks. No pynq, no network: ElementTree only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from bfpga.board.virtual.hardware_description import (
    PROCESSING_SYSTEM_IP,
    AddressRange,
    HardwareDescription,
    Instance,
    PlClock,
    RegisterEntry,
)
from bfpga.board.virtual.hardware_wiring import Wiring
from bfpga.errors import DeviceError

_CLOCKS = 4

__all__ = ["HardwareDescription", "read_hardware"]


def read_hardware(text: str | bytes, origin: str = "hardware handoff") -> HardwareDescription:
    """A design from the text of its .hwh; DeviceError says what is missing. ``origin``: name for messages."""
    return _Reader(text, origin).read()


class _Reader:
    def __init__(self, text: str | bytes, origin: str) -> None:
        self._origin = origin
        try:
            # Vivado writes a byte order mark.
            decoded = text.decode("utf-8") if isinstance(text, bytes) else text
            self._root = ElementTree.fromstring(decoded.lstrip("\ufeff"))
        except (ElementTree.ParseError, UnicodeDecodeError) as error:
            raise DeviceError(f"{origin}: not a hardware handoff, the XML cannot be read: {error}") from None
        self._modules = list(self._root.iterfind("./MODULES/MODULE"))
        if not self._modules:
            raise self._wrong("no MODULES/MODULE elements")
        # Names as pynq gives them: the path in the hierarchy. Address maps and nets use the flat instance name.
        self._names: dict[str, str] = {}
        for module in self._modules:
            instance, name = self._attribute(module, "INSTANCE"), self._attribute(module, "FULLNAME").lstrip("/")
            if instance in self._names or name in self._names.values():
                raise self._wrong(f"two cells are called `{name}`")
            self._names[instance] = name

    def read(self) -> HardwareDescription:
        """Everything."""
        instances = {instance.name: instance for instance in map(self._instance, self._modules)}
        systems = [instance for instance in instances.values() if instance.ip in PROCESSING_SYSTEM_IP]
        if len(systems) != 1:
            raise self._wrong(f"{len(systems)} processing systems; one processing_system7 or zynq_ultra_ps_e is needed")
        system = systems[0]
        family = PROCESSING_SYSTEM_IP[system.ip]
        ranges = list(self._ranges())
        try:
            wiring = Wiring(self._modules, self._names, system.name, family)
            streams, inputs = tuple(wiring.streams()), tuple(wiring.interrupt_inputs())
            lines = tuple(wiring.interrupt_lines())
            counters = dict(wiring.clock_counters())
        except DeviceError as error:
            raise self._wrong(str(error)) from None
        info = self._root.find("SYSTEMINFO")
        return HardwareDescription(
            name=info.get("NAME", "") if info is not None else "",
            vivado=self._root.get("VIVADOVERSION", ""),
            family=family,
            processing_system=system.name,
            instances=instances,
            clocks=tuple(self._clock(system, family, index) for index in range(_CLOCKS)),
            ranges=tuple(r for r in ranges if r.master == system.name),
            master_ranges=tuple(r for r in ranges if r.master != system.name),
            streams=streams,
            interrupt_inputs=inputs,
            interrupt_lines=lines,
            clock_counters=counters,
        )

    def _instance(self, module: ElementTree.Element) -> Instance:
        name = self._attribute(module, "FULLNAME").lstrip("/")
        vlnv = self._attribute(module, "VLNV")
        if len(vlnv.split(":")) < 4:
            raise self._wrong(f"{name}: VLNV {vlnv!r} is not vendor:library:name:version")
        return Instance(
            name, vlnv, {p.get("NAME", ""): p.get("VALUE", "") for p in module.iterfind("./PARAMETERS/PARAMETER")}
        )

    def _ranges(self) -> Iterator[AddressRange]:
        by_name = {module.get("INSTANCE"): module for module in self._modules}
        for module in self._modules:
            master = self._names[self._attribute(module, "INSTANCE")]
            for entry in module.iterfind("./MEMORYMAP/MEMRANGE"):
                slave = self._attribute(entry, "INSTANCE")
                if slave not in by_name:
                    raise self._wrong(f"{master}: address range of `{slave}`, which is not in the design")
                base, high = self._number(entry, "BASEVALUE"), self._number(entry, "HIGHVALUE")
                if high < base:
                    raise self._wrong(f"{master}: range of {self._names[slave]} ends at {high:#x} before it begins")
                interface = self._attribute(entry, "SLAVEBUSINTERFACE")
                yield AddressRange(
                    master=master,
                    master_interface=entry.get("MASTERBUSINTERFACE", ""),
                    instance=self._names[slave],
                    interface=interface,
                    base=base,
                    size=high - base + 1,
                    usage="memory" if entry.get("MEMTYPE", "REGISTER").upper() == "MEMORY" else "register",
                    registers=tuple(self._registers(by_name[slave], interface)),
                )

    def _registers(self, module: ElementTree.Element, interface: str) -> Iterator[RegisterEntry]:
        for block in module.iterfind("./ADDRESSBLOCKS/ADDRESSBLOCK"):
            if block.get("INTERFACE", interface) != interface:
                continue
            for register in block.iterfind("./REGISTERS/REGISTER"):
                properties = {p.get("NAME", ""): p.get("VALUE", "") for p in register.iterfind("PROPERTY")}
                name = self._attribute(register, "NAME")
                try:
                    offset = int(properties["ADDRESS_OFFSET"], 0)
                    bits = int(properties.get("SIZE", "32"), 0)
                except (KeyError, ValueError):
                    where = f"register {name} of {module.get('INSTANCE')}"
                    raise self._wrong(f"{where} has no valid ADDRESS_OFFSET or SIZE") from None
                yield RegisterEntry(name, offset, bits, properties.get("ACCESS", ""))

    def _clock(self, system: Instance, family: str, index: int) -> PlClock:
        values = system.parameters
        if family == "zynq7":
            enabled, source = f"PCW_FPGA_FCLK{index}_ENABLE", f"PCW_FCLK{index}_PERIPHERAL_CLKSRC"
            divisors = [f"PCW_FCLK{index}_PERIPHERAL_DIVISOR{n}" for n in range(2)]
            rates = [f"PCW_ACT_FPGA{index}_PERIPHERAL_FREQMHZ", f"PCW_FPGA{index}_PERIPHERAL_FREQMHZ"]
        else:
            control = f"PSU__CRL_APB__PL{index}_REF_CTRL__"
            enabled, source = f"PSU__FPGA_PL{index}_ENABLE", f"{control}SRCSEL"
            divisors = [f"{control}DIVISOR{n}" for n in range(2)]
            rates = [f"{control}ACT_FREQMHZ", f"{control}FREQMHZ"]
        rate = next((values[name] for name in rates if values.get(name)), "100")
        return PlClock(
            index=index,
            enabled=values.get(enabled, "0") in ("1", "true", "TRUE"),
            frequency_mhz=self._decimal(system, rate),
            divisor0=int(self._decimal(system, values.get(divisors[0], "0") or "0")),
            divisor1=int(self._decimal(system, values.get(divisors[1], "0") or "0")),
            source=values.get(source, ""),
        )

    def _decimal(self, system: Instance, text: str) -> float:
        if not re.fullmatch(r"\d+(\.\d*)?", text):
            raise self._wrong(f"{system.name}: clock parameter {text!r} is not a number")
        return float(text)

    def _number(self, element: ElementTree.Element, key: str) -> int:
        text = self._attribute(element, key)
        try:
            return int(text, 0)
        except ValueError:
            raise self._wrong(f"{element.tag} {element.get('INSTANCE')}: {key} {text!r} is not a number") from None

    def _attribute(self, element: ElementTree.Element, key: str) -> str:
        value = element.get(key)
        if value is None:
            shown: Mapping[str, str] = element.attrib
            raise self._wrong(f"a {element.tag} without {key}: {dict(list(shown.items())[:3])}")
        return value

    def _wrong(self, what: str) -> DeviceError:
        return DeviceError(f"{self._origin}: {what}")
