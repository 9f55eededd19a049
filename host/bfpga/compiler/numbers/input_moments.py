"""Second moments of what layers read: how strong each input of a row is, and which inputs go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bfpga.compiler.lower.layers import Layer, Lowered
from bfpga.compiler.numbers.shift_weights import Moments
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.simplify import captured_values
from bfpga.engines.array.windows import padded, patches

Matrix = npt.NDArray[np.float64]
#: Samples that are looked at, and windows of a layer over all of them.
SAMPLES = 256
WINDOWS = 16384
#: Layers with more terms in a row are left out: their matrix would take longer than the rest of the compiler.
LARGEST_TERMS = 2048


def input_moments(
    graph: Graph,
    lowered: Lowered,
    layers: Sequence[Layer],
    samples: dict[str, npt.NDArray[np.float32]],
    scales: Mapping[str, npt.NDArray[np.float64]],
) -> dict[str, Moments]:
    """Moments by layer name, over windows of the float network's values as the array stores them.

    Terms are in the order of a row's weights: tap by tap, the channels of a group inside. Layers with very long rows
    are left out.
    """
    wanted = [layer for layer in layers if _terms(layer) <= LARGEST_TERMS]
    sums = {layer.name: np.zeros((layer.groups, _terms(layer), _terms(layer))) for layer in wanted}
    counts = dict.fromkeys(sums, 0)
    part = {name: array[:SAMPLES] for name, array in samples.items()}
    total = len(next(iter(part.values())))
    names = sorted({layer.inputs[0] for layer in wanted})
    for values in captured_values(graph.model, part, names) if names else ():
        for layer in wanted:
            x = stored_values(values[layer.inputs[0]], lowered, layer.inputs[0], scales)
            rows = _windows(x, layer, max(1, WINDOWS // total))
            sums[layer.name] += np.matmul(rows.transpose(0, 2, 1), rows)
            counts[layer.name] += rows.shape[1]
    return {name: Moments(_shrunk(matrix, counts[name])) for name, matrix in sums.items()}


def _shrunk(sums: Matrix, windows: int) -> Matrix:
    """Mean moments (groups, terms, terms), moved towards their diagonal: few windows tell little of many pairs."""
    terms = sums.shape[-1]
    kept = windows / (windows + terms)
    mean = sums / max(windows, 1)
    return mean * (kept + (1 - kept) * np.eye(terms))


def _terms(layer: Layer) -> int:
    assert layer.weights is not None
    return int(np.prod(layer.weights.shape[1:]))


def stored_values(
    value: npt.NDArray[np.float32], lowered: Lowered, name: str, scales: Mapping[str, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float32]:
    """Values in memory order (samples, height, width, channels), channels times their powers of two."""
    stored = value.reshape(len(value), -1)[:, lowered.tensors[name].layout]
    return stored * np.exp2(scales[name]).astype(np.float32) if name in scales else stored


def _windows(x: npt.NDArray[np.float32], layer: Layer, most: int) -> npt.NDArray[np.float32]:
    """Windows of each group (groups, windows, terms): ``most`` of each sample, evenly spread."""
    assert layer.weights is not None
    found = patches(padded(x, layer.window, 0, np.float32), layer.window)
    pixels = found.shape[1]
    if pixels > most:
        found = found[:, np.linspace(0, pixels - 1, most).astype(np.int64)]
    samples, pixels, taps, _ = found.shape
    split = found.reshape(samples * pixels, taps, layer.groups, layer.weights.shape[3])
    return np.ascontiguousarray(split.transpose(2, 0, 1, 3)).reshape(layer.groups, samples * pixels, -1)
