"""Which flow finds the position of each layer: the faster one, by measured clocks or by the time model (FP 3.6).

During the first iterations every layer that updates its position runs all candidates; the bits are the same, so the
first candidate's results are used. Afterwards each layer, or each type of operation, keeps the fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from bfpga.engines.positions.times import FLOWS, Flow, LayerTimes, TimeModel
from bfpga.errors import ConfigurationError
from bfpga.formats.fixed_point import require_choice

Grouping = Literal["layer", "operation"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
#: Earlier ones win a tie: two passes need no buffer. FP R33.
CANDIDATES: tuple[Flow, ...] = ("two_pass_sampled", "keep_sampled")
#: Modelled times that differ by a smaller share are equal: they are not exact like counted clocks.
MODEL_TIE = 1e-9


@dataclass(frozen=True)
class PositionLayer:
    """A layer as the choice sees it. updates_position: false passes the position of its input through. FP R35."""

    name: str
    operation: str
    updates_position: bool = True


@dataclass
class FlowChooser:
    """Takes measured clocks and answers which flow a layer runs. FP R33, R34, R36.

    iterations: how many are measured (A). by: one choice for each layer, or for all layers of the same operation.
    candidates: flows to compare, the one that wins a tie first; all with the same sample.
    """

    layers: Sequence[PositionLayer]
    iterations: int = 8
    by: Grouping = "layer"
    candidates: tuple[Flow, ...] = CANDIDATES
    finished: int = field(default=0, init=False)
    _clocks: dict[tuple[str, Flow], list[float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Refuse what leaves no choice; ``ConfigurationError``."""
        names = [layer.name for layer in self.layers]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigurationError(f"two layers are named {twice!r}; clocks are kept by name")
        if self.iterations < 1:
            raise ConfigurationError(f"choice.iterations is {self.iterations}; 1 or more must be measured")
        require_choice("choice.by", self.by, GROUPINGS)
        if not self.candidates or not set(self.candidates) <= set(FLOWS):
            raise ConfigurationError(
                f"choice.candidates are {list(self.candidates)}; some of {', '.join(FLOWS)} are needed"
            )

    @property
    def measuring(self) -> bool:
        """Whether candidates are still compared."""
        return self.finished < self.iterations

    def flows(self, name: str) -> tuple[Flow, ...]:
        """Flows that a layer runs in this iteration; the first one's results are used. None of a layer that passes
        its position through. FP R33, R35."""
        if not self._layer(name).updates_position:
            return ()
        return self.candidates if self.measuring else (self.choice(name),)

    def record(self, name: str, flow: Flow, clocks: float) -> None:
        """Take what a layer took under a flow; not after the last measured iteration.

        ``ConfigurationError`` for a layer or a flow that is not compared, or for clocks below 0.
        """
        if not self._layer(name).updates_position:
            raise ConfigurationError(f"layer {name!r} passes its position through; there is nothing to measure")
        if flow not in self.candidates:
            raise ConfigurationError(f"flow {flow!r} is no candidate; {', '.join(self.candidates)} are compared")
        if not clocks >= 0:
            raise ConfigurationError(f"layer {name!r} took {clocks} clocks under {flow}; 0 or more are needed")
        if self.measuring:
            self._clocks.setdefault((name, flow), []).append(clocks)

    def finish_iteration(self) -> None:
        """Count an iteration; after the last measured one every layer runs its choice only."""
        self.finished += 1

    def mean(self, name: str, flow: Flow) -> Fraction | None:
        """Mean of the clocks of one layer, exactly; None if it never ran."""
        clocks = self._clocks.get((name, flow), [])
        return sum(map(Fraction, clocks), Fraction(0)) / len(clocks) if clocks else None

    def clocks(self, name: str) -> dict[Flow, list[float]]:
        """What one layer took in each measured iteration, by the flows that it ran."""
        return {flow: list(self._clocks[name, flow]) for flow in self.candidates if (name, flow) in self._clocks}

    def choice(self, name: str) -> Flow:
        """The fastest candidate of what is measured so far, of layers alike if ``by`` is the operation. FP R33, R34.

        A layer that never ran gets the first candidate.
        """
        layer = self._layer(name)
        group = [layer] if self.by == "layer" else self._alike(layer)
        return self.candidates[_first_smallest([self._group_mean(group, flow) for flow in self.candidates])]

    def choices(self) -> dict[str, Flow | None]:
        """Choice of every layer; None where the position passes through."""
        return {layer.name: self.choice(layer.name) if layer.updates_position else None for layer in self.layers}

    def _layer(self, name: str) -> PositionLayer:
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ConfigurationError(
            f"there is no layer {name!r}; layers are {', '.join(layer.name for layer in self.layers)}"
        )

    def _alike(self, layer: PositionLayer) -> list[PositionLayer]:
        return [other for other in self.layers if other.operation == layer.operation]

    def _group_mean(self, group: Sequence[PositionLayer], flow: Flow) -> Fraction | None:
        """Mean over the layers' means, each counted once; None if none ran."""
        known = [mean for layer in group if (mean := self.mean(layer.name, flow)) is not None]
        return sum(known, Fraction(0)) / len(known) if known else None


def modelled_choice(
    layer: LayerTimes, model: TimeModel, fraction: float | Fraction, candidates: Sequence[Flow] = CANDIDATES
) -> Flow:
    """The fastest candidate by the time model, without a measurement; the first of equal ones. FP R36."""
    times = model.flow_times(layer, fraction)
    known = [float(times.of(flow)) for flow in candidates]
    return next(flow for flow, time in zip(candidates, known, strict=True) if time <= min(known) * (1 + MODEL_TIE))


def loss_of_choice(measured: Mapping[Flow, float], choice: Flow) -> float:
    """How much longer a choice takes than the fastest measured flow: 0.1 is ten percent. FP R36."""
    best = min(measured.values())
    return measured[choice] / best - 1 if best else 0.0


def choice_rows(chooser: FlowChooser) -> tuple[list[str], list[tuple[object, ...]]]:
    """Headings and rows of a table: mean clocks of each candidate, the choice, what it saves against the slowest."""
    headings = ["layer", "operation", *chooser.candidates, "choice", "saves"]
    return headings, [_row(chooser, layer) for layer in chooser.layers]


def _row(chooser: FlowChooser, layer: PositionLayer) -> tuple[object, ...]:
    if not layer.updates_position:
        return (layer.name, layer.operation, *("-" for _ in chooser.candidates), "passes through", "-")
    means = [chooser.mean(layer.name, flow) for flow in chooser.candidates]
    choice = chooser.choice(layer.name)
    slowest = max((mean for mean in means if mean is not None), default=None)
    chosen = chooser.mean(layer.name, choice)
    saved = "-" if not slowest or chosen is None else f"{100 * float(1 - chosen / slowest):.1f} %"
    shown = ("-" if mean is None else float(mean) for mean in means)
    return (layer.name, layer.operation, *shown, choice, saved)


def _first_smallest(values: Sequence[Fraction | None]) -> int:
    """Index of the smallest known value, the first of equal ones; 0 if none is known."""
    known = [(value, index) for index, value in enumerate(values) if value is not None]
    return min(known)[1] if known else 0
