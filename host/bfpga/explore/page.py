"""The front as one page that needs no network: picture and table."""

from __future__ import annotations

from typing import Any

import jinja2
from markupsafe import Markup

from bfpga.explore.results import Row, clock_words
from bfpga.explore.search import Exploration
from bfpga.explore.tables import HEADINGS, table_row


def page(found: Exploration, front: list[Row], picture: bytes) -> bytes:
    """HTML with the picture inside."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bfpga.explore", "."), undefined=jinja2.StrictUndefined, autoescape=True
    )
    values: dict[str, Any] = {
        "found": found,
        "picture": Markup(picture[picture.index(b"<svg") :].decode()),
        "headings": HEADINGS,
        "front": [(table_row(found, row.point, row.name), clock_words(row.point)) for row in front],
        "ready": [table_row(found, point, point.name) for point in found.ready],
    }
    return environment.get_template("page.html.j2").render(values).encode()
