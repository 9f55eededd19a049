"""The behaviour of a sparse cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode
from bfpga.contract.streams import CLUSTER_WEIGHT_ORDER
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel.placement import Placement
from bfpga.engines.kernel.streams import ordered_words, pack_weight_words
from bfpga.engines.sparse_cluster.constraints import cluster_findings
from bfpga.engines.sparse_cluster.map_engine import MapEngine, placed_parts
from bfpga.engines.sparse_cluster.unit_clocks import block_clocks
from bfpga.engines.sparse_cluster.unit_resources import cluster_resources


class ClusterEngine(MapEngine):
    """Weight words come kernel after kernel."""

    def findings(self, config: KernelConfig) -> Iterator[Finding]:
        return cluster_findings(config)

    def own_parts(self, config: KernelConfig) -> Mapping[str, Resources]:
        return cluster_resources(config)

    def pack_weights(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> bytes:
        words = ordered_words(node, config, placed_parts(node, config, m0, m1), CLUSTER_WEIGHT_ORDER)
        return pack_weight_words(words, config)

    def block_clocks(self, config: KernelConfig, place: Placement, result: Descriptor) -> Sequence[int]:
        return block_clocks(config, place.node, place.tile.m0, result)


ENGINE = ClusterEngine()
