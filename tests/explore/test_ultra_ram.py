"""UltraRAM in the space of a search: there where the board has it, and with it what the ready accelerators are."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
from small_networks import Network

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.read.network import read_network
from bfpga.explore.figures import Figures, Point, compile_for_figures
from bfpga.explore.front import Goal
from bfpga.explore.limits import excess
from bfpga.explore.results import write_results
from bfpga.explore.search import Exploration
from bfpga.explore.space import PARTS, Space
from bfpga.explore.tables import array_words
from bfpga.explore.task import Task
from bfpga.program.cycles import program_cycles
from bfpga.synthesis.resources import board_use

#: MHz of the fastest ready accelerators.
CLOCK = 250.0
#: Clocks by which the nearest of the space may differ: its columns are parts of those that fit.
NEAR = 0.03


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A residual block whose maps need more than one piece, and whose weights fill a part of the memory."""
    network = Network(16, 24, 24)
    network.add("Relu", network.conv(32, 16, 3, pads=[1] * 4))
    before = network.last
    network.add("Relu", network.conv(32, 32, 3, pads=[1] * 4))
    network.add("Add", network.conv(32, 32, 3, pads=[1] * 4), before)
    network.add("Relu")
    path = tmp_path_factory.mktemp("ultra_ram") / "block.onnx"
    path.write_bytes(network.model().SerializeToString())
    return path


@cache
def task(model: Path, board: str, clock: float = CLOCK) -> Task:
    network = read_network(model)
    samples = Network(16, 24, 24).samples(2)
    return Task(network, load_board(board), board, Goal(), clock, samples)


def space(board: str) -> Space:
    return Space(load_board(board), board, ("none", "relu"), True, True, CLOCK, adds=True, static=True)


@pytest.mark.parametrize(
    ("board", "choices"),
    [("kv260", ("none", "activations", "weights", "both")), ("zcu104", 4), ("pynq_z2", ("none",)), ("ultra96_v2", 1)],
)
def test_it_is_searched_on_boards_that_have_it_alone(board: str, choices: object) -> None:
    found = space(board).choices["ultra_ram"]
    assert choices in (found, len(found))
    values = {key: choices[0] for key, choices in space(board).choices.items()}
    chance = random.Random(1)
    drawn = {space(board).neighbour(values, chance)["ultra_ram"] for _ in range(200)}
    assert drawn == set(found), "a neighbour is any other value"


def test_memories_in_it_leave_block_memories_to_more_columns() -> None:
    """With none of them not one column fits into the block memories of a KV260."""
    given = {**space("kv260").nearest(load_accelerator("kv260_dense")), "fill": PARTS, "static_exponents": 1}
    arrays = {
        memories: space("kv260").candidate({**given, "ultra_ram": memories}).described["engines"][0]
        for memories in space("kv260").choices["ultra_ram"]
    }
    assert {name: array.get("ultra_ram") for name, array in arrays.items()} == {
        "none": None, "activations": ["activations"], "weights": ["weights"], "both": ["activations", "weights"],
    }  # fmt: skip
    columns = {name: array["columns"] for name, array in arrays.items()}
    assert columns["none"] == 1
    assert columns["activations"] == 1
    assert 1 < columns["weights"] < columns["both"]


@pytest.mark.parametrize(
    "name",
    [
        "kv260_dense", "kv260_two_cores", "kv260_transformer", "zcu104_dense", "zcu104_mixed", "zcu104_three_cores",
        "zcu104_transformer",
    ],
)  # fmt: skip
def test_the_space_has_what_the_ready_dense_accelerators_are(name: str, model: Path) -> None:
    """What comes closest fits, and its schedule takes as many clocks; of other networks' memories there may be less."""
    ready = load_accelerator(name)
    given = task(model, ready.board.name, max(CLOCK, ready.clock_mhz))
    candidate = given.space.candidate(given.space.nearest(ready))
    near = candidate.accelerator()
    assert excess(board_use(near).total, near.board) <= 0
    assert (near.config.ultra_ram, near.cores, near.clock_mhz) == (ready.config.ultra_ram, ready.cores, ready.clock_mhz)
    own, found = (
        program_cycles(compile_for_figures(given.network, one, given.calibration, candidate.options)).scheduled()
        for one in (ready, near)
    )
    assert found == pytest.approx(own, rel=NEAR)


def test_it_is_written_shown_and_loaded_again(model: Path, tmp_path: Path) -> None:
    given, figures = task(model, "kv260"), Figures(1e-3, 1e-3, 1e-3, 100, {})
    values = {**given.space.nearest(load_accelerator("kv260_dense")), "residual_adds": 0, "weight_words": 2048}
    cells, lines = [], []
    for memories in given.space.choices["ultra_ram"]:
        candidate = given.space.candidate({**values, "ultra_ram": memories})
        row, = write_results(Exploration(given, [Point(1, candidate, figures)], 0), tmp_path)
        assert row.accelerator is not None
        loaded = load_accelerator(tmp_path / row.accelerator)
        assert loaded.digest == candidate.accelerator().digest
        cells.append(array_words(loaded.config).partition("x 4")[2])
        text = (tmp_path / row.accelerator).read_text()
        lines += [line.strip() for line in text.splitlines() if "ultra_ram" in line]
    assert cells == ["", ", URAM activations", ", URAM weights", ", URAM"]
    assert lines == [f"ultra_ram: [{memories}]" for memories in ("activations", "weights", "activations, weights")]
