"""An overlay against its manifest: every difference is found, all are told at once, and with a cause."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from board_fixtures import overlay_directory

from bfpga.board.checks import check_handoff
from bfpga.contract.registers import REGISTERS
from bfpga.vendor.manifest import MANIFEST_NAME, Manifest, read_manifest


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return read_manifest(overlay_directory("tiny") / MANIFEST_NAME)


def description(manifest: Manifest) -> dict[str, Any]:
    """What PYNQ reads from the handoff of an overlay that is as its manifest says."""
    cells: dict[str, Any] = {
        name: {"type": cell.vlnv, "phys_addr": cell.base, "addr_range": cell.size, "parameters": {}, "registers": {}}
        for name, cell in manifest.cells.items()
    }
    registers = {register.name: {"address_offset": register.offset} for register in REGISTERS}
    cells["accelerator"]["registers"] = registers
    memory = str(manifest.dma.alignment * 8)
    for name, bits in (("tensor_dma", manifest.dma.stream_bits), ("weight_dma", manifest.dma.weight_stream_bits)):
        cells[name]["parameters"] = {
            "c_include_sg": "0",
            "c_sg_length_width": str(manifest.dma.length_bits),
            "c_include_mm2s": "1",
            "c_m_axis_mm2s_tdata_width": str(bits),
            "c_m_axi_mm2s_data_width": memory,
            "c_include_s2mm": "1" if name == "tensor_dma" else "0",
        }
    cells["tensor_dma"]["parameters"] |= {
        "c_s_axis_s2mm_tdata_width": str(manifest.dma.stream_bits),
        "c_m_axi_s2mm_data_width": memory,
    }
    return cells


def differences(manifest: Manifest, ip_dict: dict[str, Any]) -> list[str]:
    return [difference.what for difference in check_handoff(ip_dict, manifest).found]


def test_an_overlay_as_its_manifest_has_no_differences(manifest: Manifest) -> None:
    assert differences(manifest, description(manifest)) == []


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (("weight_dma", "type"), "xilinx.com:ip:axi_dma:7.0", "weight_dma: type"),
        (("accelerator", "phys_addr"), 0x40000000, "accelerator: address"),
        (("accelerator", "addr_range"), 128, "accelerator: address range"),
        (("accelerator", "registers", "cycles", "address_offset"), 0x24, "register cycles"),
        (("tensor_dma", "parameters", "c_sg_length_width"), "14", "tensor_dma: c_sg_length_width"),
        (("tensor_dma", "parameters", "c_include_sg"), "1", "tensor_dma: c_include_sg"),
        (("tensor_dma", "parameters", "c_s_axis_s2mm_tdata_width"), "32", "tensor_dma: c_s_axis_s2mm_tdata_width"),
        (("weight_dma", "parameters", "c_m_axi_mm2s_data_width"), "1024", "weight_dma: c_m_axi_mm2s_data_width"),
        (("tensor_dma", "parameters", "c_m_axi_s2mm_data_width"), "wide", "tensor_dma: c_m_axi_s2mm_data_width"),
    ],
)
def test_a_difference_is_found(manifest: Manifest, path: tuple[str, ...], value: object, what: str) -> None:
    cells = description(manifest)
    entry = cells
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value
    assert differences(manifest, cells) == [what]


@pytest.mark.parametrize("cell", ["accelerator", "tensor_dma", "weight_dma", "interrupt_controller"])
def test_a_missing_cell_is_found(manifest: Manifest, cell: str) -> None:
    cells = description(manifest)
    del cells[cell]
    assert differences(manifest, cells) == [f"cell {cell}"]


def test_a_missing_parameter_or_register_is_found(manifest: Manifest) -> None:
    cells = description(manifest)
    del cells["tensor_dma"]["parameters"]["c_include_mm2s"]
    del cells["accelerator"]["registers"]["status"]
    assert differences(manifest, cells) == ["register status", "tensor_dma: c_include_mm2s"]


def test_one_error_tells_all_differences_and_each_cause_once(manifest: Manifest) -> None:
    cells = deepcopy(description(manifest))
    cells["accelerator"]["phys_addr"] = 0x40000000
    cells["weight_dma"]["phys_addr"] = 0x41000000
    text = str(check_handoff(cells, manifest).error("overlay tiny is not what its manifest says:"))
    base = manifest.cells["accelerator"].base
    assert f"accelerator: address: expected {base:#x}, found 0x40000000" in text
    assert "weight_dma: address" in text
    assert text.count("likely cause: ") == 1
    assert "another overlay was loaded under the same name" in text
