"""Times of candidates that are measured in turn, so that other load on the machine meets all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]


def medians(
    candidates: Mapping[str, Work], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each candidate, interleaved; one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for round_number in range(repeats + 1):
        for name, work in candidates.items():
            start = clock()
            work()
            if round_number:
                times[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in times.items()}
