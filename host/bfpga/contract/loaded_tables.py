"""Functions by tables that are loaded with the program: one bitstream computes any of them (BFP R11).

A kernel with ``function_tables`` has memory for so many tables in its output stage, and what their rows in
``contract/functions.py`` say comes with each operation: the numbers of such a kernel, and so its digest, are the same
whatever rows there are. Operation TABLE brings words of a table in fields that `post` receives: ``FIELDS_OF_WORDS``.
A board loads this module too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.functions import LARGEST_LIMIT, TABLE_STEPS, Function, FunctionRow, Table
from bfpga.contract.process_command import COMMANDS
from bfpga.contract.streams import BeatField

#: What a descriptor calls the function of a loaded table: no function has this code.
LOADED_TABLE: Final = 31
#: Most tables that a kernel holds.
MOST_TABLES: Final = 8
#: Columns that take turns at a unit of the output stage; the bias that stands alone in a row has a unit of its own.
COLUMNS_OF_A_UNIT: Final = 2
#: Bits of the distance from a point to the next one.
SLOPE_BITS: Final = 12
#: Bits of function_argument of an operation with a loaded table. raised: places that an argument moves left, so that
#: every table ends at the same number; half, odd: it covers [0, limit], and -x has the negative value of x; below,
#: above: it holds what the function is below or above max(x, 0); table_unit, finer_unit: the unit of the results.
TABLE_USE: Final = {
    "slot": BeatField(0, 3), "raised": BeatField(3, 2), "half": BeatField(5, 1), "odd": BeatField(6, 1),
    "below": BeatField(7, 1), "above": BeatField(8, 1), "table_unit": BeatField(9, 1), "finer_unit": BeatField(10, 1),
}  # fmt: skip
_POST: Final = next(item.fields for item in COMMANDS if item.process == "post")
#: The field with the address of the first word of a TABLE, and those with its words.
FIELD_OF_ADDRESS: Final = "input_slot"
FIELDS_OF_WORDS: Final = _POST[_POST.index("second_slot") : _POST.index("wide_word") + 1]
#: The place of the address in the command of `post`; the words follow it.
PLACE_OF_ADDRESS: Final = _POST.index(FIELD_OF_ADDRESS)


def table_use(row: FunctionRow, slot: int) -> int:
    """What function_argument of an operation says of the loaded table of a function."""
    table = row.table
    assert table is not None
    values = {
        "slot": slot, "raised": _raised(table), "half": table.symmetry != "none", "odd": table.symmetry == "odd",
        "below": table.holds == "below_relu", "above": table.holds == "above_relu",
        "table_unit": row.unit == "table", "finer_unit": row.unit == "finer",
    }  # fmt: skip
    return sum(int(value) << TABLE_USE[name].first for name, value in values.items())


def _raised(table: Table) -> int:
    """Places from a table's steps to those of the widest one that has its symmetry."""
    widest = LARGEST_LIMIT // 2 if table.symmetry == "none" else LARGEST_LIMIT
    return (widest // table.limit).bit_length() - 1


def table_words(table: Table) -> list[int]:
    """A step each: its first point in the lower half of a word, the distance to the next one in the upper half."""
    least = -1 << (SLOPE_BITS - 1)
    assert all(least <= following - point < -least for point, following in pairwise(table.points)), "it is too steep"
    steps = ((point & 0xFFFF) | (following - point) << 16 for point, following in pairwise(table.points))
    return [word - (1 << 32) if word >= 1 << 31 else word for word in steps]


def table_descriptors(function: Function, slot: int) -> Iterator[Descriptor]:
    """The TABLEs that bring a function's table into a slot. The last one brings words again if not so many are left."""
    table = function.row.table
    assert table is not None
    words, count = table_words(table), len(FIELDS_OF_WORDS)
    for first in range(0, TABLE_STEPS, count):
        start = min(first, TABLE_STEPS - count)
        fields = dict(zip(FIELDS_OF_WORDS, words[start : start + count], strict=True))
        yield Descriptor(operation=int(Operation.TABLE), **{FIELD_OF_ADDRESS: slot * TABLE_STEPS + start}, **fields)
