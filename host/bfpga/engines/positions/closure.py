"""Samples that statistics can follow over many layers without the main pass (FP R46).

The preceding side of a pipeline computes its sample of every layer from its own results of the layers before, so
whatever an output reads has to be sampled too. Whole batch items are closed by themselves; slabs of rows or columns
need a halo; channels can never be closed, as an output reads all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bfpga.engines.positions.sampling import Axis, SampleFraction, Sampling
from bfpga.errors import ConfigurationError
from bfpga.formats.arrays import BoolArray, Int64Array


@dataclass(frozen=True)
class AxisWindow:
    """A layer along the sampled axis: how many outputs it has, and which of its inputs each of them reads.

    inputs: numbers of the layers whose results it reads, all of them by the same window; -1 is the network's input.
    whole: every output reads everything (fully connected, global pooling).
    """

    outputs: int
    inputs: tuple[int, ...]
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    whole: bool = False

    def reads(self, outputs: BoolArray, size: int) -> BoolArray:
        """Inputs (size,) that the marked outputs (outputs,) read; padding is not read."""
        read = np.zeros(size, bool)
        if self.whole:
            read[:] = outputs.any()
            return read
        first = np.flatnonzero(outputs) * self.stride - self.pad
        index = (first[:, None] + np.arange(self.kernel)).reshape(-1)
        read[index[(index >= 0) & (index < size)]] = True
        return read


def check_ahead(sampling: Sampling, halo: bool = False) -> Axis:
    """The one axis of a sample that may run ahead over layers. FP R46.

    ``ConfigurationError`` for more than one axis, for channels, and for rows or columns unless ``halo`` is on.
    """
    why = "in a pipeline the statistics run ahead over layers and must hold all that their sample reads"
    names = [axis for axis, _ in sampling.axes]
    if len(names) != 1:
        raise ConfigurationError(f"sampling axes are {', '.join(names)}: {why}; sample along one axis, best B")
    if names[0] == "C":
        raise ConfigurationError(f"sampling axis is C: {why}, and every output reads all channels; sample along B")
    if names[0] != "B" and not halo:
        raise ConfigurationError(
            f"sampling axis is {names[0]}: {why}; sample whole batch items (B) or turn the halo on"
        )
    return names[0]


def batch_sample(sampling: Sampling, batch: int) -> Int64Array:
    """Items of a batch that go through all layers, the same ones in each; at least one, so 1/batch of the work. FP R46.

    ``ConfigurationError`` if the sample is along another axis.
    """
    if check_ahead(sampling, halo=True) != "B":
        raise ConfigurationError(f"sampling axis is {sampling.axes[0][0]}; items of a batch are sampled along B")
    return sampling.axes[0][1].indices(batch)


def closed_slabs(layers: Sequence[AxisWindow], sample: SampleFraction) -> tuple[Int64Array, ...]:
    """Outputs along the axis that the preceding side computes of every layer: its sample and the halo of later layers.

    layers: in the order in which they run. FP R46, with the halo on.
    """
    marked = [np.zeros(layer.outputs, bool) for layer in layers]
    for number in reversed(range(len(layers))):
        layer = layers[number]
        marked[number][sample.indices(layer.outputs, sample.offset(number, layer.outputs))] = True
        for source in _sources(layers, number):
            marked[source] |= layer.reads(marked[number], layers[source].outputs)
    return tuple(np.flatnonzero(outputs) for outputs in marked)


def is_closed(layers: Sequence[AxisWindow], samples: Sequence[Int64Array]) -> bool:
    """Whether all that sampled outputs read is sampled as well; the network's input is always there. FP R46."""
    marked = [np.isin(np.arange(layer.outputs), sample) for layer, sample in zip(layers, samples, strict=True)]
    return all(
        not (layer.reads(marked[number], layers[source].outputs) & ~marked[source]).any()
        for number, layer in enumerate(layers)
        for source in _sources(layers, number)
    )


def _sources(layers: Sequence[AxisWindow], number: int) -> list[int]:
    """Layers that a layer reads, without the network's input."""
    sources = [source for source in layers[number].inputs if source >= 0]
    if any(source >= number for source in sources):
        raise ConfigurationError(f"layer {number} reads layer {max(sources)}, which does not run before it")
    return sources
