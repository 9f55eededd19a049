"""Zeros in random data, as in pruned weights and in activations after ReLU: scattered, in whole parts, everywhere."""

from __future__ import annotations

import numpy as np

from bfpga.formats.arrays import FloatArray, IntArray

Generator = np.random.Generator
#: Shares of weights that pruning makes zero.
PRUNED = (0.0, 0.5, 0.9, 0.99, 1.0)


def pruned(rng: Generator, weights: IntArray) -> IntArray:
    """Weights (kernels, rows, columns, channels) with a share of zeros, now and then whole kernels and channels."""
    kept = rng.random(weights.shape) >= rng.choice(PRUNED, p=[0.25, 0.3, 0.25, 0.15, 0.05])
    if rng.random() < 0.3:
        kept &= rng.random((len(weights), 1, 1, 1)) < 0.6
    if rng.random() < 0.3:
        kept &= rng.random((1, 1, 1, weights.shape[-1])) < 0.6
    return np.where(kept, weights, 0).astype(weights.dtype)


def with_zeros(rng: Generator, x: FloatArray) -> FloatArray:
    """Samples (samples, channels, rows, columns) with zeros between blobs: some have none, some nothing but one blob.

    Blobs are anywhere, each in all channels or in some.
    """
    samples, channels, height, width = x.shape
    rows, columns = np.arange(height)[:, None], np.arange(width)
    kept = np.broadcast_to(rng.random((samples, 1, 1, 1)) < 0.4, x.shape)
    for _ in range(int(rng.integers(0, 4))):
        y, radius_y = rng.integers(height), rng.integers(0, height // 2 + 1)
        z, radius_x = rng.integers(width), rng.integers(0, width // 2 + 1)
        blob = (np.abs(rows - y) <= radius_y) & (np.abs(columns - z) <= radius_x)
        kept = kept | (blob & (rng.random((1, channels, 1, 1)) < rng.choice([0.3, 1.0])))
    kept = kept & (rng.random(x.shape) < rng.choice([0.1, 0.6, 1.0]))
    return np.where(kept, x, 0.0)
