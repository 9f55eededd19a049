"""The hardware handoff: everything of the block design and nothing else, and what PYNQ's own parsers take from it."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from array_kinds import each_kind
from process_designs import TINY

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.cores import Core
from bfpga.contract.registers import ARGUMENT_REGISTERS, REGISTER_SPACE, REGISTERS, Control
from bfpga.vendor.block_design import BlockDesign, Cell, Link, Net, Segment, block_design
from bfpga.vendor.handoff import derived_parameters, render_handoff
from bfpga.vendor.ip_registers import counter_registers, dma_registers, interrupt_controller_registers, kernel_registers

#: One accelerator of each family of processing systems, and the smallest.
FAMILIES = {"zynq7": "pynq_z2_dense", "zynqmp": "zcu104_dense", "small": TINY}
NAMES = each_kind()


@functools.cache
def design(name: str) -> BlockDesign:
    return block_design(load_accelerator(name))


@functools.cache
def document(name: str) -> ElementTree.Element:
    return ElementTree.fromstring(render_handoff(design(name)).encode())


def modules(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {module.attrib["INSTANCE"]: module for module in root.iter("MODULE")}


def values(element: ElementTree.Element | None) -> dict[str, str]:
    """Name -> value of the PARAMETER or PROPERTY children."""
    assert element is not None
    return {child.attrib["NAME"]: child.attrib["VALUE"] for child in element if "VALUE" in child.attrib}


# The file and the block design hold the same


@pytest.mark.parametrize("name", NAMES)
def test_cells_of_the_file_are_those_of_the_design(name: str) -> None:
    source = design(name)
    found = {}
    for module in document(name).iter("MODULE"):
        cell = source.cell(module.attrib["INSTANCE"])
        parameters = values(module.find("PARAMETERS"))
        added = derived_parameters(source, cell)
        assert added.items() <= parameters.items()
        assert not added.keys() & cell.parameters.keys(), "a derived parameter hides one that the design sets"
        ip, version = module.attrib["VLNV"].rsplit(":", 1)
        rest = {key: value for key, value in parameters.items() if key not in added}
        found[cell.name] = Cell(cell.name, ip, version, rest)
        assert module.attrib["FULLNAME"] == f"/{cell.name}"
        assert module.attrib["MODTYPE"] == cell.ip.split(":")[-1]
    assert found == {cell.name: cell for cell in source.cells}


@pytest.mark.parametrize("name", NAMES)
def test_links_of_the_file_are_those_of_the_design(name: str) -> None:
    ends: dict[str, dict[str, Any]] = {}
    for instance, module in modules(document(name)).items():
        for interface in module.iter("BUSINTERFACE"):
            roles = {"MASTER": "master", "INITIATOR": "master", "MONITOR": "monitor"}
            role = roles.get(interface.attrib["TYPE"], "slave")
            link = ends.setdefault(interface.attrib["BUSNAME"], {})
            assert role not in link, "two interfaces of one role on a link"
            link[role] = f"{instance}/{interface.attrib['NAME']}"
            link["protocol"] = interface.attrib["VLNV"].split(":")[2]
            if link["protocol"] == "axis":
                assert link.setdefault("packets", values(interface)["HAS_TLAST"] == "1") == (
                    values(interface)["HAS_TLAST"] == "1"
                ), "TLAST at one end alone"
            bits = int(values(interface).get("TDATA_NUM_BYTES", "0")) * 8 or int(interface.get("DATAWIDTH", "0"))
            assert link.setdefault("bits", bits or None) == (bits or None), "widths differ at the two ends"
    assert {Link(**link) for link in ends.values()} == set(design(name).links)
    assert len(ends) == len(design(name).links)


@pytest.mark.parametrize("name", NAMES)
def test_nets_of_the_file_are_those_of_the_design(name: str) -> None:
    source = design(name)
    driven, received = {}, {}
    for instance, module in modules(document(name)).items():
        for port in module.iter("PORT"):
            others = [f"{c.attrib['INSTANCE']}/{c.attrib['PORT']}" for c in port.iter("CONNECTION")]
            bits = int(port.get("LEFT", "0")) - int(port.get("RIGHT", "0")) + 1
            side = driven if port.attrib["DIR"] == "O" else received
            pin = f"{instance}/{port.attrib['NAME']}"
            assert pin not in side, "a pin is listed twice"
            side[pin] = (others, bits)
    names = {net.driver: net.name for net in source.nets}
    assert {Net(names[pin], pin, tuple(loads), bits) for pin, (loads, bits) in driven.items()} == set(source.nets)
    assert received == {load: ([net.driver], net.bits) for net in source.nets for load in net.loads}


@pytest.mark.parametrize("name", NAMES)
def test_address_ranges_of_the_file_are_those_of_the_design(name: str) -> None:
    found = set()
    for instance, module in modules(document(name)).items():
        for item in module.iter("MEMRANGE"):
            base, high = int(item.attrib["BASEVALUE"], 16), int(item.attrib["HIGHVALUE"], 16)
            found.add(
                Segment(
                    master=f"{instance}/{item.attrib['MASTERBUSINTERFACE']}",
                    slave=f"{item.attrib['INSTANCE']}/{item.attrib['SLAVEBUSINTERFACE']}",
                    block=item.attrib["ADDRESSBLOCK"],
                    base=base,
                    size=high - base + 1,
                    usage=item.attrib["MEMTYPE"].lower(),
                )
            )
    assert found == set(design(name).segments)


@pytest.mark.parametrize("name", FAMILIES.values())
def test_registers_of_the_file_are_those_of_the_ip_cores(name: str) -> None:
    source = design(name)
    expected = {
        "accelerator": kernel_registers(),
        "tensor_dma": dma_registers(source.cell("tensor_dma").parameters),
        "weight_dma": dma_registers(source.cell("weight_dma").parameters),
        "clock_counter": counter_registers(),
        "interrupt_controller": interrupt_controller_registers(len(Core(0).interrupts)),
    }
    for instance, module in modules(document(name)).items():
        found = {
            register.attrib["NAME"]: (
                int(values(register)["ADDRESS_OFFSET"]),
                values(register)["IS_ENABLED"],
                [field.attrib["NAME"] for field in register.iter("FIELD")],
            )
            for register in module.iter("REGISTER")
        }
        assert found == {
            register.name: (register.offset, str(register.enabled).lower(), [field.name for field in register.fields])
            for register in expected.get(instance, ())
        }


def test_same_design_gives_the_same_text() -> None:
    assert render_handoff(design("tiny")) == render_handoff(design("tiny"))


def test_no_text_can_break_the_file() -> None:
    hostile = "ps\" <&> 'quoted'"
    source = design("tiny")
    source = replace(source, accelerator=replace(source.accelerator, name=hostile))
    system = ElementTree.fromstring(render_handoff(source).encode()).find("SYSTEMINFO")
    assert system is not None
    assert system.attrib["NAME"] == hostile


# Registers of the IP cores


def test_control_register_has_every_bit_of_the_block_level_protocol() -> None:
    control = next(register for register in kernel_registers() if register.name == "CTRL")
    bits = {field.offset: field for field in control.fields if not field.name.startswith("RESERVED")}
    assert {1 << offset for offset in bits} == {int(bit) for bit in Control}
    assert sum(field.width for field in control.fields) == 32
    assert [field.name for field in control.fields] == [
        "AP_START", "AP_DONE", "AP_IDLE", "AP_READY", "RESERVED_1", "AUTO_RESTART", "RESERVED_2", "INTERRUPT",
        "RESERVED_3",
    ]  # fmt: skip


def test_kernel_registers_are_those_of_the_register_table() -> None:
    assert [(r.name, r.offset) for r in kernel_registers()] == [(r.name, r.offset) for r in REGISTERS]
    for register in kernel_registers():
        for low, high in zip(register.fields, register.fields[1:], strict=False):
            assert low.offset + low.width <= high.offset, "fields overlap"


def test_registers_of_an_absent_channel_are_disabled() -> None:
    source = design("tiny")
    weights = dma_registers(source.cell("weight_dma").parameters)
    assert {r.name for r in weights if r.enabled} == {
        "MM2S_DMACR", "MM2S_DMASR", "MM2S_SA", "MM2S_SA_MSB", "MM2S_LENGTH",
    }  # fmt: skip
    length = next(r for r in weights if r.name == "MM2S_LENGTH")
    assert length.fields[0].width == 26


# Real parsers


def runtime_parser(name: str, folder: Path) -> Any:
    """The object from which the installed `pynq` takes everything it knows of an overlay."""
    pytest.importorskip("pynq")
    frontends = pytest.importorskip("pynqmetadata.frontends")
    try:
        from pynqmetadata.views.runtime.runtime_metadata_parser import RuntimeMetadataParser
    except ImportError:
        from pynq.metadata.runtime_metadata_parser import RuntimeMetadataParser
    path = folder / "design.hwh"
    path.write_text(render_handoff(design(name)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RuntimeMetadataParser(frontends.Metadata(str(path)))


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES)
def parsed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[BlockDesign, Any]:
    return design(request.param), runtime_parser(request.param, tmp_path)


def test_pynq_finds_every_ip_with_its_addresses(parsed: tuple[BlockDesign, Any]) -> None:
    source, parser = parsed
    found = {name: entry for name, entry in parser.ip_dict.items() if name != "ps"}
    assert found.keys() == {"accelerator", "clock_counter", "tensor_dma", "weight_dma", "interrupt_controller"}
    for name, entry in found.items():
        assert entry["phys_addr"] == source.base_address(name)
        assert entry["addr_range"] == REGISTER_SPACE
        assert entry["fullpath"] == name
    assert found["accelerator"]["type"] == "xilinx.com:hls:bfpga_systolic:1.0"
    assert found["clock_counter"]["type"] == "xilinx.com:module_ref:bfpga_clock_counter:1.0"
    assert found["tensor_dma"]["type"] == "xilinx.com:ip:axi_dma:7.1"


def test_pynq_finds_the_register_map_of_the_kernel(parsed: tuple[BlockDesign, Any]) -> None:
    registers = parsed[1].ip_dict["accelerator"]["registers"]
    assert {name: entry["address_offset"] for name, entry in registers.items()} == {r.name: r.offset for r in REGISTERS}
    start = registers["CTRL"]["fields"]["AP_START"]
    assert (start["bit_offset"], start["bit_width"], start["access"]) == (0, 1, "read-write")
    assert registers["CTRL"]["fields"]["AP_DONE"]["access"] == "read-only"
    for register in ARGUMENT_REGISTERS:
        entry = registers[register.name]
        assert entry["size"] == 32
        assert entry["description"] == register.description
        assert entry["access"] == {"rw": "read-write", "r": "read-only"}[register.access]
        assert entry["fields"][register.name]["bit_width"] == 32


def test_pynq_finds_the_interrupts_through_the_controller(parsed: tuple[BlockDesign, Any]) -> None:
    source, parser = parsed
    pins = {name: entry for name, entry in parser.interrupt_pins.items() if not name.startswith("interrupt_concat/")}
    found = {name: entry["index"] for name, entry in pins.items()}
    assert found == {pin: n for n, pin in enumerate(Core(0).interrupts)}
    assert {entry["controller"] for entry in pins.values()} == {"interrupt_controller"}
    controllers = dict(parser.interrupt_controllers.items())
    assert controllers.keys() == {"interrupt_controller"}
    first_line = {"zynq7": 61, "zynqmp": 121}[source.system.name]
    assert controllers["interrupt_controller"]["raw_irq"] == first_line
    assert parser.ip_dict["tensor_dma"]["interrupts"].keys() == {"mm2s_introut", "s2mm_introut"}
    assert parser.ip_dict["accelerator"]["interrupts"].keys() == {"interrupt"}


def test_pynq_finds_the_clock(parsed: tuple[BlockDesign, Any]) -> None:
    source, parser = parsed
    clocks = dict(parser.clock_dict.items())
    assert [clocks[n]["enable"] for n in range(4)] == [1, 0, 0, 0]
    assert (clocks[0]["divisor0"], clocks[0]["divisor1"]) == (source.clock.divisor0, source.clock.divisor1)
    parameters = parser.ip_dict["ps"]["parameters"]
    name = {
        "zynq7": "PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ",
        "zynqmp": "PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ",
    }[source.system.name]
    assert float(parameters[name]) == pytest.approx(source.clock.actual_mhz, abs=1e-6)
    if source.system.name == "zynqmp" and "frequency" in clocks[0]:
        assert clocks[0]["frequency"] == pytest.approx(source.clock.actual_mhz, abs=1e-6)


def test_pynq_recognises_the_processing_system_and_the_widths_of_its_ports(parsed: tuple[BlockDesign, Any]) -> None:
    source, parser = parsed
    assert parser.ps_name == "ps"
    assert parser.family_ps == source.system.ip.split(":")[-1]
    if source.system.name == "zynqmp":
        parameters = parser.ip_dict["ps"]["parameters"]
        bits = str(source.accelerator.board.port_bits)
        assert (parameters["C_SAXIGP2_DATA_WIDTH"], parameters["C_SAXIGP3_DATA_WIDTH"]) == (bits, bits)


def test_pynqs_dma_driver_recognises_the_channels(parsed: tuple[BlockDesign, Any]) -> None:
    """The driver's own constructor, on registers that answer zero."""
    pytest.importorskip("pynq")
    from pynq.lib.dma import DMA

    class Registers:
        """What the driver needs of a device before any transfer."""

        def has_capability(self, capability: str) -> bool:
            return capability == "REGISTER_RW"

        def read_registers(self, address: int, length: int) -> bytes:
            return bytes(length)

        def write_registers(self, address: int, data: bytes) -> None:
            pass

    for name, both in (("tensor_dma", True), ("weight_dma", False)):
        entry = dict(parsed[1].ip_dict[name])
        # Without a controller object the interrupt pins stay unused; their discovery is tested above.
        entry |= {"device": Registers(), "interrupts": {}, "gpio": {}}
        dma = DMA(entry)
        assert dma.buffer_max_size == (1 << 26) - 1
        assert dma.sendchannel is not None
        assert (dma.recvchannel is not None) == both
