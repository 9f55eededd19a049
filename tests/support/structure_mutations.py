"""Damaged copies of files by a mutator that knows their structure, the same for the same seed.

What a byte-wise mutator hardly meets: a value of another type, every extreme, a key or an item lost, doubled or moved,
an array of another shape or type, an archive that is packed in another way; checksums and digests are right again
afterwards, so that what reads the file gets to see the change.
"""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import yaml
from mutations import mutations

from bfpga.program.file import HEADER, content_digest

NUMBERS = (
    0, 1, -1, 2, 3, 7, 31, 32, 64, 255, 4096, 65536, -(2**31), 2**31, 2**32, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0,
    1e308, 5e-324, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", "x", "a\nb", "\x00", "\x1b[31m", "../../x", "/dev/zero", "é", "\ud800", "\u2028", "</script>", "nan", "true",
    "1", "x" * 5000, "__import__('os').system('true')", "*/ int x; /*", "c:\\x", "{{ 7 * 7 }}", "ArrayNode", "y" * 300,
)  # fmt: skip
OTHERS = (None, True, False, [], {}, [[]], [None], {"": None}, {"type": "ArrayNode"})
DTYPES = ("<i1", "<i2", "<i8", ">i4", "<u8", "<f2", "<f4", "<f8", "<c8", "|b1", "|S3", "<U2", "<M8[s]", "|V4", "|u1")
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


# Values of JSON and YAML


def mutated_value(value: Any, rng: random.Random) -> Any:
    """A copy of plain values with one to three changes."""
    value = [deepcopy(value)]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        holder, key = rng.choice(_by_depth(list(_places(value)), rng))
        _change(holder, key, rng)
    return value[0]


def _by_depth(places: list[tuple[Any, Any, int]], rng: random.Random) -> list[tuple[Any, Any]]:
    """Places of one depth: the few near the root are as likely as the many leaves."""
    depth = rng.choice(sorted({depth for _, _, depth in places}))
    return [(holder, key) for holder, key, found in places if found == depth]


def _places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any, int]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key, depth
        yield from _places(item, depth + 1)


def _change(holder: Any, key: Any, rng: random.Random) -> None:
    kind, old = rng.randrange(9), holder[key]
    if kind == 0:
        holder[key] = deepcopy(rng.choice(OTHERS))
    elif kind in (1, 2) and isinstance(old, int | float):
        holder[key] = old + rng.choice((1, -1, 0.5)) if kind == 1 else rng.choice(NUMBERS)
    elif kind in (1, 2) and isinstance(old, str):
        holder[key] = rng.choice(TEXTS)
    elif kind == 3:
        holder[key] = rng.choice((rng.choice(NUMBERS), rng.choice(TEXTS)))
    elif kind == 4 and len(holder) > 1:
        del holder[key]
    elif kind == 5 and isinstance(holder, dict):
        holder[rng.choice((f"{key}_", *TEXTS))] = old
    elif kind == 5:
        holder.insert(key, deepcopy(old))
    else:  # the place of another value
        other = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        holder[key], holder[other] = holder[other], holder[key]


def mutated_yaml(content: bytes, rng: random.Random) -> bytes:
    """A YAML file whose values are changed and whose syntax is right."""
    mutant = mutated_value(yaml.safe_load(content), rng)
    return yaml.safe_dump(mutant, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")


def mutated_json(content: bytes, rng: random.Random) -> bytes:
    """A JSON file whose values are changed and whose syntax is right."""
    return json.dumps(mutated_value(json.loads(content), rng)).encode()


# Arrays and archives


def mutated_array(content: bytes, rng: random.Random) -> bytes:
    """An array of the `npy` format with another shape, type, order or other values."""
    array = np.load(io.BytesIO(content))
    kind = rng.randrange(8)
    if kind == 0:
        array = array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (1, 1, 1, -1), (-1, *(1,) * 31))))
    elif kind == 1:
        array = array.T
    elif kind == 2:
        array = array[: rng.choice((0, 1, max(0, len(array) - 1)))] if array.ndim else array
    elif kind == 3:
        array = np.concatenate([array, array], axis=rng.randrange(array.ndim)) if array.ndim else array
    elif kind == 4:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(DTYPES))
    elif kind == 5 and array.size:
        extremes = (0, 1, -1, 127, -128, 2**15, 2**31 - 1, -(2**31), 2**63 - 1, np.nan, np.inf, -np.inf, 1e38)
        array = array.astype(np.float64 if array.dtype.kind == "f" or rng.randrange(2) else array.dtype)
        with np.errstate(all="ignore"):
            extreme = np.array(rng.choice(extremes), np.float64).astype(array.dtype)
        array.reshape(-1)[rng.randrange(array.size)] = extreme
    elif kind == 6:
        array = np.asfortranarray(array)
    else:
        array = np.asarray(rng.choice((0, np.nan, "x", b"x", 1j, True)))
    result = io.BytesIO()
    np.save(result, array, allow_pickle=False)
    return result.getvalue()


def mutated_archive(content: bytes, rng: random.Random) -> bytes:
    """A zip archive with a changed member, one that is lost, doubled or renamed, or packed in another way."""
    with zipfile.ZipFile(io.BytesIO(content)) as source:
        members = [(name, source.read(name)) for name in source.namelist()]
    place = rng.randrange(len(members))
    if HEADER in dict(members) and rng.randrange(2):
        place = [name for name, _ in members].index(HEADER)
    name, data = members[place]
    kind, method = rng.randrange(8), rng.choice(METHODS) if rng.randrange(3) == 0 else zipfile.ZIP_DEFLATED
    if kind == 0 and len(members) > 1:
        del members[place]
    elif kind == 1:
        members.append((rng.choice((name, *TEXTS[1:4], f"{name}.npy")), data))
    elif kind == 2:
        other = rng.randrange(len(members))
        members[place], members[other] = (name, members[other][1]), (members[other][0], data)
    else:
        members[place] = (name, mutated_member(name, data, rng))
    mutant = packed(signed(members), method)
    return damaged_stream(mutant, rng) if method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA) else mutant


def damaged_stream(archive: bytes, rng: random.Random) -> bytes:
    """An archive with a few other bytes in the packed data of its members; its directory is right."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        items = source.infolist()
    result = bytearray(archive)
    for _ in range(rng.choice((0, 1, 4))):
        item = rng.choice(items)
        start = item.header_offset + 30 + len(item.filename.encode())
        result[start + rng.randrange(max(1, item.compress_size))] ^= rng.randrange(1, 256)
    return bytes(result)


def mutated_member(name: str, data: bytes, rng: random.Random) -> bytes:
    """A member whose structure is that of its name's ending."""
    if name.endswith(".json"):
        return mutated_json(data, rng)
    return mutated_array(data, rng) if name.endswith(".npy") else next(mutations(data, 1, rng.getrandbits(32)))


def signed(members: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The members of a program file with the digest of what they hold; others as they are."""
    held = dict(members)
    try:
        header = json.loads(held.pop(HEADER))
        header["content"] = content_digest(header, held.items())
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return members
    return [(HEADER, json.dumps(header).encode()), *held.items()]


def packed(members: list[tuple[str, bytes]], method: int) -> bytes:
    """A zip archive of members, equal names included."""
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", method) as target:
        for name, data in members:
            if name not in target.namelist():
                target.writestr(zipfile.ZipInfo(name or "x", (1980, 1, 1, 0, 0, 0)), data, method)
    return result.getvalue()


# Text


def mutated_text(content: bytes, rng: random.Random) -> bytes:
    """A text in another encoding, or with another value in one of its attributes (XML)."""
    text = content.decode()
    kind = rng.randrange(6)
    if kind == 0:
        return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-16-be")))
    if kind == 1:
        place = rng.randrange(len(content) + 1)
        return content[:place] + rng.choice((b"\xe9", b"\xff", b"\xed\xa0\x80", b"\x00", b"\x80")) + content[place:]
    found = list(re.finditer(r'"[^"\n]*"', text))
    if not found:
        return next(mutations(content, 1, rng.getrandbits(32)))
    place = rng.choice(found)
    value = rng.choice((*map(str, NUMBERS), *TEXTS))
    changed = f'"{value}"' if kind < 5 else ""
    return (text[: place.start()] + changed + text[place.end() :]).encode("utf-8", "surrogatepass")


#: By the ending of a file's name.
MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".yaml": mutated_yaml, ".json": mutated_json, ".npz": mutated_archive, ".bfpga": mutated_archive,
    ".hwh": mutated_text,
}  # fmt: skip
