"""Results as one line of text, and as HTML for a notebook: tables and bars, all text escaped, no script.

The pieces are plain strings; what belongs in them is decided by the classes that show themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from math import isfinite

from bfpga.formats.files import printable

#: Characters of a name in a line.
NAME = 32
#: Bars of a chart, and rows of a table before it scrolls.
MOST_BARS = 24
#: Pixels of a chart: height of a bar with its gap, names, bars, figures.
BAR, NAMES, BARS, FIGURES = 18, 190, 260, 110
_UNITS = ((1e9, " G"), (1e6, " M"), (1e3, " k"))
#: Readable on light and on dark pages.
COLOUR = "#4a7fb5"


# Lines


def clipped(name: str, most: int = NAME) -> str:
    """A name from a file of a user, short and without characters that would steer a terminal."""
    text = printable(name)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def count_text(number: float) -> str:
    """`283`, `28.3 k`, `2.83 M`: three digits of a number that is counted."""
    size, unit = next(((size, unit) for size, unit in _UNITS if number >= size), (1.0, ""))
    scaled = number / size
    return f"{scaled:.3g}{unit}" if scaled < 100 else f"{scaled:,.0f}{unit}"


def values_text(kind: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """`image (1, 28, 28)`, or `3 inputs` where there are several."""
    if len(shapes) != 1:
        return f"{len(shapes)} {kind}s"
    name, shape = next(iter(shapes.items()))
    return f"{clipped(name, 24)} {clipped(str(tuple(shape)))}"


def percent_text(share: float) -> str:
    """`97.60 %`."""
    return f"{100 * share:.2f} %"


# HTML


def text(value: object) -> str:
    """Text of a page: control characters shown, markup escaped."""
    return escape(printable(str(value)))


def page(title: str, *parts: str) -> str:
    """A title and what follows it; parts that are empty are left out."""
    inner = "".join(part for part in parts if part)
    return f'<div class="bfpga"><p><b>{text(title)}</b></p>{inner}</div>'


def lines(*texts: str) -> str:
    """A paragraph of lines."""
    return f"<p>{'<br>'.join(map(text, texts))}</p>" if texts else ""


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], numeric: Collection[str] = ()) -> str:
    """A table. numeric: headings of columns that are aligned to the right."""
    sides = ["right" if heading in numeric else "left" for heading in headings]
    head = "".join(_cell("th", side, value) for side, value in zip(sides, headings, strict=True))
    body = "".join(
        f"<tr>{''.join(_cell('td', side, value) for side, value in zip(sides, row, strict=True))}</tr>" for row in rows
    )
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow:auto;max-height:32em">{inner}</div>'


def _cell(tag: str, side: str, value: object) -> str:
    return f'<{tag} style="text-align:{side}">{text(value)}</{tag}>'


def bars(title: str, values: Sequence[tuple[str, float]], unit: str) -> str:
    """A chart of bars as SVG, in the order of ``values``; of many, the largest. Nothing where no value is above 0."""
    known = [(name, value) for name, value in values if isfinite(value) and value > 0]
    largest = sorted(known, key=lambda item: -item[1])[:MOST_BARS]
    shown = [item for item in known if item in largest][:MOST_BARS]
    if not shown:
        return ""
    most, height = largest[0][1], BAR * len(shown)
    rows = "".join(_bar(index, name, value, most, unit) for index, (name, value) in enumerate(shown))
    left_out = f" (the {len(shown)} largest of {len(known)})" if len(known) > len(shown) else ""
    return (
        f"<p>{text(title + left_out)}</p>"
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{NAMES + BARS + FIGURES}" height="{height}" '
        f'font-size="12" fill="currentColor" role="img">{rows}</svg>'
    )


def _bar(index: int, name: str, value: float, most: float, unit: str) -> str:
    top, width = index * BAR, max(1.0, BARS * value / most)
    base = top + BAR - 5
    return (
        f'<text x="{NAMES - 6}" y="{base}" text-anchor="end">{text(clipped(name, 28))}</text>'
        f'<rect x="{NAMES}" y="{top + 2}" width="{width:.1f}" height="{BAR - 4}" fill="{COLOUR}"/>'
        f'<text x="{NAMES + width + 5:.1f}" y="{base}">{text(f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}")} '
        f"{text(unit)}</text>"
    )
