"""Array nodes -> kernel operations: what is loaded, computed and stored in which kernel start.

Tensors stay in activation memory while they fit. A tensor that has to leave is stored and loaded again in a later
start; a layer whose operands do not fit together is computed in strips of output rows, each with the rows around it
that its window needs. Nothing in activation memory is kept from one start to the next; weights are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace

from bfpga.compiler.schedule.chain_choice import best_chain
from bfpga.compiler.schedule.depth_first import LONGEST, Chain, DepthFirst, Layout, chains
from bfpga.compiler.schedule.node_operations import NodeOperations, Strip, load_operation, store_operation
from bfpga.compiler.schedule.overlap import overlapped
from bfpga.compiler.schedule.pitch_choice import PitchChoice
from bfpga.compiler.schedule.spilled_accumulators import least_words, reserved_region, rows_to_load
from bfpga.compiler.schedule.strips import LayerStrips
from bfpga.compiler.schedule.unfit_parts import UnfitPartError
from bfpga.compiler.schedule.weight_plan import NodeWeights, shared_memory
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, TensorSpec
from bfpga.engines.kernel.regions import ActivationMemory, Region, region_words
from bfpga.errors import ModelError


class Scheduler:
    """Builds the kernel starts of one stage of array nodes."""

    def __init__(
        self,
        config: KernelConfig,
        tensors: dict[str, TensorSpec],
        nodes: list[ArrayNode],
        plans: dict[str, NodeWeights],
        leaving: set[str],
        begun: Collection[str] = (),
        moved: int = 0,
    ) -> None:
        """nodes: the stage in order; leaving: tensors that anyone outside the stage reads.

        begun: tensors of which the host holds a part from earlier stages: concatenations that this stage goes on with.
        moved: as for ``NodeOperations``.
        """
        self.config = config
        self.tensors = tensors
        self.nodes = nodes
        self.plans = plans
        self.leaving = leaving
        self.moved = moved
        self.shared = shared_memory(plans, config)
        self.pitches = PitchChoice(config, tensors, nodes)
        self.uses = Counter(name for node in nodes for name in dict.fromkeys(node.inputs))
        self.producers = Counter(node.output for node in nodes)
        #: The layer that wrote a tensor last: it answers for the store when the tensor has to leave.
        self.writers: dict[str, str] = {}
        produced = set(self.producers)
        self.on_host = {name for name in self.uses if name not in produced}
        self.partial = set(begun) & produced
        self.steps: list[LaunchStep] = []
        self.is_trial = False
        #: Room for the accumulators of the layer at hand.
        self.reserved: list[Region] = []
        self._restart()

    def run(self) -> list[LaunchStep]:
        """The kernel starts of the stage; fills ``tiles`` of the nodes."""
        done = 0
        while done < len(self.nodes):
            chained = not self.moved and self._may_chain(done)
            choice = best_chain(self, self.nodes[done:]) if chained else None
            if choice is None:
                self.layer(self.nodes[done])
                done += 1
            else:
                self.take(choice.chain, choice.layout, choice.flushed)
                done += len(choice.chain.nodes)
        self._flush()
        return self.steps

    # Kernel starts

    def _restart(self) -> None:
        self.memory = ActivationMemory(self.config)
        self.memory.regions += self.reserved
        self.placed: dict[str, Region] = {}
        self.operations: list[KernelOperation] = []
        self.stored: set[str] = set()
        #: What a start begins with: the regions of its first input and result.
        self.first: list[Region] = []

    def _flush(self) -> None:
        """End the kernel start; what is still needed is stored first."""
        for name, region in self.placed.items():
            begun = self.producers[name] > 0
            if (self.uses[name] or begun) and name not in self.on_host:
                self._store(self.writers[name], region)
                self._keep(name)
        self._end_start()
        self._restart()

    def _end_start(self) -> None:
        """The operations so far are a start."""
        stores = [operation for operation in self.operations if operation.descriptor.operation == Operation.STORE]
        if stores:
            stores[-1].descriptor.flags |= int(Flag.END_PACKET)
        if self.operations:
            operations = self.operations if self.is_trial else overlapped(self.operations, self.config, self.shared)
            self.steps.append(LaunchStep(operations))
        self.operations = []

    def _keep(self, name: str) -> None:
        """Note that the host now holds what the tensor has so far."""
        self.stored.add(name)
        (self.partial if self.producers[name] else self.on_host).add(name)

    def _load(self, layer: str, region: Region) -> None:
        self.operations.append(load_operation(self.config, layer, region))

    def _store(self, layer: str, region: Region) -> None:
        self.operations.append(store_operation(self.config, layer, region))

    # Placement of whole tensors

    def layer(self, node: ArrayNode) -> None:
        """Compute a layer by itself, as a whole or in strips; what it keeps finds room next to its operands."""
        words = least_words(self.config, node, self.plans[node.name].mode == "stream")
        if words and not self.trial()._scheduled(node):
            self._flush()
            self.reserved = [reserved_region(self.config, words)]
            self.memory.regions += self.reserved
        self._layer(node)
        for region in self.reserved:
            self.memory.release(region)
        self.reserved = []

    def _scheduled(self, node: ArrayNode) -> bool:
        """Whether the layer was computed; of a trial."""
        try:
            self._layer(node)
        except ModelError:
            return False
        return True

    def _layer(self, node: ArrayNode) -> None:
        names = [*dict.fromkeys(node.inputs), node.output]
        if any(name in self.stored and name not in self.placed for name in names):
            self._flush()
        strips = self._whole(node)
        if strips is None and self._fits_alone(node):
            self._flush()
            strips = self._whole(node)
        if strips is None:
            strips = self._strips(node)
        if strips is None:
            self._flush()
            strips = self._strips(node)
        if strips is None:
            if node.operand is not None:
                raise UnfitPartError(
                    "operand_weights",
                    f"layer {node.name}: its second tensor does not fit {self.config.activation_words} words of "
                    "activation memory beside a row of the others",
                )
            if node.adds_second:
                raise UnfitPartError(
                    "residual_adds",
                    f"layer {node.name}: {self.config.activation_words} words of activation memory do not hold a row "
                    f"of {node.inputs[1]}, which it adds, beside the others",
                )
            raise ModelError(
                f"layer {node.name} does not fit {self.config.activation_words} words of activation memory: "
                "not even one row of its output with the rows it is computed from"
                + (" and with the accumulators that its flow keeps" if self.reserved else "")
            )
        spec = self.tensors[node.inputs[0]]
        plan = self.plans[node.name]
        builder = NodeOperations(self.config, node, spec, plan, strips, self.memory, self.moved)
        operations = builder.scheduled()
        self.operations += operations[: builder.cut]
        if builder.cut:
            # Between these starts memory stays as it is: no sample comes between them.
            self._end_start()
        self.operations += operations[builder.cut :]
        if not self.is_trial:
            self.tensors.update(builder.kept)
        self._after(node)

    def _region(self, name: str, pitch: int) -> Region | None:
        spec = self.tensors[name]
        size = (0, spec.height), pitch, spec.width, spec.channels
        if not self.uses[name] and self.first:
            # Away from what the next sample begins with: it does not wait until the result has been stored.
            apart = self.memory.copy()
            apart.regions += [region for region in self.first if region not in apart.regions]
            region = apart.place(name, *size)
            if region is not None:
                self.memory.regions.append(region)
                return region
        # Away from the others, so that the next sample's can be loaded while this one is computed.
        region = self.memory.place(name, *size, at_end=name in self.on_host)
        if region is not None and len(self.first) < 2:
            self.first.append(region)
        return region

    def _place(self, names: Iterable[str]) -> list[Region] | None:
        """Regions for whole tensors that are not in memory yet; all or none."""
        new: list[Region] = []
        for name in names:
            if name in self.placed:
                continue
            region = self._region(name, self.pitches.of(name))
            if region is None:
                for other in new:
                    self.memory.release(other)
                return None
            new.append(region)
        return new

    def _whole(self, node: ArrayNode) -> list[Strip] | None:
        names = [*dict.fromkeys(node.inputs), node.output]
        new = self._place(names)
        if new is None:
            return None
        for region in new:
            self._enter(node, region)
        height = node.window.output_height
        return [Strip(0, height, [self.placed[name] for name in node.inputs], self.placed[node.output])]

    def _enter(self, node: ArrayNode, region: Region) -> None:
        """A whole tensor gets its place; what the host holds of it is loaded."""
        self.placed[region.tensor] = region
        if region.tensor in self.on_host or region.tensor in self.partial:
            alone = self.uses[region.tensor] == 1
            self._load(node.name, rows_to_load(node, region, 0, self.moved) if alone else region)

    def _fits_alone(self, node: ArrayNode) -> bool:
        """Whether an empty memory would hold all operands of the node."""
        if not self.placed:
            return False
        memory = ActivationMemory(self.config)
        for name in [*dict.fromkeys(node.inputs), node.output]:
            spec = self.tensors[name]
            if memory.place(name, (0, spec.height), self.pitches.of(name), spec.width, spec.channels) is None:
                return False
        return True

    # Depth first

    def _may_chain(self, index: int) -> bool:
        """Whether memory is too small for the operands of a layer, or of one of those that a chain may reach."""
        return not self._fits(self.nodes[index]) or any(map(self._tight, self.nodes[index : index + LONGEST]))

    def _fits(self, node: ArrayNode) -> bool:
        """Whether the operands of a node fit next to what is in memory."""
        new = self._place(dict.fromkeys([*node.inputs, node.output]))
        for region in new or ():
            self.memory.release(region)
        return new is not None

    def _tight(self, node: ArrayNode) -> bool:
        """Whether the operands of a node do not fit an empty memory."""
        words = 0
        for name in {*node.inputs, node.output}:
            spec = self.tensors[name]
            words += region_words(self.config, spec.height, self.pitches.of(name), spec.width, spec.channels)
        return words > self.config.activation_words

    def trial(self, flushed: bool = False) -> Scheduler:
        """A copy that goes on from here without consequences and with nothing to its name; flushed: in a new start."""
        trial = copy(self)
        trial.memory = self.memory.copy()
        trial.uses, trial.producers = self.uses.copy(), self.producers.copy()
        trial.placed, trial.writers = dict(self.placed), dict(self.writers)
        trial.stored, trial.on_host, trial.partial = set(self.stored), set(self.on_host), set(self.partial)
        trial.steps, trial.operations, trial.first, trial.is_trial = [], [], list(self.first), True
        if flushed:
            trial._flush()
        return trial

    def chains(self, nodes: Sequence[ArrayNode]) -> Iterator[Chain]:
        """Chains that begin with the first of ``nodes``."""
        begun = {*self.partial, *self.stored, *self.placed}
        return chains(nodes, self.uses, self.producers, self.leaving, begun)

    def layouts(self, chain: Chain) -> Iterator[Layout]:
        """Layouts of a chain in what memory has left; none if a new start is needed for its inputs."""
        loaded = [name for name in chain.outside if name not in self.placed]
        if any(name in self.stored or name not in self.on_host for name in loaded):
            return iter(())
        pitches = {name: self.pitches.of(name) for name in (*chain.outside, *chain.between, chain.last)}
        copies = replace(chain, nodes=[node.unscheduled() for node in chain.nodes])
        layouts = DepthFirst(self.config, self.tensors, copies, self.plans, pitches)
        return layouts.layouts(self.memory, self.placed, self.uses[chain.last] > 0)

    def take(self, chain: Chain, layout: Layout, flushed: bool = False) -> None:
        """Compute a chain in a layout; flushed: in a new start."""
        if flushed:
            self._flush()
        if layout.whole is not None:
            self.memory.regions.append(layout.whole)
            self.placed[chain.last] = layout.whole
        self.operations += layout.operations
        for node in chain.nodes:
            node.tiles[:] = layout.tiles[node.name]
            self._after(node, passing=node.output in chain.between)

    # Strips

    def _strips(self, node: ArrayNode) -> list[Strip] | None:
        """The node in strips of output rows: operands in memory stay, others pass through it row by row."""
        if any(name not in self.placed and name not in self.on_host for name in node.inputs):
            return None
        # A tensor that weighs is there as a whole.
        weighing = self._place(node.inputs[1:] if node.operand is not None else [])
        if weighing is None:
            return None
        strips = self._cut(node, {**self.placed, **{region.tensor: region for region in weighing}})
        for region in weighing:
            if strips is None:
                self.memory.release(region)
            else:
                self._enter(node, region)
        return strips

    def _cut(self, node: ArrayNode, placed: dict[str, Region]) -> list[Strip] | None:
        """The same with what is in memory as a whole."""
        cutter = LayerStrips(
            self.config, self.tensors, self.plans, self.pitches, self.memory, placed, self.partial, self.moved
        )
        resident = [True, False] if self.uses[node.output] and node.output not in self.placed else [False]
        for whole in [False] if node.output in self.placed else resident:
            new = self._place([node.output]) if whole else []
            if new is None:
                continue
            strips = cutter.cut(node, new[0] if new else self.placed.get(node.output))
            if strips is not None:
                for region in new:
                    self._enter(node, region)
                return strips
            for region in new:
                self.memory.release(region)
        return None

    def _after(self, node: ArrayNode, passing: bool = False) -> None:
        """Count the node as done: results that leave are stored, tensors that are not read any more are freed.

        passing: the result is used up already.
        """
        name = node.output
        self.producers[name] -= 1
        self.writers[name] = node.name
        done = self.producers[name] == 0
        if passing:
            pass
        elif name not in self.placed:
            self._keep(name)
        elif done and name in self.leaving:
            self._store(node.name, self.placed[name])
            self._keep(name)
        for used in dict.fromkeys(node.inputs):
            self.uses[used] -= 1
        for candidate in dict.fromkeys([*node.inputs, name]):
            idle = not self.uses[candidate] and not self.producers[candidate]
            if idle and candidate in self.placed:
                self.memory.release(self.placed.pop(candidate))
