"""Which outputs of a layer are sampled for the statistics of its fixed-point position (FP 3.5).

Blocks of equal thickness at equal distances along axes of the *outputs*; a sampled output is always a complete sum over
all its products. ``position_closure`` says what is sampled when statistics run ahead of the main pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Literal, get_args

import numpy as np

from bfpga.engines.kernel.products import NumberArray
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import Int64Array

Axis = Literal["B", "C", "H", "W"]
#: Axes in the order of arrays: batch item, channel, height, width.
AXES: tuple[Axis, ...] = get_args(Axis)


@dataclass(frozen=True)
class SampleFraction:
    """``thickness`` of every ``period`` outputs along an axis, FP R23, R28; unlike a fraction, 2/16 is not 1/8.

    ``ConfigurationError`` unless 1 <= thickness <= period: without a sample there are no statistics.
    """

    thickness: int = 1
    period: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.thickness <= self.period:
            raise ConfigurationError(
                f"the sample is {self}; a block of 1 to {max(self.period, 1)} of every {max(self.period, 1)} is needed"
            )

    @classmethod
    def parse(cls, text: str) -> SampleFraction:
        """`1/8` as a sample."""
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if match is None:
            raise ConfigurationError(f"the sample is {text!r}; a fraction like 1/8 is needed")
        return cls(int(match[1]), int(match[2]))

    @property
    def value(self) -> Fraction:
        return Fraction(self.thickness, self.period)

    def __str__(self) -> str:
        return f"{self.thickness}/{self.period}"

    def offset(self, layer: int, size: int) -> int:
        """Where the first block of a layer begins: a block further each layer, inside an axis of ``size``. FP R30.

        On an axis shorter than a period the block may reach past the end; it is then moved back, so that at least one
        output is sampled.
        """
        offset = layer * self.thickness % self.period
        wraps = offset + self.thickness > self.period
        return offset if wraps or offset < size else offset % size

    def indices(self, size: int, offset: int = 0) -> Int64Array:
        """Outputs that are sampled, ascending, of ``size`` along an axis: all i with (i - offset) mod b < a. FP R28."""
        index = np.arange(size, dtype=np.int64)
        return index[(index - offset) % self.period < self.thickness]


@dataclass(frozen=True)
class Sampling:
    """Samples along one or more axes; an output is sampled if every axis samples it. FP R28, R30.

    axes: sample of each axis. The default is every 8th row, one row further each layer.
    """

    axes: tuple[tuple[Axis, SampleFraction], ...] = (("H", SampleFraction()),)

    def __post_init__(self) -> None:
        """Refuse axes that are none, or twice the same; ``ConfigurationError``."""
        names = [axis for axis, _ in self.axes]
        for name in names:
            if name not in AXES:
                raise ConfigurationError(
                    f"sampling axis {name!r} is no axis of outputs; {', '.join(AXES)} are (terms of a sum, the axis K, "
                    "cannot be sampled: every sampled output is a complete sum)"
                )
        if not names or len(set(names)) != len(names):
            raise ConfigurationError(f"sampling axes are {names}; one or more different ones are needed")

    @classmethod
    def along(cls, axis: Axis, fraction: SampleFraction | None = None) -> Sampling:
        """One axis; 1/8 unless given."""
        return cls(((axis, fraction or SampleFraction()),))

    @property
    def fraction(self) -> Fraction:
        """Share of the outputs on axes that are whole periods."""
        return prod((sample.value for _, sample in self.axes), start=Fraction(1))

    def indices(self, sizes: Mapping[Axis, int], layer: int = 0) -> dict[Axis, Int64Array]:
        """Sampled indices along every axis of outputs of ``sizes``, for the ``layer``-th layer; all of other axes."""
        samples = dict(self.axes)
        everything = SampleFraction(1, 1)
        return {
            axis: sample.indices(size, sample.offset(layer, size))
            for axis, size in sizes.items()
            for sample in (samples.get(axis, everything),)
        }

    def sampled_fraction(self, sizes: Mapping[Axis, int], layer: int = 0) -> Fraction:
        """Share of outputs of ``sizes`` that is really sampled: short axes give more, never nothing. FP 6."""
        kept = prod(len(index) for index in self.indices(sizes, layer).values())
        return Fraction(kept, prod(sizes.values()))

    def select(self, outputs: NumberArray, layer: int = 0, axes: tuple[Axis, ...] = AXES) -> NumberArray:
        """Part of ``outputs`` that is sampled; ``axes`` names the array's axes. FP R29.

        ``ConfigurationError`` if a sampled axis is not there (rows of an im2col matrix count as H).
        """
        if len(axes) != outputs.ndim:
            raise ConfigurationError(f"outputs of shape {outputs.shape} have other axes than {', '.join(axes)}")
        for axis, _ in self.axes:
            if axis not in axes:
                raise ConfigurationError(f"the outputs have no axis {axis}; theirs are {', '.join(axes)}")
        index = self.indices(dict(zip(axes, outputs.shape, strict=True)), layer)
        selected: NumberArray = outputs[np.ix_(*(index[axis] for axis in axes))]
        return selected
