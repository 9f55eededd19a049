"""Histograms of layers whose exponents follow from their own results, as a device counts them (FP R49).

A kernel tells what its collector has counted; the emulator's has the same bins, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from bfpga.contract.program import HostNode, Program
from bfpga.devices.base import Device
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY
from bfpga.engines.output.collector import PositionHistogram
from bfpga.program.flow_listing import rule_text
from bfpga.runtime import run


@dataclass(frozen=True)
class LayerHistogram:
    """What preceded a layer found. exponents: the smallest and the largest that samples chose; saturated: results."""

    layer: str
    rule: str
    exponents: tuple[int, int]
    saturated: int
    histogram: PositionHistogram

    def to_dict(self) -> dict[str, Any]:
        """For machines; counts by position."""
        return {
            "layer": self.layer,
            "rule": self.rule,
            "exponents": list(self.exponents),
            "saturated": self.saturated,
            "measured": self.histogram.values,
            "without_bit": self.histogram.without_bit,
            "counts": {str(position): count for position, count in self.histogram.counts.items()},
        }


def position_histograms(
    program: Program, inputs: Mapping[str, npt.NDArray[Any]], samples: int, device: Device | None = None
) -> list[LayerHistogram]:
    """The layers with a collector's rule, in order, after the first ``samples`` samples.

    device: with this program; None: the emulator. What its policy slots have learned before is forgotten.
    """
    counting = device or Emulator(program, instructions=NUMPY)
    counting.reset()
    result = run(program, {name: values[:samples] for name, values in inputs.items()}, counting, trace=True)
    counted = {layer.name: layer.counters for layer in result.layers}
    found = []
    for node in program.nodes:
        counters = counted[node.name]
        if not isinstance(node, HostNode) and counters is not None and counters.histogram is not None:
            exponents = result.tensors[node.output].exponent
            span = int(exponents.min()), int(exponents.max())
            rule = rule_text(node.policy)
            found.append(LayerHistogram(node.name, rule, span, counters.overflows, counters.histogram))
    return found


def first_difference(expected: Sequence[LayerHistogram], told: Sequence[LayerHistogram]) -> str:
    """The first layer whose histograms differ, in words; empty if all are the same, bin by bin."""
    others = {layer.layer: layer for layer in told}
    for layer in expected:
        other = others.get(layer.layer)
        if other != layer:
            counts = "nothing" if other is None else other.to_dict()
            return f"layer {layer.layer}: the emulator has {layer.to_dict()}, the device {counts}"
    return ""
