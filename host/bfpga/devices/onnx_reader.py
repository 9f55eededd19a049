"""Just enough of the ONNX file format to run small models where the `onnx` package is missing (boards).

The format is Protocol Buffers: fields of (number, wire type, value). Unknown fields are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.errors import ProgramError

#: ONNX element types of host operators -> numpy types.
ELEMENT_TYPES: dict[int, str] = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 12: "<u4",
    13: "<u8",
}  # fmt: skip
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass
class ReadNode:
    """One operator: attribute values are numbers, bytes, arrays or lists of these."""

    type: str = ""
    name: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class ReadGraph:
    """Operators in order, constants, names of inputs and outputs."""

    nodes: list[ReadNode] = field(default_factory=list)
    constants: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def read_model(data: bytes) -> ReadGraph:
    """The graph of a serialized ONNX model; ProgramError if the bytes are no such model."""
    try:
        graphs = [value for number, value in _fields(memoryview(data)) if number == 7]
        if len(graphs) != 1:
            raise ValueError("it holds no graph")
        return _graph(graphs[0])
    except (ValueError, IndexError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise ProgramError(f"the model of a host operator cannot be read: {error}") from error


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: int for varints, memoryview for everything else."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == BYTES:
            size, position = _varint(data, position)
        elif wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire} is unknown")
        if position + size > len(data):
            raise ValueError("it is cut off")
        yield number, data[position : position + size]
        position += size


def _text(value: memoryview) -> str:
    return bytes(value).decode()


def _integers(value: Any) -> list[int]:
    """A repeated integer field: one number, or packed ones."""
    if isinstance(value, int):
        return [_signed(value)]
    result, position = [], 0
    while position < len(value):
        number, position = _varint(value, position)
        result.append(_signed(number))
    return result


def _floats(value: memoryview) -> list[float]:
    return [float(number) for number in np.frombuffer(value, "<f4")]


def _graph(data: memoryview) -> ReadGraph:
    graph = ReadGraph()
    for number, value in _fields(data):
        if number == 1:
            graph.nodes.append(_node(value))
        elif number == 5:
            name, array = _tensor(value)
            graph.constants[name] = array
        elif number in (11, 12):
            names = [_text(item) for key, item in _fields(value) if key == 1]
            (graph.inputs if number == 11 else graph.outputs).extend(names)
    return graph


def _node(data: memoryview) -> ReadNode:
    node = ReadNode()
    for number, value in _fields(data):
        if number == 1:
            node.inputs.append(_text(value))
        elif number == 2:
            node.outputs.append(_text(value))
        elif number == 3:
            node.name = _text(value)
        elif number == 4:
            node.type = _text(value)
        elif number == 5:
            name, content = _attribute(value)
            node.attributes[name] = content
    return node


def _attribute(data: memoryview) -> tuple[str, Any]:
    name = ""
    content: Any = None
    integers: list[int] = []
    numbers: list[float] = []
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number == 2:
            content = float(np.frombuffer(value, "<f4")[0])
        elif number == 3:
            content = _signed(value)
        elif number == 4:
            content = bytes(value)
        elif number == 5:
            content = _tensor(value)[1]
        elif number == 7:
            numbers += _floats(value)
        elif number == 8:
            integers += _integers(value)
    return name, integers or numbers or content


def _tensor(data: memoryview) -> tuple[str, npt.NDArray[Any]]:
    name, kind = "", 1
    shape: list[int] = []
    raw: memoryview | None = None
    listed: list[Any] = []
    for number, value in _fields(data):
        if number == 1:
            shape += _integers(value)
        elif number == 2:
            kind = value
        elif number == 4:
            listed += _floats(value)
        elif number in (5, 7):
            listed += _integers(value)
        elif number == 8:
            name = _text(value)
        elif number == 9:
            raw = value
    if kind not in ELEMENT_TYPES:
        raise ValueError(f"tensor {name!r} has element type {kind}, which is not supported")
    dtype = np.dtype(ELEMENT_TYPES[kind])
    flat = np.frombuffer(raw, dtype) if raw is not None else np.array(listed, dtype)
    return name, flat.reshape(shape)
