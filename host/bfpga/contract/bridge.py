"""What Python and the C simulation bridge hand each other, for both sides: their structures, field by field.

The C++ structures of the bridge are rendered from these tables, the ctypes structures are made from them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

#: Characters of a sentence of the kernel, with the zero that ends it.
TEXT_BYTES = 2048

_TYPES: dict[str, Any] = {
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "const uint8_t*": ctypes.c_void_p,
    "uint8_t*": ctypes.c_void_p,
    "uint32_t*": ctypes.c_void_p,
    "char": ctypes.c_char * TEXT_BYTES,
}


@dataclass(frozen=True)
class BridgeField:
    """A field of a structure. type: of C++; `char` is a sentence of ``TEXT_BYTES``."""

    type: str
    name: str
    comment: str = ""

    @property
    def declaration(self) -> str:
        """The field in C++."""
        return f"{self.type} {self.name}{f'[{TEXT_BYTES}]' if self.type == 'char' else ''};"


class StartState(IntEnum):
    """State of a start that is run in pieces."""

    FINISHED = 0
    NEEDS_INPUT = 1
    NEEDS_WEIGHTS = 2
    NEEDS_SPACE = 3
    FAILED = 4
    NEEDS_EXPONENT = 5
    NEEDS_READER = 6


#: The bytes of the streams that a start reads, and room for those that it writes.
_STREAMS = (
    BridgeField("const uint8_t*", "input"),
    BridgeField("uint64_t", "input_bytes"),
    BridgeField("const uint8_t*", "weights"),
    BridgeField("uint64_t", "weight_bytes"),
    BridgeField("uint8_t*", "output"),
    BridgeField("uint64_t", "output_capacity"),
)
#: A start, and what it gave.
RUN = (
    BridgeField("int32_t", "descriptors"),
    BridgeField("int32_t", "clear_policies"),
    *_STREAMS,
    BridgeField("uint32_t*", "operation_cycles", "one entry for each descriptor"),
    BridgeField("uint64_t", "output_bytes", "results from here on"),
    BridgeField("uint64_t", "packets", "beats with TLAST"),
    BridgeField("uint64_t", "open_beats", "beats after the last TLAST"),
    BridgeField("uint64_t", "input_left"),
    BridgeField("uint64_t", "weights_left"),
    BridgeField("uint32_t", "cycles"),
    BridgeField("uint32_t", "overflows"),
    BridgeField("uint32_t", "underflows"),
    BridgeField("int32_t", "status"),
    BridgeField("uint32_t", "input_checksum"),
    BridgeField("uint32_t", "weight_checksum"),
    BridgeField("uint32_t", "output_checksum"),
    BridgeField("char", "error"),
)

#: A piece of a start in parallel with other hardware, and its outcome.
PIECE = (
    *_STREAMS,
    BridgeField("uint64_t", "input_used", "results from here on"),
    BridgeField("uint64_t", "weights_used"),
    BridgeField("uint64_t", "output_bytes"),
    BridgeField("int32_t", "packet_ended", "the last beat of the output has TLAST"),
    BridgeField("int32_t", "state", "bfpga::StartState"),
    BridgeField("char", "text", "what the kernel waits for, or its error"),
)


#: An operation of a start that was run in pieces: clocks of its schedule, and the beats that it moved.
OPERATION = (
    BridgeField("uint32_t", "cycles"),
    BridgeField("uint32_t", "input_beats"),
    BridgeField("uint32_t", "weight_beats"),
    BridgeField("uint32_t", "output_beats"),
)


def _ctypes_fields(fields: tuple[BridgeField, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, _TYPES[field.type]) for field in fields)


class RunRecord(ctypes.Structure):
    """``RUN`` as Python holds it."""

    _fields_ = _ctypes_fields(RUN)


class OperationRecord(ctypes.Structure):
    """``OPERATION`` as Python holds it."""

    _fields_ = _ctypes_fields(OPERATION)


class PieceRecord(ctypes.Structure):
    """``PIECE`` as Python holds it."""

    _fields_ = _ctypes_fields(PIECE)
