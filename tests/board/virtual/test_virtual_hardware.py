"""Hardware handoffs: what is read from hand-made, rendered and Vivado's files, and errors for malformed ones."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from process_designs import TINY, ZYNQ7, ZYNQMP
from virtual_designs import BASE, Design, module, ports, streams

from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.hardware import HardwareDescription, read_hardware
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, REGISTERS, WEIGHT_STREAM
from bfpga.errors import DeviceError

DATA = Path(__file__).parents[2] / "data"


def vivado(name: str) -> HardwareDescription:
    return read_hardware(lzma.decompress((DATA / f"{name}.hwh.xz").read_bytes()), name)


def wrap(*modules: str) -> str:
    return "<EDKSYSTEM><MODULES>" + "".join(modules) + "</MODULES></EDKSYSTEM>"


SYSTEM = module("ps", "xilinx.com:ip:processing_system7:5.5")


def test_a_design_made_by_hand() -> None:
    hardware = read_hardware(Design().text())
    assert (hardware.name, hardware.family, hardware.processing_system) == ("add_one", "zynq7", "ps")
    kernel = hardware.range_of("adder")
    assert kernel is not None
    assert (kernel.base, kernel.size, kernel.interface) == (BASE["zynq7"], 0x10000, "s_axi_control")
    assert [(r.name, r.offset, r.access) for r in kernel.registers][-1] == ("total", 0x20, "read-only")
    assert hardware.memory_of("dma", "M_AXI_MM2S") == (0, 1 << 32)
    assert hardware.memory_of("dma", "M_AXI") is None
    assert [link.ends for link in hardware.streams] == [
        ("dma/M_AXIS_MM2S", "adder/input_stream"),
        ("adder/output_stream", "dma/S_AXIS_S2MM"),
    ]


def test_streams_are_seen_through_pass_through_cells() -> None:
    link = read_hardware(Design(fifo_depth=512).text()).streams[0]
    assert link.ends == ("dma/M_AXIS_MM2S", "adder/input_stream")
    assert (link.through, link.beat_bytes, link.buffer_bytes) == (("fifo",), 4, 2048)


def test_interrupts_are_traced_to_the_line_of_the_processor() -> None:
    hardware = read_hardware(Design().text())
    assert [(i.index, i.source, i.pin) for i in hardware.interrupt_inputs] == [
        (0, "dma", "mm2s_introut"),
        (1, "dma", "s2mm_introut"),
        (2, "adder", "interrupt"),
    ]
    assert [(line.number, line.source, line.pin) for line in hardware.interrupt_lines] == [(61, "controller", "irq")]


def test_lines_beyond_the_eighth_are_in_the_second_group() -> None:
    wires = [("I", f"In{n}", "timer", f"irq{n}") for n in range(10)]
    outputs = [("O", f"irq{n}", "concat", f"In{n}") for n in range(10)]
    text = wrap(
        module("ps", "xilinx.com:ip:processing_system7:5.5", ports(("I", "IRQ_F2P", "concat", "dout"))),
        module("concat", "xilinx.com:ip:xlconcat:2.1", ports(*wires, ("O", "dout", "ps", "IRQ_F2P"))),
        module("timer", "xilinx.com:ip:timers:1.0", ports(*outputs)),
    )
    lines = {line.pin: line.number for line in read_hardware(text).interrupt_lines}
    assert (lines["irq0"], lines["irq7"], lines["irq8"], lines["irq9"]) == (61, 68, 84, 85)


def test_concatenations_may_be_nested_and_inputs_open() -> None:
    text = wrap(
        module("ps", "xilinx.com:ip:zynq_ultra_ps_e:3.5", ports(("I", "pl_ps_irq0", "outer", "dout"))),
        module(
            "outer",
            "xilinx.com:ip:xlconcat:2.1",
            ports(("I", "In0", "inner", "dout"), ("I", "In1", "timer", "irq"), ("O", "dout", "ps", "pl_ps_irq0")),
        ),
        module(
            "inner",
            "xilinx.com:inline_hdl:ilconcat:1.0",
            ports(("I", "In0", "missing", "x"), ("I", "In1", "dma", "irq"), ("O", "dout", "outer", "In0")),
        ),
        module("timer", "xilinx.com:ip:timers:1.0", ports(("O", "irq", "outer", "In1"))),
        module("dma", "xilinx.com:ip:axi_dma:7.1", ports(("O", "irq", "inner", "In1"))),
    )
    assert [(line.number, line.source) for line in read_hardware(text).interrupt_lines] == [
        (122, "dma"),
        (123, "timer"),
    ]


def test_names_are_paths_in_the_hierarchy() -> None:
    inner = module("video/dma", "xilinx.com:ip:axi_dma:7.1", streams(("MASTER", "M_AXIS_MM2S", "net")))
    sink = module("video/out/sink", "xilinx.com:ip:sink:1.0", streams(("SLAVE", "S_AXIS", "net")))
    hardware = read_hardware(wrap(SYSTEM, inner, sink))
    assert list(hardware.instances) == ["ps", "video/dma", "video/out/sink"]
    assert hardware.streams[0].ends == ("video/dma/M_AXIS_MM2S", "video/out/sink/S_AXIS")


def test_a_byte_order_mark_and_bytes_are_fine() -> None:
    text = Design().text()
    assert read_hardware("\ufeff" + text) == read_hardware(text.encode("utf-8-sig")) == read_hardware(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a hardware handoff, the XML cannot be read"),
        ("<EDKSYSTEM><MODULES>", "the XML cannot be read"),
        (b"\xff\xfe", "the XML cannot be read"),
        ("<html/>", "no MODULES/MODULE elements"),
        (wrap(module("a", "x:y:z:1")), "0 processing systems"),
        (wrap(SYSTEM, SYSTEM.replace('"ps"', '"b"').replace("/ps", "/b")), "2 processing systems"),
        (wrap(SYSTEM, module("a", "axi_dma")), "a: VLNV 'axi_dma' is not vendor:library:name:version"),
        (wrap(SYSTEM, module("a", "x:y:z:1"), module("a", "x:y:z:1")), "two cells are called `a`"),
        (
            Design().text().replace('DIR="I" NAME="In0"', 'DIR="I" LEFT="99999999999" NAME="In0"'),
            "In0 is 100,000,000,000 bits wide",
        ),
        (wrap(SYSTEM, "<MODULE/>"), "a MODULE without INSTANCE"),
        (wrap(SYSTEM, '<MODULE INSTANCE="a"/>'), "a MODULE without FULLNAME"),
        (Design().text().replace('INSTANCE="dma" MASTER', 'INSTANCE="dna" MASTER'), "range of `dna`, which is not in"),
        (Design().text().replace('BASEVALUE="0x43c10000"', 'BASEVALUE="here"'), "BASEVALUE 'here' is not a number"),
        (Design().text().replace('BASEVALUE="0x43c10000"', 'BASEVALUE="0x53c10000"'), "ends at 0x43c1ffff before"),
        (Design().text().replace('BASEVALUE="0x43c10000" ', ""), "a MEMRANGE without BASEVALUE"),
        (
            Design().text().replace('VALUE="0x20"', 'VALUE="none"'),
            "register total of adder has no valid ADDRESS_OFFSET",
        ),
        (Design().text().replace("142.857132", "fast"), "ps: clock parameter 'fast' is not a number"),
    ],
)
def test_malformed_handoffs_are_refused_with_a_reason(text: str | bytes, message: str) -> None:
    with pytest.raises(DeviceError, match=r"design\.hwh: ") as caught:
        read_hardware(text, "design.hwh")
    assert message in str(caught.value)


@settings(max_examples=drawn(150), deadline=None)
@given(data=st.data())
def test_a_damaged_handoff_is_read_or_refused_never_a_crash(data: st.DataObject) -> None:
    text = Design(fifo_depth=16).text()
    start = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 60))
    damaged = (
        text[:start] + data.draw(st.sampled_from(["", '"', "-1", "0x", "axi_intc", "ps"])) + text[start + length :]
    )
    try:
        read_hardware(damaged)
        VirtualBoard("zynq7", ddr_bytes=4096).configure(damaged, {})
    except DeviceError:
        pass


@pytest.mark.parametrize("name", [TINY, ZYNQ7, ZYNQMP])
def test_a_rendered_handoff_is_the_block_design(name: str) -> None:
    for module_name in ("pydantic", "jinja2", "yaml"):
        pytest.importorskip(module_name)
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.contract.cores import Core
    from bfpga.vendor.block_design import block_design
    from bfpga.vendor.handoff import render_handoff

    design = block_design(load_accelerator(name))
    hardware = read_hardware(render_handoff(design))
    assert hardware.family == design.system.name
    assert {r.instance: r.base for r in hardware.ranges} == {
        s.slave.split("/")[0]: s.base for s in design.segments if s.usage == "register"
    }
    registers = {r.name: r.offset for r in hardware.range_of("accelerator").registers}  # type: ignore[union-attr]
    assert registers == {register.name: register.offset for register in REGISTERS}
    links = {link.master: link for link in design.links if link.protocol == "axis"}
    # A stream between two processes goes on behind its FIFO.
    ends = {link.slave: links.get(link.slave.replace("/S_AXIS", "/M_AXIS"), link).slave for link in links.values()}
    assert {link.ends: 8 * link.beat_bytes for link in hardware.streams} == {
        (link.master, ends[link.slave]): link.bits
        for link in links.values()
        if not link.master.endswith("_fifo/M_AXIS")
    }
    assert [f"{i.source}/{i.pin}" for i in hardware.interrupt_inputs] == list(Core(0).interrupts)
    assert hardware.clocks[0].frequency_mhz == pytest.approx(design.clock.actual_mhz)
    board = VirtualBoard(hardware.family)  # type: ignore[arg-type]
    board.configure(render_handoff(design), {})
    assert board.clocks.frequency_mhz(0) == pytest.approx(design.clock.actual_mhz, rel=1e-4)
    assert {end.split("/")[1] for stream in board.fabric.streams for end in stream.ends} > {
        INPUT_STREAM,
        WEIGHT_STREAM,
        OUTPUT_STREAM,
    }


def test_a_zynq_7000_handoff_of_vivado_2019() -> None:
    hardware = vivado("resizer")
    assert (hardware.vivado, hardware.family) == ("2019.2", "zynq7")
    assert {r.instance: (r.base, r.interface) for r in hardware.ranges} == {
        "axi_dma_0": (0x40400000, "S_AXI_LITE"),
        "resize_accel_0": (0x43C00000, "s_axi_AXILiteS"),
    }
    assert [(link.ends, link.through) for link in hardware.streams] == [
        (("axi_dma_0/M_AXIS_MM2S", "resize_accel_0/src"), ("axis_dwidth_converter_0",)),
        (("resize_accel_0/dst", "axi_dma_0/S_AXIS_S2MM"), ("axis_dwidth_converter_1",)),
    ]
    assert hardware.streams[1].beat_bytes == 3
    assert hardware.memory_of("axi_dma_0", "M_AXI_S2MM") == (0, 0x20000000)
    assert hardware.instances["axi_dma_0"].parameters["c_sg_length_width"] == "26"
    assert hardware.interrupt_lines == ()
    registers = hardware.range_of("resize_accel_0").registers  # type: ignore[union-attr]
    assert [(r.name, r.offset) for r in registers][-1] == ("dst_cols", 0x28)


def test_an_ultrascale_handoff_of_vivado_2024_with_hierarchies() -> None:
    hardware = vivado("zcu104_base")
    assert (hardware.vivado, hardware.family, hardware.processing_system) == ("2024.1", "zynqmp", "ps_e_0")
    assert [c.frequency_mhz for c in hardware.clocks if c.enabled][:2] == [99.999001, 299.997009]
    assert [(line.number, line.source) for line in hardware.interrupt_lines] == [(121, "axi_intc_0")]
    inputs = {i.index: f"{i.source}/{i.pin}" for i in hardware.interrupt_inputs if i.controller == "axi_intc_0"}
    assert inputs[3] == "video/axi_vdma/s2mm_introut"
    assert inputs[8] == "gpio_btns/ip2intc_irpt"
    link = next(link for link in hardware.streams if link.source == "video/hdmi_in/frontend")
    assert link.through == ("video/hdmi_in/pixel_reorder", "video/hdmi_in/rx_video_axis_reg_slice")


@pytest.mark.parametrize("name", ["resizer", "zcu104_base"])
def test_a_board_takes_vivados_handoff(name: str) -> None:
    hardware = vivado(name)
    with VirtualBoard(hardware.family) as board:  # type: ignore[arg-type]
        board.configure(lzma.decompress((DATA / f"{name}.hwh.xz").read_bytes()), {})
        for clock in hardware.clocks:
            if clock.enabled:
                assert board.clocks.frequency_mhz(clock.index) == pytest.approx(clock.frequency_mhz, rel=1e-4)
        for address_range in board.hardware.ranges:
            board.read(address_range.base)


@pytest.mark.parametrize("name", ["resizer", "zcu104_base"])
def test_pynqs_parser_sees_the_same(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pynq")
    from pynqmetadata.frontends import Metadata

    try:
        from pynqmetadata.views.runtime import RuntimeMetadataParser
    except ImportError:
        from pynq.metadata.runtime_metadata_parser import RuntimeMetadataParser
    path = tmp_path / f"{name}.hwh"
    path.write_bytes(lzma.decompress((DATA / f"{name}.hwh.xz").read_bytes()))
    parser = RuntimeMetadataParser(Metadata(input=str(path)))
    hardware = vivado(name)
    addresses = {key: value["phys_addr"] for key, value in parser.ip_dict.items() if "phys_addr" in value}
    ours = {r.instance: r.base for r in hardware.ranges}
    assert addresses.items() <= ours.items()
    controllers = {key: value["raw_irq"] for key, value in parser.interrupt_controllers.items()}
    assert controllers == {line.source: line.number for line in hardware.interrupt_lines}
    theirs = {key: value["index"] for key, value in parser.interrupt_pins.items()}
    inputs = {f"{i.source}/{i.pin}": i.index for i in hardware.interrupt_inputs if i.controller in controllers}
    assert inputs.items() <= theirs.items()
