"""Issue of searching: repeatable by seed, resumable, staged, never worse than the ready accelerators."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.read.network import read_network
from bfpga.data import load_inputs
from bfpga.errors import ConfigurationError, ToolError
from bfpga.estimate.hardware import HardwareFigures, LoopFigures
from bfpga.explore import figures as figures_module
from bfpga.explore import task as task_module
from bfpga.explore.figures import Point
from bfpga.explore.front import Goal
from bfpga.explore.modelled_clock import modelled, usual_clock, verdict
from bfpga.explore.search import Search
from bfpga.explore.task import Task, TooLargeError
from bfpga.synthesis.kept import packaged_figures

MODELS = Path(__file__).parents[2] / "examples" / "models"
TRIALS = 6


@pytest.fixture(scope="module")
def task() -> Task:
    """A perceptron on a board without ready accelerators."""
    network = read_network(MODELS / "mlp_digits.onnx")
    samples = load_inputs(MODELS / "digits_test.npz", network.inputs, 64)
    board = load_board("ultra96_v2")
    return Task(network, board, board.name, Goal(drop=2.0), 150.0, samples.first(32), samples, seed=3)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the search of ``searched`` is kept."""
    return tmp_path_factory.mktemp("search") / "study.sqlite3"


@pytest.fixture(scope="module")
def searched(task: Task, study: Path) -> Search:
    search = Search(task, study)
    search.run(TRIALS)
    return search


def costs(points: Sequence[Point], task: Task) -> list[tuple[float, ...]]:
    return [task.goal.costs(point.figures) for point in points]


def test_a_study_that_was_interrupted_and_resumed_finds_what_one_in_a_piece_finds(
    task: Task, searched: Search, tmp_path: Path
) -> None:
    """The same seed gives the same front, also over an interruption in the middle of a trial."""

    def interrupt(done: int, whole: int, best: Point | None) -> None:
        if done == 5:
            raise KeyboardInterrupt

    path = tmp_path / "study.sqlite3"
    first = Search(task, path).run(TRIALS, show=interrupt)
    assert first.interrupted
    assert first.trials == 4  # a generation; nothing of the one that was interrupted
    second = Search(task, path).run(TRIALS)
    whole = searched.exploration()
    assert not second.interrupted
    assert [point.content() for point in second.points] == [point.content() for point in whole.points]
    assert second.front == whole.front
    with pytest.raises(ConfigurationError, match="another search \\(seed\\)"):
        Search(replace(task, seed=4), path)


def test_a_file_that_is_no_study_is_refused(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite3"
    path.write_text("no database, but long enough for a page of one " * 100)
    with pytest.raises(ConfigurationError, match="is no study that can be resumed"):
        Search(task, path)


def test_no_point_of_the_front_is_beaten_and_all_are_allowed(task: Task, searched: Search) -> None:
    found = searched.exploration()
    assert found.front
    assert found.trials == len(searched.study) >= TRIALS
    tried = searched.study.tried()
    assert all(values in tried for values in task.space.plainer(found.front[0].values))
    for point in found.front:
        assert point.figures.loss is not None
        assert point.figures.loss <= task.goal.drop
        assert not any(task.goal.beats(other, point) for other in found.points if task.goal.accepts(other))
    assert found.front[0].figures.seconds == min(point.figures.seconds for point in found.front)
    coarse = max(found.points, key=lambda point: point.figures.loss or 0.0)
    judged = task.judge.score(task.compiled(coarse.candidate, coarse.candidate.loaded()))  # type: ignore[union-attr]
    assert (coarse.figures.loss, coarse.figures.spread) == (judged.lost, judged.spread)
    assert judged.spread > 0


def test_the_search_begins_with_the_ready_accelerators_so_the_front_is_never_worse(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "accelerator_names", lambda: ["tiny"])
    board = load_board("pynq_z2")
    search = Search(replace(task, board=board, board_name=board.name))
    found = search.run(2)
    assert [point.name for point in found.ready] == ["tiny"]
    ready = found.ready[0]
    assert task.goal.accepts(ready)
    # The second trial is the same array as processes, at the fastest clock.
    like = found.points[1]
    array = like.candidate.described["engines"][0]
    assert (array["rows"], array["lanes"]) == (4, 2)
    for cost in zip(task.goal.costs(ready.figures), *costs(found.front, task), strict=True):
        assert cost[0] >= min(cost[1:])


def test_what_does_not_fit_is_refused_before_anything_is_compiled(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    values = {key: choices[0] for key, choices in task.space.choices.items()} | {"rows": 16, "fill": 16}
    monkeypatch.setattr(figures_module, "compile_network", lambda *given: compiled.append(given))
    candidate = task.space.candidate(values)
    array = {**candidate.described["engines"][0], "columns": 128}
    large = replace(candidate, described={**candidate.described, "engines": [array]})
    with pytest.raises((TooLargeError, ConfigurationError)):
        task.point(0, large, values, [])
    assert not compiled


def test_accuracy_is_measured_only_of_points_that_could_be_of_the_front(
    task: Task, searched: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = searched.exploration().front[0]
    judge = task.judge
    assert judge is not None
    # In the place of the trial's own numbers: a point that nothing can be better than.
    perfect = replace(best, figures=replace(best.figures, seconds=0.0, latency=0.0, joules=0.0, loss=0.0))
    monkeypatch.setattr(type(judge), "score", lambda *given: pytest.fail("the emulator was asked"))
    point = task.point(9, best.candidate, best.values, [perfect])
    assert point.beaten
    assert point.figures.loss is None
    assert not task.goal.accepts(point)


def test_points_that_miss_their_clock_leave_the_front_or_become_slower(
    task: Task, searched: Search, study: Path, tmp_path: Path
) -> None:
    """--synthesize; the synthesis is a rule here: every loop is in time up to a clock."""
    search = Search(task, shutil.copy(study, tmp_path / "study.sqlite3"))
    assert search.exploration().points == searched.exploration().points
    fastest = search.exploration().front[0].candidate.described["clock_mhz"] - 1

    def synthesis(accelerator: Accelerator) -> HardwareFigures:
        interval = 1 if accelerator.clock_mhz <= fastest else 2
        loop = LoopFigures("Array", "array.hpp:1", 1, interval, 3, 0.1, (), 1, 1, ())
        return HardwareFigures("x", accelerator.board.part, "", 1000 / accelerator.clock_mhz, 1.0, (loop,))

    after = search.synthesize(synthesis=synthesis)
    assert after.front
    for point in after.front:
        assert point.clock == "modelled"
        assert point.candidate.described["clock_mhz"] <= fastest
    missed = [point for point in after.points if point.clock == "missed"]
    assert missed
    assert missed[0].missed == "Array begins every 2 clocks"
    again = Search(task, tmp_path / "study.sqlite3").exploration()
    assert again.front == after.front


def test_clocks_and_counts_of_ready_accelerators_are_those_that_the_package_has(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pynq_z2_dense was synthesized: its clock is modelled, nothing is synthesized anew, its netlist is its size."""
    board = load_board("pynq_z2")
    monkeypatch.setattr(task_module, "accelerator_names", lambda: ["pynq_z2_dense"])
    here = replace(task, board=board, board_name=board.name, samples=None)
    ready = here.point(0, here.ready()[0], {}, [])
    known = packaged_figures(load_accelerator("pynq_z2_dense"))
    assert known is not None
    assert ready.clock == "modelled"
    assert ready.figures.used["lut"] == known.total.tables
    assert modelled(ready, lambda _: pytest.fail("it was synthesized")).clock == "modelled"
    slow = replace(known, loops=(replace(known.loops[0], interval=2),))
    assert verdict(slow) == ("missed", f"{known.loops[0].name} begins every 2 clocks")
    assert verdict(None) == ("not modelled", "")


def test_no_clock_is_offered_beyond_those_that_a_synthesis_found_in_time(task: Task, searched: Search) -> None:
    """A faster point leads only once its own code was synthesized."""
    found = searched.exploration()
    best = found.front[0]
    fast = replace(best.candidate, described={**best.candidate.described, "clock_mhz": 300.0})
    faster = replace(best, number=99, candidate=fast, figures=replace(best.figures, seconds=0.0))
    assert replace(found, points=[*found.points, faster]).front == found.front
    sure = replace(faster, clock="modelled")
    assert replace(found, points=[*found.points, sure]).front[0] == sure
    assert usual_clock(load_board("pynq_z2")) == pytest.approx(1000 / 7)
    assert usual_clock(task.board) == task.board.clock_default


def test_a_machine_without_optuna_is_told_what_to_install(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ToolError, match='pip install "bfpga\\[explore\\]"'):
        Search(task)
