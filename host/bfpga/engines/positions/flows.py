"""Layers under every flow: where the statistics for a layer's position come from, what is computed for them (FP 3.4).

A *statistics pass* (preceding operation) computes wide results and collects where their bits are; the selected shift
fixes the position; the *main pass* makes all narrow results. A layer never looks at an earlier iteration, except under
``delayed``, so graphs may change from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfpga.engines.positions.layers import FixedPointLayer, PassingLayer, WideLayer
from bfpga.engines.positions.sampling import Axis
from bfpga.engines.positions.settings import FlowSettings
from bfpga.engines.positions.times import Flow
from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.arrays import BoolArray, Int64Array
from bfpga.formats.fixed_point import FixedTensor, convert, output_position
from bfpga.formats.position_rules import select_shift
from bfpga.formats.wide_statistics import WideStatistics, cleared, collect, require_exact

#: Axes of results by their number; rows of a matrix count as H, or as items if those are sampled.
_AXES: dict[int, tuple[Axis, ...]] = {2: ("H", "C"), 4: ("B", "H", "W", "C")}


class Cost(NamedTuple):
    """Results that were computed, wide ones written and read back, narrow ones written. FP R13, R23-R25."""

    computed: int = 0
    wide_written: int = 0
    wide_read: int = 0
    narrow_written: int = 0

    def rows(self, columns: int) -> tuple[int, int, int]:
        """Computed, written and read rows of a matrix of so many columns."""
        return self.computed // columns, self.wide_written // columns, self.wide_read // columns


@dataclass(frozen=True)
class LayerTrace:
    """What can be read after a layer. FP R18, R27, R49.

    flow: None of a layer that passes its position through. first_position: assumed while the statistics were
    collected; position: of the results. shift, position: one, or one for each channel.
    """

    layer: str
    operation: str
    flow: Flow | None
    first_position: Int64Array
    position: Int64Array
    shift: Int64Array
    saturated: int
    statistics: WideStatistics
    cost: Cost


class _Operator:
    """Gives any part of a layer's wide results and counts what it computes. FP R8.

    ``DataError`` if a result needs more bits than a wide one has.
    """

    def __init__(self, layer: WideLayer, inputs: Sequence[FixedTensor], acc_width: int) -> None:
        self._values, self.position = layer.wide(*inputs)
        require_exact(self._values, acc_width)
        self.computed = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self._values.shape

    def everything(self) -> Int64Array:
        self.computed += self._values.size
        return self._values

    def part(self, wanted: BoolArray) -> Int64Array:
        """Results where they are wanted, 0 elsewhere."""
        self.computed += int(np.count_nonzero(wanted))
        return np.where(wanted, self._values, 0)


@dataclass(frozen=True)
class _Sample:
    """indices: sampled ones along each axis of the results; mask: of all results."""

    indices: tuple[Int64Array, ...]
    mask: BoolArray

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.mask))


class _Ready(NamedTuple):
    """A layer before its results are converted; kept: wide results that went through a buffer."""

    wide: Int64Array
    shift: Int64Array
    statistics: WideStatistics
    kept: int = 0


class PositionEmulator:
    """Runs layers on fixed-point tensors, bit for bit as the hardware; keeps what it has learned. FP R48.

    ``run`` for a chain, or ``begin_iteration`` and then ``layer`` for each layer of any graph. ``trace`` is that of the
    iteration. generator: of stochastic rounding.
    """

    def __init__(self, settings: FlowSettings, generator: np.random.Generator | None = None) -> None:
        self.settings = settings
        self.generator = generator
        self.iterations = 0
        self.trace: list[LayerTrace] = []
        self._learned: dict[str, Int64Array] = {}  # by layer: the position for the next iteration of ``delayed``
        self._sampled_layers = 0

    def begin_iteration(self) -> None:
        """Start over with the first layer; what ``delayed`` has learned stays. FP R16."""
        self.iterations += 1
        self.trace = []
        self._sampled_layers = 0

    def run(self, layers: Sequence[FixedPointLayer], x: FixedTensor) -> FixedTensor:
        """One iteration over a chain of layers: narrow results of the last one. FP R27."""
        self.begin_iteration()
        for layer in layers:
            x = self.layer(layer, x)
        return x

    def layer(self, layer: FixedPointLayer, *inputs: FixedTensor, flow: Flow | None = None) -> FixedTensor:
        """One layer: narrow results at the position that its flow finds; ``flow`` overrides the settings'.

        ``DataError`` for results that are too wide or whose position no register holds, ``ConfigurationError`` for a
        layer without a calibrated position under ``static``. FP R20-R27, R35.
        """
        try:
            if isinstance(layer, WideLayer):
                return self._wide_layer(layer, inputs, flow or self.settings.flow)
            assert isinstance(layer, PassingLayer)
            return self._pass_through(layer, inputs[0])
        except DataError as error:
            raise DataError(f"layer {layer.name!r}: {error}") from None

    def _wide_layer(self, layer: WideLayer, inputs: Sequence[FixedTensor], flow: Flow) -> FixedTensor:
        """Whatever a flow does before the converter, then the converter over all results. FP R12, R13."""
        operator = _Operator(layer, inputs, self.settings.format.acc_width)
        first = self._first_position()
        if flow in ("delayed", "static"):
            ready = self._at_known_position(layer, operator, flow)
        else:
            ready = self._at_selected_position(operator, flow)
        narrow = convert(ready.wide, ready.shift, self.settings.format, self.generator)
        result = FixedTensor(narrow.mantissa, output_position(operator.position, ready.shift))
        cost = Cost(operator.computed, ready.kept, ready.kept, narrow.mantissa.size)
        self.trace.append(
            LayerTrace(
                layer.name,
                layer.operation,
                flow,
                first,
                result.position,
                ready.shift,
                narrow.saturated,
                ready.statistics,
                cost,
            )
        )
        return result

    def _first_position(self) -> Int64Array:
        """A label of the wide results before their position is known: they are exact. FP R18, R19."""
        if self.settings.assumed_position is not None:
            return np.array(self.settings.assumed_position)
        return self.trace[-1].position if self.trace else np.array(self.settings.initial_position)

    def _at_selected_position(self, operator: _Operator, flow: Flow) -> _Ready:
        """Statistics pass and selection; sampled results are kept, or computed again with the others. FP R22-R25."""
        sample = self._sample(operator.shape, flow)
        wide = operator.part(sample.mask)
        statistics = self._collect(wide[np.ix_(*sample.indices)])
        shift = select_shift(statistics, self.settings.rule, self.settings.format.out_width)
        if flow in ("keep", "keep_sampled"):
            return _Ready(wide + operator.part(~sample.mask), shift, statistics, sample.count)
        return _Ready(operator.everything(), shift, statistics)

    def _at_known_position(self, layer: WideLayer, operator: _Operator, flow: Flow) -> _Ready:
        """The main pass alone; ``delayed`` collects in it what the next iteration will use. FP R21."""
        rule, wide = self.settings.rule, operator.everything()
        if flow == "static":
            position = self._static_position(layer)
            statistics = cleared(self.settings.statistics)
        else:
            position = self._learned.get(layer.name, np.array(self.settings.initial_position))
            statistics = self._collect(wide)
            selected = select_shift(statistics, rule, self.settings.format.out_width)
            self._learned[layer.name] = output_position(operator.position, selected)
        return _Ready(wide, rule.clamp(operator.position - position), statistics)

    def _static_position(self, layer: WideLayer) -> Int64Array:
        positions = self.settings.static_positions
        if layer.name not in positions:
            raise ConfigurationError(
                f"layer {layer.name!r} has no static position; static_positions names {', '.join(positions) or 'none'}"
            )
        return np.array(positions[layer.name])

    def _pass_through(self, layer: PassingLayer, x: FixedTensor) -> FixedTensor:
        """No statistics, no converter: the position of the input. FP R35."""
        result = layer.narrow(x)
        cost = Cost(result.mantissa.size, narrow_written=result.mantissa.size)
        shift, statistics = np.zeros_like(x.position), cleared(self.settings.statistics)
        self.trace.append(
            LayerTrace(layer.name, layer.operation, None, x.position, x.position, shift, 0, statistics, cost)
        )
        return result

    def _collect(self, wide: Int64Array) -> WideStatistics:
        """The collector, into a storage that was cleared. FP R10, R11, R15."""
        return collect(wide, self.settings.statistics, per_channel=self.settings.granularity == "channel")

    def _sample(self, shape: tuple[int, ...], flow: Flow) -> _Sample:
        """The results that the statistics pass computes; an axis that they do not have is taken whole. FP R28-R30."""
        if flow in ("two_pass", "keep"):
            return _Sample(tuple(np.arange(size) for size in shape), np.ones(shape, np.bool_))
        axes = _AXES.get(len(shape))
        if axes is None:
            raise DataError(f"results of shape {shape} are neither rows of a matrix nor images; they cannot be sampled")
        sampling = self.settings.sampling
        if len(shape) == 2 and any(axis == "B" for axis, _ in sampling.axes):
            axes = ("B", "C")
        number = self._sampled_layers if self.settings.advance_sample else 0
        self._sampled_layers += 1
        chosen = sampling.indices(dict(zip(axes, shape, strict=True)), number)
        indices = tuple(chosen[axis] for axis in axes)
        mask = np.zeros(shape, np.bool_)
        mask[np.ix_(*indices)] = True
        return _Sample(indices, mask)
