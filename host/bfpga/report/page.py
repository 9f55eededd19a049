"""A page of sections with figures and tables; and how it becomes one HTML file that needs no other.

Charts are Vega-Lite, drawn by the browser from a library inside the file (BSD licence, from the package vl-convert).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from bfpga.errors import ToolError
from bfpga.formats.cache import cache_directory, make_private
from bfpga.formats.files import read_file, replace_file
from bfpga.formats.version import VERSION
from bfpga.report.theme import config

Spec = dict[str, Any]

#: What a figure's or a table's numbers are.
COUNTED, SCHEDULED, ESTIMATED, MEASURED = "work, counted", "schedule, modelled", "estimated", "measured"
#: Bytes of the library of charts; it has about one million.
_LARGEST_LIBRARY = 1 << 24


@dataclass(frozen=True)
class Table:
    """Cells as text; numeric: columns that are aligned to the right."""

    title: str
    basis: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    caption: str = ""
    #: Whether it begins closed: for what a figure shows already.
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """A chart. basis: what its numbers are, such as ``ESTIMATED``; wide: over all columns; tables: below it."""

    name: str
    title: str
    basis: str
    spec: Spec
    caption: str = ""
    wide: bool = True
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Fact:
    """One number that a reader looks for first. tone: `good`, `warn` or nothing."""

    label: str
    value: str
    note: str = ""
    basis: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page. lead: what it shows, in sentences; remarks: what to look at."""

    name: str
    title: str
    lead: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    subtitle: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    footer: Sequence[str] = field(default_factory=tuple)


def check_charts(extra: str = "report") -> None:
    """ToolError unless the package that has the library of charts is installed; it names the command's ``extra``."""
    try:
        import vl_convert  # noqa: F401
    except ImportError:
        raise ToolError(f"pages need the package vl-convert-python; `pip install 'bfpga[{extra}]'` brings it") from None


def write_page(path: Path, page: Page) -> int:
    """Write a page, completely or not at all; returns its bytes."""
    content = render(page).encode()
    replace_file(path, content)
    return len(content)


def svg(spec: Spec) -> str:
    """A chart as a picture; ToolError without the library of charts."""
    check_charts()
    import vl_convert

    return str(vl_convert.vegalite_to_svg(json.loads(json.dumps(spec, default=_plain))))


def render(page: Page) -> str:
    """The page as HTML; ToolError without the library of charts."""
    check_charts()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(_resource(""))),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    specs = {figure.name: figure.spec for section in page.sections for figure in section.figures}
    return environment.get_template("page.html.j2").render(
        page=page,
        style=Markup(_text("page.css")),
        script=Markup(_text("page.js")),
        library=Markup(chart_library()),
        charts=Markup(embedded({"specs": specs, "wide": config(compact=False), "compact": config(compact=True)})),
        version=VERSION,
    )


def embedded(value: Any) -> str:
    """JSON that may be put in a script element of HTML: no sequence of it ends the element or opens a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's."""
    return value.item()


def chart_library() -> str:
    """JavaScript of Vega, Vega-Lite and vega-embed; bundled once for a version and kept, with its hash.

    CacheError if others own or can write the directory where it is kept: it runs in the browser of who reads a report.
    """
    import vl_convert

    package = importlib.metadata.version("vl-convert-python")
    version = f"{package}-{vl_convert.get_vega_version()}-{vl_convert.get_vegalite_versions()[-1]}"
    kept = cache_directory("report") / f"{hashlib.sha256(version.encode()).hexdigest()[:16]}.js"
    try:
        digest, _, bundle = read_file(kept, _LARGEST_LIBRARY).partition(b"\n")
        if digest == _digest_line(bundle):
            return bundle.decode()
    except OSError:
        pass
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script").encode()
    try:
        make_private(kept.parent)
        replace_file(kept, _digest_line(bundle) + b"\n" + bundle)
    except OSError:
        pass  # the next report bundles it again
    return bundle.decode()


def _digest_line(bundle: bytes) -> bytes:
    return b"// SHA-256 of what follows: " + hashlib.sha256(bundle).hexdigest().encode()


def _resource(name: str) -> Path:
    return Path(str(files("bfpga.report"))) / "templates" / name


def _text(name: str) -> str:
    return _resource(name).read_text()
