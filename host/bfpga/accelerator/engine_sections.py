"""The engines of an accelerator file: which section describes which, and the numbers of those beside the array."""

from __future__ import annotations

from dataclasses import dataclass, field

from bfpga.accelerator.schema import AcceleratorFile, ClusterSection, SystolicSection, ZeroSkipSection
from bfpga.accelerator.yaml_reader import Document, KeyPath
from bfpga.contract.engine_numbers import ClusterBuild, EngineName, ZeroSkipBuild

#: What every accelerator needs the array for, beside its products.
ARRAY_WORK = "it adds, pools and holds the output stage; beside another engine it may be small"


@dataclass(frozen=True)
class EngineSections:
    """One section a kind, in any order of the file; ``places``: where each stands in the list."""

    array: SystolicSection
    zero_skip: ZeroSkipSection | None = None
    sparse_cluster: ClusterSection | None = None
    places: dict[EngineName, int] = field(default_factory=dict)

    def path(self, engine: EngineName, *keys: str) -> KeyPath:
        """Key path of an engine's section, or of a key in it."""
        return ("engines", self.places[engine], *keys)


def engine_sections(document: Document, described: AcceleratorFile) -> EngineSections:
    """The sections by kind; ConfigurationError unless there is exactly one array and at most one of each other kind."""
    places: dict[EngineName, int] = {}
    for place, section in enumerate(described.engines):
        if section.kind in places:
            text = f"is a second {section.kind}; the first is engines[{places[section.kind]}], one is possible"
            document.refuse(("engines", place, "kind"), text)
        places.setdefault(section.kind, place)
    by_kind = {section.kind: section for section in reversed(described.engines)}
    array = by_kind.get("systolic_array")
    if array is None:
        document.refuse(("engines",), f"hold no systolic_array; every accelerator needs one: {ARRAY_WORK}")
    zero_skip, cluster = by_kind.get("zero_skip"), by_kind.get("sparse_cluster")
    assert not isinstance(array, (ZeroSkipSection, ClusterSection))
    assert zero_skip is None or isinstance(zero_skip, ZeroSkipSection)
    assert cluster is None or isinstance(cluster, ClusterSection)
    if cluster is not None and cluster.variant != "E":
        text = f"is {cluster.variant}; must be E: variants A to D are models and C++ units, no kernel has them"
        document.refuse(("engines", places["sparse_cluster"], "variant"), text)
    document.raise_problems("an accelerator")
    assert array is not None
    return EngineSections(array, zero_skip, cluster, places)


def zero_skip_build(section: ZeroSkipSection) -> ZeroSkipBuild:
    """The numbers of a zero-skip engine."""
    return ZeroSkipBuild(
        tile_height=section.tile[0],
        tile_width=section.tile[1],
        lanes=section.lanes,
        rows_parallel=section.rows_parallel,
        kernels_in_flight=section.kernels_in_flight,
        kernel_height=section.kernel[0],
        kernel_width=section.kernel[1],
        stride=section.stride,
        multiplier=section.multiplier,
        load_pixels=section.load_pixels,
    )


def cluster_build(section: ClusterSection) -> ClusterBuild:
    """The numbers of a sparse cluster."""
    return ClusterBuild(
        grid_rows=section.grid[0],
        grid_columns=section.grid[1],
        kernel=section.kernel,
        kernels_in_flight=section.kernels_in_flight,
        accumulator_words=section.accumulator_words,
        memory_words=section.memory_words,
        multiplier=section.multiplier,
        load_pixels=section.load_pixels,
    )
