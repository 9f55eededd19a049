"""How the positions of a network's layers are found: flow, formats, rule, sample (FP 2, 3.4, 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from bfpga.engines.positions.sampling import Sampling
from bfpga.engines.positions.times import FLOWS, Flow
from bfpga.errors import ConfigurationError
from bfpga.formats.fixed_point import POSITIONS, FixedPointFormat, require_choice, require_range
from bfpga.formats.position_rules import PositionRule
from bfpga.formats.wide_statistics import StatisticsKind

Granularity = Literal["tensor", "channel"]


@dataclass(frozen=True)
class FlowSettings:
    """How positions are found; ``ConfigurationError`` where numbers do not fit each other.

    granularity: one position for a tensor, or for each channel. advance_sample: the sample begins a block further in
    every layer (FP R30). initial_position: first position before the first layer, and of ``delayed`` in the first
    iteration. assumed_position: the first position of every layer instead of that of the layer before; the results do
    not depend on it (FP R19). static_positions: calibrated position of each layer, by name.
    """

    flow: Flow = "two_pass_sampled"
    format: FixedPointFormat = field(default_factory=FixedPointFormat)
    rule: PositionRule = field(default_factory=PositionRule)
    statistics: StatisticsKind = field(default_factory=StatisticsKind)
    sampling: Sampling = field(default_factory=Sampling)
    advance_sample: bool = True
    granularity: Granularity = "tensor"
    initial_position: int = 0
    assumed_position: int | None = None
    static_positions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_choice("flow", self.flow, FLOWS)
        require_choice("granularity", self.granularity, get_args(Granularity))
        require_range("initial_position", self.initial_position, POSITIONS)
        if self.assumed_position is not None:
            require_range("assumed_position", self.assumed_position, POSITIONS)
        for name, position in self.static_positions.items():
            require_range(f"static_positions[{name!r}]", position, POSITIONS)
        if self.statistics.acc_width != self.format.acc_width:
            raise ConfigurationError(
                f"statistics.acc_width is {self.statistics.acc_width}, format.acc_width {self.format.acc_width}; "
                "they are the width of the same results"
            )
        if self.granularity == "channel" and any(axis == "C" for axis, _ in self.sampling.axes):
            raise ConfigurationError(
                "granularity is channel, so no channel may be left out: sample another axis than C"
            )
        self.rule.check(self.statistics)
