"""Writing an overlay: the directory with the manifest and the files it names.

Files carry the hash of their content in their names, because PYNQ keeps metadata and firmware it has read under a
known name; the manifest is renamed into place last, so a reader sees the old overlay or the new one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.layout import layout
from bfpga.engines.configurations import config_to_dict
from bfpga.errors import ConfigurationError
from bfpga.formats.files import FULL, replace_file, write_error
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.handoff import render_handoff
from bfpga.vendor.manifest import (
    BITSTREAM,
    HANDOFF,
    HASH_DIGITS,
    MANIFEST_NAME,
    AcceleratorEntry,
    BoardEntry,
    CellEntry,
    ClockEntry,
    DmaEntry,
    FileEntry,
    Manifest,
    content_hash,
    hashed_stem,
    write_manifest,
)


@dataclass(frozen=True)
class OverlayBuild:
    """What a build adds to an overlay: the files of Vivado, its tools and results as JSON objects.

    ``reports``: further files by the key under which the manifest names them. ``actual_mhz``: the clock of the logic
    where Vivado's handoff names another than the dividers we expect.
    """

    bitstream: Path
    handoff: Path
    tools: Mapping[str, Any]
    utilization: Mapping[str, Any]
    timing: Mapping[str, Any]
    reports: Mapping[str, Path] = field(default_factory=dict)
    actual_mhz: float | None = None


def write_overlay(
    accelerator: Accelerator,
    directory: str | Path,
    build: OverlayBuild | None = None,
    discard_bitstream: bool = False,
) -> Manifest:
    """Write the overlay of an accelerator into ``directory`` (made if missing) and return its manifest.

    Without a ``build`` the hardware handoff is rendered and there is no bitstream: the virtual board runs it. Files of
    an earlier version of the same overlay are removed; ConfigurationError if one of them is a bitstream that only a
    build brings back, unless ``discard_bitstream``.
    """
    directory = Path(directory)
    new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    earlier = _hashed_files(accelerator.name, directory)
    if build is None and not discard_bitstream:
        _refuse_to_lose_bitstream(earlier)
    design = block_design(accelerator)
    files, contents = _files(design, build)
    manifest = make_manifest(design, files, build)
    _write_files(directory, contents, manifest, {path.name for path in earlier}, new)
    for path in earlier:
        if path.name not in contents:
            path.unlink(missing_ok=True)
    return manifest


def _write_files(
    directory: Path, contents: Mapping[str, bytes], manifest: Manifest, earlier: Collection[str], new: bool
) -> None:
    """The files, then the manifest; after an error the directory is as it was. new: it was made for this overlay."""
    try:
        for name, content in contents.items():
            replace_file(directory / name, content)
        write_manifest(manifest, directory / MANIFEST_NAME)
    except OSError as error:
        for name in contents.keys() - earlier:
            (directory / name).unlink(missing_ok=True)
        if new:
            directory.rmdir()
        # A full disk is too small for all of them; another reason is one file's.
        place = directory if error.errno in FULL else Path(error.filename2 or error.filename or directory)
        raise write_error(error, place, sum(map(len, contents.values()))) from None


def _hashed_files(name: str, directory: Path) -> list[Path]:
    pattern = re.compile(rf"{re.escape(name)}-[0-9a-f]{{{HASH_DIGITS}}}\..+")
    return [path for path in directory.iterdir() if pattern.fullmatch(path.name)]


def _refuse_to_lose_bitstream(earlier: list[Path]) -> None:
    bitstream = next((path for path in earlier if path.suffix == ".bit"), None)
    if bitstream is not None:
        raise ConfigurationError(
            f"{bitstream}: the overlay holds a bitstream, which only a build makes again; give another directory, or "
            "`--discard-bitstream` if it is not needed"
        )


def _files(design: BlockDesign, build: OverlayBuild | None) -> tuple[dict[str, FileEntry | None], dict[str, bytes]]:
    """Entries of the manifest by key, and contents by file name. All share one stem: PYNQ looks for `.hwh` so."""
    if build is None:
        contents = {HANDOFF: (".hwh", render_handoff(design).encode())}
        digest = content_hash(contents[HANDOFF][1])
    else:
        contents = {
            HANDOFF: (".hwh", build.handoff.read_bytes()),
            BITSTREAM: (".bit", build.bitstream.read_bytes()),
            **{key: (f".{key}{path.suffix}", path.read_bytes()) for key, path in build.reports.items()},
        }
        digest = content_hash(contents[BITSTREAM][1] + contents[HANDOFF][1])
    stem = hashed_stem(design.accelerator.name, digest)
    entries: dict[str, FileEntry | None] = {BITSTREAM: None}
    for key, (suffix, content) in contents.items():
        entries[key] = FileEntry(f"{stem}{suffix}", content_hash(content))
    return entries, {f"{stem}{suffix}": content for suffix, content in contents.values()}


def make_manifest(
    design: BlockDesign, files: Mapping[str, FileEntry | None], build: OverlayBuild | None = None
) -> Manifest:
    """The manifest of a block design with these files."""
    accelerator = design.accelerator
    board = accelerator.board
    actual_mhz = design.clock.actual_mhz if build is None or build.actual_mhz is None else build.actual_mhz
    return Manifest(
        name=accelerator.name,
        accelerator=AcceleratorEntry(accelerator.name, accelerator.digest, accelerator.description),
        board=BoardEntry(
            name=board.name,
            title=board.title,
            part=board.part,
            board_part=board.board_part,
            processing_system="zynq7" if board.processing_system == "zynq7" else "zynqmp",
        ),
        clock=ClockEntry(design.clock.requested_mhz, actual_mhz),
        configuration=config_to_dict(accelerator.config),
        layout=layout(*accelerator.config.layout_parts),
        cells=_cells(design),
        dma=_dma(design),
        interrupts=design.interrupts,
        files=files,
        tools=build.tools if build else None,
        utilization=build.utilization if build else None,
        timing=build.timing if build else None,
    )


def _cells(design: BlockDesign) -> dict[str, CellEntry]:
    result = {}
    for segment in design.segments:
        if segment.usage == "register":
            cell = design.cell(segment.slave.partition("/")[0])
            result[cell.name] = CellEntry(f"{cell.ip}:{cell.version}", segment.base, segment.size)
    return result


def _dma(design: BlockDesign) -> DmaEntry:
    """Numbers of the DMA engines. Without realignment a buffer starts at a whole word of the memory side (PG021)."""
    engines = [cell.parameters for cell in design.cells if cell.ip.endswith(":axi_dma")]
    widths = [
        int(value) for cell in engines for name, value in cell.items() if re.fullmatch(r"c_m_axi_.+_data_width", name)
    ]
    config = design.accelerator.config
    return DmaEntry(
        length_bits=min(int(cell["c_sg_length_width"]) for cell in engines),
        stream_bits=config.stream_bits,
        weight_stream_bits=config.weight_stream_bits,
        alignment=max(widths) // 8,
    )
