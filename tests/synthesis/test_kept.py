"""Figures in the package are those of the kernels as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.synthesis import kept
from bfpga.synthesis.kept import keep_figures, kept_figures, package_path, sources_digest

PACKAGED = [name for name in accelerator_names() if package_path(load_accelerator(name)).exists()]


def test_figures_of_the_common_accelerator_are_there() -> None:
    assert "pynq_z2_dense" in PACKAGED


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
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_figures_that_other_code_has_made_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache outlives a version of the toolkit, and its figures may not be those of the next."""
    own = replace(load_accelerator("tiny"), clock_mhz=50.0)
    known = kept_figures(load_accelerator("pynq_z2_dense"), tmp_path)
    assert known is not None
    made = replace(known, accelerator=own.name, sources=sources_digest(own))
    keep_figures(made, tmp_path)
    assert kept_figures(own, tmp_path) == made
    monkeypatch.setattr(kept, "source_digest", lambda package: "another")
    assert kept_figures(own, tmp_path) is None
