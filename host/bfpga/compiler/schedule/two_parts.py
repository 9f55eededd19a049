"""A layer in two parts of rows, so that the layer behind it begins while the results of the second part are under way.

An operation that needs the results of the one before waits until they have passed the array and the output stage. The
rows that the first part of a layer reads are there when the second part of the layer before it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bfpga.compiler.schedule.groups import group_clocks, layer_clocks
from bfpga.compiler.schedule.node_operations import Strip
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, TensorSpec
from bfpga.engines.array.regions import Region
from bfpga.engines.array.streams import working_columns
from bfpga.program.schedule import COMMAND_CLOCKS, RESULT_LATENCY

#: Clocks of a part at least: what it hides, and the command of another part is sent meanwhile.
SHORTEST = max(RESULT_LATENCY, COMMAND_CLOCKS)


@dataclass(frozen=True)
class Parts:
    """A layer in two parts, the second of which begins with word ``second`` of its result's region.

    early: whether the first part does not wait for the second one of the layer before.
    """

    strips: tuple[Strip, Strip]
    second: int
    early: bool

    @property
    def output(self) -> Region:
        """The region of the result."""
        return self.strips[0].output


def two_parts(
    config: SystolicConfig, node: ArrayNode, strip: Strip, spec: TensorSpec, before: Parts | None, longest: float
) -> Parts | None:
    """A layer that one strip computes in two parts; None if there is no place for a cut.

    spec: its first input; before: the parts of the layer before; longest: clocks that it must stay below.
    """
    clocks = group_clocks(config, node, spec.channels)
    if layer_clocks(config, node, spec.channels) >= longest:
        return None
    cuts = list(_cuts(config, node, clocks))
    early = [row for row in cuts if before is not None and _ready(config, node, strip, spec.height, row, before)]
    if not cuts:
        return None
    row = max(early or cuts)
    first, second = replace(strip, y1=row), replace(strip, y0=row)
    word, _ = strip.output.words_of(config, row, strip.y1, read=False)
    return Parts((first, second), word, bool(early))


def _cuts(config: SystolicConfig, node: ArrayNode, clocks: int) -> Iterator[int]:
    """Rows at which a layer can be cut: no group of pixels is lost, and both parts are long enough."""
    width, height, columns = node.window.output_width, node.window.output_height, working_columns(node, config)
    whole = -(-width * height // columns)
    for row in range(1, height):
        groups = -(-width * row // columns), -(-width * (height - row) // columns)
        if sum(groups) == whole and min(groups) * clocks >= SHORTEST:
            yield row


def _ready(
    config: SystolicConfig, node: ArrayNode, strip: Strip, height: int, row: int, before: Parts
) -> bool:
    """Whether rows before ``row`` need nothing of the second part of the layer before."""
    rows = node.window.input_rows(height, 0, row)
    used = [region for region in strip.inputs if region.base == before.output.base]
    return bool(used) and all(region.words_of(config, *rows, read=True)[1] <= before.second for region in used)
