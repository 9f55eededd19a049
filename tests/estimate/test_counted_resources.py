"""The estimate of a kernel of processes against the counted netlists that it is fitted to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.process_stream import PROCESSES
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel import counted_resources

TINY = load_accelerator("tiny").config


def test_the_fit_is_as_good_as_the_documents_say() -> None:
    # docs/estimates.md names it: look-up tables, which boards run out of, and flip-flops, of which a faster clock takes
    # more than the fit knows.
    assert len(counted_resources.table()) >= 5
    for row in counted_resources.table():
        found = sum(counted_resources.logic(row.numbers).values(), Resources())
        assert found.lut == pytest.approx(sum(row.cells["lut"].values()), rel=0.1)
        assert found.ff == pytest.approx(sum(row.cells["ff"].values()), rel=0.16)
    assert counted_resources.largest_error() < 0.16


@pytest.mark.parametrize("row", counted_resources.table(), ids=lambda row: f"{row.numbers['columns']} columns")
def test_no_part_is_far_from_its_count(row: counted_resources.Counted) -> None:
    found = counted_resources.logic(row.numbers)
    for ip in PROCESSES:
        difference = abs(found[ip].lut - row.cells["lut"][ip])
        assert difference < max(0.35 * row.cells["lut"][ip], 300), ip


def test_an_estimate_has_all_ips_and_what_stands_beside_them() -> None:
    parts = counted_resources.estimate_resources(TINY).parts
    assert set(PROCESSES) < set(parts)
    assert parts["array"].dsp == TINY.columns * TINY.rows * TINY.lanes // 2
    assert parts[counted_resources.STREAMS].lut > 0
    assert parts[counted_resources.SHELL_PART].lut > 4000


@pytest.mark.parametrize("grown", [{"columns": 4}, {"rows": 8}, {"weight_words": 2048}, {"position_bins": 32}])
def test_more_of_anything_takes_more(grown: dict[str, Any]) -> None:
    def total(config: KernelConfig) -> tuple[int, int]:
        found = sum(counted_resources.estimate_resources(config).parts.values(), Resources())
        return found.lut, found.bram36

    before, after = total(TINY), total(replace(TINY, **grown))
    assert after > before if "weight_words" not in grown else after[1] > before[1]
