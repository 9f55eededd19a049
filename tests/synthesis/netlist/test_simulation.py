"""The netlist of a loop body does what the graph means, pipelined or not: simulated with Yosys and a C++ compiler."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from loop_graphs import PLACE, RandomBody

from bfpga.errors import ToolError
from bfpga.synthesis.body import LoopBody, Opcode, Operation, Register
from bfpga.synthesis.netlist import simulate
from bfpga.synthesis.netlist.recording import interpreted_run
from bfpga.synthesis.netlist.verilog import translate
from bfpga.synthesis.netlist.yosys import find_yosys
from bfpga.synthesis.schedule_types import Schedule


def has_yosys() -> bool:
    try:
        find_yosys()
    except ToolError:
        return False
    return shutil.which("g++") is not None


needs_yosys = pytest.mark.skipif(not has_yosys(), reason='needs Yosys (pip install "bfpga[synthesis]") and g++')


@needs_yosys
@pytest.mark.parametrize(("seed", "pipelined"), [(4, True)])
def test_a_netlist_of_every_operation_does_what_the_graph_means(seed: int, pipelined: bool) -> None:
    made = RandomBody(seed)
    run = interpreted_run(made.body, *made.inputs(40))
    schedule = made.schedule() if pipelined else None
    simulator = simulate.Simulator(translate(made.body, schedule))
    assert simulate.differences(simulator, run) == []
    # A graph in which one operation means something else is told apart by that operation.
    changed = next(index for index, each in enumerate(made.body.operations) if each.opcode is Opcode.EQ)
    other = replace(made.body, operations=list(made.body.operations))
    other.operations[changed] = replace(other.operations[changed], opcode=Opcode.NE)
    found = simulate.differences(simulator, interpreted_run(other, *RandomBody(seed).inputs(40)))
    assert f"result_{changed}" in {difference.port for difference in found}


def counter(width: int = 8) -> LoopBody:
    """for (i = first; ; i += 3) with its sum as second state."""
    body = LoopBody("count", PLACE, 1)
    body.operations += [
        Operation(Opcode.STATE, width, register=0),
        Operation(Opcode.STATE, width, register=1),
        Operation(Opcode.CONSTANT, width, value=3),
        Operation(Opcode.ADD, width, (0, 2)),
        Operation(Opcode.ADD, width, (0, 1)),
    ]
    body.registers += [Register("i", width, 0, 3), Register("sum", width, 1, 4)]
    return body


def scheduled(body: LoopBody, interval: int, stage: list[int], latency: list[int] | None = None) -> Schedule:
    count = len(stage)
    return Schedule(body, 10.0, 1.0, interval, 1 + max(stage), stage, [0.0] * count, latency or [0] * count)


@needs_yosys
@pytest.mark.parametrize(
    ("interval", "stage", "latency"),
    [
        # The counter in the first clock, its sum later.
        (1, [0, 0, 0, 0, 2], [0, 0, 0, 0, 0]),
        # Values wait for more than one interval.
        (2, [0, 0, 0, 1, 5], [0, 0, 0, 0, 0]),
        # The next value of an iteration arises in the clock in which the next iteration needs it.
        (2, [0, 0, 0, 0, 0], [0, 0, 0, 2, 1]),
    ],
)
def test_state_is_in_time_for_the_next_iteration(interval: int, stage: list[int], latency: list[int]) -> None:
    body = counter()
    run = interpreted_run(body, [200, 7], {}, [{}] * 30)
    assert run.iterations[-1].outcome.state == ((200 + 90) % 256, (7 + sum(200 + 3 * i for i in range(30))) % 256)
    simulator = simulate.Simulator(translate(body, scheduled(body, interval, stage, latency)))
    assert simulate.differences(simulator, run) == []


def test_a_schedule_that_uses_a_value_too_early_is_refused() -> None:
    body = counter()
    with pytest.raises(ValueError, match=r"operation 0 \(state\) is used in stage 0 and there only 1 later"):
        translate(body, scheduled(body, 1, [0, 0, 0, 0, 1], [0, 0, 0, 2, 0]))


@needs_yosys
def test_the_last_iteration_stops_those_behind_it() -> None:
    """Writes of iterations that began before the loop's end was known do not happen."""
    body = counter()
    body.operations += [
        Operation(Opcode.CONSTANT, 8, value=12),
        Operation(Opcode.EQ, 1, (0, 5)),
        Operation(Opcode.CONSTANT, 1, value=1),
        Operation(Opcode.STREAM_WRITE, 0, (0, 7), stream=0),
    ]
    body.leaves = 6
    simulator = simulate.Simulator(translate(body, scheduled(body, 1, [0, 0, 0, 0, 0, 0, 2, 0, 2])))
    outputs = simulator.clocks([{"ce": 1, "start": int(clock == 0)} for clock in range(20)])
    written = [row["operand_8_0"] for row in outputs if row["operand_8_1"]]
    assert written == [0, 3, 6, 9, 12]
