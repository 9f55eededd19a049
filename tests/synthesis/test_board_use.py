"""What an accelerator takes of its board: counted, or fitted to counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from changed_kernels import changed

from bfpga.accelerator.loader import load_accelerator
from bfpga.engines.kernel import counted_resources
from bfpga.synthesis.kept import kept_figures
from bfpga.synthesis.resources import board_use

DENSE = load_accelerator("pynq_z2_dense")


def test_a_ready_accelerator_takes_what_its_netlist_has(tmp_path: Path) -> None:
    figures, use = kept_figures(DENSE, tmp_path), board_use(DENSE, tmp_path)
    assert figures is not None
    assert use.basis == "counted"
    assert (use.total.lut, use.total.ff, use.total.dsp) == (
        figures.total.tables, figures.total.ff, figures.total.dsp,
    )  # fmt: skip
    assert use.with_total["total"] == use.total
    assert set(figures.parts) == set(use.parts)


def test_another_kernel_takes_what_is_fitted_to_counts(tmp_path: Path) -> None:
    config = changed(DENSE.config, columns=6, array_hop_columns=3)
    use = board_use(replace(DENSE, config=config), tmp_path)
    assert use.basis == "fitted to counted netlists"
    assert use.parts == counted_resources.estimate_resources(config).parts
    assert "bfpga synthesize" in use.origin
