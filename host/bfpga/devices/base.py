"""The one interface of everything a program runs on: emulator, C simulation, boards (architecture 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import BlockTensor
from bfpga.devices.health import BoardHealth
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.engines.kernel.arithmetic import LayerCounters
from bfpga.engines.kernel.records import MapRecords
from bfpga.formats import notebook

HostArray = npt.NDArray[Any]


@dataclass
class LayerResult:
    """One layer of a run, all samples together. ``cycles`` is 0 for work of the host; ``counters`` may be missing.

    choices: of a layer that is computed in one of two ways (contract/predicates.py), for each sample whether there was
    more than the threshold; None of other layers.
    maps: of a layer that a sparse cluster computes, the cuts and shares of its operations' maps, as the kernel reports
    them; of the emulator what a kernel would report, in a run with a trace.
    """

    name: str
    engine: str
    macs: int = 0
    cycles: int = 0
    counters: LayerCounters | None = None
    choices: tuple[bool, ...] | None = None
    maps: MapRecords | None = None


@dataclass(repr=False)
class DeviceResult:
    """What a run gives. `bfpga.Result` is its public name.

    outputs: float32 by ONNX name, batch axis first. tensors: every activation tensor the array produced, by name, on
    request (trace). cycles: clocks the array spent on all samples, resident weights already loaded. seconds: wall
    clock of this machine by part of the work. measured: the clocks that the starts of the run really took, where
    hardware has a counter for them. boards, cores: the share of each, where several shared it.
    """

    outputs: dict[str, HostArray]
    samples: int
    cycles: int = 0
    layers: list[LayerResult] = field(default_factory=list)
    tensors: dict[str, BlockTensor] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    measured: MeasuredClocks | None = None
    boards: list[BoardHealth] = field(default_factory=list)
    cores: list[BoardHealth] = field(default_factory=list)

    @property
    def counters(self) -> LayerCounters:
        """Counts and status bits of all layers that were counted."""
        total = LayerCounters()
        for layer in self.layers:
            if layer.counters is not None:
                total.include(layer.counters)
        total.saturated_samples = total.most_saturated = None  # a sample may saturate in several layers
        total.histogram = None  # positions of different layers have nothing in common
        return total


    def __repr__(self) -> str:
        shapes = {name: values.shape for name, values in self.outputs.items()}
        layers = f"{len(self.layers)} layers, {notebook.count_text(self.cycles)} cycles"
        return f"Result({self.samples} samples; {notebook.values_text('output', shapes)}; {layers})"

    def _repr_html_(self) -> str:
        counted = [(layer, layer.counters) for layer in self.layers]
        rows = [
            (layer.name, layer.engine, f"{layer.macs:,}", f"{layer.cycles:,}",
             "" if counters is None else f"{counters.overflows:,}")
            for layer, counters in counted
        ]  # fmt: skip
        headings = ("layer", "engine", "MACs", "cycles", "saturated values")
        return notebook.page(
            repr(self),
            notebook.table(headings, rows, headings[2:]),
            notebook.bars("cycles of all samples", [(layer.name, layer.cycles) for layer in self.layers], "cycles"),
        )


class Device(Protocol):
    """A device with one program open. Policy slots keep what they learned from run to run; ``reset`` clears them."""

    @property
    def name(self) -> str:
        """Name as the user gives it."""
        ...

    def run(self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False) -> DeviceResult:
        """Run a batch. inputs: (samples, *shape) floats by ONNX name.

        trace: keep every tensor the array produced.
        """
        ...

    def reset(self) -> None:
        """Forget what policy slots learned."""
        ...

    def close(self) -> None:
        """Release memory and files."""
        ...
