"""The section of an accelerator file about what computes: one array, of whichever kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bfpga.accelerator.schema import AcceleratorFile, ClusterArraySection, SkipArraySection, SystolicSection
from bfpga.accelerator.yaml_reader import Document, KeyPath
from bfpga.contract.configuration import ARRAY

ArraySection = SystolicSection | SkipArraySection | ClusterArraySection
#: Kinds of engines that kernels had in addition to their array -> what skips such zeros in its place.
SUCCESSORS = {
    "zero_skip": "a skip_array with `source: weights`, of `form: windows` or `form: tile`",
    "sparse_cluster": "a sparse_cluster_array, or a skip_array with `source: activations`",
}
#: Keys that an array had before, with what is true of every array now.
FORMER_KEYS = {
    "kernel": "every kernel is one of processes now",
    "skew": "weights go from block to block of columns by `hop_columns` now",
}


def section_path(*keys: str) -> KeyPath:
    """Key path of the section, or of a key in it."""
    return ("engines", 0, *keys)


def refuse_other_engines(document: Document) -> None:
    """ConfigurationError for a file of kinds that there are no more; it names what is in their place."""
    for place, section in _given_sections(document):
        kind = section.get("kind")
        if isinstance(kind, str) and kind in SUCCESSORS:
            text = f"is {kind}; kernels have no engine in addition to their array any more: instead of the array write"
            document.refuse(("engines", place, "kind"), f"{text} {SUCCESSORS[kind]}")
            document.raise_problems("an accelerator")


def refuse_former_keys(document: Document) -> None:
    """Files for earlier versions may have keys of an array about which there is nothing to choose any more."""
    for place, section in _given_sections(document):
        if section.get("kind") == ARRAY:
            for key in FORMER_KEYS.keys() & section.keys():
                text = f"unknown key; {FORMER_KEYS[key]} (docs/kernel.md): leave the key out"
                document.refuse(("engines", place, key), text)


def _given_sections(document: Document) -> Iterator[tuple[int, dict[Any, Any]]]:
    """The sections of a file that are not validated yet, with their places."""
    sections = document.value.get("engines") if isinstance(document.value, dict) else None
    for place, section in enumerate(sections if isinstance(sections, list) else ()):
        if isinstance(section, dict):
            yield place, section


def array_section(document: Document, described: AcceleratorFile) -> ArraySection:
    """The section; ConfigurationError for keys that do not belong together."""
    (section,) = described.engines
    if not isinstance(section, SystolicSection):
        for key, text in section.refusals():
            document.refuse(section_path(key), text)
    document.raise_problems("an accelerator")
    return section
