"""What is checked of the tools' files: IP, handoff, bitstream, reports, gates."""

from __future__ import annotations

from pathlib import Path

import pytest
from array_kinds import each_kind
from process_designs import ZYNQ7
from vendor_tools.artefacts import bitstream, component_xml, driver_header, timing_report, utilization_report

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.process_stream import SEQUENCER
from bfpga.contract.registers import INPUT_STREAM
from bfpga.vendor.bitstream.bitstream import check_bitstream
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.gates import reachable_mhz, timing_gate, utilization_gate
from bfpga.vendor.bitstream.handoff_check import check_handoff
from bfpga.vendor.bitstream.ip_check import check_ip
from bfpga.vendor.bitstream.reports import read_timing, read_utilization
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.handoff import render_handoff
from bfpga.vendor.kernel_ips import kernel_ips


@pytest.fixture(params=[ZYNQ7, "kv260_dense"])
def design(request: pytest.FixtureRequest) -> BlockDesign:
    """A design of either family; of its IPs the tests below take that with the registers."""
    return block_design(load_accelerator(request.param))


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", each_kind())
def test_ip_of_every_accelerator_passes(name: str, tmp_path: Path) -> None:
    design = block_design(load_accelerator(name))
    for ip in kernel_ips(design.accelerator.config):
        component = written(tmp_path / ip.stem / "component.xml", component_xml(design, part=ip.part))
        check_ip(ip, component)
        if ip.part == SEQUENCER:
            written(component.parent / "drivers/kernel/src/xbfpga_systolic_hw.h", driver_header())
            check_ip(ip, component)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"widths": {INPUT_STREAM: 24}}, f"{INPUT_STREAM} has 24 bits"),
        ({"tlast": False}, f"{INPUT_STREAM} has no TLAST"),
        ({"offset": 4}, "descriptor_count is at 0x14 in component.xml, must be at 0x10"),
        ({"vlnv": "xilinx.com:hls:bfpga_systolic:1.1"}, "is xilinx.com:hls:bfpga_systolic:1.1"),
        ({"pins": ("ap_clk", "ap_rst_n")}, "no pin interrupt"),
    ],
)
def test_ip_that_is_not_the_design_is_refused_with_the_difference(
    design: BlockDesign, tmp_path: Path, wrong: dict[str, object], said: str
) -> None:
    component = written(tmp_path / "component.xml", component_xml(design, **wrong))  # type: ignore[arg-type]
    with pytest.raises(BuildError) as error:
        check_ip(kernel_ips(design.accelerator.config)[0], component)
    assert error.value.kind == "interface"
    assert said in str(error.value)
    assert str(component) in str(error.value)


def test_driver_header_with_other_offsets_is_refused(design: BlockDesign, tmp_path: Path) -> None:
    component = written(tmp_path / "component.xml", component_xml(design))
    written(tmp_path / "drivers/kernel/src/xbfpga_systolic_hw.h", driver_header(offset=8))
    with pytest.raises(BuildError, match=r"cycles is at 0x38 in xbfpga_systolic_hw\.h, must be at 0x30"):
        check_ip(kernel_ips(design.accelerator.config)[0], component)


def test_renamed_stream_is_refused_with_those_that_are_there(design: BlockDesign, tmp_path: Path) -> None:
    text = component_xml(design).replace(INPUT_STREAM, "input_r")
    with pytest.raises(BuildError, match=f"no stream port {INPUT_STREAM}; its streams: input_r, "):
        check_ip(kernel_ips(design.accelerator.config)[0], written(tmp_path / "component.xml", text))


@pytest.mark.parametrize("content", ["", "no XML", "<a>", "<component/>", b"\xff\xfe\x00"])
def test_ip_that_is_none_is_refused(design: BlockDesign, tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(BuildError):
        check_ip(kernel_ips(design.accelerator.config)[0], written(tmp_path / "component.xml", content))
    with pytest.raises(BuildError, match="No such file"):
        check_ip(kernel_ips(design.accelerator.config)[0], tmp_path / "nothing.xml")


@pytest.mark.parametrize("name", each_kind())
def test_handoff_of_every_design_passes(name: str, tmp_path: Path) -> None:
    design = block_design(load_accelerator(name))
    check_handoff(design, written(tmp_path / "system.hwh", render_handoff(design)))


def test_handoff_with_newer_ip_without_registers_and_a_byte_order_mark_passes(
    design: BlockDesign, tmp_path: Path
) -> None:
    text = render_handoff(design).replace(":smartconnect:1.0", ":smartconnect:2.0")
    check_handoff(design, written(tmp_path / "system.hwh", b"\xef\xbb\xbf" + text.encode()))


def test_handoff_with_another_version_of_an_ip_that_drivers_bind_to_is_refused(
    design: BlockDesign, tmp_path: Path
) -> None:
    text = render_handoff(design).replace(":axi_dma:7.1", ":axi_dma:7.2")
    with pytest.raises(BuildError, match=r"tensor_dma is xilinx\.com:ip:axi_dma:7\.2, must be .*:7\.1"):
        check_handoff(design, written(tmp_path / "system.hwh", text))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('INSTANCE="weight_dma"', 'INSTANCE="other_dma"', "has no cell weight_dma"),
        (":bfpga_systolic:1.0", ":bfpga_systolic:2.0", "accelerator is xilinx.com:hls:bfpga_systolic:2.0"),
        (
            'NAME="c_sg_length_width" VALUE="26"',
            'NAME="c_sg_length_width" VALUE="14"',
            "c_sg_length_width is 14, must be 26",
        ),
    ],
)
def test_handoff_of_another_design_is_refused(
    design: BlockDesign, tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = render_handoff(design)
    assert old in text
    with pytest.raises(BuildError) as error:
        check_handoff(design, written(tmp_path / "system.hwh", text.replace(old, new)))
    assert error.value.kind == "handoff"
    assert said in str(error.value)


def test_handoff_with_moved_registers_is_refused(design: BlockDesign, tmp_path: Path) -> None:
    base = design.base_address("tensor_dma")
    text = render_handoff(design).replace(f"0x{base:08X}", f"0x{base + 0x80000:08X}")
    with pytest.raises(BuildError, match=f"tensor_dma/S_AXI_LITE is at .* must be at 0x{base:08X}"):
        check_handoff(design, written(tmp_path / "system.hwh", text))


def test_handoff_of_another_device_is_refused(tmp_path: Path) -> None:
    z2, kria = (block_design(load_accelerator(name)) for name in ("pynq_z2_dense", "kv260_dense"))
    with pytest.raises(BuildError, match="the board has xck26"):
        check_handoff(kria, written(tmp_path / "system.hwh", render_handoff(z2)))


def test_bitstream_is_for_the_part_of_the_board_and_complete(design: BlockDesign, tmp_path: Path) -> None:
    board = design.accelerator.board
    content = bitstream(board.part, board.processing_system)
    path = written(tmp_path / "system.bit", content)
    assert check_bitstream(path, board.part).length == 4000
    with pytest.raises(BuildError, match="the board has xc7z010clg400-1") as error:
        check_bitstream(path, "xc7z010clg400-1")
    assert error.value.kind == "part"
    for broken, said in (
        (content[:-1], "3,999 of 4,000 bytes"),
        (content[:40], "header is missing|cut short"),
        (b"", "no .bit file"),
        (b"\x7fELF" + content, "no .bit file"),
        (content.replace(bytes.fromhex("aa995566"), bytes(4)), "no synchronization word"),
    ):
        with pytest.raises(BuildError, match=said):
            check_bitstream(written(tmp_path / "broken.bit", broken), board.part)


@pytest.mark.parametrize("prohibited", [True, False])
def test_utilization_is_read_from_reports_of_old_and_new_versions(
    design: BlockDesign, tmp_path: Path, prohibited: bool
) -> None:
    board = design.accelerator.board
    usage = read_utilization(written(tmp_path / "u.txt", utilization_report(design, 0.25, prohibited)))
    assert (usage["lut"].used, usage["lut"].available) == (board.lut / 4, board.lut)
    assert usage["dsp"].available == board.dsp
    assert ("uram" in usage) == (board.processing_system == "zynqmp")
    utilization_gate(design, usage, tmp_path / "u.txt")


def test_design_that_does_not_fit_is_refused_with_table_and_advice(design: BlockDesign, tmp_path: Path) -> None:
    report = written(tmp_path / "u.txt", utilization_report(design, 1.25))
    with pytest.raises(BuildError) as error:
        utilization_gate(design, read_utilization(report), report)
    text = str(error.value)
    assert error.value.kind == "utilization"
    assert f"of {design.accelerator.board.lut:>10,}" in text
    assert "125.0 %" in text
    assert "weight_words" in text
    assert str(design.accelerator.path) in text


def test_design_that_fills_the_device_exactly_passes(design: BlockDesign, tmp_path: Path) -> None:
    report = written(tmp_path / "u.txt", utilization_report(design, 1.0))
    utilization_gate(design, read_utilization(report), report)


@pytest.mark.parametrize("content", ["", "| Site Type | Used | Available |\n| Slice LUTs | many | 53200 |\n", "|||"])
def test_report_without_utilization_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(BuildError, match="no utilization report"):
        read_utilization(written(tmp_path / "u.txt", content))
    with pytest.raises(BuildError, match="No such file"):
        read_utilization(tmp_path / "nothing.txt")


def test_timing_that_is_met_passes(design: BlockDesign, tmp_path: Path) -> None:
    report = written(tmp_path / "t.txt", timing_report(0.0, 0.0, 0.0))
    timing_gate(design, read_timing(report), report)


def test_missed_setup_names_slack_and_the_clock_that_would_be_met(design: BlockDesign, tmp_path: Path) -> None:
    report = written(tmp_path / "t.txt", timing_report(wns=-1.25))
    timing = read_timing(report)
    assert (timing.wns, timing.tns, timing.failing) == (-1.25, -12.5, 10)
    with pytest.raises(BuildError) as error:
        timing_gate(design, timing, report)
    text = str(error.value)
    met = 1000 / (1000 / design.clock.actual_mhz + 1.25)
    assert "-1.250 ns" in text
    assert "-12.500 ns" in text
    assert f"{design.clock.requested_mhz:g} MHz" in text
    assert f"{met:.1f} MHz would be met" in text


def test_reachable_clock_leaves_no_slack() -> None:
    assert reachable_mhz(8.0, -2.0) == pytest.approx(100.0)
    assert reachable_mhz(10.0, 2.0) == pytest.approx(125.0)


@pytest.mark.parametrize(("slack", "said"), [({"whs": -0.1}, "hold"), ({"wpws": -0.2}, "pulse width")])
def test_missed_hold_and_pulse_width_are_refused(
    design: BlockDesign, tmp_path: Path, slack: dict[str, float], said: str
) -> None:
    report = written(tmp_path / "t.txt", timing_report(**slack))
    with pytest.raises(BuildError, match=said):
        timing_gate(design, read_timing(report), report)


def test_report_of_a_design_without_clock_is_refused(tmp_path: Path) -> None:
    text = timing_report().replace("0.512", "NA").replace("    0.0 ", "    NA ")
    with pytest.raises(BuildError, match="lost its clock"):
        read_timing(written(tmp_path / "t.txt", text))
    with pytest.raises(BuildError, match="no timing summary"):
        read_timing(written(tmp_path / "t.txt", "Timing constraints are met."))
