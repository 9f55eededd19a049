"""Define by run: digits by their nearest class, and the doubtful ones again by their nearest neighbour.

How many are doubtful is known only when the first result is there; the second operation has that many rows, or does not
run at all. There is no network file and no calibration: exponents are found from the data of each operation.

    python examples/define_by_run.py [emulator | csim | virtual | board | remote:HOST] [accelerator]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import bfpga
from bfpga.data import load_samples

MODELS = Path(__file__).parent / "models"
#: Difference of the two best scores below which a digit is doubtful.
MARGIN = 0.75


def digits(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images as rows of 64 pixels, and their labels."""
    samples = load_samples(MODELS / name)
    return samples.x.reshape(len(samples), -1), np.asarray(samples.y)


def main(device: str = "emulator", accelerator: str = "pynq_z2_dense") -> None:
    """Of points p the one nearest to x has the largest x p - |p|^2 / 2: a product with a bias."""
    (x, labels), (known, known_labels) = digits("digits_test.npz"), digits("digits_calibration.npz")
    means = np.stack([known[known_labels == digit].mean(axis=0) for digit in range(10)])
    with bfpga.eager(accelerator, device) as run:
        scores = np.asarray(run.linear(x, means.T, -(means**2).sum(axis=1) / 2))
        found = scores.argmax(axis=1)
        print(f"nearest class: {np.mean(found == labels):.1%} of {len(x)} digits")
        best = np.sort(scores, axis=1)
        doubtful = np.flatnonzero(best[:, -1] - best[:, -2] < MARGIN)
        if len(doubtful):
            closeness = run.linear(x[doubtful], known.T, -(known**2).sum(axis=1) / 2)
            found[doubtful] = known_labels[np.asarray(closeness).argmax(axis=1)]
        print(f"{len(doubtful)} doubtful ones by their nearest neighbour: {np.mean(found == labels):.1%}")
        print(run.report())


if __name__ == "__main__":
    main(*sys.argv[1:])
