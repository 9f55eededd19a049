"""What `bfpga explore` says of its front: ties, and what costs most at the point that it recommends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bfpga.accelerator.boards import load_board
from bfpga.cli.explore import _best, _say_costs, _show
from bfpga.compiler.read.network import read_network
from bfpga.data import load_inputs
from bfpga.estimate.advice import advice
from bfpga.estimate.program import estimate_program
from bfpga.explore.candidate import Candidate
from bfpga.explore.figures import Figures, Point
from bfpga.explore.front import Goal, Objective
from bfpga.explore.results import Row
from bfpga.explore.search import Exploration
from bfpga.explore.task import Task

MODEL = Path(__file__).parents[2] / "examples" / "models" / "mlp_digits.onnx"
NETWORK = read_network(MODEL)


def exploration(objective: Objective = "throughput") -> Exploration:
    return Exploration(Task(NETWORK, load_board("pynq_z2"), "pynq_z2", Goal(objective), 125.0), [], 0)


def row(number: int, microseconds: float, tables: int, joules: float = 1.0) -> Row:
    used = {"lut": tables, "dsp": 0, "bram36": 0}
    figures = Figures(microseconds * 1e-6, 2e-6 * microseconds, joules, 100, used)
    return Row(Point(number, Candidate({"name": "pynq_z2_dense"}, {}, "pynq_z2_dense"), figures), f"net_t{number}")


def test_of_ties_the_one_with_the_fewest_tables_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(1, 95.0, 40_000), row(2, 100.0, 26_600), row(3, 100.1, 100)]
    assert _best(exploration(), rows) is rows[1]
    assert capsys.readouterr().out == "ties within 5 %: net_t2 with 50 % of the LUTs, the fewest; net_t1\n"


def test_of_ties_the_one_with_the_fewest_cores_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = row(1, 100.0, 40_000), row(2, 96.0, 30_000)
    candidate = Candidate({"name": "net_t2", "cores": 2, "engines": [{}]})
    two = replace(two, point=replace(two.point, candidate=candidate))
    assert _best(exploration(), [two, one]) is one
    assert "net_t1 with 1 core, the fewest, and 75 % of the LUTs; net_t2" in capsys.readouterr().out


def test_a_lead_of_more_than_a_tie_decides(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(1, 94.0, 40_000), row(2, 100.0, 20_000)]
    assert _best(exploration(), rows) is rows[0]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("loss", "spread", "microseconds", "excess", "said"),
    [
        (2.5, 1.1, 90.0, 0.0, True),
        (2.5, 0.9, 90.0, 0.0, False),
        (0.5, 1.1, 90.0, 0.0, False),
        (2.5, 1.1, 96.0, 0.0, False),
        (2.5, 1.1, 90.0, 0.1, False),
    ],
)
def test_a_faster_ready_accelerator_that_chance_left_out_is_named(
    loss: float, spread: float, microseconds: float, excess: float, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its loss is above the 0.5 points that are allowed by less than other samples may say."""
    samples = load_inputs(MODEL.parent / "digits_test.npz", NETWORK.inputs, 20)
    task = replace(exploration().task, samples=samples)
    best, fast = row(1, 100.0, 1).point, row(2, microseconds, 1).point
    figures = replace(fast.figures, loss=loss, accuracy=95.0 - loss, spread=spread)
    fast = replace(fast, figures=figures, excess=excess)
    _show(Exploration(task, [best, fast], 0), [], Path(), None)
    shown = " ".join(capsys.readouterr().out.split())
    assert ("pynq_z2_dense would be the best (90.0 us a sample" in shown) == said
    assert ("loses 2.50 points: by chance perhaps, the standard deviation with 20 samples is 1.10;" in shown) == said


def test_ties_are_those_of_the_objective() -> None:
    rows = [row(1, 50.0, 40_000, 1.0), row(2, 100.0, 20_000, 1.01)]
    assert _best(exploration("energy"), rows) is rows[1]
    assert _best(exploration(), rows) is rows[0]


def test_costs_of_the_best_are_those_of_its_program(capsys: pytest.CaptureFixture[str]) -> None:
    found, point = exploration(), row(1, 50.0, 1).point
    _say_costs(found, point)
    accelerator = point.candidate.loaded()
    program = found.task.compiled(point.candidate, accelerator)
    expected = [one.text for one in advice(accelerator, program, estimate_program(accelerator, program))]
    assert capsys.readouterr().out.splitlines() == expected
    assert expected
