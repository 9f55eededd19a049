"""Consecutive layers computed depth first: strip by strip of the last one's result, with the rows that it needs.

What is between the layers stays in activation memory, a few rows at a time, and no row is computed twice. Where the
windows of two strips share a row, the strip that comes next begins with it and is laid out the other way round: its
rows follow each other towards lower addresses, over those that are not needed any more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from bfpga.compiler.schedule.groups import group_clocks, rows_read, unmeasured
from bfpga.compiler.schedule.node_operations import NodeOperations, Strip
from bfpga.compiler.schedule.weight_plan import NodeWeights
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, KernelOperation, TensorSpec, Tile
from bfpga.engines.kernel.regions import ActivationMemory, Region, region_words
from bfpga.engines.kernel.streams import working_columns

#: Layers of a chain at most.
LONGEST = 6
#: Heights of strips that are tried: the largest one and so many below it, whose groups of pixels may be fuller.
TRIED_HEIGHTS = 4


@dataclass(frozen=True)
class Chain:
    """Layers that may be computed depth first. between: tensors that only they read; outside: inputs from before."""

    nodes: Sequence[ArrayNode]
    between: tuple[str, ...]
    outside: tuple[str, ...]

    @property
    def last(self) -> str:
        """The tensor that remains."""
        return self.nodes[-1].output


def chains(
    nodes: Sequence[ArrayNode],
    uses: Mapping[str, int],
    producers: Mapping[str, int],
    leaving: Collection[str],
    begun: Collection[str],
) -> Iterator[Chain]:
    """The chains that begin with the first of ``nodes``.

    uses, producers: layers that will still read and write a tensor; leaving: tensors that others read too; begun: those
    of which a part exists already.
    """
    for length in range(2, min(len(nodes), LONGEST) + 1):
        if not all(unmeasured(node) for node in nodes[:length]):
            return
        chain = _chain(nodes[:length])
        made = Counter(node.output for node in chain.nodes)
        read = Counter(name for node in chain.nodes for name in dict.fromkeys(node.inputs))
        if read[chain.last] or any(made[name] != producers[name] or name in begun for name in made):
            continue
        if all(0 < read[name] == uses[name] and name not in leaving for name in chain.between):
            yield chain


def _chain(nodes: Sequence[ArrayNode]) -> Chain:
    made = dict.fromkeys(node.output for node in nodes)
    read = dict.fromkeys(name for node in nodes for name in node.inputs)
    between = tuple(name for name in made if name != nodes[-1].output)
    return Chain(nodes, between, tuple(name for name in read if name not in made))


@dataclass(frozen=True)
class Rows:
    """Of a tensor in one strip: rows [first, end) are used, those from ``start`` on are new."""

    first: int
    start: int
    end: int


@dataclass(frozen=True)
class Heights:
    """Rows of the last tensor in the first strip, and in each of the others but the last.

    A first strip needs all rows that its windows read; the others find the last of them there. So it may be lower.
    """

    first: int
    others: int

    def of(self, height: int) -> Iterator[tuple[int, int]]:
        """Rows of every strip."""
        bounds = [0, *range(self.first, height, self.others), height]
        return pairwise(bounds)


def rows_of_strips(chain: Chain, tensors: Mapping[str, TensorSpec], heights: Heights) -> list[dict[str, Rows]] | None:
    """Rows of every tensor in all strips; None if more than one row is used twice."""
    strips = []
    for strip in _strips(chain, tensors, heights):
        if any(strip[name].start - strip[name].first > 1 for name in chain.between):
            return None
        strips.append(strip)
    return strips


def _strips(chain: Chain, tensors: Mapping[str, TensorSpec], heights: Heights) -> Iterator[dict[str, Rows]]:
    """Rows of every tensor in one strip after the other."""
    height, done = tensors[chain.last].height, dict.fromkeys(chain.between, 0)
    for y0, y1 in heights.of(height):
        needed: dict[str, tuple[int, int]] = {}
        strip = {chain.last: Rows(y0, y0, y1)}
        for node in reversed(chain.nodes):
            if node.output not in strip:
                strip[node.output] = _new_rows(tensors[node.output], needed.get(node.output), done, y1 == height)
            new = strip[node.output]
            if new.start == new.end:
                continue
            for name in node.inputs:
                first, last = rows_read(node, name, tensors[name].height, new.start, new.end)
                known = needed.get(name, (first, last))
                needed[name] = min(first, known[0]), max(last, known[1])
        strip |= {name: Rows(*needed[name][:1], *needed[name]) for name in chain.outside if name in needed}
        yield strip


def _new_rows(spec: TensorSpec, needed: tuple[int, int] | None, done: dict[str, int], ends: bool) -> Rows:
    start = done[spec.name]
    first, end = needed or (start, start)
    end = done[spec.name] = spec.height if ends else max(start, end)
    return Rows(min(first, start), start, end)


@dataclass
class Layout:
    """Places of the tensors of a chain, strip by strip."""

    rows: list[dict[str, Rows]]
    strips: list[dict[str, Region]]
    loaded: tuple[str, ...]
    #: Regions for what is loaded and stored: with two of them a strip is moved while another one is computed.
    sets: int
    #: The last tensor as a whole; None: it is stored strip by strip.
    whole: Region | None = None
    operations: list[KernelOperation] = field(default_factory=list)
    #: By layer: what its operations compute, in order.
    tiles: dict[str, list[Tile]] = field(default_factory=dict)


class DepthFirst:
    """Layouts of one chain and the operations of each."""

    def __init__(
        self,
        config: KernelConfig,
        tensors: Mapping[str, TensorSpec],
        chain: Chain,
        plans: Mapping[str, NodeWeights],
        pitches: Mapping[str, int],
    ) -> None:
        self.config, self.tensors, self.chain, self.plans, self.pitches = config, tensors, chain, plans, pitches

    def layouts(self, memory: ActivationMemory, placed: Mapping[str, Region], kept: bool) -> Iterator[Layout]:
        """Layouts in what ``memory`` leaves; kept: whether the last tensor may remain in it as a whole.

        Their regions are not placed in ``memory`` yet.
        """
        for whole in (True, False) if kept else (False,):
            moved = not whole or any(name not in placed for name in self.chain.outside)
            for count in (2, 1) if moved else (1,):
                layout = self._fullest(memory, placed, whole, count)
                if layout is not None:
                    layout.operations = self.operations(layout)
                    yield layout

    def _fullest(
        self, memory: ActivationMemory, placed: Mapping[str, Region], whole: bool, count: int
    ) -> Layout | None:
        """Of the largest strips of which ``count`` fit, those whose groups of pixels are fullest."""
        found: list[Layout] = []
        heights = range(1, self.tensors[self.chain.last].height)
        # Many heights need more memory for their first strip alone than there is.
        free = sum(last - first for first, last in memory.gaps())
        highest = bisect_right(heights, free, key=lambda rows: self._words_at_first(placed, whole, count, rows))
        for rows in reversed(heights[: highest + 1]):
            even, lower = Heights(rows, rows), Heights(rows - 1, rows)
            layout = self._layout(memory, placed, whole, count, even)
            if layout is None and lower.first:
                layout = self._layout(memory, placed, whole, count, lower)
            found += [] if layout is None else [layout]
            if len(found) == TRIED_HEIGHTS:
                break
        return min(found, key=self._computing, default=None)

    def _computing(self, layout: Layout) -> int:
        """Cycles of the passes of all strips."""
        total = 0
        for node in self.chain.nodes:
            width, columns = node.window.output_width, working_columns(node, self.config)
            rows = [strip[node.output] for strip in layout.rows]
            clocks = group_clocks(self.config, node, self.tensors[node.inputs[0]].channels)
            total += sum(-(-(part.end - part.start) * width // columns) for part in rows) * clocks
        return total

    # Places

    def _words_at_first(self, placed: Mapping[str, Region], whole: bool, count: int, rows: int) -> int:
        """Words of the first of strips of ``rows`` rows, all that it takes in addition to what is placed."""
        last, total = self.chain.last, 0
        for name, used in next(_strips(self.chain, self.tensors, Heights(rows, rows))).items():
            if name in self.chain.between:
                total += self._words(name, used.end - used.first)
            elif name == last and whole:
                total += self._words(name, self.tensors[name].height)
            elif name == last or name not in placed:
                total += count * self._words(name, used.end - used.first)
        return total

    def _words(self, name: str, rows: int) -> int:
        spec = self.tensors[name]
        return region_words(self.config, rows, self.pitches[name], spec.width, spec.channels)

    def _layout(
        self, memory: ActivationMemory, placed: Mapping[str, Region], whole: bool, count: int, heights: Heights
    ) -> Layout | None:
        chain = self.chain
        plan = rows_of_strips(chain, self.tensors, heights)
        if plan is None:
            return None
        trial = memory.copy()
        result = self._place(trial, chain.last, 0, self.tensors[chain.last].height) if whole else None
        if whole and result is None:
            return None
        loaded = tuple(name for name in chain.outside if name not in placed)
        outer = [*loaded, *([] if whole else [chain.last])]
        regions: dict[tuple[str, int], Region] = {}
        for name in [*chain.between, *outer]:
            most = max((strip[name].end - strip[name].first for strip in plan if name in strip), default=0)
            for number in range(count if name in outer else 1):
                region = self._place(trial, name, 0, most)
                if region is None:
                    return None
                regions[name, number] = region
        for number in range(1, count):
            if not whole:  # the exponent of all strips is that of the first one
                second = regions[chain.last, number]
                regions[chain.last, number] = replace(second, slot=regions[chain.last, 0].slot)
        fixed = {name: placed[name] for name in chain.outside if name in placed}
        if result is not None:
            fixed[chain.last] = result
        between = {name: self._turning(regions[name, 0], [strip[name] for strip in plan]) for name in chain.between}
        if any(turned is None for turned in between.values()):
            return None
        strips = []
        for index, strip in enumerate(plan):
            places = dict(fixed)
            places |= {name: turned[index] for name, turned in between.items() if turned is not None}
            for name in outer:
                if name in strip:
                    used = strip[name]
                    places[name] = replace(regions[name, index % count], y0=used.first, y1=used.end)
            strips.append(places)
        if not all(self._same_direction(strip, places) for strip, places in zip(plan, strips, strict=True)):
            return None
        return Layout(plan, strips, loaded, count, result)

    def _same_direction(self, strip: Mapping[str, Rows], places: Mapping[str, Region]) -> bool:
        """Whether rows of all that is added follow each other alike: of operands, and of results with what they add."""
        for node in self.chain.nodes:
            if strip[node.output].start == strip[node.output].end:
                continue
            pitches = [places[name].pitch for name in node.inputs]
            if node.adds_second and pitches[1] < 0:
                return False
            if node.kind != "gemm" and len(set(pitches)) > 1:
                return False
        return True

    def _place(self, memory: ActivationMemory, name: str, y0: int, y1: int) -> Region | None:
        spec = self.tensors[name]
        return memory.place(name, (y0, y1), self.pitches[name], spec.width, spec.channels)

    def _turning(self, region: Region, rows: Sequence[Rows]) -> list[Region] | None:
        """The region in every strip: one that begins with a row of the strip before goes back from it."""
        capacity, result = region.y1 - region.y0, []
        place = direction = last = 0
        for strip in rows:
            count = strip.end - strip.first
            if direction and strip.start > strip.first:
                place, direction = last, -direction
            else:
                place, direction = capacity - count, 1
            last = place + direction * (count - 1)
            if count and not 0 <= last < capacity:
                return None
            pitch = direction * region.pitch
            result.append(
                replace(region, y0=strip.first, y1=strip.end, pitch=pitch, origin=place * region.pitch)
            )
        return result

    # Operations

    def operations(self, layout: Layout) -> list[KernelOperation]:
        """The operations of all strips; fills the tiles of the nodes."""
        nodes = self.chain.nodes
        once = self._weights_together()
        parts: list[list[list[KernelOperation]]] = []
        ahead: list[KernelOperation] = []
        for node in nodes:
            strips = [self._strip(node, layout, index) for index in range(len(layout.strips))]
            spec, plan = self.tensors[node.inputs[0]], self.plans[node.name]
            builder = NodeOperations(self.config, node, spec, plan, [strip for strip in strips if strip is not None])
            brought, computed = builder.by_strips(once)
            layout.tiles[node.name] = list(node.tiles)
            ahead += brought
            made = iter(computed)
            parts.append([next(made) if strip is not None else [] for strip in strips])
        loads, rest = [], []
        for index in range(len(layout.strips)):
            strip = [item for part in parts for item in part[index]]
            loads.append([item for item in strip if item.descriptor.operation == Operation.LOAD])
            rest.append([item for item in strip if item.descriptor.operation != Operation.LOAD])
        return [*ahead, *(_ahead(loads, rest) if layout.sets > 1 else _in_turn(loads, rest))]

    def _strip(self, node: ArrayNode, layout: Layout, index: int) -> Strip | None:
        rows, places = layout.rows[index][node.output], layout.strips[index]
        if rows.start == rows.end:
            return None
        before = self._before(node, layout, index)
        loads = [places[name] for name in dict.fromkeys(node.inputs) if name in layout.loaded and name not in before]
        strip = Strip(rows.start, rows.end, [places[name] for name in node.inputs], places[node.output], loads)
        if layout.whole is None and node is self.chain.nodes[-1]:
            strip.store = places[node.output]
        return strip

    def _before(self, node: ArrayNode, layout: Layout, index: int) -> set[str]:
        """What earlier layers of a strip have read."""
        result: set[str] = set()
        for other in self.chain.nodes:
            if other is node:
                break
            rows = layout.rows[index][other.output]
            result.update(other.inputs if rows.start < rows.end else ())
        return result

    def _weights_together(self) -> bool:
        """Whether all weights that the chain loads fit in memory together, so that they are loaded once."""
        words: list[tuple[int, int]] = []
        rows: list[tuple[int, int]] = []
        for node in self.chain.nodes:
            plan = self.plans[node.name]
            if node.kind == "gemm" and plan.mode != "resident":
                words += [(tile.weight_base, tile.weight_base + tile.words) for tile in plan.tiles]
                rows += [(tile.parameter_base, tile.parameter_base + tile.rows) for tile in plan.tiles]
        return not _overlap(words) and not _overlap(rows)


def _overlap(ranges: list[tuple[int, int]]) -> bool:
    ranges = sorted(item for item in ranges if item[0] < item[1])
    return any(before[1] > after[0] for before, after in pairwise(ranges))


def _ahead(loads: list[list[KernelOperation]], rest: list[list[KernelOperation]]) -> Iterator[KernelOperation]:
    """Every strip with the loads of the next one before it."""
    yield from loads[0]
    for index, operations in enumerate(rest):
        if index + 1 < len(loads):
            yield from loads[index + 1]
        yield from operations


def _in_turn(loads: list[list[KernelOperation]], rest: list[list[KernelOperation]]) -> Iterator[KernelOperation]:
    for loaded, operations in zip(loads, rest, strict=True):
        yield from loaded
        yield from operations
