"""What layers read on calibration samples, as mantissas: cycles of arrays that skip zeros follow from theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import ArrayTensor
from bfpga.compiler.numbers.values import Float32Array, stored
from bfpga.formats.arrays import IntArray
from bfpga.formats.block_float import encode_remainders, encode_samples
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


class SampledInputs:
    """The named tensors on the first samples: ``SAMPLES`` at most, fewer of very large networks."""

    def __init__(self, tensors: Mapping[str, ArrayTensor], names: Iterable[str]) -> None:
        self.names = sorted(set(names))
        self._tensors = tensors
        size = sum(tensors[name].layout.size for name in self.names)
        self.samples = max(1, min(SAMPLES, MANTISSAS // max(1, size)))
        self._values: dict[str, list[Float32Array]] = {name: [] for name in self.names}

    def add(self, values: Mapping[str, Float32Array]) -> None:
        for name in self.names:
            self._values[name].append(values[name])

    def mantissas(
        self, scales: Mapping[str, npt.NDArray[np.float64]], exponents: Mapping[str, int], form: BlockFormat
    ) -> dict[str, IntArray]:
        """Mantissas (samples, height, width, channels) by tensor; the values are given up for them.

        scales: binary logarithms of what channels are scaled by; exponents: static ones, other tensors take that of
        each sample's maximum.
        """
        result = {}
        for name in self.names:
            values = stored(np.concatenate(self._values.pop(name)), self._tensors[name], scales.get(name))
            tensor = self._tensors[name]
            mantissas, found = encode_samples(values, form, exponents.get(name))
            if tensor.remainder:
                half = tensor.channels // 2
                left = encode_remainders(values[..., :half], mantissas[..., :half], found, form, tensor.remainder)
                mantissas = np.concatenate([mantissas[..., :half], left], axis=3)
            result[name] = mantissas
        return result
