"""`bfpga prune` without its words: sensitivities, sparsities, fine-tuning, the network that comes out, its accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import ModelProto, TensorShapeProto, numpy_helper

from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.network import Network
from bfpga.devices.host import onnx_session
from bfpga.errors import ConfigurationError, ModelError
from bfpga.formats.arrays import Float32Array, FloatArray
from bfpga.formats.notebook import percent_text
from bfpga.pruning.layers import Group, PrunableLayer, prunable_layers
from bfpga.pruning.lesson import Augmentation, Emphasis, Lesson, lesson_loss
from bfpga.pruning.reconstruct import LARGEST, LARGEST_TRIED, Reconstruction, alone
from bfpga.pruning.scores import Scorer
from bfpga.pruning.sensitivity import LEVELS, MOST, Curve, best_shares, curves, pruned_weights
from bfpga.pruning.split import Labelled, Parts
from bfpga.pruning.tuning import Tuning, fine_tuned
from bfpga.report.accuracy import Changes, Share, accuracy_of
from bfpga.training.network import LearningNetwork
from bfpga.training.shards import Shards

#: Most of the samples that choose on which each layer is pruned alone, many times over.
SENSING = 400
#: Most of the samples by which layers are rebuilt.
REBUILDING = 1000
Show = Callable[[int, int], None] | None
#: Called with the name of a stage; returns its progress callback.
Stage = Callable[[str], AbstractContextManager[Show]]


def no_stage(text: str) -> AbstractContextManager[Show]:
    """Nobody watches."""
    return nullcontext(None)


@dataclass(frozen=True)
class LayerResult:
    """One layer. sensitivity: what its zeros alone add to the loss, the layer rebuilt, without fine-tuning."""

    name: str
    weights: int
    zeros_before: int
    zeros: int
    sensitivity: float

    @property
    def nonzeros(self) -> int:
        return self.weights - self.zeros

    @property
    def sparsity(self) -> float:
        return self.zeros / self.weights


@dataclass(frozen=True, repr=False)
class Pruned:
    """What came out.

    before, at_once, after: accuracy on samples that chose nothing, of the unpruned network, before fine-tuning, at the
    end; changes: what the pruned network gains and loses there, sample by sample. losses: on the samples that chose, of
    the unpruned network, before fine-tuning, at the end. epochs, augmentation: of fine-tuning.
    """

    model: ModelProto
    layers: tuple[LayerResult, ...]
    curves: tuple[Curve, ...]
    before: Share
    at_once: Share
    after: Share
    changes: Changes
    losses: tuple[float, float, float]
    epochs: float
    augmentation: Augmentation

    def __repr__(self) -> str:
        zeros = f"{percent_text(self.sparsity)} of {sum(layer.weights for layer in self.layers):,} weights are zero"
        return f"Pruned({zeros}; accuracy {percent_text(self.after.value)}, before {percent_text(self.before.value)})"

    @property
    def sparsity(self) -> float:
        """Share of zeros of all weights that can be pruned."""
        return sum(layer.zeros for layer in self.layers) / sum(layer.weights for layer in self.layers)


def prune(
    network: Network,
    parts: Parts,
    sparsity: float,
    tuning: Tuning,
    group: Group | None = None,
    stage: Stage = no_stage,
) -> Pruned:
    """Prune a network to ``sparsity``, the share of zeros of all weights of its convolutions and connected layers.

    Layers get the shares of zeros that together lose least on ``parts.choosing``. Each is then pruned so that its
    results change least, and the network learns, both with ``parts.learning``; nothing but the figures at the end sees
    ``parts.judging``. ConfigurationError for a sparsity that the network has already; ModelError for one without such
    layers, a quantized one, and unless ``tuning.epochs`` is 0 operators that cannot be trained.
    """
    graph, layers = checked(network, sparsity)
    shards = Shards(graph, str(network.path)) if tuning.epochs != 0 else None
    scorer = Scorer(graph, graph_weights(shards, layers))
    check_labels(network, scorer, parts)

    answers, emphasis = scorer.scores(parts.choosing.inputs), Emphasis.of(len(parts.learning))

    def loss_on(first: Labelled) -> Callable[[Mapping[str, FloatArray]], float]:
        own = answers[: len(first)]
        return lambda constants: lesson_loss(scorer.scores(first.inputs, constants), own, first.labels, emphasis)

    loss = loss_on(parts.choosing)
    sensing = loss_on(parts.choosing.part(np.arange(min(len(parts.choosing), SENSING))))
    with stage("sensitivity of layers") as show:
        few = rebuilding_samples(parts.learning)
        single = () if shards is None else alone(shards.network, layers, few, group, LEVELS[1:])
        found = curves(layers, sensing, group, show, single)
    rebuild = None if shards is None else partial(rebuilt, network, graph, layers, few, group)

    def loss_with(shares: Mapping[str, float]) -> float:
        if rebuild is None:
            return loss(pruned_weights(layers, shares, group))
        return loss(rebuild(shares, LARGEST_TRIED))

    shares = best_shares(layers, found, sparsity, loss_with)
    once: Mapping[str, FloatArray] = pruned_weights(layers, shares, group)
    constants, epochs, augmentation = once, 0.0, Augmentation()
    if shards is not None and rebuild is not None:
        with stage("weights of layers") as show:
            once = min(once, rebuild(shares, LARGEST, show), key=loss)
        augmentation = tuning.augmentation.settled(parts.learning, scorer)
        lesson = Lesson(parts.learning, scorer, augmentation)
        with stage("fine-tuning") as show:
            zeros = [layer.constant for layer in layers]
            constants, epochs = fine_tuned(shards, lesson, tuning, loss, once, zeros, show)
    model = replaced(graph, constants)
    before, labels = scorer.scores(parts.judging.inputs), parts.judging.labels
    pruned = accuracy_of(scores_of(model, parts.judging), labels, before)
    at_once = accuracy_of(scorer.scores(parts.judging.inputs, once), labels).correct
    assert pruned.correct and pruned.reference_correct and pruned.changes and at_once  # noqa: PT018
    return Pruned(
        model,
        tuple(_result(layer, curve, constants) for layer, curve in zip(layers, found, strict=True)),
        tuple(found),
        pruned.reference_correct,
        at_once,
        pruned.correct,
        pruned.changes,
        (loss({}), loss(once), loss(constants)),
        epochs,
        augmentation,
    )


def checked(network: Network, sparsity: float) -> tuple[Graph, list[PrunableLayer]]:
    """The graph and its layers, if they can be pruned to ``sparsity``; errors as of ``prune``."""
    if network.quantized:
        raise ModelError(f"{network.path}: is quantized; prune the float network, then quantize that")
    if not 0 < sparsity <= MOST:
        raise ConfigurationError(f"--sparsity is {sparsity:g}; a share above 0 and up to {MOST:g} is needed")
    graph = network.graph()
    layers = prunable_layers(graph)
    if not layers:
        raise ModelError(f"{network.path}: has no convolution and no fully connected layer with constant weights")
    zeros = sum(layer.zeros for layer in layers) / sum(layer.size for layer in layers)
    if zeros >= sparsity:
        raise ConfigurationError(
            f"{network.path}: {100 * zeros:.1f} % of its weights are zero already; ask for a --sparsity above that"
        )
    return graph, layers


def rebuilt(
    network: Network,
    graph: Graph,
    layers: list[PrunableLayer],
    inputs: Mapping[str, Float32Array],
    group: Group | None,
    shares: Mapping[str, float],
    largest: float,
    show: Show = None,
) -> dict[str, Float32Array]:
    """Constants of the network with ``shares`` of zeros, layers rebuilt by ``inputs``."""
    copies = (LearningNetwork(graph, str(network.path)), LearningNetwork(graph, str(network.path)))
    return Reconstruction(copies, layers, shares, group, largest).run(inputs, show)


def rebuilding_samples(samples: Labelled) -> dict[str, Float32Array]:
    """The samples by which layers are rebuilt."""
    return {name: values[:REBUILDING] for name, values in samples.inputs.items()}


def graph_weights(shards: Shards | None, layers: list[PrunableLayer]) -> list[str]:
    """Constants that change: all that learn, or the weights that are pruned."""
    learned = [] if shards is None else list(shards.network.learned)
    return list(dict.fromkeys([*learned, *(layer.constant for layer in layers)]))


def check_labels(network: Network, scorer: Scorer, parts: Parts) -> None:
    """DataError unless every label has a score."""
    one = {name: values[:1] for name, values in parts.choosing.inputs.items()}
    parts.check_classes(scorer.scores(one).shape[1], str(network.path))


def replaced(graph: Graph, constants: Mapping[str, FloatArray]) -> ModelProto:
    """The graph's model with other constants, and with the shapes of outputs that it leaves open."""
    model = ModelProto()
    model.CopyFrom(graph.model)
    batch = model.graph.input[0].type.tensor_type.shape.dim[0]
    for output in model.graph.output:
        tensor = output.type.tensor_type
        if not tensor.HasField("shape"):
            tensor.shape.dim.append(batch)
            tensor.shape.dim.extend(TensorShapeProto.Dimension(dim_value=size) for size in graph.shapes[output.name])
    for item in model.graph.initializer:
        if item.name in constants:
            values = np.ascontiguousarray(constants[item.name], np.float32)
            item.CopyFrom(numpy_helper.from_array(values, item.name))
    return model


def scores_of(model: ModelProto, samples: Labelled) -> Float32Array:
    """First output of a model as a file holds it."""
    session, name = onnx_session(model.SerializeToString()), model.graph.output[0].name
    parts = []
    for start in range(0, len(samples.labels), 64):
        batch = {key: values[start : start + 64] for key, values in samples.inputs.items()}
        result = session.run([name], batch)[0]
        parts.append(np.asarray(result, np.float32).reshape(len(result), -1))
    return np.concatenate(parts)


def _result(layer: PrunableLayer, curve: Curve, constants: Mapping[str, FloatArray]) -> LayerResult:
    zeros = layer.size - int(np.count_nonzero(np.asarray(constants[layer.constant], np.float32)))
    return LayerResult(layer.name, layer.size, layer.zeros, zeros, curve.at(zeros / layer.size))
