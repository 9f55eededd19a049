"""Largest errors of Softmax and normalizations of rows in integers against float64, in steps of an output's mantissa.

    python -m benchmarks.rows.errors [--rows 200]

Rows of many lengths and distributions, every exponent from -12 to 6, the finest exponent that an output may have and
coarser ones. Of an error half a step is the rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.common.command import TEST_SUPPORT, command

sys.path.insert(0, str(TEST_SUPPORT))
from row_cases import KINDS, TOP, drawn_rows, float_normalized, float_softmax

from bfpga.contract.rows import RowOperation
from bfpga.engines.rows.arithmetic import RowResults, normalized, softmax
from bfpga.engines.rows.settings import Gains, RowSettings
from bfpga.formats.arrays import Float64Array

LENGTHS = (1, 2, 3, 8, 9, 32, 100, 127, 128, 384, 513, 1000, 1024)
EPSILONS = (1e-12, 1e-5, 1e-3)
EXPONENTS = range(-12, 7)
NORMS = (RowOperation.LAYER_NORM, RowOperation.RMS_NORM)


def finest(numbers: Float64Array) -> int:
    """The finest exponent in which the largest number is a mantissa."""
    return int(np.ceil(np.log2(max(float(np.abs(numbers).max()), 2.0**-4) / TOP)))


def error(results: RowResults, wanted: Float64Array, exponent: int) -> float:
    """The largest one of mantissas with an exponent."""
    found = np.rint(np.ldexp(results.accumulators.astype(np.float64), results.exponent - exponent))
    return float(np.abs(np.clip(found, -TOP, TOP) - np.clip(np.ldexp(wanted, -exponent), -TOP, TOP)).max())


def errors(rows: int, channels: int, kind: str, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Operations with their errors for rows of a length and a distribution."""
    x = drawn_rows(kind, rng, rows, channels)
    scale = rng.normal(1, 0.3, channels)
    for exponent in EXPONENTS:
        wanted = float_softmax(x, exponent)
        results = softmax(x, exponent)
        for own in {-7, max(-17, finest(wanted))}:
            yield "SOFTMAX", error(results, wanted, own)
        for operation in NORMS:
            for epsilon in EPSILONS:
                wanted = float_normalized(x, exponent, epsilon, operation is RowOperation.LAYER_NORM) * scale
                results = normalized(x, exponent, RowSettings.of(operation, channels, epsilon), Gains.of(scale))
                own = max(finest(wanted), finest(scale))
                for coarser in (0, 2):
                    yield operation.name, error(results, wanted, own + coarser)


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--rows", type=int, default=100, help="rows of each length and distribution")
    rows = parser.parse_args(given).rows
    rng = np.random.default_rng(0)
    worst: dict[str, tuple[float, int, str]] = {}
    for channels in LENGTHS:
        for kind in KINDS:
            for name, found in errors(rows, channels, kind, rng):
                worst[name] = max(worst.get(name, (0.0, 0, "")), (found, channels, kind))
    for name, (found, channels, kind) in worst.items():
        print(f"{name:<12} {found:.3f} steps, rows of {channels} channels, {kind}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
