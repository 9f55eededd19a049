"""The manifest of an overlay (`overlay.yaml`): its hardware, the addresses of its registers, its files.

The text is JSON, which is YAML too, so that a board reads it with the standard library alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.cores import Core, cores_of
from bfpga.contract.names import check_name
from bfpga.contract.registers import TOP_FUNCTION
from bfpga.engines.configurations import config_from_dict
from bfpga.errors import ConfigurationError
from bfpga.formats.files import check_regular, read_file, replace_file
from bfpga.vendor.json_fields import FieldError, json_text, parse, plain, read_object

#: Version of the file's keys. Version 1 named no layout, version 2 one kernel with the numbers of all arrays.
FORMAT = 3
#: Name of the file in the directory of an overlay.
MANIFEST_NAME = "overlay.yaml"
#: Files every overlay names; the bitstream is null until a build has made it.
HANDOFF, BITSTREAM = "handoff", "bitstream"
#: A manifest has some ten thousand bytes.
LARGEST_FILE = 1 << 22
#: Hexadecimal digits of a content's hash in the name of a file.
HASH_DIGITS = 8

_OLD = (
    ". The file is of an earlier toolkit, which described kernels and layouts otherwise: "
    "build the bitstream again, or install the toolkit that built it"
)
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")


@dataclass(frozen=True)
class AcceleratorEntry:
    """Which accelerator: its name and the SHA-256 of the numbers that shape the kernel."""

    name: str
    digest: str
    description: str


@dataclass(frozen=True)
class BoardEntry:
    """Which board the overlay is for."""

    name: str
    title: str
    part: str
    board_part: str
    processing_system: Literal["zynq7", "zynqmp"]


@dataclass(frozen=True)
class ClockEntry:
    """The clock of the logic in MHz: what the accelerator asks for, and what the dividers give."""

    requested_mhz: float
    actual_mhz: float


@dataclass(frozen=True)
class CellEntry:
    """An IP with registers: vendor:library:name:version, where the processor finds it, and how many bytes."""

    vlnv: str
    base: int
    size: int


@dataclass(frozen=True)
class DmaEntry:
    """The DMA engines: bits of the length register and of the streams; bytes to which buffers are aligned."""

    length_bits: int
    stream_bits: int
    weight_stream_bits: int
    alignment: int


@dataclass(frozen=True)
class FileEntry:
    """A file in the overlay's directory and the SHA-256 of its content."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Everything a driver has to know of an overlay without reading its other files.

    ``layout``: that of the kernel's descriptors, registers and streams (`contract.layout`). ``cells``: those with
    registers, by instance name. ``interrupts``: the inputs of the interrupt controller in order, as `cell/pin`.
    ``tools``, ``utilization``, ``timing``: of the build that made the bitstream, None without one.
    """

    name: str
    accelerator: AcceleratorEntry
    board: BoardEntry
    clock: ClockEntry
    configuration: Mapping[str, Any]
    layout: Mapping[str, Any]
    cells: Mapping[str, CellEntry]
    dma: DmaEntry
    interrupts: tuple[str, ...]
    files: Mapping[str, FileEntry | None]
    tools: Mapping[str, Any] | None = None
    utilization: Mapping[str, Any] | None = None
    timing: Mapping[str, Any] | None = None

    @cached_property
    def config(self) -> KernelConfig:
        """The numbers of the kernel; ConfigurationError if ``configuration`` has others."""
        return config_from_dict(dict(self.configuration))

    @property
    def cores(self) -> tuple[Core, ...]:
        """The cores: one for each kernel among the cells."""
        kernels = [cell for cell in self.cells.values() if f":{TOP_FUNCTION}:" in cell.vlnv]
        return cores_of(max(1, len(kernels)))

    @property
    def identification(self) -> int:
        """What the kernel's register of that name reads: the first 32 bits of the accelerator's digest."""
        return int(self.accelerator.digest[:8], 16)

    @property
    def handoff(self) -> FileEntry:
        """The hardware handoff."""
        entry = self.files[HANDOFF]
        assert entry is not None
        return entry

    @property
    def bitstream(self) -> FileEntry | None:
        """The bitstream; None if the overlay was never built."""
        return self.files[BITSTREAM]


# Files


def read_manifest(path: str | Path) -> Manifest:
    """The manifest in a file; ConfigurationError with path and key if it cannot be read or is not a manifest."""
    path = Path(path)
    try:
        text = read_file(path, LARGEST_FILE).decode()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot read the manifest of an overlay: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: not the manifest of an overlay: not UTF-8") from None
    try:
        return parse_manifest(text)
    except FieldError as error:
        raise ConfigurationError(
            f"{path}: not a valid manifest of an overlay: {error}. "
            "`bfpga overlay` writes the file; copy or generate the overlay again"
        ) from None


def parse_manifest(text: str) -> Manifest:
    """The manifest that a JSON text holds; FieldError says what is wrong and at which key."""
    document = parse(text)
    if not isinstance(document, dict):
        raise FieldError("", "must be an object")
    version = document.pop("format", None)
    if type(version) is not int:
        raise FieldError("format", f"must be the version of the keys, {FORMAT}")
    if version != FORMAT:
        raise FieldError("format", f"is {version}; this toolkit reads {FORMAT}{_OLD if version < FORMAT else ''}")
    manifest = read_object(Manifest, document)
    _check(manifest)
    return manifest


def _check(manifest: Manifest) -> None:
    """What types cannot say: plain names, a handoff in every overlay, positive clocks and widths."""
    if not is_plain_name(manifest.name):
        raise FieldError("name", "must be a plain name: letters, digits, `_`, `-`, `.`")
    try:
        check_name(manifest.accelerator.name, "accelerator.name")
        check_name(manifest.board.name, "board.name")
    except ConfigurationError as error:
        raise FieldError("", str(error)) from None
    try:
        _ = manifest.config
    except ConfigurationError as error:
        raise FieldError("configuration", str(error)) from None
    for key in (HANDOFF, BITSTREAM):
        if key not in manifest.files:
            raise FieldError(f"files.{key}", "is missing")
    if manifest.files[HANDOFF] is None:
        raise FieldError(f"files.{HANDOFF}", "must name a file")
    for key, entry in manifest.files.items():
        # Names come from elsewhere: none of them may lead out of the overlay's directory.
        if entry is not None and not is_plain_name(entry.name):
            raise FieldError(f"files.{key}.name", "must be a file name without a directory")
    for where, number in (
        ("clock.requested_mhz", manifest.clock.requested_mhz),
        ("clock.actual_mhz", manifest.clock.actual_mhz),
        ("dma.length_bits", manifest.dma.length_bits),
        ("dma.stream_bits", manifest.dma.stream_bits),
        ("dma.weight_stream_bits", manifest.dma.weight_stream_bits),
        ("dma.alignment", manifest.dma.alignment),
    ):
        if number <= 0:
            raise FieldError(where, f"must be positive, is {number:g}")


def is_plain_name(name: str) -> bool:
    """Whether a name may be that of a file: no directories, not hidden."""
    return _FILE_NAME.fullmatch(name) is not None


def manifest_text(manifest: Manifest) -> str:
    """The JSON text of a manifest; equal manifests give equal texts."""
    document = {"format": FORMAT, **plain(manifest)}
    return json_text(document) + "\n"


def write_manifest(manifest: Manifest, path: str | Path) -> None:
    """Write a manifest; the file appears complete or not at all. OSError if it cannot be written."""
    replace_file(Path(path), manifest_text(manifest).encode())


# Hashes


def content_hash(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a regular file's content, read in pieces; OSError if it cannot be read."""
    check_regular(path)
    result = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            result.update(piece)
    return result.hexdigest()


def hashed_stem(name: str, digest: str) -> str:
    """Name of a file without its suffix that changes with the content: PYNQ keeps what it read under a known name."""
    return f"{name}-{digest[:HASH_DIGITS]}"
