"""What `bfpga synthesize --check` says of every ready accelerator whose kernel is one of processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.estimate.hardware import findings
from bfpga.synthesis.kept import kept_figures, package_path

READY = [name for name in accelerator_names() if load_accelerator(name).systolic.kernel == "processes"]
COUNTED = [name for name in READY if package_path(load_accelerator(name)).exists()]
#: Ready accelerators of which the package has no figures yet; `python -m benchmarks.synthesis.figures NAME` makes them.
UNCOUNTED = {
    "kv260_dense", "pynq_z2_bfp16", "pynq_z2_flows", "pynq_z2_mixed", "pynq_z2_shift", "zcu104_dense", "zcu104_mixed",
}  # fmt: skip
#: What the gate finds: resources and loops. Accelerators without an entry pass it; the lists get shorter.
FOUND: dict[str, set[str]] = {}


def test_the_list_of_accelerators_without_figures_is_up_to_date() -> None:
    assert {name for name in READY if name not in COUNTED} <= UNCOUNTED
    assert not UNCOUNTED & set(COUNTED)


@pytest.mark.parametrize("name", COUNTED)
def test_a_ready_accelerator_passes_the_gate(name: str, tmp_path: Path) -> None:
    """Intervals, slack, share of the board with interconnect and DMAs."""
    accelerator = load_accelerator(name)
    figures = kept_figures(accelerator, tmp_path)
    assert figures is not None, f"no figures of the present kernel of {name}"
    assert figures.counted
    assert {ip.name for ip in figures.ips} == {"sequencer", "scratchpad", "weights", "array", "post", "store"}
    found = findings(figures, accelerator.board.resources)
    assert {text.split(":")[0].split(" ")[0] for text in found} == FOUND.get(name, set()), found
