"""Several cores in one overlay: copies of one kernel, each with DMA engines, registers and interrupts of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from process_designs import TINY
from vendor_scripts import JOBS, PATHS, small_accelerator

from bfpga.accelerator.loader import Accelerator, accelerator_path, load_accelerator
from bfpga.accelerator.variants import with_cores
from bfpga.board.virtual.hardware import read_hardware
from bfpga.contract.kernel_numbers import kernel_identity
from bfpga.engines.kernel.constraints import findings
from bfpga.errors import ConfigurationError
from bfpga.synthesis.resources import board_use
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.build_scripts import ScriptOptions, render_scripts
from bfpga.vendor.handoff import render_handoff
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.manifest import BITSTREAM, HANDOFF, FileEntry, manifest_text, parse_manifest
from bfpga.vendor.overlay_files import make_manifest
from bfpga.vendor.render import render_kernel
from bfpga.vendor.tcl_check import check_scripts
from bfpga.vendor.tcl_check.soundness import faults

FILES = {HANDOFF: FileEntry("design.hwh", "0" * 64), BITSTREAM: None}
SEVERAL = [("pynq_z2", 2), ("pynq_z2", 3), ("zcu104", 2), ("zcu104", 3)]


def design(board: str, cores: int) -> BlockDesign:
    return block_design(with_cores(small_accelerator(board), cores))


def described(name: str, line: str, folder: Path) -> Accelerator:
    """A ready accelerator with a line more in its file."""
    path, _ = accelerator_path(name)
    (folder / "own.yaml").write_text(f"{line}\n{path.read_text()}")
    return load_accelerator(folder / "own.yaml")


def ports(target: BlockDesign) -> dict[str, list[str]]:
    """Ports of the memory with the interfaces of DMA engines that reach them."""
    behind = {link.slave: link.master for link in target.links}
    return {
        link.slave.removeprefix("ps/"): [
            master for slave, master in behind.items() if slave.startswith(f"{link.master.split('/')[0]}/S")
        ]
        for link in target.links
        if link.slave.startswith("ps/")
    }


# One core is as it was before there were several


@pytest.mark.parametrize("name", [TINY, "pynq_z2_dense", "zcu104_dense"])
def test_one_core_that_is_named_changes_nothing(name: str, tmp_path: Path) -> None:
    plain, named = load_accelerator(name), described(name, "cores: 1", tmp_path)
    assert named.digest == plain.digest
    first, second = block_design(plain), block_design(named)
    options = ScriptOptions()
    assert render_scripts(first, PATHS, JOBS, options) == render_scripts(second, PATHS, JOBS, options)
    assert render_handoff(first) == render_handoff(second)
    assert manifest_text(make_manifest(first, FILES)) == manifest_text(make_manifest(second, FILES))
    assert board_use(named).parts == board_use(plain).parts


@pytest.mark.parametrize(("board", "cores"), SEVERAL)
def test_first_of_several_cores_is_where_a_single_one_is(board: str, cores: int) -> None:
    """Its cells, its streams and its addresses: a driver of one core finds them."""
    one, several = design(board, 1), design(board, cores)
    assert {cell.name for cell in one.cells} <= {cell.name for cell in several.cells}
    streams = [{link for link in target.links if link.protocol == "axis"} for target in (one, several)]
    assert streams[0] < streams[1]
    registers = [{s for s in target.segments if s.usage == "register"} for target in (one, several)]
    assert registers[0] < registers[1]
    assert several.interrupts[:4] == one.interrupts


# What several cores have


@pytest.mark.parametrize(("board", "cores", "hls"), [(*SEVERAL[0], "own"), (*SEVERAL[-1], "vitis")])
def test_scripts_of_several_cores_pass(board: str, cores: int, hls: str) -> None:
    target = design(board, cores)
    options = ScriptOptions(hls=hls)  # type: ignore[arg-type]
    assert check_scripts(target, render_scripts(target, PATHS, JOBS, options), PATHS, JOBS, options) == []


@pytest.mark.parametrize(("board", "cores"), SEVERAL)
def test_every_core_has_all_cells_and_the_ips_are_made_once(board: str, cores: int) -> None:
    one, several = design(board, 1), design(board, cores)
    shared = {"ps", "reset", "control_interconnect", "interrupt_concat", "interrupt_controller"}
    own = {cell.name: cell for cell in one.cells if cell.name not in shared and "interconnect" not in cell.name}
    found = {cell.name: cell for cell in several.cells}
    for index in range(1, cores):
        for name, cell in own.items():
            assert found[f"{name}_{index}"] == replace(cell, name=f"{name}_{index}")
    made = [name for name in render_scripts(several, PATHS, JOBS) if name.startswith("hls_")]
    assert len(made) == 2 * len(kernel_ips(several.accelerator.config))


def test_every_dma_has_a_port_of_the_memory_as_long_as_there_are_ports() -> None:
    tensor, weights = ["M_AXI_MM2S", "M_AXI_S2MM"], ["M_AXI_MM2S"]

    def of(dma: str, interfaces: list[str]) -> list[str]:
        return [f"{dma}/{interface}" for interface in interfaces]

    assert ports(design("pynq_z2", 2)) == {
        "S_AXI_HP0": of("tensor_dma", tensor),
        "S_AXI_HP1": of("weight_dma", weights),
        "S_AXI_HP2": of("tensor_dma_1", tensor),
        "S_AXI_HP3": of("weight_dma_1", weights),
    }
    assert ports(design("pynq_z2", 3)) == {
        "S_AXI_HP0": of("tensor_dma", tensor) + of("tensor_dma_2", tensor),
        "S_AXI_HP1": of("weight_dma", weights) + of("weight_dma_2", weights),
        "S_AXI_HP2": of("tensor_dma_1", tensor),
        "S_AXI_HP3": of("weight_dma_1", weights),
    }
    assert ports(design("zcu104", 3)) == {
        "S_AXI_HP0_FPD": of("tensor_dma", tensor),
        "S_AXI_HP1_FPD": of("weight_dma", weights),
        "S_AXI_HP2_FPD": of("tensor_dma_1", tensor),
        "S_AXI_HP3_FPD": of("weight_dma_1", weights),
        "S_AXI_HPC0_FPD": of("tensor_dma_2", tensor),
        "S_AXI_HPC1_FPD": of("weight_dma_2", weights),
    }


def test_ports_have_the_segments_that_vivado_gives_them() -> None:
    """UG1085: the ports' numbers among all slaves of the processing system."""
    script = render_scripts(design("zcu104", 3), PATHS, JOBS)["block_design.tcl"]
    for segment in ("SAXIGP2/HP0_DDR_LOW", "SAXIGP5/HP3_DDR_LOW", "SAXIGP0/HPC0_DDR_LOW", "SAXIGP1/HPC1_DDR_LOW"):
        assert segment in script


@pytest.mark.parametrize(("board", "cores"), SEVERAL)
def test_registers_and_interrupts_of_every_core_are_its_own(board: str, cores: int) -> None:
    target = design(board, cores)
    bases = [segment.base for segment in target.segments if segment.usage == "register"]
    assert len(set(bases)) == len(bases) == 4 * cores + 1
    assert len(set(target.interrupts)) == len(target.interrupts) == 4 * cores
    driven = {load: net.driver for net in target.nets for load in net.loads}
    assert [driven[f"interrupt_concat/In{n}"] for n in range(4 * cores)] == list(target.interrupts)
    for core in target.cores:
        assert driven[f"{core.clock_counter}/interrupt"] == f"{core.kernel}/interrupt"


def test_streams_of_two_cores_that_are_mixed_up_are_found() -> None:
    target = design("zcu104", 2)
    wrong = {"weight_dma/M_AXIS_MM2S": "weights/weight_stream", "weight_dma_1/M_AXIS_MM2S": "weights/weight_stream"}
    links = tuple(
        replace(link, slave=wrong[link.master]) if link.master in wrong else link for link in target.links
    )
    assert {rule for rule, *_ in faults(replace(target, links=links))} == {"connection"}
    assert list(faults(target)) == []


# Handoff, manifest, identification


@pytest.mark.parametrize(("board", "cores"), SEVERAL)
def test_handoff_and_manifest_have_every_core(board: str, cores: int) -> None:
    target = design(board, cores)
    hardware = read_hardware(render_handoff(target))
    manifest = parse_manifest(manifest_text(make_manifest(target, FILES)))
    assert manifest.cores == target.cores
    assert len(manifest.cores) == cores
    for core in target.cores:
        for cell in core.registers:
            place = hardware.range_of(cell)
            assert place is not None
            assert (place.base, place.size) == (manifest.cells[cell].base, manifest.cells[cell].size)
            assert place.base == target.base_address(cell)
        assert hardware.clock_counters[core.clock_counter] == core.kernel
    assert manifest.interrupts == target.interrupts
    assert [f"{item.source}/{item.pin}" for item in hardware.interrupt_inputs] == list(target.interrupts)


def test_pynq_finds_every_core(tmp_path: Path) -> None:
    pytest.importorskip("pynq")
    frontends = pytest.importorskip("pynqmetadata.frontends")
    parsers = pytest.importorskip("pynqmetadata.views.runtime.runtime_metadata_parser")
    target = design("zcu104", 3)
    path = tmp_path / "design.hwh"
    path.write_text(render_handoff(target))
    parser = parsers.RuntimeMetadataParser(frontends.Metadata(str(path)))
    for core in target.cores:
        for cell in core.registers:
            assert parser.ip_dict[cell]["phys_addr"] == target.base_address(cell)
        assert parser.ip_dict[core.tensor_dma]["interrupts"].keys() == {"mm2s_introut", "s2mm_introut"}
    pins = {name: pin["index"] for name, pin in parser.interrupt_pins.items() if "concat" not in name}
    assert pins == {name: number for number, name in enumerate(target.interrupts)}
    parameters = parser.ip_dict["ps"]["parameters"]
    assert {parameters[f"C_SAXIGP{port}_DATA_WIDTH"] for port in range(6)} == {"128"}


def test_overlays_of_other_counts_are_other_accelerators_of_the_same_kernel(tmp_path: Path) -> None:
    """The kernel's C++ differs in the identification alone."""
    one, two = load_accelerator(TINY), described(TINY, "cores: 2", tmp_path)
    three = with_cores(one, 3)
    assert len({accelerator.digest for accelerator in (one, two, three)}) == 3
    assert with_cores(one, 2).digest == two.digest
    assert with_cores(three, 1).digest == one.digest
    assert kernel_identity(one.config) == kernel_identity(two.config)
    texts = [render_kernel("same", accelerator.digest, accelerator.config) for accelerator in (one, two)]
    changed = [
        (first, second)
        for path in texts[0]
        for first, second in zip(texts[0][path].splitlines(), texts[1][path].splitlines(), strict=True)
        if first != second
    ]
    assert all(one.digest[:8] in first and two.digest[:8] in second for first, second in changed)
    assert changed


# Room


def test_every_resource_is_taken_by_every_core() -> None:
    one = load_accelerator("zcu104_dense")
    single, double = board_use(one).total, board_use(with_cores(one, 2)).total
    assert (double.lut, double.ff, double.dsp, double.bram36, double.uram) == tuple(
        pytest.approx(2 * number, abs=8) for number in (single.lut, single.ff, single.dsp, single.bram36, single.uram)
    )


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("pynq_z2_dense", "cores: 2", r"cores: is 2: the kernels need .* of .*PYNQ-Z2; at most 1 fits"),
        ("pynq_z2_dense", "cores: 0", "cores"),
        ("pynq_z2_dense", "cores: 4", "cores"),
    ],
)
def test_cores_that_do_not_fit_are_refused(name: str, line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        described(name, line, tmp_path)


def test_handoff_is_xml() -> None:
    root = ElementTree.fromstring(render_handoff(design("pynq_z2", 3)))
    names = [module.attrib["INSTANCE"] for module in root.iter("MODULE")]
    assert len(names) == len(set(names))


# Exponents from core to core


def streamed(board: str, cores: int) -> BlockDesign:
    plain = small_accelerator(board)
    return block_design(with_cores(replace(plain, config=replace(plain.config, position_stream=True)), cores))


@pytest.mark.parametrize(("board", "cores"), [("pynq_z2", 2), ("zcu104", 3)])
def test_exponents_of_each_core_go_to_the_next_one(board: str, cores: int) -> None:
    """FP R42: through a FIFO of 16 words, in a ring; scripts and handoff agree with it."""
    target, without = streamed(board, cores), design(board, cores)
    slaves = {link.master: link for link in target.links}
    clocked = {load for net in target.nets for load in net.loads}
    for core, after in zip(target.cores, (*target.cores[1:], target.cores[0]), strict=True):
        fifo = core.cell("position_words_fifo")
        link = slaves[f"{core.cell('post')}/told_exponents"]
        assert (link.slave, link.bits, link.packets) == (f"{fifo}/S_AXIS", 32, False)
        assert slaves[f"{fifo}/M_AXIS"].slave == f"{after.cell('post')}/awaited_exponents"
        assert target.cell(fifo).parameters["FIFO_DEPTH"] == "16"
        assert {f"{fifo}/s_axis_aclk", f"{fifo}/s_axis_aresetn"} <= clocked
    assert len(target.cells) == len(without.cells) + cores
    assert len(target.links) == len(without.links) + 2 * cores
    told = [link for link in read_hardware(render_handoff(target)).streams if link.source_port == "told_exponents"]
    assert [link.sink_port for link in told] == ["awaited_exponents"] * cores
    for hls in ("vitis", "own"):
        options = ScriptOptions(hls=hls)  # type: ignore[arg-type]
        assert check_scripts(target, render_scripts(target, PATHS, JOBS, options), PATHS, JOBS, options) == []


def test_the_key_of_exponents_from_core_to_core_needs_several_cores(tmp_path: Path) -> None:
    """FP R42: it makes another kernel; without it nothing is there."""
    text = accelerator_path(TINY)[0].read_text()
    own = tmp_path / "own.yaml"

    def loaded(cores: int, more: str = "") -> Accelerator:
        own.write_text(f"cores: {cores}\n" + text.rstrip() + f"\n    positions: stream\n{more}")
        return load_accelerator(own)

    accelerator = loaded(2)
    assert accelerator.config.position_stream
    assert accelerator.digest != with_cores(load_accelerator(TINY), 2).digest
    with pytest.raises(ConfigurationError, match=r"line .*positions.* is stream, and the overlay has one core"):
        loaded(1)
    config = replace(accelerator.config, static_exponents=True, position_bins=0, wide_words=0)
    assert [item.key for item in findings(config)] == ["positions"]
    sparse = load_accelerator("pynq_z2_sparse").config
    assert [item.key for item in findings(replace(sparse, position_stream=True))] == ["positions"]
