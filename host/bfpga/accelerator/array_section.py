"""The section of an accelerator file about what computes: one array, of whichever kind."""

from __future__ import annotations

from bfpga.accelerator.schema import AcceleratorFile, ClusterArraySection, SkipArraySection, SystolicSection
from bfpga.accelerator.yaml_reader import Document, KeyPath

ArraySection = SystolicSection | SkipArraySection | ClusterArraySection
#: Kinds of engines that kernels had beside their array -> what skips such zeros in its place.
SUCCESSORS = {
    "zero_skip": "a skip_array with `source: weights`, of `form: windows` or `form: tile`",
    "sparse_cluster": "a sparse_cluster_array, or a skip_array with `source: activations`",
}


def section_path(*keys: str) -> KeyPath:
    """Key path of the section, or of a key in it."""
    return ("engines", 0, *keys)


def refuse_engines_beside(document: Document) -> None:
    """ConfigurationError for a file of kinds that there are no more; it names what is in their place."""
    sections = document.value.get("engines") if isinstance(document.value, dict) else None
    for place, section in enumerate(sections if isinstance(sections, list) else []):
        kind = section.get("kind") if isinstance(section, dict) else None
        if isinstance(kind, str) and kind in SUCCESSORS:
            text = f"is {kind}; kernels have no engine beside their array any more: instead of the array write"
            document.refuse(("engines", place, "kind"), f"{text} {SUCCESSORS[kind]}")
            document.raise_problems("an accelerator")


def array_section(document: Document, described: AcceleratorFile) -> ArraySection:
    """The section; ConfigurationError for keys that do not belong together."""
    (section,) = described.engines
    if not isinstance(section, SystolicSection):
        for key, text in section.refusals():
            document.refuse(section_path(key), text)
    document.raise_problems("an accelerator")
    return section
