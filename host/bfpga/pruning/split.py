"""Which samples a pruning learns from, which choose the sparsities, and which judge what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bfpga.data import InputSamples
from bfpga.errors import DataError
from bfpga.formats.arrays import Float32Array, IntArray

#: Shares of the samples that judge, and of the others that choose; the most that choose, as every step runs them all.
JUDGING, CHOOSING, MOST_CHOOSING = 0.25, 0.2, 1000
#: Samples without which nothing can be learned or judged.
FEWEST = 40


@dataclass(frozen=True)
class Labelled:
    """Samples by input, and their classes."""

    inputs: dict[str, Float32Array]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, chosen: IntArray) -> Labelled:
        """The samples with these numbers."""
        return Labelled({name: values[chosen] for name, values in self.inputs.items()}, self.labels[chosen])


@dataclass(frozen=True)
class Parts:
    """Samples that are learned from, that choose, that judge: no sample is in two of them."""

    learning: Labelled
    choosing: Labelled
    judging: Labelled

    def check_classes(self, scores: int, path: str) -> None:
        """DataError unless every label is a class of ``scores``."""
        labels = np.concatenate([part.labels for part in (self.learning, self.choosing, self.judging)])
        if scores < 2 or labels.min() < 0 or labels.max() >= scores:
            raise DataError(
                f"{path}: has {scores} scores, labels (`y`) are {labels.min()}..{labels.max()}; "
                "pruning is judged by classes"
            )


def labelled(samples: InputSamples, answers: Callable[[Mapping[str, Float32Array]], Float32Array]) -> Labelled:
    """Samples with their labels; of a file without, the first choices of the network's own scores ``answers``."""
    if samples.y is None:
        return Labelled(samples.inputs, answers(samples.inputs).argmax(axis=1))
    return Labelled(samples.inputs, samples.y.astype(np.int64))


def split(samples: Labelled, held_out: Labelled | None, seed: int, path: Path) -> Parts:
    """Deal samples out by chance. held_out: judge where they are given, else a quarter of the samples does.

    DataError where they are too few.
    """
    if len(samples) < FEWEST:
        raise DataError(f"{path}: has {len(samples)} samples; {FEWEST} at least are needed, to learn and to judge")
    order = np.random.default_rng(seed).permutation(len(samples))
    judges = round(JUDGING * len(samples)) if held_out is None else 0
    judging = samples.part(order[:judges]) if held_out is None else held_out
    rest = order[judges:]
    choosing = min(round(CHOOSING * len(rest)), MOST_CHOOSING)
    return Parts(samples.part(rest[choosing:]), samples.part(rest[:choosing]), judging)
