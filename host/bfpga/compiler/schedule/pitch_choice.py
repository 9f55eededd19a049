"""The pitch of every tensor: the one with which its writers and readers lose the fewest cycles."""

from __future__ import annotations

from bfpga.compiler.schedule.groups import group_clocks
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, TensorSpec
from bfpga.engines.kernel.pitch import read_slots, write_steps
from bfpga.engines.kernel.regions import Region
from bfpga.engines.kernel.streams import working_columns

#: Cycles of what a kernel cannot do.
NEVER = 1 << 40


class PitchChoice:
    """Pitches of whole tensors and of strips; operands of one addition share theirs."""

    def __init__(self, config: KernelConfig, tensors: dict[str, TensorSpec], nodes: list[ArrayNode]) -> None:
        self.config = config
        self.tensors = tensors
        self.nodes = nodes
        self.family = {name: name for node in nodes for name in (*node.inputs, node.output)}
        for node in nodes:
            if _alike(node) and len(node.inputs) == 2:
                self._tie(*node.inputs)
        self.chosen: dict[str, int] = {}

    def _tie(self, first: str, second: str) -> None:
        old, new = self.family[second], self.family[first]
        self.family = {name: new if family == old else family for name, family in self.family.items()}

    def of(self, name: str) -> int:
        """The pitch of a whole tensor."""
        family = self.family[name]
        if family not in self.chosen:
            self.chosen[family] = self._best({other for other, key in self.family.items() if key == family})
        return self.chosen[family]

    def strip(self, node: ArrayNode, resident: list[Region]) -> int:
        """The pitch of input strips of one node; that of a resident operand if there is one."""
        if resident:
            return resident[0].pitch
        width = self.tensors[node.inputs[0]].width
        if node.inputs[0] in node.inputs[1:] and not _alike(node):
            return width
        return min(range(width, width + self.config.banks), key=lambda pitch: (self._clocks(node, pitch, None), pitch))

    def _best(self, names: set[str]) -> int:
        width = self.tensors[next(iter(names))].width
        readers = [node for node in self.nodes if names & set(node.inputs)]
        writers = [node for node in self.nodes if node.output in names]

        def clocks(pitch: int) -> int:
            if pitch != width and any(names.intersection(node.inputs[1:]) and not _alike(node) for node in readers):
                return NEVER  # what weighs, or is added to sums, has no gaps between its rows
            reading = sum(self._clocks(node, pitch, None) for node in readers)
            return reading + sum(self._clocks(node, None, pitch) for node in writers)

        return min(range(width, width + self.config.banks), key=lambda pitch: (clocks(pitch), pitch))

    def _clocks(self, node: ArrayNode, read_pitch: int | None, write_pitch: int | None) -> int:
        """Cycles a node needs if only one side has the given pitch and the other loses nothing."""
        config, window = self.config, node.window
        columns, banks = working_columns(node, config), config.banks
        pixels = window.output_height * window.output_width
        reads = writes = 1
        if read_pitch is not None:
            reads, _ = read_slots(
                columns, banks, window.output_width, pixels, window.stride_x, window.stride_y, read_pitch
            )
        if node.kind == "rows" and reads > 1:
            return NEVER  # the process of rows takes a word of all its columns; with the width as pitch it does
        if write_pitch is not None:
            writes, _ = write_steps(columns, window.output_width, pixels, write_pitch * window.spread_y)
        channels = self.tensors[node.inputs[0]].channels
        return -(-pixels // columns) * group_clocks(config, node, channels, reads, writes)


def _alike(node: ArrayNode) -> bool:
    """Whether a node reads its operands side by side, so that their rows are equally far apart."""
    return node.kind in ("sum", "rows")
