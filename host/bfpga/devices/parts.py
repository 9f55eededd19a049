"""Runs in parts: results of consecutive batches as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bfpga.contract.program import BlockTensor
from bfpga.devices.base import DeviceResult, LayerResult
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.engines.kernel.records import MapRecords


def joined(parts: list[DeviceResult]) -> DeviceResult:
    """Results of consecutive batches as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    result = DeviceResult(
        {name: np.concatenate([part.outputs[name] for part in parts]) for name in first.outputs},
        sum(part.samples for part in parts),
        sum(part.cycles for part in parts),
        tensors={
            name: BlockTensor(
                np.concatenate([part.tensors[name].mantissa for part in parts]),
                np.concatenate([part.tensors[name].exponent for part in parts]),
            )
            for name in first.tensors
        },
        measured=_joined_measurements([part.measured for part in parts]),
    )
    result.boards, result.cores = parts[-1].boards, parts[-1].cores  # they count from the beginning
    for part in parts:
        for key, seconds in part.seconds.items():
            result.seconds[key] = result.seconds.get(key, 0.0) + seconds
    result.layers = joined_layers([part.layers for part in parts])
    return result


def _joined_measurements(parts: list[MeasuredClocks | None]) -> MeasuredClocks | None:
    known = [part for part in parts if part is not None]
    return sum(known, MeasuredClocks()) if known else None


def joined_layers(parts: Sequence[Sequence[LayerResult]]) -> list[LayerResult]:
    """Layers of all batches, each layer with the sums of its batches."""
    return [_joined_layer([part[index] for part in parts]) for index in range(len(parts[0]))] if parts else []


def _joined_layer(parts: list[LayerResult]) -> LayerResult:
    first = parts[0]
    result = LayerResult(first.name, first.engine)
    for part in parts:
        result.macs += part.macs
        result.cycles += part.cycles
        if part.counters is not None:
            if result.counters is None:
                result.counters = type(part.counters)()
            result.counters.include(part.counters)
    choices = [part.choices for part in parts if part.choices is not None]
    result.choices = sum(choices, ()) if len(choices) == len(parts) else None
    maps = [part.maps.words for part in parts if part.maps is not None]
    result.maps = MapRecords(np.concatenate(maps)) if len(maps) == len(parts) else None
    return result
