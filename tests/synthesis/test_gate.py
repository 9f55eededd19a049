"""What `bfpga synthesize --check` asks of every ready accelerator whose kernel is one of processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.estimate.hardware import findings
from bfpga.synthesis.kept import kept_figures

READY = [name for name in accelerator_names() if load_accelerator(name).systolic.kernel == "processes"]


@pytest.mark.parametrize("name", READY)
def test_a_ready_accelerator_of_processes_passes_the_gate(name: str, tmp_path: Path) -> None:
    """Intervals, slack, share of the board. `python -m benchmarks.synthesis.figures NAME` makes its figures anew."""
    accelerator = load_accelerator(name)
    figures = kept_figures(accelerator, tmp_path)
    assert figures is not None, f"no figures of the present kernel of {name}"
    assert figures.counted
    assert {ip.name for ip in figures.ips} == {"sequencer", "scratchpad", "weights", "array", "post", "store"}
    assert findings(figures, accelerator.board.resources) == []
