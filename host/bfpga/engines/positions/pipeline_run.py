"""What the two sides of a pipeline compute: the same bits as one circuit (FP R37-R47).

The preceding side takes whole batch items through all layers on its own, narrowing them with the positions that it just
selected; the main side follows with the positions, and either computes everything, or converts the wide results that
the other side has moved over and computes the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from bfpga.engines.positions.fifo import PositionEntry, PositionFifo
from bfpga.engines.positions.pipeline_events import Side
from bfpga.engines.positions.transfer import Bytes, pack_wide, unpack_wide
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import IntArray
from bfpga.formats.fixed_point import FixedPointFormat, convert
from bfpga.formats.position_rules import PositionRule, select_shift
from bfpga.formats.wide_statistics import StatisticsKind, collect, merge

#: Which side goes on next; it may find that it has to wait.
Turn = Callable[[], Side]


@dataclass(frozen=True)
class PipelineLayer:
    """operate: exact wide results (items, ...) of narrow inputs, each item by itself. position: of the weights."""

    operate: Callable[[IntArray], IntArray]
    position: int


@dataclass(frozen=True)
class Pipeline:
    """Two sides over the same layers.

    keeps: the main side gets wide results of the sample (embodiments 8 and 9). circuits: of the preceding side; their
    statistics are merged, and one selects for all (FP R45). depth: of the queue of positions.
    """

    layers: Sequence[PipelineLayer]
    format: FixedPointFormat = field(default_factory=FixedPointFormat)
    kind: StatisticsKind = field(default_factory=StatisticsKind)
    rule: PositionRule = field(default_factory=PositionRule)
    keeps: bool = False
    circuits: int = 1
    depth: int = 2

    def run(self, x: IntArray, position: int, sample: IntArray, turn: Turn) -> tuple[IntArray, list[int]]:
        """Narrow results (items, ...) and the position of each layer's results.

        x: narrow input (items, ...) at ``position``. sample: items of the preceding side, the same in every layer
        (FP R46). turn: which side moves next; any order in which both get their turns gives the same.
        ``ConfigurationError`` without a sample.
        """
        if not len(sample):
            raise ConfigurationError("no item is sampled; one at least is needed for the statistics")
        queue = _Queue(PositionFifo(self.depth))
        results: list[IntArray] = []
        sides: dict[Side, Iterator[None]] = {
            "preceding": self._precede(x[sample], position, queue),
            "main": self._follow(x, position, sample, queue, results),
        }
        while not results:
            next(sides[turn()], None)
        return results[0], queue.taken

    def _precede(self, x: IntArray, position: int, queue: _Queue) -> Iterator[None]:
        """Statistics, position and narrow results of the sample, layer by layer. FP R41, R45, R47."""
        for number, layer in enumerate(self.layers):
            parts = [layer.operate(part) for part in np.array_split(x, self.circuits) if len(part)]
            wide_position = position + layer.position
            shift = self._select(parts)
            position = wide_position - shift
            wide = np.concatenate(parts)
            if self.keeps:  # moved before the position is sent, so that they are there when it arrives
                queue.wide.append((pack_wide(wide), wide.shape))
            while not queue.fifo.push(PositionEntry(number, position)):
                yield
            x = self._narrow(wide, shift)
            yield

    def _follow(
        self, x: IntArray, position: int, sample: IntArray, queue: _Queue, results: list[IntArray]
    ) -> Iterator[None]:
        """Narrow results of all items at the positions that come. FP R37-R40, R43, R44."""
        for number, layer in enumerate(self.layers):
            while (entry := queue.fifo.pop(number)) is None:
                yield
            shift = position + layer.position - entry.position
            position = entry.position
            queue.taken.append(position)
            x = self._complete(layer, x, shift, sample, queue) if self.keeps else self._narrow(layer.operate(x), shift)
            yield
        results.append(x)

    def _select(self, parts: Sequence[IntArray]) -> int:
        """One shift for what all circuits have computed. FP R17, R45."""
        statistics = reduce(merge, (collect(part, self.kind) for part in parts))
        return int(select_shift(statistics, self.rule, self.format.out_width))

    def _narrow(self, wide: IntArray, shift: int) -> IntArray:
        return convert(wide, shift, self.format).mantissa

    def _complete(self, layer: PipelineLayer, x: IntArray, shift: int, sample: IntArray, queue: _Queue) -> IntArray:
        """Convert what came, compute the rest; nothing is computed twice."""
        packed, shape = queue.wide.popleft()
        converted = self._narrow(unpack_wide(packed).reshape(shape), shift)
        rest = np.setdiff1d(np.arange(len(x)), sample)
        result = np.empty((len(x), *converted.shape[1:]), converted.dtype)
        result[sample] = converted
        if len(rest):
            result[rest] = self._narrow(layer.operate(x[rest]), shift)
        return result


class _Queue:
    """What is on its way: positions, wide results in the main side's memory; and the positions that were taken."""

    def __init__(self, fifo: PositionFifo) -> None:
        self.fifo = fifo
        self.wide: deque[tuple[Bytes, tuple[int, ...]]] = deque()
        self.taken: list[int] = []
