"""How often a sample finds another shift than all results, by the spread of their histogram (FP R32).

    python -m benchmarks.positions.sample_spread [--results N] [--runs N]

Results of seven distributions, from flat to heavy tails, at random scales; rule `rate`, 2**-12. The limits of
`position_schedule.BY_SPREAD` come from this table.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.common.command import command
from bfpga.engines.positions.sampling import SampleFraction
from bfpga.engines.positions.schedule import histogram_spread
from bfpga.formats.position_rules import PositionRule, select_shift
from bfpga.formats.wide_statistics import StatisticsKind, collect

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], FloatArray]
DISTRIBUTIONS: dict[str, Draw] = {
    "uniform": lambda generator, count: generator.uniform(-1, 1, count),
    "normal": lambda generator, count: generator.normal(0, 1, count),
    "relu(normal)": lambda generator, count: np.maximum(generator.normal(0, 1, count), 0),
    "laplace": lambda generator, count: generator.laplace(0, 1, count),
    "student t4": lambda generator, count: generator.standard_t(4, count),
    "student t2": lambda generator, count: generator.standard_t(2, count),
    "log normal": lambda generator, count: np.exp(generator.normal(0, 2, count)) * generator.choice([-1, 1], count),
}
FRACTIONS = tuple(SampleFraction(a, 8) for a in (1, 2, 4))
KIND = StatisticsKind(acc_width=40)


def run(results: int, runs: int, generator: np.random.Generator) -> dict[int, list[list[bool]]]:
    """For each spread: for each run, whether the sample of each fraction found another shift."""
    differs: dict[int, list[list[bool]]] = defaultdict(list)
    for draw in DISTRIBUTIONS.values():
        for _ in range(runs):
            wide = np.rint(draw(generator, results) * 2 ** generator.uniform(12, 13)).astype(np.int64)
            statistics = collect(wide, KIND)
            shift = select_shift(statistics, PositionRule(), 8)
            offset = int(generator.integers(8))
            sampled = (collect(wide[fraction.indices(results, offset)], KIND) for fraction in FRACTIONS)
            spread = histogram_spread(statistics.nsb_histogram) or 0
            differs[spread].append([bool(select_shift(part, PositionRule(), 8) != shift) for part in sampled])
    return differs


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--results", type=int, default=4096, help="results of a layer")
    parser.add_argument("--runs", type=int, default=300, help="runs of each distribution")
    arguments = parser.parse_args(given)
    differs = run(arguments.results, arguments.runs, np.random.default_rng(0))
    print(f"| spread, bits | runs | {' | '.join(f'{fraction} differs' for fraction in FRACTIONS)} |")
    print("|" + "---|" * (len(FRACTIONS) + 2))
    for spread in range(min(differs), 6):
        last = spread == 5
        runs = [row for bits, rows in differs.items() if bits == spread or (last and bits > spread) for row in rows]
        shares = " | ".join(f"{100 * share:.0f} %" for share in np.mean(runs, axis=0)) if runs else "- | - | -"
        print(f"| {spread}{' and more' if last else ''} | {len(runs)} | {shares} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
