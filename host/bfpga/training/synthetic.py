"""Samples that are computed, for networks that are trained from nothing: spoken words and a machine's sound.

Both are features as a front end would compute them, as bytes: the energy of frequency bands over time, on a
logarithmic scale. They are made so that a network of some thousand weights learns them well and not without errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.formats.arrays import FloatArray

Bytes = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
#: Words, and frames and bands of their features.
WORDS, FRAMES, BANDS = 10, 49, 10
#: Sounds of a word, one after the other.
SOUNDS = 4
#: Frames and bands of a machine's sound, and its harmonics.
MACHINE_FRAMES, MACHINE_BANDS, HARMONICS = 4, 32, 5
#: A value of 1 as a byte.
FULL_SCALE = 255


@dataclass(frozen=True)
class Samples:
    """x: (samples, *shape) bytes, 255 is 1. labels: (samples,) classes, or whether the machine is faulty."""

    x: Bytes
    labels: Labels

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """What a network reads: 0..1."""
        return self.x.astype(np.float32) / FULL_SCALE


def keywords(count: int, seed: int) -> Samples:
    """Words by speakers of many voices, speeds and loudnesses in noise; x: (count, 1, FRAMES, BANDS)."""
    words = np.random.default_rng(10).uniform(0.5, BANDS - 1.5, (WORDS, SOUNDS, 2))
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, WORDS, count)
    begin, length = generator.uniform(2, 14, count), generator.uniform(20, 34, count)
    place = (np.arange(FRAMES) - begin[:, None]) / length[:, None] * (SOUNDS - 1)
    spoken = (place >= 0) & (place <= SOUNDS - 1)
    place = np.clip(place, 0, SOUNDS - 1.001)
    first, part = place.astype(np.int64), (place % 1)[..., None]
    row = labels[:, None]
    formants = words[row, first] * (1 - part) + words[row, first + 1] * part
    formants = formants * generator.uniform(0.85, 1.15, (count, 1, 1)) + generator.normal(0, 0.3, (count, 1, 2))
    distance = formants[..., None] - np.arange(BANDS)
    energy = np.exp(-(distance**2)).sum(axis=2) * spoken[..., None] * generator.uniform(0.3, 1, (count, 1, 1))
    noise = generator.gamma(2, 0.5, energy.shape) * generator.uniform(0.03, 0.35, (count, 1, 1))
    return Samples(_bytes(energy + noise)[:, None], labels)


def machine(count: int, seed: int, faulty: float = 0.0) -> Samples:
    """A rotating machine at changing speed, a share of the samples with a worn bearing.

    x: (count, MACHINE_FRAMES * MACHINE_BANDS); labels: 1 is faulty.
    """
    generator = np.random.default_rng(seed)
    labels = (generator.random(count) < faulty).astype(np.int64)
    speed = generator.uniform(3, 6, (count, 1, 1, 1)) + generator.normal(0, 0.05, (count, MACHINE_FRAMES, 1, 1))
    order = np.arange(1, HARMONICS + 1)[:, None]
    energy = (np.exp(-((speed * order - np.arange(MACHINE_BANDS)) ** 2)) / order**0.5).sum(axis=2)
    # The balls of a bearing pass it at no multiple of the speed.
    bearing = np.exp(-((speed[..., 0] * 3.57 - np.arange(MACHINE_BANDS)) ** 2))
    wear = generator.uniform(0.1, 1, (count, 1, 1)) * labels[:, None, None]
    noise = generator.gamma(2, 0.5, energy.shape) * 0.1
    return Samples(_bytes(energy + wear * bearing + noise).reshape(count, -1), labels)


def _bytes(energy: FloatArray) -> Bytes:
    """Energies on a logarithmic scale of 6 powers of two."""
    level = (np.log2(energy + 2.0**-5) + 5) / 6
    return np.asarray(np.rint(np.clip(level, 0, 1) * FULL_SCALE), np.uint8)
