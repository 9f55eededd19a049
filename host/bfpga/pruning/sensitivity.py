"""How much a network loses when one layer alone is pruned, and the shares of zeros that lose least together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bfpga.formats.arrays import FloatArray
from bfpga.pruning.layers import Group, PrunableLayer

#: Shares of zeros at which every layer is measured, and the most that a layer may have.
LEVELS = (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
MOST = LEVELS[-1]
#: Loss of the network with some constants replaced.
Loss = Callable[[Mapping[str, FloatArray]], float]
Progress = Callable[[int, int], None] | None


@dataclass(frozen=True)
class Curve:
    """What pruning one layer alone adds to the loss, without fine-tuning: a point for each share of zeros, rising."""

    layer: str
    weights: int
    sparsity: tuple[float, ...]
    added: tuple[float, ...]

    def at(self, sparsity: float) -> float:
        """What a share of zeros adds, between the points in proportion."""
        return float(np.interp(sparsity, self.sparsity, self.added))


def curves(
    layers: Sequence[PrunableLayer],
    loss: Loss,
    group: Group | None = None,
    progress: Progress = None,
    rebuilt: Iterable[tuple[PrunableLayer, Iterable[Mapping[str, FloatArray]]]] = (),
) -> list[Curve]:
    """Measure every layer at all levels above the zeros that it has already.

    rebuilt: layers with their constants at ``LEVELS`` above 0, as they are measured; of the others the smallest weights
    go.
    """
    start, found = loss({}), {}

    def measure(layer: PrunableLayer, variants: Iterable[Mapping[str, FloatArray]]) -> None:
        points = {layer.zeros / layer.size: 0.0}
        for constants in variants:
            zeros = (layer.size - int(np.count_nonzero(constants[layer.constant]))) / layer.size
            if zeros > layer.zeros / layer.size:
                points.setdefault(zeros, max(loss(constants) - start, 0.0))
        shares = tuple(sorted(points))
        rising = np.maximum.accumulate([points[share] for share in shares])
        found[layer.name] = Curve(layer.name, layer.size, shares, tuple(map(float, rising)))
        if progress is not None:
            progress(len(found), len(layers))

    for layer, variants in rebuilt:
        measure(layer, variants)
    for layer in layers:
        if layer.name not in found:
            measure(layer, (pruned_weights([layer], {layer.name: level}, group) for level in LEVELS[1:]))
    return [found[layer.name] for layer in layers]


def allocate(found: Sequence[Curve], sparsity: float) -> dict[str, float]:
    """Shares of zeros by layer, so that of all weights ``sparsity`` are zero and the added losses sum up to the least.

    Losses of single layers are taken as independent. Of each curve its lower convex hull counts, which makes the
    cheapest next weight at every time the best choice (a separable convex problem). What the layers cannot hold below
    ``MOST`` is spread over all of them.
    """
    total = sum(curve.weights for curve in found)
    shares = {curve.layer: curve.sparsity[0] for curve in found}
    left = sparsity * total - sum(curve.sparsity[0] * curve.weights for curve in found)
    for _, layer, end, weights in sorted(_segments(found), key=lambda item: item[0]):
        if left <= 0:
            break
        taken = min(left, (end - shares[layer]) * weights)
        shares[layer] += taken / weights
        left -= taken
    return filled(shares, {curve.layer: curve.weights for curve in found}, sparsity)


def filled(shares: Mapping[str, float], sizes: Mapping[str, int], sparsity: float) -> dict[str, float]:
    """Shares of zeros with what is missing to ``sparsity`` spread over all layers; sizes: weights by layer."""
    missing = sparsity * sum(sizes.values()) - sum(share * sizes[name] for name, share in shares.items())
    left = sum((1 - share) * sizes[name] for name, share in shares.items())
    return {name: share + (1 - share) * max(missing, 0.0) / left for name, share in shares.items()}


def by_size(layers: Sequence[PrunableLayer], sparsity: float) -> dict[str, float]:
    """Shares of zeros by layer when of all weights those go that are smallest in relation to the others of their layer.

    A weight counts as its square by the sum of squares of all in its layer that are not smaller (Lee et al., "Layer-
    adaptive sparsity for the magnitude-based pruning", ICLR 2021).
    """
    scores = {}
    for layer in layers:
        squares = np.sort(np.square(layer.weights.astype(np.float64)), axis=None)
        left = np.cumsum(squares[::-1])[::-1]
        scores[layer.name] = squares / np.where(left > 0, left, 1)
    every = np.sort(np.concatenate(list(scores.values())))
    limit = every[min(round(sparsity * len(every)), len(every) - 1)]
    shares = {name: min(float((values < limit).mean()), MOST) for name, values in scores.items()}
    return filled(shares, {layer.name: layer.size for layer in layers}, sparsity)


def between(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The means of two choices, which have as many zeros as both."""
    return {name: (share + other[name]) / 2 for name, share in one.items()}


def best_shares(
    layers: Sequence[PrunableLayer],
    found: Sequence[Curve],
    sparsity: float,
    loss: Callable[[Mapping[str, float]], float],
) -> dict[str, float]:
    """The shares of zeros with which the network loses least of all when every layer is pruned.

    loss: of the network with given shares. Tried are those of ``allocate``, which take layers as independent, those of
    ``by_size``, what is between, and those of ``by_size`` drawn a quarter of the way to the same for all layers.
    """
    alone, sizes = allocate(found, sparsity), by_size(layers, sparsity)
    even = dict.fromkeys(sizes, sparsity)
    return min([alone, sizes, between(alone, sizes), between(sizes, between(sizes, even))], key=loss)


def pruned_weights(
    layers: Sequence[PrunableLayer], shares: Mapping[str, float], group: Group | None = None
) -> dict[str, FloatArray]:
    """The weights of all layers with their smallest ones zero, by constant."""
    return {
        layer.constant: layer.weights * layer.kept(layer.weights, shares[layer.name], group) for layer in layers
    }


def _segments(found: Sequence[Curve]) -> list[tuple[float, str, float, int]]:
    """Pieces of the hulls: loss a weight, layer, share of zeros at the end, weights of the layer."""
    pieces = []
    for curve in found:
        hull = lower_hull(curve.sparsity, curve.added)
        for (x0, y0), (x1, y1) in pairwise(hull):
            pieces.append(((y1 - y0) / (x1 - x0) / curve.weights, curve.layer, x1, curve.weights))
    return pieces


def lower_hull(x: Sequence[float], y: Sequence[float]) -> list[tuple[float, float]]:
    """Corners of the lower convex hull of points whose x rises (Andrew, 1979)."""
    hull: list[tuple[float, float]] = []
    for point in zip(x, y, strict=True):
        while len(hull) > 1 and _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0])
