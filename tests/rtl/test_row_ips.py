"""The Verilog of the loops of the process of rows: words of numpy in, words of numpy out, whatever waits."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from effort import drawn, some_of
from ip_simulation import SimulatedIp
from row_cases import drawn_rows
from row_operations import OPERATIONS, RowCase, random_case
from row_tops import TOTAL_BITS, row_ip, row_sources

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.rows import RowOperation
from bfpga.engines.rows.arithmetic import deviation, exponentials, power_scale, reciprocal
from bfpga.engines.rows.settings import RowSettings
from bfpga.formats.arrays import Int64Array
from bfpga.rtl.ip import ip_verilog

COLUMNS, LANES = 3, 2
SCALE, OFFSET, FACTOR = (25, 34, 22)
DISTURBANCES = ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3), (0.1, 0.9))
NORMS = (RowOperation.LAYER_NORM, RowOperation.RMS_NORM)


@functools.cache
def simulated(process: str) -> SimulatedIp:
    sources, _ = row_sources(process, COLUMNS, LANES)
    verilog = ip_verilog(load_accelerator("pynq_z2_dense"), row_ip(process, COLUMNS, LANES), sources)
    assert set(verilog.intervals.values()) == {1}
    with tempfile.TemporaryDirectory() as directory:
        return SimulatedIp(verilog, Path(directory))


def packed(*fields: tuple[int, int]) -> int:
    """Numbers with their bits as one word, the first one lowest."""
    word, place = 0, 0
    for value, bits in fields:
        word |= (int(value) & ((1 << bits) - 1)) << place
        place += bits
    return word


def groups_of(rows: Int64Array) -> Int64Array:
    """(groups, columns, ...) of (groups * columns, ...)."""
    return rows.reshape(-1, COLUMNS, *rows.shape[1:])


def padded(case: RowCase, rows: Int64Array, beyond: int) -> Int64Array:
    """Rows of whole words."""
    more = case.words(LANES) * LANES - case.settings.channels
    return np.pad(rows, ((0, 0), (0, more)), constant_values=beyond)


def operand_words(case: RowCase) -> Iterator[int]:
    """The words of all columns in the order in which the loop reads them."""
    tensors = [case.x] if case.second is None else [case.x, case.second]
    groups = [groups_of(padded(case, tensor, case.beyond)) for tensor in tensors]
    for each in zip(*groups, strict=True):
        for _ in range(case.settings.operation.passes):
            for first in range(0, each[0].shape[1], LANES):
                for group in each:
                    yield packed(*((value, 8) for value in group[:, first : first + LANES].ravel()))


def gain_words(case: RowCase) -> list[int]:
    if case.gains is None:  # they are taken, and change nothing
        return [packed((case.beyond, 16))] * case.words(LANES) * LANES * (len(case.x) // COLUMNS)
    gains = padded(case, case.gains.mantissa[None], case.beyond)[0]
    return [packed((value, 16)) for value in gains] * (len(case.x) // COLUMNS)


class Totals:
    """What columns have summed since the start of the tests: operations begin with it, and passes add to it."""

    def __init__(self) -> None:
        self.sum, self.total = np.zeros(COLUMNS, np.int64), np.zeros(COLUMNS, np.int64)

    def add(self, case: RowCase, group: Int64Array) -> None:
        self.sum += group.sum(axis=1)
        if case.settings.operation == RowOperation.SOFTMAX:
            self.total += exponentials(group, power_scale(case.exponent)).sum(axis=1)
        else:
            self.total -= (group * group).sum(axis=1)

    def words(self) -> list[int]:
        return [packed((a, 18), (b, 29)) for a, b in zip(self.sum, self.total, strict=True)]


def totals_of(case: RowCase, totals: Totals) -> Iterator[list[int]]:
    """The words of totals of an operation: those it begins with, then of each group."""
    if case.settings.operation == RowOperation.PRODUCT:
        return
    yield totals.words()
    for group in groups_of(case.x):
        totals.add(case, group)
        yield totals.words()


def factors_of(case: RowCase) -> Iterator[list[int]]:
    """The words of factors of an operation: those it begins with, then of each group, and before the next one zeros."""
    operation = case.settings.operation
    opening = [packed((int(power_scale(case.exponent)), SCALE), (0, OFFSET), (0, FACTOR))] * COLUMNS
    yield opening
    for number, group in enumerate(groups_of(case.x) if operation != RowOperation.PRODUCT else ()):
        if operation in NORMS and number:
            yield opening
        yield list(map(functools.partial(closing, case), group))


def closing(case: RowCase, row: Int64Array) -> int:
    """The factors of a row; those that the operation has no use for are zero."""
    if case.settings.operation == RowOperation.SOFTMAX:
        total = exponentials(row[None], power_scale(case.exponent)).sum(axis=1, keepdims=True)
        return packed((int(power_scale(case.exponent)), SCALE), (0, OFFSET), (int(reciprocal(total)[0, 0]), FACTOR))
    sums, squares = (np.array([[value]]) for value in (row.sum(), (row * row).sum()))
    scale, offset = deviation(sums, squares, case.exponent, case.settings)
    return packed((int(scale[0, 0]), SCALE), (int(offset[0, 0]), OFFSET))


def cases(seed: int) -> list[RowCase]:
    rng = np.random.default_rng(seed)
    return [random_case(rng, COLUMNS, OPERATIONS[int(n)], 40) for n in rng.integers(0, len(OPERATIONS), 6)]


def split(words: Sequence[int], lengths: Sequence[int]) -> list[Sequence[int]]:
    """Words in parts of these lengths, all of them."""
    ends = np.cumsum([0, *lengths])
    assert len(words) == ends[-1]
    return [words[first:end] for first, end in itertools.pairwise(ends)]


def results_of(case: RowCase) -> list[list[int]]:
    """The words of sums of each group, without lanes behind the channels."""
    return [[packed(*((value, 24) for value in lane)) for lane in group.T] for group in groups_of(case.expected())]


def used(case: RowCase, words: Sequence[int]) -> list[int]:
    """Words of factors without what a normalization has no use for."""
    mask = (1 << (SCALE + OFFSET)) - 1 if case.settings.operation in NORMS else -1
    return [word & mask for word in words]


def unsigned(numbers: Iterable[int]) -> list[int]:
    return [number & 0xFFFFFFFF for number in numbers]


def assert_factors(seed: int, gap: float, pressure: float, reset_at: int = 0) -> None:
    totals, given = Totals(), cases(seed)
    incoming = {
        "factor_commands": unsigned([word for case in given for word in case.factor_command(COLUMNS)] + [0] * 8),
        "exponents": unsigned(case.exponent for case in given),
        "totals": [word for case in given for words in totals_of(case, totals) for word in words],
    }
    expected = [list(itertools.chain(*factors_of(case))) for case in given]
    lengths = [len(words) for words in expected]
    run = simulated("factor_process").run
    done = run(incoming, {"factors": sum(lengths)}, seed, gap, pressure, reset_at=reset_at)
    assert (done.faults, done.taken) == (0, {name: len(words) for name, words in incoming.items()})
    for case, found, words in zip(given, split(done.beats["factors"], lengths), expected, strict=True):
        assert used(case, found) == used(case, words), str(case.settings)


@pytest.mark.parametrize("waits", some_of(DISTURBANCES, (0.1, 0.9)))
def test_factors_are_those_of_numpy(waits: tuple[float, float]) -> None:
    """1/sum, 1/deviation and the mean times it, of the sums that come."""
    for seed in range(drawn(6)):
        assert_factors(seed, *waits)


def factors_in_time(given: Sequence[RowCase]) -> tuple[list[int], list[int]]:
    """The words of factors of operations, and how many words the other loop has sent before each of them is there."""
    words: list[int] = []
    needs: list[int] = []
    sent = 0
    for case in given:
        results = case.words(LANES) * LANES
        of_operation = list(factors_of(case))
        words += itertools.chain(*of_operation)
        needs += [sent] * COLUMNS
        if case.settings.operation == RowOperation.PRODUCT:
            sent += results * (len(case.x) // COLUMNS)
            continue
        sent += COLUMNS
        for number in range(len(case.x) // COLUMNS):
            needs += [sent] * (COLUMNS if case.settings.operation in NORMS and number else 0)
            needs += range(sent + 1, sent + COLUMNS + 1)
            sent += COLUMNS + results
    return words, needs


def assert_results(seed: int, gap: float, pressure: float, reset_at: int = 0) -> None:
    totals, given = Totals(), cases(seed)
    factors, needs = factors_in_time(given)
    incoming = {
        "row_commands": [word for case in given for word in case.row_command(COLUMNS)] + [0] * 4,
        "operands": [word for case in given for word in operand_words(case)],
        "gains": [word for case in given for word in gain_words(case)],
        "factors": factors,
    }
    at_once = {name: [0] * len(words) for name, words in incoming.items()}
    expected = [word for case in given for words in totals_of(case, totals) for word in words]
    lengths = [case.words(LANES) * LANES for case in given for _ in groups_of(case.x)]
    counts = {"totals": len(expected), "sums": sum(lengths)}
    run = simulated("row_process").run
    done = run(incoming, counts, seed, gap, pressure, at_once | {"factors": needs}, reset_at)
    assert (done.faults, done.taken) == (0, {name: len(words) for name, words in incoming.items()})
    mask = (1 << TOTAL_BITS) - 1
    # After a reset they begin with what the columns have summed before.
    assert reset_at or [word & mask for word in done.beats["totals"]] == expected
    groups = [words for case in given for words in results_of(case)]
    for found, words in zip(split(done.beats["sums"], lengths), groups, strict=True):
        assert list(found[: len(words)]) == words


@pytest.mark.parametrize("waits", some_of(DISTURBANCES, (0.1, 0.9)))
def test_sums_and_results_are_those_of_numpy(waits: tuple[float, float]) -> None:
    for seed in range(drawn(6)):
        assert_results(seed, *waits)


@pytest.mark.parametrize("reset_at", some_of((100, 333, 700), 333))
def test_operations_begin_anew_after_a_reset_amid_one(reset_at: int) -> None:
    """What columns and memories hold from before counts in no result."""
    assert_factors(1, 0.3, 0.3, reset_at)
    assert_results(1, 0.3, 0.3, reset_at)


def test_an_operation_moves_a_lane_a_clock() -> None:
    """But for what begins an operation and what its loops wait for each other."""
    rng = np.random.default_rng(0)
    case = RowCase(RowSettings.of(RowOperation.PRODUCT, 400), drawn_rows("uniform", rng, 2 * COLUMNS, 400),
                   second=drawn_rows("uniform", rng, 2 * COLUMNS, 400))  # fmt: skip
    incoming = {
        "row_commands": [*case.row_command(COLUMNS), 0, 0, 0, 0], "operands": list(operand_words(case)),
        "gains": gain_words(case), "factors": list(itertools.chain(*factors_of(case))),
    }  # fmt: skip
    done = simulated("row_process").run(incoming, {"sums": 800})
    # Of a product a word of the first tensor is taken in a clock of its own.
    assert 800 + 400 < done.clocks < 800 + 400 + 70
