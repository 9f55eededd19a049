"""What `bfpga synthesize --check` says of every ready accelerator."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.cli import main
from bfpga.contract.processes import kernel_processes
from bfpga.estimate.hardware import HardwareFigures, findings
from bfpga.synthesis.kept import package_path, packaged_figures

COUNTED = [name for name in accelerator_names() if package_path(load_accelerator(name)).exists()]
#: Ready accelerators of which the package has no figures; `python -m benchmarks.synthesis.figures NAME` makes them.
UNCOUNTED: set[str] = set()
#: Ready accelerators some of whose IPs are counted loop by loop, without what stands between; the list gets shorter.
LOOPS_ALONE = set(COUNTED) - {
    "aup_zu3_static", "kv260_dense", "kv260_quad", "kv260_two_cores", "pynq_z2_dense", "pynq_z2_flows", "pynq_z2_mixed",
    "pynq_z2_quad", "pynq_z2_shift", "pynq_z2_transformer", "tiny", "zcu104_dense", "zcu104_three_cores",
}  # fmt: skip


@functools.cache
def packaged(name: str) -> HardwareFigures | None:
    return packaged_figures(load_accelerator(name))


def test_the_gate_without_a_name_judges_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`bfpga synthesize --check`, from the package alone: nothing is synthesized. All of them are few here."""
    some = ["kv260_dense", "tiny"]
    monkeypatch.setattr("bfpga.accelerator.loader.accelerator_names", lambda: some)
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    monkeypatch.setattr("bfpga.rtl.whole.synthesize_whole", lambda accelerator, *_: pytest.fail(accelerator.name))
    target = tmp_path / "found.json"
    assert main(["synthesize", "--check", "--json", str(target)]) == 0
    judged = json.loads(target.read_text())["accelerators"]
    assert [figures["accelerator"] for figures in judged] == some


def test_every_ready_accelerator_is_counted() -> None:
    assert set(accelerator_names()) - set(COUNTED) <= UNCOUNTED


def test_ips_are_counted_whole() -> None:
    kept = {name: packaged(name) for name in COUNTED}
    alone = {name for name, found in kept.items() if found is None or not all(ip.is_whole for ip in found.ips)}
    assert alone == LOOPS_ALONE


@pytest.mark.parametrize("name", COUNTED)
def test_a_ready_accelerator_passes_the_gate(name: str) -> None:
    """Intervals, slack, share of the board with interconnect and DMAs."""
    accelerator, figures = load_accelerator(name), packaged(name)
    assert figures is not None, f"no figures of the present kernel of {name}"
    assert figures.counted
    assert {ip.name for ip in figures.ips} == set(kernel_processes(accelerator.config))
    assert findings(figures, accelerator.board.resources) == []
    # What the schedule takes for short levels of logic is not what they are with their wires.
    paths = {ip.name: ip.path for ip in figures.ips}
    assert all(0 < path <= figures.period for path in paths.values()), paths
