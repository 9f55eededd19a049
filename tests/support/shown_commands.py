"""Commands that documents show: in fenced listings and in indented ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Pages whose `sh` fences a reader may type; those that need a board, vendor tools or minutes are `console`.
GUIDES = sorted(page for folder in ("tutorials", "how-to") for page in (ROOT / "docs" / folder).glob("*.md"))

_FENCE = re.compile(r"^ *```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^ *```", re.S | re.M)
_INDENTED = re.compile(r"^ {4}\s*(?:\$ )?(bfpga (?:[^\\\n]|\\\n)*)", re.M)


def commands(text: str, kinds: set[str] | None = None) -> list[list[str]]:
    """The arguments of each `bfpga` command in the listings of a document, in their order.

    kinds: of the fences that are read, indented listings left out; None: all listings.
    """
    found: list[tuple[int, str]] = []
    for fence in _FENCE.finditer(text):
        if kinds is None or fence["kind"] in kinds:
            lines = fence["text"].replace("\\\n", " ").splitlines()
            found += [(fence.start(), line.strip().removeprefix("$ ")) for line in lines]
    if kinds is None:
        between = _FENCE.sub(lambda fence: " " * len(fence[0]), text)
        found += [(listing.start(), listing[1].replace("\\\n", " ")) for listing in _INDENTED.finditer(between)]
    ordered = [line for _, line in sorted(found, key=lambda place: place[0])]
    return [shlex.split(line, comments=True)[1:] for line in ordered if line.startswith("bfpga ")]


def write_listings(text: str, directory: Path) -> None:
    """Files that a document shows: a YAML listing whose first line names it."""
    for fence in _FENCE.finditer(text):
        named = re.match(r"# (\w+\.yaml)\n", fence["text"])
        if fence["kind"] == "yaml" and named:
            (directory / named[1]).write_text(fence["text"])
