"""An overlay against its manifest, before any register is written: what PYNQ read from the `.hwh`, item by item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bfpga.board.errors import Differences
from bfpga.contract.registers import REGISTERS
from bfpga.vendor.manifest import Manifest

_OTHER_HANDOFF = (
    "the .hwh does not belong to this manifest: another overlay was loaded under the same name, or PYNQ kept the "
    "description of an older file (`pynq.PL.reset()` clears it)"
)
_OTHER_BUILD = "the block design was changed after the manifest was written; build the overlay again"


def check_handoff(ip_dict: Mapping[str, Any], manifest: Manifest) -> Differences:
    """Cells, addresses, registers of the kernel and parameters of the DMAs against the manifest."""
    differences = Differences()
    for name, cell in manifest.cells.items():
        entry = ip_dict.get(name)
        if entry is None:
            differences.add(f"cell {name}", cell.vlnv, None, _OTHER_HANDOFF)
            continue
        differences.compare(f"{name}: type", cell.vlnv, entry["type"], _OTHER_HANDOFF)
        differences.compare(f"{name}: address", cell.base, entry["phys_addr"], _OTHER_HANDOFF)
        differences.compare(f"{name}: address range", cell.size, entry["addr_range"], _OTHER_HANDOFF)
    for name in (name for core in manifest.cores for name in core.registers if name not in manifest.cells):
        differences.add(f"cell {name}", "in the manifest", None, _OTHER_BUILD)
    for core in manifest.cores:
        if core.kernel in ip_dict:
            _check_registers(ip_dict[core.kernel], differences)
        for name in (core.tensor_dma, core.weight_dma):
            if name in ip_dict:
                _check_dma(name, ip_dict[name], name == core.tensor_dma, manifest, differences)
    return differences


def _check_registers(entry: Mapping[str, Any], differences: Differences) -> None:
    found = entry.get("registers") or {}
    for register in REGISTERS:
        offset = found.get(register.name, {}).get("address_offset")
        if offset != register.offset:
            shown = None if offset is None else f"offset {offset:#x}"
            differences.add(f"register {register.name}", f"offset {register.offset:#x}", shown, _OTHER_BUILD)


def _check_dma(
    name: str, entry: Mapping[str, Any], receives: bool, manifest: Manifest, differences: Differences
) -> None:
    parameters: Mapping[str, str] = entry.get("parameters") or {}
    bits = manifest.dma.stream_bits if receives else manifest.dma.weight_stream_bits
    expected = {
        "c_include_sg": 0,
        "c_sg_length_width": manifest.dma.length_bits,
        "c_include_mm2s": 1,
        "c_m_axis_mm2s_tdata_width": bits,
        "c_include_s2mm": int(receives),
    }
    if receives:
        expected["c_s_axis_s2mm_tdata_width"] = bits
    for key, value in expected.items():
        text = parameters.get(key)
        found = int(text) if text is not None and str(text).isdigit() else text
        differences.compare(f"{name}: {key}", value, found, _OTHER_BUILD)
    for key in ("c_m_axi_mm2s_data_width", *(("c_m_axi_s2mm_data_width",) if receives else ())):
        text = parameters.get(key)
        if text is None or not str(text).isdigit() or manifest.dma.alignment % (int(text) // 8):
            differences.add(f"{name}: {key}", f"at most {manifest.dma.alignment * 8} bits", text, _OTHER_BUILD)
