"""Figures in the package are those of the kernels as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.synthesis.kept import keep_figures, kept_figures, package_path

PACKAGED = [name for name in accelerator_names() if package_path(load_accelerator(name)).exists()]


def test_every_ready_accelerator_of_processes_has_figures() -> None:
    assert [name for name in accelerator_names() if load_accelerator(name).systolic.kernel == "processes"] == PACKAGED


@pytest.mark.parametrize("name", PACKAGED)
def test_figures_belong_to_the_sources(name: str, tmp_path: Path) -> None:
    """python -m benchmarks.synthesis.figures NAME makes them anew."""
    figures = kept_figures(load_accelerator(name), tmp_path)
    assert figures is not None, f"the kernel of {name} has changed"
    assert figures.counted


def test_figures_are_kept_for_other_accelerators(tmp_path: Path) -> None:
    other = load_accelerator("tiny_first_light")
    assert kept_figures(replace(other, clock_mhz=50.0), tmp_path) is None
    known = kept_figures(load_accelerator("pynq_z2_dense"), tmp_path)
    assert known is not None
    keep_figures(known, tmp_path)
    assert (tmp_path / f"{known.sources[:32]}.json").exists()
