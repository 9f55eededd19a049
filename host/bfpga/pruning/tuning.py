"""Fine-tuning: the weights that stay learn to do without the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi

import numpy as np

from bfpga.formats.arrays import FloatArray
from bfpga.pruning.lesson import Augmentation, Lesson
from bfpga.training.shards import Shards
from bfpga.training.steps import RelativeAdam

#: Samples that a fine-tuning sees where nobody says how long, and the fewest and most passes over them.
SEEN, EPOCHS = 100_000, (10, 100)


@dataclass(frozen=True)
class Tuning:
    """How long and how fast.

    epochs: 0 for no fine-tuning; None for as many as ``SEEN`` samples make, within ``EPOCHS``. rate: largest step of a
    weight, as a share of its layer's root mean square.
    """

    epochs: int | None = None
    rate: float = 0.01
    batch: int = 32
    seed: int = 0
    augmentation: Augmentation | None = None

    def epochs_of(self, samples: int) -> int:
        """Passes over so many samples."""
        return min(max(SEEN // samples, EPOCHS[0]), EPOCHS[1]) if self.epochs is None else self.epochs

    def iterations(self, samples: int) -> int:
        """Of all epochs; samples that fill no batch come in another epoch."""
        return self.epochs_of(samples) * max(1, samples // self.batch)


def fine_tuned(
    shards: Shards,
    lesson: Lesson,
    tuning: Tuning,
    judge: Callable[[Mapping[str, FloatArray]], float],
    start: Mapping[str, FloatArray],
    pruned: Sequence[str],
    progress: Callable[[int, int], None] | None = None,
) -> Mapping[str, FloatArray]:
    """The constants with the least loss by ``judge``: ``start``, or those after any epoch.

    pruned: constants whose zeros in ``start`` stay zeros.
    """
    generator, samples, network = np.random.default_rng(tuning.seed), len(lesson), shards.network
    network.load(start)
    held = [network.learned[name].parameter for name in pruned]
    kept = [parameter.value != 0 for parameter in held]
    optimizer = RelativeAdam(network.parameters, tuning.rate)
    whole, each = tuning.iterations(samples), max(1, samples // tuning.batch)
    best, order = (judge(start), start), np.arange(samples)
    with shards:
        for iteration in range(whole):
            if iteration % each == 0:
                order = generator.permutation(samples)
            first = iteration % each * tuning.batch
            batch = lesson.batch(order[first : first + tuning.batch], generator)
            shards.learn(batch.inputs, batch.gradient)
            optimizer.rate = tuning.rate * 0.5 * (1 + cos(pi * iteration / whole))
            optimizer.update()
            for parameter, mask in zip(held, kept, strict=True):
                parameter.value *= mask
            if progress is not None:
                progress(iteration + 1, whole)
            if (iteration + 1) % each == 0:
                found = network.constants()
                best = min(best, (judge(found), found), key=lambda item: item[0])
    return best[1]
