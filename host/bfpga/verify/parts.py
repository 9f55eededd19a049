"""A verification in parts, for several workers: the report is that of one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

from bfpga.contract.configuration import KernelConfig
from bfpga.scale.work import Work, Workers
from bfpga.verify.check import TRACED, VerifyReport, opener, target_names, verify_on_all

#: Cases of a part: many enough that opening a board for them costs little, few enough that no worker idles at the end.
CASES_A_PART = 16


@dataclass(frozen=True)
class CaseRange:
    """Cases of one array: its case numbers [first, last), counted from 0 for each array."""

    array: int
    first: int
    last: int


@dataclass(frozen=True)
class Verification:
    """What all parts share. Case ``n`` of array ``a`` is number ``a + n * arrays`` of all."""

    configs: Sequence[KernelConfig]
    targets: Sequence[str]
    seed: int


def verify_range(task: Verification, part: CaseRange) -> VerifyReport:
    """The cases of a part up to the first difference."""
    report = VerifyReport(targets=list(task.targets), accelerators=part.array + 1)
    with ExitStack() as opened:
        openers = {target: opener(target, opened) for target in task.targets}
        for turn in range(part.first, part.last):
            case = part.array + turn * len(task.configs)
            config = task.configs[part.array]
            verify_on_all(config, openers, task.seed, case, turn % TRACED == 0, report)
            if report.mismatch is not None:
                break
    return report


VERIFY: Work[Verification, CaseRange, VerifyReport] = Work(
    Verification, verify_range, lambda part: part.last - part.first
)


def verify_spread(
    workers: Workers,
    configs: Sequence[KernelConfig],
    targets: Sequence[str],
    cases: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyReport:
    """`verify` on workers, with the same report but for its time. progress(done, all): cases on all targets.

    Errors are those of `verify`, and those of ``workers``.
    """
    start, names = perf_counter(), target_names(targets)
    parts = case_ranges(len(configs), cases)
    shared = {"configs": list(configs), "targets": names, "seed": seed}
    found = zip(parts, workers.map(VERIFY, parts, shared=shared, progress=progress), strict=True)
    report = VerifyReport(targets=names)
    for _, part in sorted(found, key=lambda pair: (pair[0].array, pair[0].first)):
        include(report, part)
        if report.mismatch is not None:
            break
    report.seconds = perf_counter() - start
    return report


def case_ranges(arrays: int, cases: int) -> list[CaseRange]:
    """All cases; neighbours are of different arrays, so that workers compile different kernels at first."""
    longest = -(-cases // arrays)
    return [
        CaseRange(array, first, min(first + CASES_A_PART, count))
        for first in range(0, longest, CASES_A_PART)
        for array in range(min(arrays, cases))
        if first < (count := len(range(array, cases, arrays)))
    ]


def include(report: VerifyReport, part: VerifyReport) -> None:
    """Add what a part found, the parts of one array after the other."""
    report.cases += part.cases
    report.accelerators = part.accelerators
    report.layers += part.layers
    report.values += part.values
    report.seed, report.target, report.mismatch = part.seed, part.target, part.mismatch
