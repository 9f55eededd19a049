"""What an accelerator takes of its board: counted, fitted to counts, or of a kernel of one loop the model by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bfpga.accelerator.loader import load_accelerator
from bfpga.engines.array import counted_resources, resources
from bfpga.synthesis.kept import kept_figures
from bfpga.synthesis.resources import board_use

DENSE = load_accelerator("pynq_z2_dense")
LOOP = load_accelerator(str(Path(__file__).parents[1] / "data" / "dense_loop.yaml"))


def test_a_ready_accelerator_takes_what_its_netlist_has(tmp_path: Path) -> None:
    figures, use = kept_figures(DENSE, tmp_path), board_use(DENSE, tmp_path)
    assert figures is not None
    assert use.basis == "counted"
    assert (use.total.lut, use.total.ff, use.total.dsp) == (
        figures.total.tables, figures.total.ff, figures.total.dsp,
    )  # fmt: skip
    assert use.with_total["total"] == use.total
    assert set(figures.parts) == set(use.parts)


def test_another_kernel_of_processes_takes_what_is_fitted_to_counts(tmp_path: Path) -> None:
    use = board_use(replace(DENSE, systolic=replace(DENSE.systolic, columns=6, hop_columns=3)), tmp_path)
    assert use.basis == "fitted to counted netlists"
    assert use.parts == counted_resources.resources(replace(DENSE.systolic, columns=6, hop_columns=3))
    assert "bfpga synthesize" in use.origin


def test_a_kernel_of_one_loop_takes_what_the_model_by_hand_says(tmp_path: Path) -> None:
    use = board_use(LOOP, tmp_path)
    assert (use.basis, use.parts) == ("estimated", resources.resources(LOOP.systolic))
