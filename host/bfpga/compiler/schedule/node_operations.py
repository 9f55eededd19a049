"""One array node -> its kernel operations: what is measured before it, what of that is kept, what is computed.

The schedule has decided on the places of its operands and results, and on the strips.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bfpga.compiler.schedule.measuring import KEEPING, keeps, measures, node_samples, other_parts, sampled_parts
from bfpga.compiler.schedule.spilled_accumulators import (
    RESERVED,
    KeepBuffer,
    SpilledAccumulators,
    SpilledToHost,
    SpilledToMemory,
    given_rows,
    rows_to_load,
)
from bfpga.compiler.schedule.weight_plan import NodeWeights, WeightTile, packed_weights, weights_operation
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Policy
from bfpga.contract.flows import Flow, Sample, bears_samples, everything
from bfpga.contract.program import ArrayNode, KernelOperation, TensorSpec, Tile, Transfer
from bfpga.engines.kernel.cycles import column_groups, occupied_cycles, skips_zeros
from bfpga.engines.kernel.descriptors import (
    compute_descriptor,
    computed_use,
    load_descriptor,
    store_descriptor,
    weigh_descriptor,
    weight_words,
)
from bfpga.engines.kernel.placement import Placement
from bfpga.engines.kernel.regions import ActivationMemory, Region, memory_use
from bfpga.engines.kernel.streams import repeats_words
from bfpga.engines.output.exponents import LEARNING
from bfpga.engines.skip_array.passes import runs, shared_passes
from bfpga.engines.skip_array.sliding import sliding_parts
from bfpga.engines.sparse_cluster.unit_maps import fitting_parts
from bfpga.errors import ModelError
from bfpga.program.cycles import occupied_clocks


@dataclass
class Strip:
    """Output rows [y0, y1) with the regions that hold what they need; loads and stores that belong to them."""

    y0: int
    y1: int
    inputs: list[Region]
    output: Region
    loads: list[Region] = field(default_factory=list)
    store: Region | None = None


def load_operation(config: KernelConfig, layer: str, region: Region) -> KernelOperation:
    """LOAD of a region's rows."""
    transfer = Transfer(region.tensor, region.y0, region.y1)
    return KernelOperation(layer, load_descriptor(config, region), transfer, memory=memory_use([], [region]))


def store_operation(config: KernelConfig, layer: str, region: Region) -> KernelOperation:
    """STORE of a region's rows."""
    transfer = Transfer(region.tensor, region.y0, region.y1)
    return KernelOperation(layer, store_descriptor(config, region), transfer, memory=memory_use([region], []))


class NodeOperations:
    """Operations of one node in strips; ``spec``: its first input.

    cut: the operation that begins a further start, if accumulators are kept by the host; 0: one start does. kept: the
    host's tensors of accumulators.
    """

    def __init__(
        self,
        config: KernelConfig,
        node: ArrayNode,
        spec: TensorSpec,
        plan: NodeWeights,
        strips: list[Strip],
        memory: ActivationMemory | None = None,
        moved: int = 0,
    ) -> None:
        """memory: what is in use in addition to the strips; needed by layers that may keep their accumulators there.

        moved: rows of results whose accumulators move between kernels by the host: all that a layer measures are
        stored, those of the last rows of a static layer that keeps are loaded. FP R39, R40. 0: no other kernel.
        """
        self.config, self.node, self.spec, self.plan, self.strips = config, node, spec, plan, strips
        #: Weights that one operation brings for all strips and passes.
        self.loaded = plan.mode != "resident" and len(plan.tiles) == 1
        self.memory = self._occupied(memory)
        self.by_host = True
        self.moved, self.given = moved, given_rows(node, moved)
        self._begin(KeepBuffer(config, node))

    def _occupied(self, memory: ActivationMemory | None) -> ActivationMemory | None:
        """What is in use while the node is computed."""
        if memory is None:
            return None
        occupied = memory.copy()
        occupied.regions = [region for region in occupied.regions if region.tensor != RESERVED]
        for strip in self.strips:
            occupied.regions += [*strip.inputs, strip.output, *strip.loads]
        return occupied

    def _begin(self, place: SpilledAccumulators) -> None:
        self.operations: list[KernelOperation] = []
        self.place, self.cut = place, 0
        self.node.tiles.clear()

    @property
    def kept(self) -> dict[str, TensorSpec]:
        return self.place.tensors

    def scheduled(self) -> list[KernelOperation]:
        """The operations in order; fills the node's tiles, its sample and its flow.

        Raises ModelError if a flow that was asked for keeps more than the buffer holds.
        """
        policy = self.node.policy
        measured = measures(policy)
        if measured and policy.policy not in LEARNING:
            if policy.flow == "auto":
                policy.flow = self._fastest_flow()
            self._measured()
            return self.operations
        if self.given:
            self._begin(self._places()[-1])
        self._weights()
        whole = everything(self.node.channels)
        if measured:
            self._phase(Flag.MEASURE, whole, first_only=True)
        self._phase(Flag.NONE, whole)
        return self.operations

    def by_strips(self, once: bool) -> tuple[list[KernelOperation], list[list[KernelOperation]]]:
        """What brings the weights of all strips, and the operations of each strip; of a layer that measures nothing.

        once: otherwise every strip brings its weights.
        """
        self.loaded = self.loaded and once
        self._weights()
        brought, strips = len(self.operations), []
        whole, computed = everything(self.node.channels), []
        for strip in self.strips:
            first = len(self.operations)
            work = [(tile, self._parts(strip, tile, Flag.NONE, whole)) for tile in self.plan.tiles]
            computed += self._strip(strip, work, Flag.NONE)
            strips.append(self.operations[first:])
        computed[0].descriptor.flags |= int(Flag.FIRST)
        computed[-1].descriptor.flags |= int(Flag.LAST)
        return self.operations[:brought], strips

    def _weights(self) -> None:
        if self.loaded:
            self.operations.append(self._brings(self.strips[0], self.plan.tiles[0]))

    def _brings(self, strip: Strip, tile: WeightTile) -> KernelOperation:
        """What brings the weights of a tile: those of a second tensor do not come from the host."""
        if self.node.operand is None:
            return weights_operation(self.node, self.plan, tile, self.config)
        second = strip.inputs[1]
        made = weigh_descriptor(self.config, self.node, second, tile.m0, tile.m1, tile.weight_base)
        return KernelOperation(self.node.name, made, memory=memory_use([second], []))

    # The operation that precedes a layer

    def _measured(self) -> None:
        """A layer and the operation that precedes it: measured, perhaps kept, then computed. FP R16, R22-R25.

        Accumulators are kept where that costs least: in the buffer, in activation memory, by the host.
        """
        *places, last = self._places()
        for place in places:
            try:
                self._measured_in(place)
                return
            except ModelError:  # more than it holds
                continue
        self._measured_in(last)

    def _places(self) -> list[SpilledAccumulators]:
        """Places for accumulators in the order in which they are tried."""
        config, node = self.config, self.node
        places: list[SpilledAccumulators] = [KeepBuffer(config, node)]
        if node.policy.flow in KEEPING and keeps(node) and config.wide_memory and self.memory is not None:
            if self.moved:
                places.clear()
            places.append(SpilledToMemory(config, node, self.memory, stored=self.moved > 0))
            if self.by_host:
                places.append(SpilledToHost(config, node, self.memory, self.plan.mode == "stream"))
        return places

    def _measured_in(self, place: SpilledAccumulators) -> None:
        self._begin(place)
        self._weights()
        sample = self.node.policy.sample = self._fastest_sample()
        self._phase(Flag.MEASURE, sample)
        self.cut = len(self.operations) if place.loaded else 0
        self._phase(Flag.NONE, sample)

    def _fastest_sample(self) -> Sample:
        """The sample, measured in the way that takes the fewest cycles."""
        choices = node_samples(self.node, self.plan.mode == "stream", self.config)
        return choices[0] if len(choices) == 1 else min(choices, key=self._measuring_clocks)

    def _measuring_clocks(self, sample: Sample) -> int:
        """Cycles of the operations that measure a sample."""
        places = [
            self._placement(strip, tile, part, flags)
            for strip in self.strips
            for tile in self.plan.tiles
            for part, flags in self._parts(strip, tile, Flag.MEASURE, sample)
        ]
        return sum(occupied_cycles(self.config, compute_descriptor(self.config, place)) for place in places)

    def _fastest_flow(self) -> Flow:
        """The flow that takes the fewest cycles; of equal ones the one that keeps nothing. FP R33, R36.

        Converting all kept results may take fewer cycles than computing a sample of them twice. A rule that bears no
        sample measures everything. Nothing is kept by the host: a layer of two starts keeps samples from sharing one,
        which costs more than it saves.
        """
        node, self.by_host = self.node, False
        tried: dict[Flow, int] = {}
        for flow in _candidates(node):
            node.policy.flow = flow
            try:
                tried[flow] = self._trial()
            except ModelError:  # more than the buffer holds
                continue
            finally:
                self._begin(KeepBuffer(self.config, node))
        node.flow_clocks = {str(flow): clocks for flow, clocks in tried.items()}
        return min(tried, key=lambda flow: tried[flow])

    def _trial(self) -> int:
        """Cycles of a layer with the operation that precedes it."""
        self._measured()
        return sum(occupied_clocks(self.config, operation) for operation in self.operations)

    # Passes over the strips

    def _phase(self, flags: Flag, sample: Sample, first_only: bool = False) -> None:
        """All tiles, measuring what is in the sample, or computing."""
        first = len(self.operations)
        computed: list[KernelOperation] = []
        for strip in self.strips:
            work = [(tile, self._parts(strip, tile, flags, sample)) for tile in self.plan.tiles]
            if any(parts for _, parts in work):
                computed += self._strip(strip, work, flags)
        computed[0].descriptor.flags |= int(Flag.FIRST)
        if not flags & Flag.MEASURE:
            computed[-1].descriptor.flags |= int(Flag.LAST)
        for operation in self.operations[first:]:
            operation.first_only = first_only

    def _strip(
        self, strip: Strip, work: list[tuple[WeightTile, list[tuple[Tile, Flag]]]], flags: Flag
    ) -> list[KernelOperation]:
        """Operations of a strip with its loads, weights and store; returns those that compute."""
        node = self.node
        computed: list[KernelOperation] = []
        for region in strip.loads:
            if not (flags & Flag.MEASURE and region.tensor == node.output):
                loaded = rows_to_load(node, region, strip.y0, self.moved)
                self.operations.append(load_operation(self.config, node.name, loaded))
        for tile, parts in work:
            if parts and self.plan.mode != "resident" and node.kind == "gemm" and not self.loaded:
                self.operations.append(self._brings(strip, tile))
            for part, kind in parts:
                operation = self._compute(strip, tile, part, kind)
                computed.append(operation)
                self.operations += self._with_transfer(operation, part, kind)
            if not flags & Flag.MEASURE:
                node.tiles += [part for part, _ in parts]
        if strip.store is not None and not flags & Flag.MEASURE:
            self.operations.append(store_operation(self.config, node.name, strip.store))
        return computed

    def _with_transfer(self, operation: KernelOperation, part: Tile, flags: Flag) -> list[KernelOperation]:
        """An operation with the STORE or the LOAD of the accumulators that the host keeps."""
        region = self.place.region(part) if flags & Flag.WIDE else None
        if region is not None and flags & Flag.KEEP and self.place.stored:
            return [operation, store_operation(self.config, self.node.name, region)]
        if region is not None and flags & Flag.KEPT and self.place.loaded:
            return [load_operation(self.config, self.node.name, region), operation]
        return [operation]

    def _parts(self, strip: Strip, tile: WeightTile, flags: Flag, sample: Sample) -> list[tuple[Tile, Flag]]:
        """What single operations measure or compute of a strip and a tile, with their flags.

        The array computes all of it at once, a sparse cluster maps that have room; what was kept is not computed again.
        """
        node, whole = self.node, Tile(strip.y0, strip.y1, tile.m0, tile.m1)
        if self.config.array.reads_maps and node.kind == "gemm":
            return [(part, flags) for part in self._map_parts(whole, flags, sample)]
        if self.given:
            return self._given_parts(whole, flags)
        kept = node.policy.sample is not None and node.policy.flow in KEEPING and keeps(node)
        if flags & Flag.MEASURE:
            if not kept:
                return [(part, flags) for part in sampled_parts(sample, whole)]
            return [(part, flags | Flag.KEEP | self.place.flag) for part in self._kept_parts(sample, whole)]
        if not kept:
            return [(part, flags | more) for part, more in self._computed_parts(whole)]
        return [(part, flags | Flag.KEPT | self.place.flag) for part in self._kept_parts(sample, whole)] + [
            (part, flags) for part in other_parts(sample, whole)
        ]

    def _given_parts(self, whole: Tile, flags: Flag) -> list[tuple[Tile, Flag]]:
        """Accumulators of the last rows are there; the others are computed."""
        border = min(max(whole.y0, self.node.window.output_height - self.given), whole.y1)
        computed = [(replace(whole, y1=border), flags)] if border > whole.y0 else []
        given = self.place.pieces(replace(whole, y0=border)) if border < whole.y1 else []
        return computed + [(part, flags | Flag.KEPT | self.place.flag) for part in given]

    def _map_parts(self, whole: Tile, flags: Flag, sample: Sample) -> list[Tile]:
        """What single operations compute of a part, or measure of it, on a sparse cluster: maps that have room."""
        parts = sampled_parts(sample, whole) if flags & Flag.MEASURE else [whole]
        return [fitting for part in parts for fitting in fitting_parts(self.node, self.spec, part, self.config)]

    def _computed_parts(self, whole: Tile) -> list[tuple[Tile, Flag]]:
        """What single operations compute of a part of the array's, with their flags."""
        node = self.node
        static = node.policy.policy == Policy.STATIC and not node.policy.inherit
        if not self.config.array.stores_entries or node.kind != "gemm" or not static:
            return [(whole, Flag.NONE)]
        return sliding_parts(node, whole, self.config)

    def _kept_parts(self, sample: Sample, whole: Tile) -> list[Tile]:
        return [piece for part in sampled_parts(sample, whole) for piece in self.place.pieces(part)]

    # Single operations

    def _placement(self, strip: Strip, tile: WeightTile, part: Tile, flags: Flag) -> Placement:
        """Where an operation finds the operands of a part of a weight tile."""
        stream = self.plan.mode == "stream" and not flags & Flag.KEPT
        place = Placement(
            self.node, self.spec, strip.inputs, strip.output, part, tile.weight_base,
            tile.parameter_base, stream, flags,
        )  # fmt: skip
        if part.m0 > tile.m0:
            place.weight_base += weight_words(self.node, self.config, tile.m0, part.m0)
            place.parameter_base += part.m0 - tile.m0
        return place

    def _repeats(self, descriptor: Descriptor) -> int:
        """How often the weight words of a piece come, if they come while they are multiplied."""
        config = self.config
        if config.array.stores_entries:
            return shared_passes(config, descriptor)
        times = (runs if skips_zeros(config, descriptor) else column_groups)(config, descriptor)
        if repeats_words(self.node, config):
            times *= descriptor.blocks * descriptor.kernel_height * descriptor.kernel_width
        return times

    def _compute(self, strip: Strip, tile: WeightTile, part: Tile, flags: Flag) -> KernelOperation:
        node, place = self.node, self._placement(strip, tile, part, flags)
        if flags & Flag.WIDE:
            place.kept = self.place.region(part)
        descriptor = compute_descriptor(self.config, place)
        data = b""
        if flags & (Flag.KEEP | Flag.KEPT):
            descriptor.wide_word = self.place.word(place)
        if place.stream:
            words = packed_weights(node, self.plan, tile, self.config)
            data = words * self._repeats(descriptor)
        return KernelOperation(node.name, descriptor, weights=data, memory=computed_use(self.config, place))


def _candidates(node: ArrayNode) -> tuple[Flow, ...]:
    """Flows that ``auto`` compares, the one that wins a tie first; they sample under a rule that bears it alone."""
    twice: Flow = "two_pass"
    kept: tuple[Flow, ...] = ("keep",)
    if bears_samples(node.policy.rule.name.lower()):
        twice, kept = "two_pass_sampled", ("keep_sampled", "keep")
    return (twice, *kept) if keeps(node) else (twice,)
