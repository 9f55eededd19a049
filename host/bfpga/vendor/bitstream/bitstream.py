"""The header of a .bit file: design, device and length, before the bytes the device reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bfpga.vendor.bitstream.failure import BuildError

#: The length of the first field and the field, the same in every file.
_MAGIC = bytes.fromhex("0009 0ff00ff00ff00ff000 0001".replace(" ", ""))
#: What the device waits for among the first words (UG470, UG570).
_SYNC_WORD = bytes.fromhex("aa995566")
#: Bytes of the configuration data that hold the synchronization word.
_SYNC_WITHIN = 1024


@dataclass(frozen=True)
class BitstreamHeader:
    """``design``: name with options, ``part``: device and package, ``length``: bytes of configuration data."""

    design: str
    part: str
    length: int


def read_header(path: Path) -> BitstreamHeader:
    """Header of a complete .bit file; BuildError if it is none, is cut short, or has no synchronization word."""
    content = path.read_bytes()
    if not content.startswith(_MAGIC):
        raise BuildError("bitstream", f"{path} is no .bit file: it does not begin with the header of one", path)
    fields, place = {}, len(_MAGIC)
    for key in "abcd":
        size = int.from_bytes(content[place + 1 : place + 3], "big")
        if content[place : place + 1] != key.encode() or place + 3 + size > len(content):
            raise BuildError("bitstream", f"{path}: field `{key}` of its header is missing", path)
        fields[key] = content[place + 3 : place + 3 + size].rstrip(b"\0").decode(errors="replace")
        place += 3 + size
    length, data = int.from_bytes(content[place + 1 : place + 5], "big"), content[place + 5 :]
    if content[place : place + 1] != b"e" or len(data) != length:
        raise BuildError("bitstream", f"{path} is cut short: {len(data):,} of {length:,} bytes are there", path)
    if _SYNC_WORD not in data[:_SYNC_WITHIN]:
        raise BuildError("bitstream", f"{path} has no synchronization word; a device would not take it", path)
    return BitstreamHeader(fields["a"], fields["b"], length)


def check_bitstream(path: Path, part: str) -> BitstreamHeader:
    """Header of a .bit file for ``part``; BuildError if it is for another device or package."""
    header = read_header(path)
    # Zynq-7000: `7z020clg400` of xc7z020clg400-1; Zynq UltraScale+: the whole part.
    found, wanted = (name.lower().removeprefix("xc").replace("-", "") for name in (header.part, part))
    if not found or not wanted.startswith(found):
        raise BuildError("part", f"{path} is for {header.part}, the board has {part}", path)
    return header
