"""Emulation bitstreams: `.bit` files that every PYNQ version accepts and that define a virtual board.

The container is AMD's: header fields `a` to `d`, then `e` with the length of the data. The data is ours: a magic, three
words and compressed JSON with the hardware handoff and the model of each kernel. PYNQ strips the header and swaps
the bytes of each 32-bit word before it hands a file to the kernel (UG470: bit order of configuration data), so both
forms are read.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from bfpga.errors import DeviceError
from bfpga.formats.files import read_file, replace_file

#: First bytes of the data of an emulation bitstream.
MAGIC = b"BFPGAEMU"
#: Layout of the data after the magic.
VERSION = 1
#: Version, bytes of compressed JSON, its CRC-32; big-endian like the lengths of the container.
_WORDS = struct.Struct(">III")
#: The first field of the container: nine bytes that never change, then the number 1.
_PREAMBLE = bytes.fromhex("0009 0ff00ff00ff00ff000 0001")
#: A real bitstream holds this word near its start (UG470, UG570).
_SYNC_WORD = bytes.fromhex("aa995566")
_SYNC_WINDOW = 4096
#: Bitstreams of the largest parts have some 200 MB.
LARGEST_FILE = 1 << 30
#: A handoff and the descriptions of its kernels have some hundred thousand bytes.
LARGEST_CONTENT = 1 << 26
#: The same content gives the same file, so the date of the header is fixed.
_DATE, _TIME = "2000/01/01", "00:00:00"


@dataclass(frozen=True)
class EmulationBitstream:
    """What a virtual board is configured with.

    handoff: text of the `.hwh`. kernels: description of the kernel by the name of its instance. where: for errors.
    """

    handoff: str
    kernels: Mapping[str, Mapping[str, Any]]
    where: str = "bitstream"


def write_emulation_bitstream(path: str | Path, handoff: str, kernels: Mapping[str, Mapping[str, Any]]) -> None:
    """Write an emulation bitstream for the design of a hardware handoff; the file appears complete or not at all.

    kernels: JSON-compatible description by instance name. DeviceError if the handoff is no XML, a description no JSON,
    or the file cannot be written.
    """
    path = Path(path)
    design, part = _design_and_part(path, handoff)
    content = _container(design, part, _encode(path, handoff, kernels))
    try:
        replace_file(path, content)
    except OSError as error:
        raise DeviceError(f"{path}: cannot write there: {error.strerror}") from None


def read_emulation_bitstream(path: str | Path) -> EmulationBitstream:
    """Read an emulation bitstream, as `.bit` or as the byte-swapped `.bin` made from it.

    DeviceError for a bitstream of real hardware, for a damaged file and for anything else.
    """
    try:
        data = read_file(Path(path), LARGEST_FILE)
    except OSError as error:
        raise DeviceError(f"{path}: cannot read the bitstream: {error.strerror}") from None
    return decode_emulation_bitstream(data, str(path))


def decode_emulation_bitstream(data: bytes, where: str = "bitstream") -> EmulationBitstream:
    """The content of a `.bit` or byte-swapped `.bin` file; ``where`` names it in errors. DeviceError as above."""
    origin = ""
    if data.startswith(_PREAMBLE):
        origin, data = _strip_header(data, where)
    if not data.startswith(MAGIC):
        if byte_swapped(data).startswith(MAGIC):
            data = byte_swapped(data)
        else:
            raise DeviceError(_foreign(data, origin, where))
    return _decode(data, where)


def byte_swapped(data: bytes) -> bytes:
    """The same 32-bit words in the other byte order; bytes that make no whole word at the end are left out."""
    return np.frombuffer(data, "<u4", len(data) // 4).byteswap().tobytes()


def _design_and_part(path: Path, handoff: str) -> tuple[str, str]:
    """Names for the header, from the handoff: the design and the part, `xc7z020clg400-1` for example."""
    try:
        root = ElementTree.fromstring(handoff.lstrip("\ufeff"))
    except ElementTree.ParseError as error:
        raise DeviceError(f"{path}: the hardware handoff is not XML ({error}); give the text of a .hwh file") from None
    system = root.find("SYSTEMINFO")
    if system is None:
        return path.stem, ""
    device, package, grade = (system.get(key, "") for key in ("DEVICE", "PACKAGE", "SPEEDGRADE"))
    prefix = "" if not device or device.startswith("xc") else "xc"
    return system.get("NAME") or path.stem, f"{prefix}{device}{package}{grade}"


def _encode(path: Path, handoff: str, kernels: Mapping[str, Mapping[str, Any]]) -> bytes:
    try:
        text = json.dumps({"handoff": handoff, "kernels": kernels}, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise DeviceError(f"{path}: the description of a kernel is not JSON ({error})") from None
    body = zlib.compress(text.encode(), 9)
    data = MAGIC + _WORDS.pack(VERSION, len(body), zlib.crc32(body)) + body
    return data + bytes(-len(data) % 4)


def _container(design: str, part: str, data: bytes) -> bytes:
    fields = {b"a": f"{design};UserID=0XFFFFFFFF;Version=emulation", b"b": part, b"c": _DATE, b"d": _TIME}
    header = _PREAMBLE
    for tag, text in fields.items():
        value = text.encode("ascii", "replace") + b"\0"
        header += tag + struct.pack(">H", len(value)) + value
    return header + b"e" + struct.pack(">I", len(data)) + data


def _strip_header(content: bytes, where: str) -> tuple[str, bytes]:
    """What the header says of design and part, and the data."""
    position, fields = len(_PREAMBLE), {}
    try:
        while (tag := content[position : position + 1]) != b"e":
            if tag and tag not in b"abcd":
                raise DeviceError(f"{where}: not a bitstream, or a damaged one: header field {tag!r} is unknown")
            (length,) = struct.unpack_from(">H", content, position + 1)
            fields[tag] = content[position + 3 : position + 3 + length].rstrip(b"\0").decode("ascii", "replace")
            position += 3 + length
        (length,) = struct.unpack_from(">I", content, position + 1)
    except struct.error:
        raise DeviceError(f"{where}: the bitstream ends within its header; copy or build it again") from None
    data = content[position + 5 :]
    if len(data) != length:
        raise DeviceError(
            f"{where}: the header promises {length} bytes of data and {len(data)} follow; copy or build it again"
        )
    origin = f" (design {fields.get(b'a', '?').split(';')[0]}, part {fields.get(b'b', '?')})"
    return origin, data


def _foreign(data: bytes, origin: str, where: str) -> str:
    start = data[:_SYNC_WINDOW]
    if _SYNC_WORD in start or _SYNC_WORD[::-1] in start:
        return (
            f"{where}: this is a bitstream for real hardware{origin}; a virtual board cannot run it. Open the overlay "
            "by its manifest, or load the .hwh next to it to see its registers without kernels"
        )
    return f"{where}: not a bitstream{origin}: neither the magic of an emulation bitstream nor a sync word is in it"


def _decode(data: bytes, where: str) -> EmulationBitstream:
    start = len(MAGIC) + _WORDS.size
    if len(data) < start:
        raise DeviceError(f"{where}: the emulation bitstream ends within its first words; write it again")
    version, length, checksum = _WORDS.unpack_from(data, len(MAGIC))
    if version != VERSION:
        raise DeviceError(
            f"{where}: emulation bitstream of version {version}, this toolkit reads version {VERSION}; write it again"
        )
    body = data[start : start + length]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise DeviceError(f"{where}: the emulation bitstream is damaged (its checksum does not match); write it again")
    try:
        content = json.loads(_decompressed(body, where))
        handoff, kernels = content["handoff"], content["kernels"]
    except (zlib.error, ValueError, KeyError, TypeError, RecursionError):
        raise DeviceError(f"{where}: the emulation bitstream is not readable; write it again") from None
    if not isinstance(handoff, str) or not _all_sections(kernels):
        raise DeviceError(f"{where}: the emulation bitstream must hold a text `handoff` and a section for each kernel")
    return EmulationBitstream(handoff, kernels, where)


def _decompressed(body: bytes, where: str) -> bytes:
    """A small file must not fill the memory: no more than ``LARGEST_CONTENT`` bytes are made of it."""
    content = zlib.decompressobj().decompress(body, LARGEST_CONTENT + 1)
    if len(content) > LARGEST_CONTENT:
        raise DeviceError(f"{where}: the emulation bitstream unpacks to more than {LARGEST_CONTENT >> 20} MiB")
    return content


def _all_sections(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, dict) for item in value.values())
