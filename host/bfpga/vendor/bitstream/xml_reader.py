"""Reads the vendor's XML files without regard to their name spaces."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from bfpga.vendor.bitstream.failure import BuildError, Kind


def read_xml(path: Path, kind: Kind) -> ElementTree.Element:
    """The root of a file, tags and attributes without name spaces; BuildError if it is missing or no XML."""
    try:
        root = ElementTree.fromstring(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BuildError(kind, f"{path}: {error.strerror}", path) from error
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise BuildError(kind, f"{path} is no XML: {error}", path) from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    return root


def text(element: ElementTree.Element | None, path: str) -> str:
    """Text of a descendant, without blanks; empty if there is none."""
    return "" if element is None else (element.findtext(path) or "").strip()
