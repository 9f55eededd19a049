"""Operations of the process `rows` as tests give them to its loops, and what numpy makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from row_cases import KINDS, TOP, drawn_rows

from bfpga.contract.descriptor import Operation
from bfpga.contract.rows import GAIN_BITS, RowOperation
from bfpga.engines.rows.arithmetic import normalized, products, softmax
from bfpga.engines.rows.settings import Gains, RowSettings
from bfpga.formats.arrays import Int64Array

OPERATIONS = [operation for operation in RowOperation if operation]


@dataclass(frozen=True)
class RowCase:
    """An operation over rows (groups * columns, channels), with what it needs."""

    settings: RowSettings
    x: Int64Array
    exponent: int = 0
    second: Int64Array | None = None
    gains: Gains | None = None
    beyond: int = 77  # what lanes behind the channels hold

    def words(self, lanes: int) -> int:
        """Words of a row."""
        return -(-self.settings.channels // lanes)

    def row_command(self, columns: int) -> tuple[int, ...]:
        own = self.settings
        return int(Operation.ROWS), own.channels, int(own.operation), len(self.x) // columns

    def factor_command(self, columns: int) -> tuple[int, ...]:
        own = self.settings
        groups = len(self.x) // columns
        return (
            int(Operation.ROWS), own.channels, own.inverse, own.magnitude, int(own.operation), *own.epsilon, groups,
        )  # fmt: skip

    def expected(self) -> Int64Array:
        """Results (groups * columns, channels)."""
        operation = self.settings.operation
        if operation == RowOperation.SOFTMAX:
            return softmax(self.x, self.exponent).accumulators
        if operation == RowOperation.PRODUCT:
            assert self.second is not None
            return products(self.x, self.second, 0).accumulators
        assert self.gains is not None
        return normalized(self.x, self.exponent, self.settings, self.gains).accumulators


def random_case(rng: np.random.Generator, columns: int, kind: RowOperation, longest: int = 300) -> RowCase:
    """An operation of any length, distribution, exponent and epsilon."""
    usual = [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100, 127, int(rng.integers(1, longest + 1))]
    channels = int(rng.choice([length for length in usual if length <= longest]))
    rows = columns * int(rng.integers(1, 4))
    kinds = sorted(KINDS)
    x = np.concatenate([drawn_rows(kinds[int(rng.integers(len(kinds)))], rng, 1, channels) for _ in range(rows)])
    second = drawn_rows("uniform", rng, rows, channels) if kind == RowOperation.PRODUCT else None
    return RowCase(
        RowSettings.of(kind, channels, float(rng.choice([0.0, 1e-12, 1e-6, 1e-5, 1e-3, 1.0]))), x,
        int(rng.integers(-24, 12)), second, _gains(rng, channels) if kind.normalizes else None,
        int(rng.choice([-TOP, 0, 77, TOP])),
    )  # fmt: skip


def _gains(rng: np.random.Generator, channels: int) -> Gains:
    """Those of a scale, or any that there may be."""
    largest = (1 << (GAIN_BITS - 1)) - 1
    if rng.random() < 0.7:
        return Gains.of(rng.normal(1, 0.3, channels))
    return Gains(rng.integers(-largest, largest + 1, channels), 0)
