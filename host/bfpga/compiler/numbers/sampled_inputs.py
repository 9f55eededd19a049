"""What layers read on calibration samples, as mantissas: their zeros decide which engine is the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import Lowered
from bfpga.compiler.numbers.input_moments import stored_values
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.simplify import captured_values
from bfpga.formats.arrays import IntArray
from bfpga.formats.block_float import encode_samples
from bfpga.formats.block_format import BlockFormat

#: Samples that are looked at, and mantissas that are held of all of them together.
SAMPLES = 16
MANTISSAS = 64_000_000


@dataclass(frozen=True)
class ZeroCount:
    """Zeros among the elements of a tensor, over all samples that were counted (SC R10)."""

    zeros: int
    elements: int

    @property
    def percent(self) -> float:
        return 100 * self.zeros / self.elements if self.elements else 0.0

    @property
    def density(self) -> float:
        """Share of the elements that are not zero."""
        return 1 - self.zeros / self.elements if self.elements else 1.0


def count_zeros(values: npt.NDArray[np.generic]) -> ZeroCount:
    """Zeros of a tensor of any shape (SC R10)."""
    return ZeroCount(values.size - int(np.count_nonzero(values)), values.size)


def sampled_inputs(
    graph: Graph,
    lowered: Lowered,
    names: Sequence[str],
    samples: Mapping[str, npt.NDArray[np.float32]],
    scales: Mapping[str, npt.NDArray[np.float64]],
    exponents: Mapping[str, int],
    form: BlockFormat,
) -> dict[str, IntArray]:
    """Mantissas (samples, height, width, channels) of the named tensors of the float network, by name.

    scales: binary logarithms of what channels are stored times; exponents: static ones, other tensors take that of each
    sample's maximum. The first samples are taken, ``SAMPLES`` at most, fewer of very large networks.
    """
    wanted = sorted(set(names))
    if not wanted:
        return {}
    size = sum(lowered.tensors[name].layout.size for name in wanted)
    count = max(1, min(SAMPLES, MANTISSAS // size))
    parts: dict[str, list[IntArray]] = {name: [] for name in wanted}
    first = {name: array[:count] for name, array in samples.items()}
    for values in captured_values(graph.model, first, wanted):
        for name in wanted:
            stored = stored_values(values[name], lowered, name, scales)
            parts[name].append(encode_samples(stored, form, exponents.get(name))[0])
    return {name: np.concatenate(found) for name, found in parts.items()}
