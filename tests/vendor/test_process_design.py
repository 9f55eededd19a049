"""The block design of a kernel of processes: its IPs, the streams between them, and what the tools must export."""

from __future__ import annotations

from pathlib import Path

import pytest
from process_designs import TINY
from vendor_tools.artefacts import component_xml

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.cores import Core
from bfpga.contract.process_stream import PROCESSES
from bfpga.contract.processes import HOST_STREAMS, process_function, process_streams
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.ip_check import check_ip
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.kernel_ips import FIFO_IP, kernel_ips
from bfpga.vendor.overlay_files import make_manifest

DENSE = [TINY, *(name for name in accelerator_names() if name.endswith("_dense"))]
#: Cell of each process.
CELLS = {process: "accelerator" if process == "sequencer" else process for process in PROCESSES}


def design(name: str = TINY) -> BlockDesign:
    return block_design(load_accelerator(name))


# Cells and links


@pytest.mark.parametrize("name", DENSE)
def test_every_process_is_an_ip_and_every_stream_between_them_a_fifo(name: str) -> None:
    target = design(name)
    config = target.accelerator.config
    ips = {cell.name: cell.ip for cell in target.cells if cell.ip.startswith("xilinx.com:hls:")}
    assert ips == {CELLS[process]: f"xilinx.com:hls:{process_function(process)}" for process in PROCESSES}
    assert ips["accelerator"] == "xilinx.com:hls:bfpga_systolic"
    fifos = {cell.name: cell.parameters for cell in target.cells if cell.ip == FIFO_IP}
    assert fifos.keys() == {f"{stream.name}_fifo" for stream in process_streams(config)}
    for stream in process_streams(config):
        parameters = fifos[f"{stream.name}_fifo"]
        depth = int(parameters["FIFO_DEPTH"])
        assert stream.depth <= depth < max(17, 2 * stream.depth)
        assert depth.bit_count() == 1
        assert parameters["FIFO_MEMORY_TYPE"] == ("block" if depth > 64 else "distributed")
        assert int(parameters["TDATA_NUM_BYTES"]) * 8 >= stream.bits > int(parameters["TDATA_NUM_BYTES"]) * 8 - 8


@pytest.mark.parametrize("name", DENSE)
def test_links_between_the_ips_are_the_streams_of_the_processes(name: str) -> None:
    target = design(name)
    found = set()
    inner = {link.master: link for link in target.links if not link.packets}
    for link in inner.values():
        fifo, _, port = link.slave.partition("/")
        if port != "S_AXIS":
            continue
        out = inner[f"{fifo}/M_AXIS"]
        assert out.bits == link.bits
        (source, name_there), (sink, name_here) = link.master.split("/"), out.slave.split("/")
        assert name_there == name_here
        found.add((name_here, source, sink, link.bits))
    assert len(inner) == 2 * len(found)
    assert found == {
        (stream.name, CELLS[stream.source], CELLS[stream.target], -(-stream.bits // 8) * 8)
        for stream in process_streams(target.accelerator.config)
    }


def test_streams_of_the_host_end_at_the_process_that_reads_or_writes_them_and_are_watched_there() -> None:
    target = design()
    links = {(link.master, link.slave): link for link in target.links if link.protocol == "axis" and link.packets}
    assert links.keys() == {
        ("tensor_dma/M_AXIS_MM2S", f"accelerator/{INPUT_STREAM}"),
        ("weight_dma/M_AXIS_MM2S", f"weights/{WEIGHT_STREAM}"),
        (f"store/{OUTPUT_STREAM}", "tensor_dma/S_AXIS_S2MM"),
    }
    assert [link.monitor for link in links.values()] == [f"clock_counter/{name}" for name in HOST_STREAMS]


def test_every_ip_and_fifo_hangs_on_the_clock_and_the_reset() -> None:
    target = design()
    nets = {net.name: net.loads for net in target.nets}
    for cell in target.cells:
        if cell.ip.startswith("xilinx.com:hls:"):
            assert f"{cell.name}/ap_clk" in nets["clock"]
            assert f"{cell.name}/ap_rst_n" in nets["peripheral_reset"]
        if cell.ip == FIFO_IP:
            assert f"{cell.name}/s_axis_aclk" in nets["clock"]
            assert f"{cell.name}/s_axis_aresetn" in nets["peripheral_reset"]


def test_a_driver_sees_registers_dmas_and_interrupts_and_nothing_of_the_other_processes() -> None:
    manifest = make_manifest(design(), {"handoff": None, "bitstream": None})
    assert manifest.cells.keys() == {"accelerator", "clock_counter", "tensor_dma", "weight_dma", "interrupt_controller"}
    assert manifest.interrupts == Core(0).interrupts


# What C synthesis exports


@pytest.mark.parametrize(
    ("part", "wrong", "said"),
    [
        ("array", {"widths": {"sums": 32}}, "stream port sums has 32 bits, must have "),
        ("array", {"vlnv": "xilinx.com:hls:bfpga_post:1.0"}, "is xilinx.com:hls:bfpga_post:1.0, must be"),
        ("post", {"control": True}, "has s_axi_control and would wait for a start that never comes"),
        ("store", {"pins": ("ap_clk", "ap_rst_n", "ap_start")}, "has ap_start and would wait for a start"),
        ("store", {"tlast": False}, "stream port output_stream has no TLAST"),
        ("weights", {"pins": ("ap_clk",)}, "has no pin ap_rst_n"),
        ("sequencer", {"control": False}, "has no AXI-Lite slave s_axi_control"),
        ("sequencer", {"offset": 4}, "descriptor_count is at 0x14"),
    ],
)
def test_exported_ip_that_is_not_its_process_is_refused(
    tmp_path: Path, part: str, wrong: dict[str, object], said: str
) -> None:
    component = tmp_path / "component.xml"
    component.write_text(component_xml(design(), part=part, **wrong))  # type: ignore[arg-type]
    ip = next(ip for ip in kernel_ips(design().accelerator.config) if ip.part == part)
    with pytest.raises(BuildError) as error:
        check_ip(ip, component)
    assert error.value.kind == "interface"
    assert said in str(error.value)
    assert f"the IP {ip.function} of the design" in str(error.value)
