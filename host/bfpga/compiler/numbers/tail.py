"""How large values become beyond the calibration samples: the tail of the samples' largest magnitudes, extrapolated.

The largest of n samples says little about the next thousand. The binary logarithms of the largest samples' maxima
exceed a threshold by amounts that are close to exponentially distributed (Hill 1975), so a straight line through them
gives the magnitude that a given share of all samples exceeds. Few samples estimate its slope badly: it is taken
steeper, by a part of its standard error.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
#: Samples that a tail is fitted to, the largest ones: this share of few, and this many times the root of many.
FITTED_SHARE, FITTED_ROOTS = 0.25, 2.0
FITTED_SAMPLES = 4
#: How far beyond the largest sample further ones are expected at most.
FARTHEST = 8.0
#: Standard errors of the slope that are added to it.
WIDENING = 0.5
#: Magnitudes beyond this share of all samples do not count: nothing is known of them.
_RAREST = 1e-5
_STEPS = 64


@dataclass(frozen=True)
class Tail:
    """The distribution of samples' maxima: ``share`` of them exceed ``threshold``, log2 by ``scale`` in the mean.

    largest: of the calibration samples. scale: 0 where they reach an upper end, or where nothing is known.
    """

    largest: float
    threshold: float
    scale: float
    share: float

    def reach(self, beyond: float) -> float:
        """The magnitude that a share ``beyond`` of all samples exceeds, ``largest`` at least.

        No more than ``FARTHEST`` times that: a line through two or three samples may lead anywhere.
        """
        found = float(self._magnitude(np.array([min(beyond, self.share)]))[0])
        return max(self.largest, min(found, FARTHEST * self.largest))

    def squared_excess(self, limit: float) -> float:
        """What maxima above ``largest`` lose to a ``limit``, squared, in the mean over all samples.

        A sample that reaches far is large altogether, so what it loses counts in proportion to its own maximum, as if
        that were ``threshold``.
        """
        if self.scale <= 0:
            return 0.0
        steps = self._beyond_largest if limit <= self.largest else self._beyond(limit)
        if steps is None:
            return 0.0
        shares, magnitudes = steps
        return self.threshold**2 * float(np.dot(shares, (1 - limit / magnitudes) ** 2))

    @functools.cached_property
    def _beyond_largest(self) -> tuple[Floats, Floats] | None:
        """Most of the limits that are tried lie below ``largest``."""
        return self._beyond(self.largest)

    def _beyond(self, magnitude: float) -> tuple[Floats, Floats] | None:
        """Steps of the tail from a magnitude on: shares of all samples and their magnitudes; None if few are there."""
        start = np.log2(magnitude / self.threshold)
        share = self.share * float(np.exp(-start / self.scale))
        if share <= _RAREST:
            return None
        edges = np.geomspace(_RAREST, share, _STEPS + 1)
        return np.diff(edges), self._magnitude(np.sqrt(edges[1:] * edges[:-1]))

    def _magnitude(self, shares: Floats) -> Floats:
        return np.asarray(self.threshold * np.exp2(self.scale * np.log(self.share / shares)), np.float64)


def fit_tail(peaks: npt.ArrayLike) -> Tail:
    """The tail of samples' largest magnitudes (samples,).

    Values that have an upper end (the white of an image, a clipped activation) reach it in several samples; then, and
    with fewer than two samples that are not zero, nothing beyond the largest is expected.
    """
    ordered = np.sort(np.asarray(peaks, np.float64))[::-1]
    largest = float(ordered[0]) if ordered.size else 0.0
    fitted = min(_fitted(len(ordered)), np.count_nonzero(ordered) - 1)
    if fitted < 1 or ordered[1] == largest:
        return Tail(largest, largest, 0.0, 1.0)
    threshold = float(ordered[fitted])
    return Tail(largest, threshold, float(_scale(ordered[:fitted], threshold)), fitted / len(ordered))


@dataclass(frozen=True)
class ChannelTails:
    """The tail of every channel's largest magnitudes (channels,), as ``Tail`` has that of a tensor."""

    largest: Floats
    threshold: Floats
    scale: Floats
    share: float

    def squared_excess(self, limits: Floats) -> Floats:
        """``Tail.squared_excess`` of every channel for a limit (channels,) of its own."""
        known = np.flatnonzero(self.scale > 0)
        result = np.zeros(len(self.scale))
        threshold, scale, limit = self.threshold[known], self.scale[known], limits[known]
        start = np.log2(np.maximum(limit, self.largest[known]) / threshold)
        share = np.maximum(self.share * np.exp(-start / scale), _RAREST)
        edges = np.geomspace(np.full(len(known), _RAREST), share, _STEPS + 1)
        middle = np.sqrt(edges[1:] * edges[:-1])
        lost = 1 - limit / (threshold * np.exp2(scale * np.log(self.share / middle)))
        result[known] = threshold**2 * (np.diff(edges, axis=0) * lost**2).sum(axis=0)
        return result


def channel_tails(peaks: npt.ArrayLike) -> ChannelTails:
    """The tails of all channels, each as ``fit_tail`` finds it. peaks: (samples, channels)."""
    ordered = np.sort(np.asarray(peaks, np.float64), axis=0)[::-1]
    fitted = min(_fitted(len(ordered)), len(ordered) - 1)
    if fitted < 1:
        return ChannelTails(ordered[0], ordered[0], np.zeros(ordered.shape[1]), 1.0)
    # Of a channel that is zero in most samples too few are left to fit a line to.
    known = (ordered[fitted] > 0) & (ordered[1] < ordered[0])
    threshold = np.where(known, ordered[fitted], np.maximum(ordered[0], 1.0))
    scale = np.where(known, _scale(np.maximum(ordered[:fitted], threshold), threshold), 0.0)
    return ChannelTails(ordered[0], threshold, scale, fitted / len(ordered))


def channel_reach(peaks: npt.ArrayLike, beyond: float) -> Floats:
    """For every channel the magnitude that a share ``beyond`` of all samples exceeds; peaks: (samples, channels).

    Nothing is known of a channel that is zero in most samples: infinity. One that reaches an upper end has that.
    """
    ordered = np.sort(np.asarray(peaks, np.float64), axis=0)[::-1]
    fitted = min(_fitted(len(ordered)), len(ordered) - 1)
    if fitted < 1:
        return np.full(ordered.shape[1], np.inf)
    threshold = ordered[fitted]
    known = threshold > 0
    scale = _scale(ordered[:fitted], np.where(known, threshold, 1.0))
    with np.errstate(over="ignore"):
        reached = threshold * np.exp2(np.where(known, scale, 0.0) * np.log(max(1.0, fitted / len(ordered) / beyond)))
    reached = np.where(ordered[1] == ordered[0], ordered[0], np.maximum(reached, ordered[0]))
    return np.asarray(np.where(known, reached, np.inf))


def _fitted(samples: int) -> int:
    """Samples that a tail is fitted to, of so many."""
    return max(FITTED_SAMPLES, round(min(FITTED_SHARE * samples, FITTED_ROOTS * float(np.sqrt(samples)))))


def _scale(largest: Floats, threshold: Floats | float) -> Floats:
    """The mean excess of log2 of the ``largest`` maxima (fitted, ...) over the threshold's, widened."""
    with np.errstate(divide="ignore"):
        excess = np.log2(largest / threshold).mean(axis=0)
    return np.asarray(excess * (1 + WIDENING / np.sqrt(len(largest))))
