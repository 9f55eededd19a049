"""Fine-tuning: the weights that stay learn to do without the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import cos, inf, pi
from time import perf_counter

import numpy as np

from bfpga.formats.arrays import FloatArray
from bfpga.pruning.lesson import Augmentation, Batch, Lesson
from bfpga.pruning.uncorrelated import UncorrelatedAdam
from bfpga.training.shards import Shards

#: Samples that a fine-tuning sees by default, and the fewest and most passes over them.
SEEN, EPOCHS = 100_000, (10, 100)


@dataclass(frozen=True)
class Tuning:
    """How long and how fast.

    epochs: 0 for no fine-tuning; None for as many as ``SEEN`` samples make, within ``EPOCHS``. rate: largest step, as a
    share of what a layer's weights do to its results. seconds: what it may take; rates fall and it ends sooner where
    epochs would take longer.
    """

    epochs: int | None = None
    rate: float = 0.006
    batch: int = 32
    seed: int = 0
    augmentation: Augmentation = field(default_factory=Augmentation)
    seconds: float = inf

    def epochs_of(self, samples: int) -> int:
        """Passes over so many samples."""
        return min(max(SEEN // samples, EPOCHS[0]), EPOCHS[1]) if self.epochs is None else self.epochs

    def iterations_each(self, samples: int) -> int:
        """Of an epoch; samples that fill no batch come in another one."""
        return max(1, samples // self.batch)

    def iterations(self, samples: int) -> int:
        """Of all epochs."""
        return self.epochs_of(samples) * self.iterations_each(samples)


def fine_tuned(
    shards: Shards,
    lesson: Lesson,
    tuning: Tuning,
    judge: Callable[[Mapping[str, FloatArray]], float],
    start: Mapping[str, FloatArray],
    pruned: Sequence[str],
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Mapping[str, FloatArray], float]:
    """The constants with the least loss by ``judge``, ``start`` or those after any epoch; how many epochs there were.

    pruned: constants whose zeros in ``start`` stay zeros.
    """
    network = shards.network
    network.load(start)
    held = [(item := network.learned[name].parameter, item.value != 0) for name in pruned]
    best, done = (judge(start), start), 0.0
    whole, each = tuning.iterations(len(lesson)), tuning.iterations_each(len(lesson))
    with shards:
        optimizer = UncorrelatedAdam(network, lesson.samples.inputs, tuning.rate)
        for iteration, (batch, passed) in enumerate(_batches(lesson, tuning)):
            shards.learn(batch.inputs, batch.gradient)
            optimizer.rate = tuning.rate * 0.5 * (1 + cos(pi * passed))
            optimizer.update()
            for parameter, kept in held:
                parameter.value *= kept
            if progress is not None:
                progress(iteration + 1, whole)
            done = (iteration + 1) / each
            if done == int(done) or passed == 1:
                found = network.constants()
                best = min(best, (judge(found), found), key=lambda item: item[0])
    return best[1], done


def _batches(lesson: Lesson, tuning: Tuning) -> Iterator[tuple[Batch, float]]:
    """Samples in an order by chance, anew each epoch, and how much of the whole has passed; 1 ends it before."""
    generator, began = np.random.default_rng(tuning.seed), perf_counter()
    whole, each = tuning.iterations(len(lesson)), tuning.iterations_each(len(lesson))
    order = np.arange(len(lesson))
    for iteration in range(whole):
        if iteration % each == 0:
            order = generator.permutation(len(lesson))
        passed = min(max(iteration / whole, (perf_counter() - began) / tuning.seconds), 1.0)
        first = iteration % each * tuning.batch
        yield lesson.batch(order[first : first + tuning.batch], generator), passed
        if passed == 1:
            return
