"""Contents of constant tables, from the text of their initializers."""

from __future__ import annotations

import re
import struct

from bfpga.synthesis.frontend.ir import Layouts, split_list, split_type


def initial_bytes(layouts: Layouts, text: str) -> bytes:
    """Bytes of a global variable, given what follows "=" in its definition."""
    found = re.search(r"\b(?:constant|global) (.*)$", text)
    if found is None:
        raise ValueError(f"no initializer in {text[:80]}")
    kind, value = split_type(found.group(1))
    return _bytes_of(layouts, kind, split_list(value)[0])


def _bytes_of(layouts: Layouts, kind: str, value: str) -> bytes:
    size = layouts.of(kind).size
    if value in ("zeroinitializer", "undef", "poison", "null"):
        return bytes(size)
    if value.startswith('c"'):
        plain = re.sub(
            rb"\\([0-9A-Fa-f]{2})", lambda code: bytes([int(code.group(1), 16)]), value[2:-1].encode("latin-1")
        )
        return plain.ljust(size, b"\0")
    if array := layouts.array(kind):
        return b"".join(_typed(layouts, part) for part in split_list(value[1:-1])).ljust(
            array[0] * layouts.of(array[1]).size, b"\0"
        )
    if layouts.is_structure(kind):
        contents = bytearray(size)
        for (offset, _), part in zip(layouts.fields(kind), split_list(value.strip("<>").strip()[1:-1]), strict=True):
            data = _typed(layouts, part)
            contents[offset : offset + len(data)] = data
        return bytes(contents)
    if kind in ("float", "double"):
        number = struct.unpack(">d", bytes.fromhex(value[2:]))[0] if value.startswith("0x") else float(value)
        return struct.pack("<f" if kind == "float" else "<d", number)
    number = int(value == "true") if value in ("true", "false") else int(value)
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _typed(layouts: Layouts, part: str) -> bytes:
    kind, value = split_type(part)
    return _bytes_of(layouts, kind, value)
