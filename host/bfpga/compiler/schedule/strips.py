"""One layer in strips of output rows: places of the rows that pass through memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from bfpga.compiler.schedule.groups import rows_read
from bfpga.compiler.schedule.node_operations import NodeOperations, Strip
from bfpga.compiler.schedule.pitch_choice import PitchChoice
from bfpga.compiler.schedule.weight_plan import NodeWeights
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, TensorSpec
from bfpga.engines.kernel.regions import ActivationMemory, Region
from bfpga.program.schedule import schedule


@dataclass(frozen=True)
class LayerStrips:
    """Strips of layers in what ``memory`` leaves.

    placed: tensors in memory as a whole; partial: those of which the host holds a part. moved: as for
    ``NodeOperations``.
    """

    config: KernelConfig
    tensors: Mapping[str, TensorSpec]
    plans: Mapping[str, NodeWeights]
    pitches: PitchChoice
    memory: ActivationMemory
    placed: Mapping[str, Region]
    partial: Collection[str]
    moved: int = 0

    def cut(self, node: ArrayNode, output: Region | None) -> list[Strip] | None:
        """The largest even strips whose regions fit; ``output``: the whole result's region if it is in memory.

        A kernel may load one strip while it computes another: each second strip has regions of its own then.
        """
        strips = self._largest_strips(node, output, 1)
        if strips is None or len(strips) == 1:
            return strips
        pairs = self._largest_strips(node, output, 2)
        return min((choice for choice in (strips, pairs) if choice), key=lambda choice: self._clocks(node, choice))

    def _largest_strips(self, node: ArrayNode, output: Region | None, count: int) -> list[Strip] | None:
        """The largest even strips of which ``count`` fit together."""
        height, tried = node.window.output_height, 0
        for parts in range(count, height + 1):
            rows = -(-height // parts)
            if rows == tried:
                continue
            tried = rows
            sets = self._sets(node, output, rows, count)
            if sets is not None:
                return [
                    self._strip(node, output, sets[index % count], y, min(y + rows, height))
                    for index, y in enumerate(range(0, height, rows))
                ]
        return None

    def _sets(self, node: ArrayNode, output: Region | None, rows: int, count: int) -> list[dict[str, Region]] | None:
        """Regions for ``count`` strips of ``rows`` output rows that fit together; they are free again afterwards."""
        sets: list[dict[str, Region]] = []
        while len(sets) < count and (regions := self._strip_regions(node, output, rows)) is not None:
            sets.append(regions)
        for regions in sets:
            for region in regions.values():
                self.memory.release(region)
        if len(sets) < count:
            return None
        # The exponent of all strips is chosen once, when the first of them is computed.
        for regions in sets[1:]:
            if output is None:
                regions[node.output] = replace(regions[node.output], slot=sets[0][node.output].slot)
        return sets

    def _clocks(self, node: ArrayNode, strips: list[Strip]) -> int:
        """Cycles of a node in strips, with all that overlaps; the node stays as it is."""
        trial = node.unscheduled()
        spec = self.tensors[node.inputs[0]]
        builder = NodeOperations(
            self.config, trial, spec, self.plans[node.name], strips, self.memory, self.moved
        )
        return schedule(self.config, builder.scheduled()).clocks

    def _strip_regions(self, node: ArrayNode, output: Region | None, rows: int) -> dict[str, Region] | None:
        """Regions for ``rows`` output rows and the input rows they need, for operands that are not in memory."""
        window = node.window
        found: dict[str, Region] = {}
        alike = node.inputs[:1] if node.kind == "gemm" else node.inputs
        pitch = self.pitches.strip(node, [self.placed[name] for name in alike if name in self.placed])
        reach = (rows - 1) * window.stride_y + (window.kernel_height - 1) * window.dilation_y + 1
        wanted = []
        for name in [name for name in dict.fromkeys(node.inputs) if name not in self.placed]:
            added = node.adds_second and name != node.inputs[0]
            spec = self.tensors[name]
            wanted.append((name, min(rows if added else reach, spec.height), spec.width if added else pitch))
        if output is None:
            first, last = window.tensor_rows(0, rows)
            wanted.append((node.output, last - first, self.tensors[node.output].width))
        for name, count, row_pitch in wanted:
            spec = self.tensors[name]
            region = self.memory.place(name, (0, count), row_pitch, spec.width, spec.channels)
            if region is None:
                for other in found.values():
                    self.memory.release(other)
                return None
            found[name] = region
        return found

    def _strip(
        self, node: ArrayNode, output: Region | None, regions: dict[str, Region], y0: int, y1: int
    ) -> Strip:
        loads: list[Region] = []
        inputs: list[Region] = []
        for name in node.inputs:
            region = regions.get(name)
            if region is None:
                inputs.append(self.placed[name])
                continue
            first, last = rows_read(node, name, self.tensors[name].height, y0, y1)
            part = replace(region, y0=first, y1=last)
            inputs.append(part)
            if name not in [load.tensor for load in loads]:
                loads.append(part)
        if output is not None:
            return Strip(y0, y1, inputs, output, loads)
        first, last = node.window.tensor_rows(y0, y1)
        target = replace(regions[node.output], y0=first, y1=last)
        if node.output in self.partial:
            loads.append(target)
        return Strip(y0, y1, inputs, target, loads, target)
