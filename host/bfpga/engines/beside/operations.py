"""Kernel operations of a layer on an engine beside the array: descriptors with their kernels and their clocks."""

from __future__ import annotations

from dataclasses import replace

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode, IntArray, KernelOperation, TensorSpec, Tile
from bfpga.engines.array.descriptors import Placement
from bfpga.engines.beside.descriptors import engine_descriptor
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.beside.streams import cluster_stream, zero_skip_stream
from bfpga.engines.beside.tiles import engine_tiles
from bfpga.engines.sparse_cluster.cycles import ClusterOperation
from bfpga.engines.sparse_cluster.limits import piece_limits
from bfpga.engines.zero_skip.cycles import best_order, entry_steps, zero_skip_clocks

#: Share of the input's elements that are not zero where it was not measured.
DENSE = 1.0


class EngineOperations:
    """The operations of one node; what tiles have in common is computed once."""

    def __init__(self, config: SystolicConfig, node: ArrayNode, spec: TensorSpec) -> None:
        """spec: the node's input."""
        self.config = config
        self.node = node
        self.spec = spec
        self._weights: dict[tuple[int, int], IntArray] = {}
        self._streams: dict[tuple[int, ...], bytes] = {}
        self._clocks: dict[tuple[int, ...], tuple[int, int]] = {}

    def tiles(self, part: Tile) -> list[Tile]:
        """Rows and channels of ``part`` in the tiles or strips that one operation computes each."""
        return engine_tiles(self.node, self.spec, self.config, part)

    def operation(self, place: Placement) -> KernelOperation:
        """One tile or strip of the node with all its bytes on the weight stream."""
        descriptor = engine_descriptor(self.config, place)
        channels = place.tile.m0, place.tile.m1
        if self.node.engine == "zero_skip":
            descriptor.entry_order, clocks = self._zero_skip(descriptor, channels)
        else:
            clocks = self._cluster(descriptor, channels)
        return KernelOperation(self.node.name, descriptor, weights=self._stream(descriptor, channels), clocks=clocks)

    def _embedded(self, channels: tuple[int, int]) -> IntArray:
        if channels not in self._weights:
            self._weights[channels] = embedded_weights(self.node, self.spec, *channels)
        return self._weights[channels]

    def _stream(self, descriptor: Descriptor, channels: tuple[int, int]) -> bytes:
        build = self.config.zero_skip if self.node.engine == "zero_skip" else None
        steps = entry_steps(build, descriptor) if build else 0
        key = (*channels, steps)
        if key not in self._streams:
            weights = self._embedded(channels)
            self._streams[key] = (
                zero_skip_stream(weights, self.config, steps) if build else cluster_stream(weights, self.config)
            )
        return self._streams[key]

    def _zero_skip(self, descriptor: Descriptor, channels: tuple[int, int]) -> tuple[int, int]:
        """(order of the entries, clocks); tiles of the same size cost the same."""
        key = (*channels, *_sizes(descriptor))
        if key not in self._clocks:
            weights = self._embedded(channels)
            order = best_order(self.config, descriptor, weights)
            clocks = zero_skip_clocks(self.config, replace(descriptor, entry_order=order), weights)
            self._clocks[key] = order, clocks
        return self._clocks[key]

    def _cluster(self, descriptor: Descriptor, channels: tuple[int, int]) -> int:
        """Clocks that the density of the input lets expect; sets the limits of the pieces."""
        assert self.config.sparse_cluster is not None
        kernel = descriptor.kernel_height, descriptor.kernel_width
        most = piece_limits(self.config.sparse_cluster, descriptor.input_height, descriptor.input_width, kernel)
        assert most is not None, "strips are cut so that their pieces fit"
        descriptor.piece_rows, descriptor.piece_columns = most
        key = (*channels, *_sizes(descriptor), descriptor.write_slots)
        if key not in self._clocks:
            density = DENSE if self.node.input_density is None else self.node.input_density
            operation = ClusterOperation(self.config, descriptor, self._embedded(channels))
            self._clocks[key] = 0, operation.expected(density)
        return self._clocks[key][1]


def _sizes(descriptor: Descriptor) -> tuple[int, ...]:
    """What decides an operation's clocks besides its kernels."""
    d = descriptor
    return d.output_pixels, d.output_width, d.input_height, d.input_width, d.pad_top, d.pad_left
