"""Issue 16, item 4: what a pruned network learns from, and that learning never makes it worse."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np
import pytest

from bfpga.compiler.read.network import read_network
from bfpga.data import InputSamples, load_inputs
from bfpga.pruning import tuning
from bfpga.pruning.lesson import Augmentation, Batch, Emphasis, Lesson, lesson_loss
from bfpga.pruning.prune import prune
from bfpga.pruning.scores import Scorer
from bfpga.pruning.split import labelled, split
from bfpga.pruning.tuning import Tuning
from bfpga.training.steps import softmax

MODELS = Path(__file__).parents[2] / "examples" / "models"
DIGITS, MODEL = MODELS / "digits_test.npz", MODELS / "mlp_digits.onnx"


def test_a_network_that_says_what_it_said_before_and_is_right_has_nothing_to_learn() -> None:
    answers = np.array([[60.0, 0.0, 10.0], [0.0, 0.0, 70.0]], np.float32)
    batch = Batch({}, answers, np.array([0, 2]), Emphasis(4, 0.1))
    assert np.abs(batch.gradient(answers, slice(0, 2))).max() < 1e-9
    assert np.abs(batch.gradient(answers[::-1], slice(0, 2))).max() > 0.1


@pytest.mark.parametrize(("temperature", "share"), [(4, 0.1), (2, 0.5)])
def test_the_gradient_is_the_slope_of_the_loss(temperature: float, share: float) -> None:
    """Cross entropies with the answers at the temperature, times its square, and with the labels."""
    generator = np.random.default_rng(2)
    answers, scores = generator.normal(size=(2, 4, 3)) * 5
    labels = np.array([0, 2, 1, 1])
    emphasis = Emphasis(temperature, share)
    batch = Batch({}, answers.astype(np.float32), labels, emphasis)

    def loss(scores: np.ndarray) -> float:
        soft = -(softmax(batch.answers / temperature) * np.log(softmax(scores / temperature))).sum(axis=1).mean()
        hard = -np.log(softmax(scores)[np.arange(4), labels]).mean()
        return float((1 - share) * temperature**2 * soft + share * hard)

    direction = generator.normal(size=scores.shape)
    slope = (loss(scores + 1e-5 * direction) - loss(scores - 1e-5 * direction)) / 2e-5
    assert slope == pytest.approx(float((batch.gradient(scores, slice(0, 4)) * direction).sum()), rel=1e-6)
    apart = [lesson_loss(said, batch.answers, labels, emphasis) for said in (scores, batch.answers)]
    assert apart[0] - apart[1] == pytest.approx(loss(scores) - loss(batch.answers))


def test_the_more_samples_there_are_the_more_their_labels_count() -> None:
    assert [Emphasis.of(samples) for samples in (0, 5_000, 20_000, 49_000)] == [
        Emphasis(4, 0.1), Emphasis(3.5, 0.2), Emphasis(2, 0.5), Emphasis(2, 0.5),
    ]  # fmt: skip
    network = read_network(MODEL)
    given = labelled(load_inputs(DIGITS, network.inputs), Scorer(network.graph(), []).scores)
    batch = Lesson(given, Scorer(network.graph(), [])).batch(np.arange(4), np.random.default_rng(0))
    assert batch.emphasis == Emphasis.of(300)


def test_what_agrees_with_the_unpruned_network_is_kept_though_a_few_labels_say_otherwise() -> None:
    """Samples that choose with wrong labels: a network that learned these is not taken for better."""
    answers = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]] * 8
    wrong = np.array([1, 2, 0, 1])
    obeying = np.eye(3, dtype=np.float32)[wrong] * 8
    few = Emphasis(4, 0.1)
    assert lesson_loss(answers, answers, wrong, few) < lesson_loss(obeying, answers, wrong, few)
    network = read_network(MODEL)
    given = labelled(load_inputs(DIGITS, network.inputs), Scorer(network.graph(), []).scores)
    parts = split(given, None, 0, DIGITS)
    parts.choosing.labels[...] = (parts.choosing.labels + 1) % 10
    found = prune(network, parts, 0.85, Tuning(epochs=16))
    assert found.losses[2] < found.losses[1]
    assert found.after.value > found.at_once.value


def test_images_are_mirrored_and_moved_as_far_as_the_network_stays_right() -> None:
    """Digits are mirrored by nobody; what is asked for stays as it is."""
    network = read_network(MODELS / "lenet_mnist.onnx")
    samples = labelled(load_inputs(MODELS / "mnist_test.npz", network.inputs), lambda inputs: np.zeros((1, 1)))
    scorer = Scorer(network.graph(), [])
    assert Augmentation(None, None).settled(samples, scorer) == Augmentation(flip=False, shift=1)
    assert Augmentation(True, 3).settled(samples, scorer) == Augmentation(flip=True, shift=3)
    both = np.concatenate([samples.inputs["input"], samples.inputs["input"][..., ::-1]], axis=3)

    class Mirrored:
        """Sees a digit and its mirror image side by side, and knows it by either half."""

        def scores(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
            halves = np.split(inputs["input"], 2, axis=3)
            found = [scorer.scores({"input": half}) for half in halves]
            return np.maximum(*found)

    halved = labelled(InputSamples({"input": both}, samples.labels), lambda inputs: np.zeros((1, 1)))
    assert Augmentation(None, 0).settled(halved, Mirrored()).flip  # type: ignore[arg-type]


def test_samples_that_are_no_images_stay() -> None:
    network = read_network(MODEL)
    samples = labelled(load_inputs(DIGITS, network.inputs), Scorer(network.graph(), []).scores)
    assert Augmentation(None, None).settled(samples, Scorer(network.graph(), [])) == Augmentation()


def test_images_are_mirrored_and_moved_with_their_borders_repeated() -> None:
    image = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    many, generator = np.repeat(image, 200, axis=0), np.random.default_rng(0)
    flipped = Augmentation(flip=True).images(many, generator)
    assert {item.tobytes() for item in flipped} == {image[0].tobytes(), image[0, :, :, ::-1].tobytes()}
    moved = Augmentation(shift=1).images(many, generator)
    wanted = {
        np.pad(image[0, 0], 1, mode="edge")[y : y + 3, x : x + 4].tobytes() for y in range(3) for x in range(3)
    }
    assert {item.tobytes() for item in moved} == wanted
    vectors = many.reshape(200, 12)
    assert Augmentation(flip=True, shift=1).images(vectors, generator) is vectors


def test_images_that_are_changed_are_answered_anew() -> None:
    """The unpruned network's answer belongs to the image as it is seen."""
    network = read_network(MODELS / "lenet_mnist.onnx")
    samples = labelled(load_inputs(MODELS / "mnist_test.npz", network.inputs, 20), lambda inputs: np.zeros((1, 1)))
    scorer = Scorer(network.graph(), [])
    batch = Lesson(samples, scorer, Augmentation(shift=2)).batch(np.arange(20), np.random.default_rng(1))
    np.testing.assert_array_equal(batch.answers, scorer.scores(batch.inputs))
    assert np.abs(batch.answers - scorer.scores(samples.inputs)).max() > 1


def test_learning_that_makes_it_worse_is_left_away() -> None:
    """Steps as large as the weights themselves: the network pruned at once comes out."""
    network = read_network(MODEL)
    parts = split(labelled(load_inputs(DIGITS, network.inputs), Scorer(network.graph(), []).scores), None, 0, DIGITS)
    found = prune(network, parts, 0.5, Tuning(epochs=1, rate=1.0))
    assert found.losses[2] == found.losses[1]
    assert found.after == found.at_once


def test_samples_without_labels_are_right_where_the_network_says_what_it_said() -> None:
    network = read_network(MODEL)
    given, answers = load_inputs(DIGITS, network.inputs), Scorer(network.graph(), []).scores
    own = labelled(InputSamples(given.inputs), answers)
    np.testing.assert_array_equal(own.labels, answers(given.inputs).argmax(axis=1))
    found = prune(network, split(own, None, 0, DIGITS), 0.8, Tuning(epochs=4))
    assert found.before.value == 1
    assert found.losses[2] < found.losses[1]
    assert found.after.value > 0.95


def test_few_samples_are_seen_more_often() -> None:
    assert [Tuning().epochs_of(samples) for samples in (100, 2_000, 50_000)] == [100, 50, 10]
    assert Tuning(epochs=3).epochs_of(100) == 3


def test_time_that_is_up_ends_it_with_what_was_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock of one second a batch: 20 seconds are 20 batches, and one at the end, of five an epoch."""
    clock = count()
    monkeypatch.setattr(tuning, "perf_counter", lambda: next(clock))
    network = read_network(MODEL)
    given = labelled(load_inputs(DIGITS, network.inputs), Scorer(network.graph(), []).scores)
    found = prune(network, split(given, None, 0, DIGITS), 0.9, Tuning(epochs=5000, seconds=20))
    assert found.epochs == 20 / 5
    assert found.losses[2] < found.losses[1]
