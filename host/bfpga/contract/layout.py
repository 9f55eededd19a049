"""The layout: what host and kernel must place and number alike, as one mapping of JSON's types and its digest.

A bitstream, an overlay, a program and a compiled kernel are of the layout they were made with. One of another layout
would run and give wrong numbers without a message, so its layout is compared wherever it is opened.
Only the standard library and numpy are imported: a board loads this module too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum, IntEnum, IntFlag
from itertools import islice
from typing import Any

from bfpga.contract.checksum import FOLD_BITS, ROTATION
from bfpga.contract.descriptor import (
    ADD_WORDS,
    DESCRIPTOR_WORDS,
    FIELDS,
    PART_OPERATIONS,
    ROW_WORDS,
    SHARED_WORDS,
    Flag,
    Function,
    LeadRule,
    Operation,
    Policy,
)
from bfpga.contract.registers import COUNTER_REGISTERS, REGISTERS, Register
from bfpga.contract.streams import ACTIVATION_ORDER, BEATS, WEIGHT_ORDER, BeatField
from bfpga.formats.block_format import Status

#: Version of what the mapping does not hold: what a field means, how numbers are packed into words. It rises with every
#: such change; tests/contract/test_layout.py finds changes of packed bytes.
VERSION = 5
#: Numbers of descriptor fields and bits of fields and registers, rendered into C++ under the same names.
ENUMERATIONS: tuple[type[IntEnum], ...] = (Operation, Function, Policy, LeadRule)
BITS: tuple[type[IntFlag], ...] = (Flag, Status)

#: Differences that a message lists.
LISTED = 6
#: Levels of the mapping; what is deeper, in a file of another kind, is compared as a whole.
_DEPTH = 4

Path = tuple[str | int, ...]


def layout(functions: Collection[str] = (), parts: Collection[Operation] = (), adds: bool = False) -> dict[str, Any]:
    """The layout of this package with the usual functions, and with those named as in accelerator files.

    A function that is new changes nothing for a kernel without it, nor do operations of parts that it lacks. parts:
    those that it has; adds: whether its products add tensors.
    """
    shared = {**SHARED_WORDS, **(ROW_WORDS if Operation.ROWS in parts else {}), **(ADD_WORDS if adds else {})}
    kinds: tuple[type[Enum], ...] = (*ENUMERATIONS, *BITS)
    return {
        "version": VERSION,
        "descriptor": {"words": DESCRIPTOR_WORDS, "fields": list(FIELDS), "shared": dict(shared)},
        "enumerations": {
            kind.__name__: {
                name: member.value for name, member in kind.__members__.items() if _counts(member, functions, parts)
            }
            for kind in kinds
        },
        "registers": _registers(REGISTERS),
        "clock_counter": _registers(COUNTER_REGISTERS),
        "beats": {beat: {name: _shown_bits(item) for name, item in parts.items()} for beat, parts in BEATS.items()},
        "orders": {"activations": " ".join(ACTIVATION_ORDER), "weights": " ".join(WEIGHT_ORDER)},
        "checksum": {"fold_bits": FOLD_BITS, "rotation": ROTATION},
    }


def _registers(registers: Sequence[Register]) -> dict[str, dict[str, str]]:
    return {item.name: {"offset": f"{item.offset:#04x}", "access": item.access} for item in registers}


def _counts(member: Enum, functions: Collection[str], parts: Collection[Operation]) -> bool:
    if isinstance(member, Operation) and member in PART_OPERATIONS:
        return member in parts
    return not isinstance(member, Function) or member.row.usual or member.key in functions


def _shown_bits(item: BeatField) -> str:
    return f"bits {item.first}..{item.first + item.bits - 1}" if item.bits > 1 else f"bit {item.first}"


def layout_digest(functions: Collection[str] = (), parts: Collection[Operation] = (), adds: bool = False) -> str:
    """SHA-256 of the canonical JSON of ``layout``."""
    text = json.dumps(layout(functions, parts, adds), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def layout_mismatch(there: object) -> str | None:
    """What differs between this package's layout and the one that something else names; None if nothing does.

    The text is for the end of a sentence: it begins with the first difference and says `here` for this package.
    """
    if not isinstance(there, Mapping):
        return "no layout is named there"
    here = layout(_functions_of(there), _parts_of(there), _adds(there))
    if there == here:
        return None
    differences = layout_differences(here, there)
    text = "; ".join(islice(differences, LISTED))
    more = sum(1 for _ in differences)
    return f"{text}; and {more} more differences" if more else text


def _parts_of(there: Mapping[str, Any]) -> Collection[Operation]:
    """Operations of another layout that only kernels with some part have."""
    enumerations = there.get("enumerations")
    named = enumerations.get("Operation") if isinstance(enumerations, Mapping) else None
    return [item for item in PART_OPERATIONS if isinstance(named, Mapping) and item.name in named]


def _adds(there: Mapping[str, Any]) -> bool:
    """Whether another layout is of kernels whose products add tensors."""
    descriptor = there.get("descriptor")
    shared = descriptor.get("shared") if isinstance(descriptor, Mapping) else None
    return isinstance(shared, Mapping) and not ADD_WORDS.keys().isdisjoint(shared)


def _functions_of(there: Mapping[str, Any]) -> Collection[str]:
    """Names of the functions of another layout, as far as it has the form of one."""
    enumerations = there.get("enumerations")
    named = enumerations.get("Function") if isinstance(enumerations, Mapping) else None
    return [str(name).lower() for name in named] if isinstance(named, Mapping) else ()


def layout_differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each place where two layouts differ: `descriptor word 12 is ... here and ... there`."""
    first, second = dict(_places(here)), dict(_places(there))
    for path in dict.fromkeys((*first, *second)):
        if first.get(path) != second.get(path):
            yield f"{_plain(_named(path))} is {first.get(path, 'missing')} here and {second.get(path, 'missing')} there"


def _places(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every place of a layout and how its value is written."""
    if len(path) < _DEPTH and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif len(path) < _DEPTH and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))
    else:
        yield path, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"`{_plain(value)}`"
    return _plain(repr(value)) if isinstance(value, (int, float)) else "something else"


def _plain(text: str) -> str:
    """Text of a file that anybody may have written, fit for a message."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:80])


def _named(path: Path) -> str:
    """A place of the layout in words."""
    match path:
        case ("descriptor", "fields", int() as word):
            return f"descriptor word {word}"
        case ("enumerations", kind, member):
            return f"`{kind}.{member}`"
        case ("registers", name, what):
            return f"the {what} of register `{name}`"
        case ("clock_counter", name, what):
            return f"the {what} of register `{name}` of the clock counter"
        case ("beats", beat, name):
            return f"`{name}` of the beat `{beat}`"
        case ("orders", what):
            return f"the order of {what}"
        case _:
            return f"`{'.'.join(map(str, path))}` of the layout"
