"""Kernel operations of a layer on an engine beside the array: descriptors with their kernels and their clocks."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode, KernelOperation, TensorSpec, Tile
from bfpga.engines.array.descriptors import Placement
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.beside.engine import BesideEngine, Completion
from bfpga.formats.arrays import IntArray

#: Share of the input's elements that are not zero where it was not measured.
DENSE = 1.0


class EngineOperations:
    """The operations of one node; what tiles have in common is computed once."""

    def __init__(self, engine: BesideEngine, config: SystolicConfig, node: ArrayNode, spec: TensorSpec) -> None:
        """spec: the node's input."""
        self.engine = engine
        self.config = config
        self.node = node
        self.spec = spec
        self._weights: dict[tuple[int, int], IntArray] = {}
        self._streams: dict[tuple[int, ...], bytes] = {}
        self._completions: dict[tuple[int, ...], Completion] = {}

    def tiles(self, part: Tile) -> list[Tile]:
        """Rows and channels of ``part`` in the tiles or strips that one operation computes each."""
        return self.engine.tiles(self.node, self.spec, self.config, part)

    def operation(self, place: Placement) -> KernelOperation:
        """One tile or strip of the node with all its bytes on the weight stream."""
        descriptor = self.engine.descriptor(self.config, place)
        channels = place.tile.m0, place.tile.m1
        fields, cycles = self._complete(descriptor, channels)
        for name, value in fields.items():
            setattr(descriptor, name, value)
        return KernelOperation(self.node.name, descriptor, weights=self._stream(descriptor, channels), clocks=cycles)

    def _embedded(self, channels: tuple[int, int]) -> IntArray:
        if channels not in self._weights:
            self._weights[channels] = embedded_weights(self.node, self.spec, *channels)
        return self._weights[channels]

    def _stream(self, descriptor: Descriptor, channels: tuple[int, int]) -> bytes:
        key = (*channels, self.engine.stream_form(self.config, descriptor))
        if key not in self._streams:
            self._streams[key] = self.engine.stream(self.config, descriptor, self._embedded(channels))
        return self._streams[key]

    def _complete(self, descriptor: Descriptor, channels: tuple[int, int]) -> Completion:
        """Tiles of the same size cost the same."""
        key = (*channels, *_sizes(descriptor))
        if key not in self._completions:
            density = DENSE if self.node.input_density is None else self.node.input_density
            weights = self._embedded(channels)
            self._completions[key] = self.engine.complete(self.config, descriptor, weights, density)
        return self._completions[key]


def _sizes(descriptor: Descriptor) -> tuple[int, ...]:
    """What decides an operation's clocks besides its kernels."""
    d = descriptor
    sizes = d.output_pixels, d.output_width, d.input_height, d.input_width, d.pad_top, d.pad_left
    return (*sizes, d.write_slots)
