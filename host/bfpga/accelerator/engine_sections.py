"""The engines of an accelerator file: which section describes which, and the numbers of those beside the array."""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.accelerator.schema import (
    AcceleratorFile,
    BesideSection,
    ClusterArraySection,
    SkipArraySection,
    SystolicSection,
)
from bfpga.accelerator.yaml_reader import Document, KeyPath
from bfpga.contract.engine_numbers import ARRAY, EngineName, EngineNumbers
from bfpga.engines.registry import BESIDE

#: The kinds that stand in the place of the systolic array.
INSTEAD = ("skip_array", "sparse_cluster_array")
#: A section of what does the work of the array.
ArraySection = SystolicSection | SkipArraySection | ClusterArraySection
#: What every accelerator needs the array for, beside its products.
ARRAY_WORK = "it adds, pools and holds the output stage; beside another engine it may be small"


@dataclass(frozen=True)
class EngineSections:
    """One section a kind, in any order of the file; ``places``: where each stands in the list."""

    array: ArraySection
    beside: dict[EngineName, BesideSection]
    places: dict[EngineName, int]

    def path(self, engine: EngineName, *keys: str) -> KeyPath:
        """Key path of an engine's section, or of a key in it."""
        return ("engines", self.places[engine], *keys)

    def numbers(self) -> tuple[EngineNumbers, ...]:
        """The numbers of the engines beside the array, in the order of ``engines.registry``."""
        return tuple(self.beside[engine.name].numbers() for engine in BESIDE if engine.name in self.beside)


def engine_sections(document: Document, described: AcceleratorFile) -> EngineSections:
    """The sections by kind; ConfigurationError unless there is exactly one array and at most one of each other kind."""
    places: dict[EngineName, int] = {}
    for place, section in enumerate(described.engines):
        if section.kind in places:
            text = f"is a second {section.kind}; the first is engines[{places[section.kind]}], one is possible"
            document.refuse(("engines", place, "kind"), text)
        places.setdefault(section.kind, place)
    for instead in INSTEAD:
        if instead not in places:
            continue
        if len(places) > 1:
            others = " and ".join(kind for kind in places if kind != instead)
            text = f"is {instead}, which is alone in its kernel; beside it is {others}"
            document.refuse(("engines", places[instead], "kind"), text)
            document.raise_problems("an accelerator")
        # It does the work of the array and has its name everywhere else.
        places[ARRAY] = places.pop(instead)
    array: ArraySection | None = None
    beside: dict[EngineName, BesideSection] = {}
    for section in reversed(described.engines):
        if isinstance(section, ArraySection):
            array = section
        else:
            beside[section.kind] = section
    if array is None:
        document.refuse(("engines",), f"hold no {ARRAY}; every accelerator needs one: {ARRAY_WORK}")
    for kind, other in beside.items():
        for key, text in other.refusals():
            document.refuse(("engines", places[kind], key), text)
    if isinstance(array, SkipArraySection | ClusterArraySection):
        for key, text in array.refusals():
            document.refuse(("engines", places[ARRAY], key), text)
    document.raise_problems("an accelerator")
    assert array is not None
    return EngineSections(array, beside, places)
