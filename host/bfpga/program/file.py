"""Programs as files: one zip archive of a JSON header, arrays and host models; no pickle, nothing but numpy needed.

Numbers of every dataclass are written by field name, so a reader rejects what it does not know instead of guessing.
One digest covers all of them and all arrays: nodes, which the emulator computes, and operations, which a kernel
executes, are those that were compiled together.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import IntEnum, IntFlag
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from bfpga.contract import program as shapes
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, Descriptor
from bfpga.contract.layout import layout, layout_mismatch
from bfpga.contract.names import check_digest, check_name
from bfpga.contract.program import Program
from bfpga.engines.configurations import config_from_dict, config_to_dict
from bfpga.errors import ConfigurationError, ProgramError
from bfpga.formats.archive import UNREADABLE, OversizeError, memory_limit, opened, read_array, read_member
from bfpga.formats.files import replace_file
from bfpga.program.checks import check_parts
from bfpga.program.limits import check_limits

MAGIC = "bfpga program"
VERSION = 8
HEADER = "program.json"
#: Classes that a header may name; the key ``type`` distinguishes members of a union.
CLASSES = {
    kind.__name__: kind
    for kind in (
        shapes.ArrayNode, shapes.MatMulNode, shapes.HostNode, shapes.LaunchStep, shapes.HostStep, shapes.MatMulStep,
    )
}


def save_program(program: Program, path: str | Path) -> None:
    """Write a program; the file appears complete or not at all."""
    path = Path(path)
    blobs: dict[bytes, str] = {}
    shape = layout(*program.config.layout_parts)
    header = {"magic": MAGIC, "version": VERSION, "layout": shape, "program": _plain(program, blobs)}
    header["content"] = content_digest(header, ((name, data) for data, name in blobs.items()))
    archive = io.BytesIO()
    _write_archive(archive, header, blobs)
    try:
        replace_file(path, archive.getvalue())
    except OSError as error:
        raise ProgramError(f"{path}: cannot write there: {error.strerror}") from None


def _write_archive(stream: Any, header: dict[str, Any], blobs: dict[bytes, str]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for data, name in [(json.dumps(header).encode(), HEADER), *blobs.items()]:
            # A fixed date: the same program gives the same file.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 1)


def content_digest(header: dict[str, Any], blobs: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 of all that a program file holds: its header without the digest itself, and the members by name."""
    rest = {key: value for key, value in header.items() if key != "content"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name, data in sorted(blobs):
        digest.update(f"\0{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def load_program(path: str | Path, digest: str | None = None) -> Program:
    """Read a program.

    digest: that of the accelerator it shall run on. Raises ProgramError for files that are not programs, truncated or
    of another version, and for programs of another layout (with what differs) or another accelerator.
    """
    try:
        with opened(Path(path), memory_limit()) as archive:
            blobs = {name: read_member(archive, name) for name in archive.namelist()}
        header = json.loads(blobs.pop(HEADER).decode())
    except OversizeError as error:
        raise ProgramError(f"{path}: the program file is too large: {error}") from None
    except OSError as error:
        raise ProgramError(f"{path}: cannot read the program file: {error.strerror or error}") from None
    except UNREADABLE:
        raise ProgramError(f"{path}: not a program file, or a damaged one; compile the network again") from None
    if not isinstance(header, dict) or header.get("magic") != MAGIC:
        raise ProgramError(f"{path}: not a program file; make one with `bfpga compile`")
    if header.get("version") != VERSION:
        raise ProgramError(
            f"{path}: program file of version {header.get('version')}, this toolkit reads version {VERSION}; "
            "compile the network again"
        )
    mismatch = layout_mismatch(header.get("layout"))
    if mismatch is not None:
        raise ProgramError(
            f"{path}: the program was compiled for kernels of another layout than this toolkit's: {mismatch}. Compile "
            "the network again, or install the toolkit that compiled it"
        )
    try:
        whole = header.get("content") == content_digest(header, blobs.items())
    except RecursionError:
        whole = False
    if not whole:
        raise ProgramError(
            f"{path}: the program file is damaged: it does not hold what its digest says; make it again with `bfpga "
            "compile`"
        )
    try:
        program = _object(Program, header["program"], blobs)
    except ConfigurationError as error:
        raise ProgramError(f"{path}: {error}; compile the network again") from None
    except (*UNREADABLE, LookupError, AttributeError):
        raise ProgramError(f"{path}: the program file is damaged; make it again with `bfpga compile`") from None
    assert isinstance(program, Program)
    try:
        check_name(program.accelerator, "accelerator")
        check_digest(program.digest, "digest")
        check_parts(program)
        check_limits(program)
    except (ConfigurationError, ProgramError) as error:
        raise ProgramError(f"{path}: {error}") from None
    if digest is not None and program.digest != digest:
        raise ProgramError(
            f"{path}: compiled for accelerator {program.accelerator} ({program.digest[:12]}), not for this one "
            f"({digest[:12]}); compile the network for this accelerator"
        )
    return program


# Writing: dataclasses -> plain values, long data -> members of the archive


def _plain(value: Any, blobs: dict[bytes, str]) -> Any:
    """blobs: name in the archive of all long data; equal data, as the kernels of a layer's tiles, is there once."""
    if isinstance(value, Descriptor):
        return [int(word) for word in value.to_words()[: len(FIELDS)]]
    if isinstance(value, KernelConfig):
        return config_to_dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        result = {item.name: _plain(getattr(value, item.name), blobs) for item in fields(value)}
        return {"type": type(value).__name__, **result} if type(value).__name__ in CLASSES else result
    if isinstance(value, dict):
        return {str(key): _plain(item, blobs) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, blobs) for item in value]
    if isinstance(value, np.ndarray):
        stream = io.BytesIO()
        np.save(stream, np.ascontiguousarray(value), allow_pickle=False)
        return _blob(stream.getvalue(), "npy", blobs)
    if isinstance(value, bytes):
        return _blob(value, "bin", blobs) if value else None
    if isinstance(value, IntEnum | IntFlag | np.integer):
        return int(value)
    return value


def _blob(data: bytes, kind: str, blobs: dict[bytes, str]) -> str:
    return blobs.setdefault(data, f"{len(blobs)}.{kind}")


# Reading


def _object(kind: type, values: dict[str, Any], blobs: dict[str, bytes]) -> Any:
    hints = get_type_hints(kind)
    names = {item.name for item in fields(kind)}
    given = set(values) - {"type"}
    if given - names:
        raise ValueError(f"unknown fields {given - names}")
    return kind(**{name: _value(hints[name], values[name], blobs) for name in given})


def _unaliased(hint: Any) -> Any:
    """The type of an alias: numpy 2.5 declares its array types as aliases, earlier ones as the types."""
    alias = get_origin(hint) or hint
    return _unaliased(alias.__value__) if hasattr(alias, "__value__") else hint


def _value(hint: Any, value: Any, blobs: dict[str, bytes]) -> Any:
    hint = _unaliased(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        if isinstance(value, dict) and "type" in value:
            return _object(CLASSES[value["type"]], value, blobs)
        return _value(next(item for item in arguments if item is not type(None)), value, blobs)
    if origin is np.ndarray:
        return _whole_numbers(read_array(io.BytesIO(blobs[value])))
    if origin is list:
        return [_value(arguments[0], item, blobs) for item in value]
    if origin is tuple:
        inner = arguments[0]
        return tuple(_value(inner, item, blobs) for item in value)
    if origin is dict:
        return {key: _value(arguments[1], item, blobs) for key, item in value.items()}
    return _leaf(hint, value, blobs)


def _whole_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """All arrays of a program hold integers of this machine's order."""
    if values.dtype.kind != "i" or not values.dtype.isnative:
        raise TypeError(f"an array of {values.dtype}")
    return values


def _leaf(hint: Any, value: Any, blobs: dict[str, bytes]) -> Any:
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ValueError(f"{value!r} is none of {get_args(hint)}")
        return value
    if hint is Descriptor:
        if len(value) != len(FIELDS):
            raise ValueError("a descriptor of another layout")
        if not all(isinstance(word, int) for word in value):
            raise TypeError("a descriptor holds whole numbers")
        return Descriptor.from_words([*value, *([0] * (DESCRIPTOR_WORDS - len(value)))])
    if hint is KernelConfig:
        return config_from_dict(value)
    if hint is bytes:
        return b"" if value is None else blobs[value]
    if isinstance(hint, type) and is_dataclass(hint):
        return _object(hint, value, blobs)
    if isinstance(hint, type) and issubclass(hint, IntEnum | IntFlag):
        return hint(value)
    if not isinstance(value, hint if hint is not float else (int, float)) or isinstance(value, bool) != (hint is bool):
        raise TypeError(f"{value!r} is not {hint.__name__}")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return value
