"""Many boards on the same engine: samples are shared, answers keep their order, none is lost or answered twice."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pool_boards import FaultyBoards, ReprogrammedBoards, SlowBoards, StationsHere, WrongBoards
from scale_parts import set_environment

pytest.importorskip("pynq")

from board_fixtures import compiled_program, expected

from bfpga.board.many import pool as pool_module
from bfpga.board.many.pool import BoardPool
from bfpga.board.many.station import Opener
from bfpga.cli import main
from bfpga.contract.program import Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.emulator import Emulator
from bfpga.devices.part_queue import PartQueue
from bfpga.errors import DeviceError, ScaleError
from bfpga.runtime import check_device, run
from bfpga.scale.cluster import Cluster

ROOT = Path(__file__).parents[2]
CASE = "lenet_tiny"
NAMES = ("virtual", "virtual")


@pytest.fixture(scope="module")
def quick_boards(cluster: Cluster) -> Cluster:
    """The workers of this file: virtual boards run for minutes without optimization."""
    cluster.client.run(set_environment, {"BFPGA_CXXFLAGS": "-O1"})
    return cluster


@pytest.fixture(scope="module")
def program() -> Program:
    return compiled_program(CASE)


@pytest.fixture
def inputs(program: Program) -> dict[str, np.ndarray]:
    """Two hundred samples, of which no two are equal."""
    base = expected(CASE, 100).inputs
    return {name: np.concatenate([value, value[::-1] * 0.5]) for name, value in base.items()}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "TEST_PAUSES", (0.05, 0.05))


def spread(
    cluster: Any, program: Program, inputs: dict[str, np.ndarray], opener: Opener, part_samples: int = 8
) -> DeviceResult:
    """The samples on two boards; nothing may be lost, wrong or out of order."""
    pool = BoardPool(program, NAMES, cluster, opener=opener, part_samples=part_samples)
    told: list[tuple[int, int]] = []
    pool.progress = lambda *now: told.append(now)
    result = run(program, inputs, pool)
    pool.close()
    reference = Emulator(program).run(inputs)
    for name, value in reference.outputs.items():
        assert np.array_equal(result.outputs[name], value)
    assert result.samples == reference.samples == sum(board.samples for board in result.boards)
    assert result.cycles == reference.cycles
    assert told[-1] == (result.samples, result.samples)
    return result


def test_faults_cost_no_sample(quick_boards: Cluster, program: Program, inputs: dict[str, np.ndarray]) -> None:
    """Virtual boards with a fault in every fifth run, be it of samples or of a self-test: out, tested, back."""
    some = {name: value[:23] for name, value in inputs.items()}
    # Faults come by the run: eight small parts, the last one short, meet as many as eight large ones.
    result = spread(quick_boards, program, some, FaultyBoards("tiny", every=5), part_samples=3)
    assert sum(board.taken_out for board in result.boards) > 0
    assert sum(len(board.failures) for board in result.boards) >= sum(board.taken_out for board in result.boards)
    assert all(board.returned >= board.taken_out - 1 for board in result.boards)


@pytest.mark.parametrize("error", [TimeoutError("no answer within 1 s"), ScaleError("its process has ended")], ids=str)
def test_a_board_that_hangs_or_whose_process_dies_is_taken_out_and_comes_back(
    error: Exception, program: Program, inputs: dict[str, np.ndarray]
) -> None:
    """The processes themselves: test_workers.py."""
    result = spread(StationsHere({(1, 2): error}), program, inputs, SlowBoards(0.002))
    first, second = result.boards
    assert (first.taken_out, first.failures) == (0, [])
    assert (second.taken_out, second.returned, second.in_service) == (1, 1, True)
    assert second.failures == [str(error)]


def test_a_board_that_was_reprogrammed_is_loaded_again(
    program: Program, inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    result = spread(StationsHere(), program, inputs, ReprogrammedBoards(tmp_path))
    out = [board for board in result.boards if board.taken_out]
    assert [board.failures for board in out] == [["overlay tiny is no longer on the board"]]


def test_a_board_is_believed_only_after_its_self_test(program: Program, inputs: dict[str, np.ndarray]) -> None:
    """Boards that are wrong in one bit get no sample; when none is left, each one's reason is told."""
    pool = BoardPool(program, NAMES, StationsHere(), opener=WrongBoards())  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match=r"no board works(.|\n)*virtual#1: virtual: output .* is wrong(.|\n)*#2"):
        pool.run(inputs)
    assert [board.samples for board in pool.boards] == [0, 0]
    pool.close()


def test_boards_work_at_the_same_time(program: Program, inputs: dict[str, np.ndarray]) -> None:
    """Two boards of fixed latency: each has its share; what that gains is measured in benchmarks/scale/boards.py."""
    result = spread(StationsHere(), program, inputs, SlowBoards(0.01))
    assert all(board.samples >= 0.2 * result.samples for board in result.boards)
    assert all(0 < board.samples_per_second < 8 / 0.01 for board in result.boards)


def test_a_program_that_learns_is_refused() -> None:
    with pytest.raises(DeviceError, match="runs on one board only"):
        BoardPool(compiled_program("digits_tiny_learning"), NAMES)


# Parts


def test_parts_are_answered_once_and_in_order() -> None:
    queue: PartQueue[int] = PartQueue(50, 100)
    taken: list[int] = []

    def serve(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while (part := queue.take()) is not None:
            if rng.random() < 0.3:
                queue.give_back(part, OSError())
            else:
                taken.append(part)
                queue.answer(part, 3 * part)

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    assert queue.results(lambda done: None) == [3 * part for part in range(50)]
    assert sorted(taken) == list(range(50))
    for thread in threads:
        thread.join()


def test_a_part_that_fails_everywhere_ends_the_run() -> None:
    queue: PartQueue[int] = PartQueue(2, 3)
    for _ in range(3):
        part = queue.take()
        assert part == 0
        queue.give_back(part, DeviceError("sample 0 is poison"))
    assert queue.take() is None
    with pytest.raises(DeviceError, match="poison"):
        queue.results(lambda done: None)


# The command line


def test_names_of_several_boards() -> None:
    check_device("virtual,virtual,remote:a:1,remote:b")
    with pytest.raises(DeviceError, match="'remote:a' is named twice"):
        check_device("remote:a,virtual,remote:a")
    with pytest.raises(DeviceError, match="'emulator' is unknown"):
        check_device("virtual,emulator")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "csim", "--boards", "2"], "--boards is for --device virtual"),
        (["--scheduler", "tcp://127.0.0.1:1"], "--scheduler is for several boards"),
    ],
)
def test_wrong_choices_are_one_message(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(ROOT / "examples/models/mlp_digits.onnx"), "-a", "tiny", "-d", "no.npz"]
    assert main(["run", *files, *options]) == 2
    assert words in capsys.readouterr().err


def test_run_reports_each_board(
    quick_boards: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Throughput and health of each in the table and in the JSON; the comparison runs on all boards too."""

    class Borrowed:
        """The cluster of these tests in the place of a new one."""

        def __enter__(self) -> Cluster:
            return quick_boards

        def __exit__(self, *error: object) -> None:
            return

    monkeypatch.setattr("bfpga.cli.device_choice.open_workers", lambda *_: Borrowed())
    target = tmp_path / "run.json"
    files = [str(ROOT / "examples/models/mlp_digits.onnx"), "-a", "tiny", "-d"]
    files.append(str(ROOT / "examples/models/digits_test.npz"))
    options = ["-n", "40", "--device", "virtual", "--boards", "2", "--compare", "--json", str(target)]
    assert main(["run", *files, *options]) == 0
    shown = capsys.readouterr().out
    assert "bit-exact: virtual,virtual and emulator agree" in shown
    content = json.loads(target.read_text())
    assert [board["name"] for board in content["boards"]] == ["virtual#1", "virtual#2"]
    assert sum(board["samples"] for board in content["boards"]) == 40
    assert "virtual#2" in shown
    assert "in service" in shown
