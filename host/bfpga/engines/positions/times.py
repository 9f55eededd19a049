"""How long a layer takes under each way of finding the fixed-point position of its results (FP 6).

The position is fixed from statistics of wide results; a *flow* says what is computed for the statistics, and whether
wide results are computed again or kept. All times are in one unit, milliseconds or clocks; selecting the position
itself is too short to count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError

Flow = Literal["delayed", "two_pass", "two_pass_sampled", "keep", "keep_sampled", "static"]
#: Every flow; the first five are at their numbers in the specification.
FLOWS: tuple[Flow, ...] = get_args(Flow)
#: A number, or an array of numbers for many layers at once.
Time = float | npt.NDArray[np.float64]


@dataclass(frozen=True)
class LayerTimes:
    """What one pass over a layer takes: computing, reading its narrow input, writing its narrow output.

    Arrays of one shape describe many layers. ``ConfigurationError`` for a time below 0.
    """

    compute: Time
    read: Time
    write: Time

    def __post_init__(self) -> None:
        for name in ("compute", "read", "write"):
            time = np.asarray(getattr(self, name))
            if not (np.isfinite(time) & (time >= 0)).all():
                raise ConfigurationError(f"layer.{name} is {time}; a time of 0 or more is needed")


@dataclass(frozen=True)
class FlowTimes:
    """Time of a layer under every flow, in the unit of its ``LayerTimes``."""

    delayed: Time
    two_pass: Time
    two_pass_sampled: Time
    keep: Time
    keep_sampled: Time

    @property
    def static(self) -> Time:
        """A calibrated position takes no statistics either: as fast as ``delayed``. FP R21."""
        return self.delayed

    def of(self, flow: Flow) -> Time:
        time: Time = getattr(self, flow)
        return time


@dataclass(frozen=True)
class TimeModel:
    """Where narrow and wide results are moved (FP 6).

    wide_ratio: size of a wide result over that of a narrow one. duplex: reading and writing have channels of their own.
    on_chip: kept wide results never leave the chip. launch: what a further start by the host takes, if the host starts
    the two passes of a layer one by one; 0 if one start runs both.
    """

    wide_ratio: float = 4.0
    duplex: bool = False
    on_chip: bool = False
    launch: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no memory; ``ConfigurationError``."""
        if not 1 <= self.wide_ratio < math.inf:
            raise ConfigurationError(f"wide_ratio is {self.wide_ratio}; wide results are 1 or more times as large")
        if not 0 <= self.launch < math.inf:
            raise ConfigurationError(f"launch is {self.launch}; a time of 0 or more is needed")

    def transfer(self, read: Time, write: Time) -> Time:
        """Time in which both transfers are through: one after the other, side by side with ``duplex``."""
        time: Time = np.maximum(read, write) if self.duplex else read + write
        return time

    def flow_times(self, layer: LayerTimes, fraction: float | Fraction) -> FlowTimes:
        """Time of ``layer`` under every flow. FP R36, R48, equations T0 to T4 of FP 6.

        fraction: share of the outputs that is sampled; 0 is the limit of an ever smaller sample, which no sampling
        reaches. Flows with two passes pay ``launch`` once. ``ConfigurationError`` for a share outside 0..1.
        """
        share = float(fraction)
        if not 0 <= share <= 1:
            raise ConfigurationError(f"the sampled fraction is {fraction}; a share from 0 to 1 is needed")
        direct = np.maximum(layer.compute, self.transfer(layer.read, layer.write))
        statistics = np.maximum(layer.compute, layer.read)
        keep = self._keep(layer)
        return FlowTimes(
            delayed=direct,
            two_pass=statistics + direct + self.launch,
            two_pass_sampled=share * statistics + direct + self.launch,
            keep=keep + self.launch,
            keep_sampled=share * keep + (1 - share) * direct + self.launch,
        )

    def _keep(self, layer: LayerTimes) -> Time:
        """Compute and write all wide results, then read them back and write narrow ones."""
        if self.on_chip:
            compute: Time = np.maximum(layer.compute, layer.read)
            return compute + layer.write
        wide = self.wide_ratio * layer.write
        time: Time = np.maximum(layer.compute, self.transfer(layer.read, wide)) + self.transfer(wide, layer.write)
        return time

    def break_even_compute(self, read: float, write: float) -> float:
        """Computing time above which keeping wide results beats computing them twice; FP 6.

        It does not depend on the sample: keep_sampled - two_pass_sampled = fraction * (keep - two_pass).
        For layers that compute longer than they transfer, and without variants, it is (wide_ratio + 1) * write.
        """
        # The lead of two passes falls with computing time, in straight lines between these limits, at last one to one.
        limits = {0.0, read, self.transfer(read, write), self.transfer(read, self.wide_ratio * write)}
        compute = np.array(sorted(float(limit) for limit in limits))
        times = self.flow_times(LayerTimes(compute, read, write), 1)
        lead = np.asarray(times.keep - times.two_pass)
        if lead[0] < 0:
            return 0.0
        last = int(np.flatnonzero(lead >= 0)[-1])
        if last + 1 == len(compute):
            return float(compute[last] + lead[last])
        return float(np.interp(0, lead[[last + 1, last]], compute[[last + 1, last]]))


def wide_buffer_bytes(outputs: int, fraction: Fraction | int = 1, wide_bits: int = 32) -> int:
    """Bytes that the kept wide results of a layer take, to be compared with the memory of a chip. FP 6, R24, R25."""
    return math.ceil(outputs * fraction) * math.ceil(wide_bits / 8)
