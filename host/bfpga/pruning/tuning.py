"""Fine-tuning: zeros come bit by bit while the weights that stay learn to do without the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi

import numpy as np

from bfpga.formats.arrays import BoolArray, Float32Array, FloatArray
from bfpga.pruning.layers import Group, PrunableLayer
from bfpga.training.network import LearningNetwork
from bfpga.training.steps import RelativeAdam, soft_cross_entropy

Masks = dict[str, BoolArray]
#: Share of the iterations in which zeros come, and how often the weights that go are chosen anew in them.
RISING, CHOICES = 0.5, 20


@dataclass(frozen=True)
class Tuning:
    """How long and how fast. rate: largest step of a weight, as a share of its layer's root mean square."""

    epochs: int = 10
    rate: float = 0.01
    batch: int = 32
    seed: int = 0

    def iterations(self, samples: int) -> int:
        """Of all epochs; samples that fill no batch come in another epoch."""
        return self.epochs * max(1, samples // self.batch)


class Pruner:
    """A network that learns while its weights go. sparsities: shares of zeros at the end, by layer."""

    def __init__(
        self,
        network: LearningNetwork,
        layers: Sequence[PrunableLayer],
        sparsities: Mapping[str, float],
        group: Group | None = None,
    ) -> None:
        self.network, self.layers, self.sparsities, self.group = network, layers, sparsities, group
        self._masks: Masks = {}

    def tune(
        self,
        inputs: Mapping[str, Float32Array],
        targets: FloatArray,
        tuning: Tuning,
        judge: Callable[[Mapping[str, FloatArray]], float],
        progress: Callable[[int, int], None] | None = None,
    ) -> dict[str, Float32Array]:
        """The constants with the least loss by ``judge`` after any of the epochs in which all zeros are there.

        targets: (samples, classes), what each sample's scores shall say. inputs: samples by input.
        """
        generator, samples = np.random.default_rng(tuning.seed), len(targets)
        whole, each = tuning.iterations(samples), max(1, samples // tuning.batch)
        optimizer = RelativeAdam(self.network.parameters, tuning.rate)
        best: tuple[float, dict[str, Float32Array]] | None = None
        order = np.arange(samples)
        for iteration in range(whole):
            if iteration % each == 0:
                order = generator.permutation(samples)
            self._choose(iteration, whole)
            start = iteration % each * tuning.batch
            part = order[start : start + tuning.batch]
            scores = self.network.forward({name: values[part] for name, values in inputs.items()})
            _, gradient = soft_cross_entropy(scores, targets[part])
            self.network.backward(gradient)
            optimizer.rate = tuning.rate * 0.5 * (1 + cos(pi * iteration / whole))
            optimizer.update()
            self._mask()
            if progress is not None:
                progress(iteration + 1, whole)
            if (iteration + 1) % each == 0 and iteration + 1 >= RISING * whole:
                self._choose(whole, whole)
                found = self.network.constants()
                loss = judge(found)
                if best is None or loss < best[0]:
                    best = loss, found
        assert best is not None
        return best[1]

    def _choose(self, iteration: int, whole: int) -> None:
        """Choose anew what goes, as long as zeros come: many at first, fewer and fewer (Zhu and Gupta, 2017)."""
        rising = max(1, int(RISING * whole))
        step = max(1, rising // CHOICES)
        if iteration < whole and (iteration > rising or (iteration % step and iteration < rising)):
            return
        share = 1 - (1 - min(1.0, iteration / rising)) ** 3
        for layer in self.layers:
            learned = self.network.learned[layer.constant]
            weights = learned.outward(learned.parameter.value)
            kept = layer.kept(weights, share * self.sparsities[layer.name], self.group)
            self._masks[layer.constant] = learned.inward(kept.astype(np.float64)) != 0
        self._mask()

    def _mask(self) -> None:
        for name, kept in self._masks.items():
            self.network.learned[name].parameter.value *= kept
