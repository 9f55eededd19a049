"""Tables as text within a width: names stay whole, columns that matter least fall away.

The one layout for all tables of the command line, a program's listing included.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bfpga.formats.files import printable

#: Cells that are aligned to the right: numbers, shares, and the mark for none.
NUMERIC = re.compile(r"-?|-?[\d.,]+(e[-+]?\d+)?( %| dB)?")
#: Text up to this length stays on one line; longer text may go on in the next one, between words.
SHORT = 28
#: Characters of a name that is shortened in its middle, at least.
FEWEST = 9
#: Spaces between columns; the first one has one space before it.
GAP = 3


@dataclass(frozen=True)
class _Column:
    """A column: its heading and its cells as text."""

    heading: str
    cells: tuple[str, ...]

    @cached_property
    def numeric(self) -> bool:
        return all(NUMERIC.fullmatch(cell) for cell in self.cells)

    @cached_property
    def natural(self) -> int:
        """Width with every cell on one line."""
        return max(map(text_width, (self.heading, *self.cells)))

    @cached_property
    def least(self) -> int:
        """Width at which no word, number or short text is broken."""
        short = [cell for cell in self.cells if self.numeric or text_width(cell) <= SHORT]
        words = [word for text in (self.heading, *self.cells) for word in text.split()]
        return max(map(text_width, ["", *short, *words]))


def table_lines(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    width: int | None = None,
    dropped: Sequence[str] | None = None,
    keep_all: bool = False,
) -> list[str]:
    """Lines of a table; columns of numbers are aligned to the right.

    width: characters of a line; None: as many as there are. dropped: headings of the columns that may fall away where
    it is too narrow, in this order; None: from the right, all but two. A last line names them. keep_all: none falls
    away, lines get longer instead. Where what must stay is still too wide, names of the first column lose their middle.
    """
    columns = [
        _Column(heading, tuple(cell_text(row[index]) for row in rows)) for index, heading in enumerate(headings)
    ]
    shown, left_out = list(columns), []
    limit = max(column.natural for column in columns) + 1 if width is None else width
    if width is None or keep_all:
        full = "natural" if width is None else "least"
        limit = max(limit, _total([getattr(column, full) for column in columns]))
    falling = _falling(columns, dropped)
    while falling and _least(shown) > limit:
        left_out.append(falling.pop(0))
        shown.remove(left_out[-1])
    for column in reversed(left_out):  # What fell first may be narrow enough to stay.
        again = [one for one in columns if one in shown or one is column]
        if _least(again) <= limit:
            shown = again
    left_out = [column for column in columns if column not in shown]
    if _least(shown) > limit:
        shown[0] = _shortened(shown[0], shown[0].least - (_least(shown) - limit))
    widths = _widths(shown, limit)
    lines = [*printable(title).split("\n"), ""] if title else []
    lines += _line([column.heading for column in shown], shown, widths)
    lines.append(" " + "─" * (_total(widths) - 1))
    for row in range(len(rows)):
        lines += _line([column.cells[row] for column in shown], shown, widths)
    if left_out:
        names = ", ".join(column.heading for column in left_out)
        lines += textwrap.wrap(f"left out at {limit} characters a line: {names}", limit, break_on_hyphens=False)
    return lines


def cell_text(value: object) -> str:
    """A table cell: thousands separated, floats with four digits that count."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value)
    return printable(str(value))


def text_width(text: str) -> int:
    """Places that a text takes on a terminal: two for wide characters, none for marks on the one before."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def shorten(name: str, width: int) -> str:
    """A name without its middle, `block_1/…/Conv`; whole if it fits."""
    if text_width(name) <= width:
        return name
    head, tail = name, ""
    while text_width(head) > (width - 1) // 2:
        head = head[:-1]
    for char in reversed(name):
        if text_width(head) + 1 + text_width(char + tail) > width:
            break
        tail = char + tail
    return f"{head}…{tail}"


def _falling(columns: list[_Column], dropped: Sequence[str] | None) -> list[_Column]:
    """Columns in the order in which they fall away; a table may lack some that are named."""
    if dropped is None:
        return columns[:1:-1]
    return [column for heading in dropped for column in columns[1:] if column.heading == heading]


def _least(columns: Sequence[_Column]) -> int:
    """Characters of a line of these columns at their least widths."""
    return _total([column.least for column in columns])


def _shortened(column: _Column, width: int) -> _Column:
    width = max(width, FEWEST)
    cells = (" ".join(shorten(word, width) for word in cell.split(" ")) for cell in column.cells)
    return _Column(shorten(column.heading, width), tuple(cells))


def _total(widths: Sequence[int]) -> int:
    return 1 + sum(widths) + GAP * (len(widths) - 1)


def _widths(columns: Sequence[_Column], limit: int) -> list[int]:
    """Widths of columns: the least ones, and what is left over for those that lack least, as far as it is of use."""
    widths = [column.least for column in columns]
    spare = limit - _total(widths)
    for index in sorted(range(len(columns)), key=lambda index: columns[index].natural - widths[index]):
        more = max(0, min(columns[index].natural - widths[index], spare))
        widths[index] += more
        spare -= more
    texts = [[line for cell in (one.heading, *one.cells) for line in _wrapped(cell, width)]
             for one, width in zip(columns, widths, strict=True)]  # fmt: skip
    return [max(map(text_width, lines)) for lines in texts]


def _line(cells: Sequence[str], columns: Sequence[_Column], widths: Sequence[int]) -> list[str]:
    """Lines of a row: as many as its longest cell takes."""
    parts = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for line in range(max(map(len, parts))):
        texts = [part[line] if line < len(part) else "" for part in parts]
        padded = [
            _pad(text, width, column.numeric) for text, width, column in zip(texts, widths, columns, strict=True)
        ]
        lines.append((" " + (" " * GAP).join(padded)).rstrip())
    return lines


def _wrapped(cell: str, width: int) -> list[str]:
    if text_width(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space
