"""What samples teach a pruned network: the answers of the network before, the labels, and images turned and moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from bfpga.formats.arrays import Float32Array, FloatArray
from bfpga.pruning.scores import Scorer
from bfpga.pruning.split import Labelled
from bfpga.training.steps import cross_entropy, softmax

#: Samples from which on more labels add nothing.
MANY = 20_000
#: Pixels by which images may be moved by default; the share of images that a change may make wrong; how many
#: are tried.
SHIFTS, BORNE, TRIED = (1, 2, 3), 0.02, 1000


@dataclass(frozen=True)
class Emphasis:
    """What of a lesson counts for how much.

    temperature: scores are divided by it before answers are compared, so that the order of all classes is learned, not
    the first alone. labels: their share of the loss; the rest is the unpruned network's answer.
    """

    temperature: float
    labels: float

    @staticmethod
    def of(samples: int) -> Emphasis:
        """Where so many samples teach: few teach by all that the unpruned network says of each, and their labels would
        be learned by heart; of many a small network had better learn what decides."""
        many = min(samples / MANY, 1.0)
        return Emphasis(4 - 2 * many, 0.1 + 0.4 * many)


@dataclass(frozen=True)
class Augmentation:
    """How images are changed each time they are seen. flip: mirrored left to right, every other one by chance; shift:
    moved by up to so many pixels, borders repeated; None: not known yet, as ``settled`` finds it. Samples that are no
    images (channels, rows, columns) stay."""

    flip: bool | None = False
    shift: int | None = 0

    def __bool__(self) -> bool:
        return bool(self.flip or self.shift)

    def settled(self, samples: Labelled, scorer: Scorer) -> Augmentation:
        """Open ones as far as the unpruned network, whose ``scorer`` it is, stays right on images changed so.

        A network that has learned mirrored and moved images says of them what it says of others; one that has not, as
        of digits, would teach nonsense.
        """
        few = samples.part(np.arange(min(len(samples), TRIED)))
        if not any(values.ndim == 4 for values in few.inputs.values()):
            return Augmentation()
        generator = np.random.default_rng(0)

        def right(change: Callable[[Float32Array], Float32Array]) -> float:
            inputs = {name: change(values) if values.ndim == 4 else values for name, values in few.inputs.items()}
            return float((scorer.scores(inputs).argmax(axis=1) == few.labels).mean())

        least, flip, shift = right(lambda images: images) - BORNE, self.flip, self.shift
        if flip is None:
            flip = right(lambda images: np.ascontiguousarray(images[..., ::-1])) >= least
        if shift is None:
            moves = [Augmentation(shift=pixels) for pixels in SHIFTS]
            borne = [move for move in moves if right(partial(move.images, generator=generator)) >= least]
            shift = max((move.shift or 0 for move in borne), default=0)
        return Augmentation(flip, shift)

    def images(self, values: Float32Array, generator: np.random.Generator) -> Float32Array:
        """Samples as they are seen this time."""
        if values.ndim != 4:
            return values
        if self.flip:
            turned = generator.random(len(values)) < 0.5
            values = np.where(turned[:, None, None, None], values[..., ::-1], values)
        if self.shift:
            offsets = generator.integers(-self.shift, self.shift + 1, (2, len(values), 1))
            rows, columns = (
                np.clip(np.arange(size) + offset, 0, size - 1)
                for size, offset in zip(values.shape[2:], offsets, strict=True)
            )
            sample = np.arange(len(values))[:, None, None, None]
            channel = np.arange(values.shape[1])[None, :, None, None]
            values = values[sample, channel, rows[:, None, :, None], columns[:, None, None, :]]
        return values


class Lesson:
    """Samples to learn from in batches, each with the answers that the unpruned network gives to it."""

    def __init__(self, samples: Labelled, scorer: Scorer, augmentation: Augmentation | None = None) -> None:
        """scorer: of the unpruned network."""
        self.samples, self._scorer, self._augmentation = samples, scorer, augmentation or Augmentation()
        self._emphasis = Emphasis.of(len(samples))
        self._answers = None if self._augmentation else scorer.scores(samples.inputs)

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, chosen: npt.NDArray[np.int64], generator: np.random.Generator) -> Batch:
        """The samples with these numbers."""
        part = self.samples.part(chosen)
        if self._answers is not None:
            return Batch(part.inputs, self._answers[chosen], part.labels, self._emphasis)
        inputs = {name: self._augmentation.images(values, generator) for name, values in part.inputs.items()}
        return Batch(inputs, self._scorer.scores(inputs), part.labels, self._emphasis)


def lesson_loss(
    scores: FloatArray, answers: FloatArray, labels: npt.NDArray[np.int64], emphasis: Emphasis
) -> float:
    """What is learned, as one figure: 0 where scores (samples, classes) say what the unpruned network's ``answers``
    say, and are right without doubt. Answers contain more than labels, so that few samples judge well."""
    wanted, said = softmax(answers / emphasis.temperature), softmax(scores / emphasis.temperature)
    tiny = np.finfo(np.float64).tiny
    apart = (wanted * np.log(np.maximum(wanted, tiny) / np.maximum(said, tiny))).sum(axis=1).mean()
    wrong = cross_entropy(scores, labels)[0]
    return float((1 - emphasis.labels) * emphasis.temperature**2 * apart + emphasis.labels * wrong)


@dataclass(frozen=True)
class Batch:
    """Samples by input, answers of the unpruned network (samples, classes), labels, and what counts for how much."""

    inputs: Mapping[str, Float32Array]
    answers: Float32Array
    labels: npt.NDArray[np.int64]
    emphasis: Emphasis

    def gradient(self, scores: FloatArray, part: slice) -> FloatArray:
        """Of the loss by the scores of a part of the samples.

        The loss is the cross entropy with the answers, both by scores divided by the temperature and to the measure of
        its square (Hinton, Vinyals and Dean, 2015), and that with the labels.
        """
        temperature, share = self.emphasis.temperature, self.emphasis.labels
        apart = softmax(scores / temperature) - softmax(self.answers[part] / temperature)
        wrong = softmax(scores)
        wrong[np.arange(len(wrong)), self.labels[part]] -= 1
        return ((1 - share) * temperature * apart + share * wrong) / len(self.labels)
