"""Keys that make an array smaller or faster, and less plain: searched where of use, recommended beyond a tie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_networks import Network

from bfpga.accelerator.boards import Board, load_board
from bfpga.accelerator.loader import load_accelerator
from bfpga.cli.explore import _best, _show
from bfpga.compiler.read.network import read_network
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.errors import ConfigurationError
from bfpga.explore import task as task_module
from bfpga.explore.candidate import EXTRAS, RESTRICTED, Candidate
from bfpga.explore.figures import Figures, Point, compile_for_figures
from bfpga.explore.front import Goal, front, ties
from bfpga.explore.page import page
from bfpga.explore.results import Row, write_results
from bfpga.explore.search import Exploration, Search
from bfpga.explore.space import PARTS, Space
from bfpga.explore.task import Task
from bfpga.program.cycles import program_cycles

PYNQ, KV260 = load_board("pynq_z2"), load_board("kv260")
#: MHz of `pynq_z2_dense`.
CLOCK = 142.857


def blocks(additions: int, kernel: int = 1, count: int = 2) -> Network:
    """Convolutions of 8 x 6 pixels; to the results of the first ones what they read is added."""
    network = Network(16, 8, 6)
    network.add("Relu", network.conv(16, 16, 1))
    for place in range(count):
        before = network.last
        network.conv(16, 16, kernel, pads=[kernel // 2] * 4)
        if place < additions:
            network.add("Add", network.last, before)
        network.add("Relu")
    return network


def task(network: Network, folder: Path, board: Board = PYNQ, calibrated: bool = False) -> Task:
    path = folder / "blocks.onnx"
    path.write_bytes(network.model().SerializeToString())
    samples = network.samples(2) if calibrated else None
    return Task(read_network(path), board, board.name, Goal(), CLOCK, samples)


def space(board: Board = PYNQ) -> Space:
    return Space(board, board.name, ("none", "relu"), True, True, board.clock_default, adds=True, static=True)


def point(number: int, microseconds: float, joules: float, *extras: str, cores: int = 1, tables: int = 100) -> Point:
    array = dict.fromkeys(extras, True)
    figures = Figures(microseconds * 1e-6, microseconds * 1e-6, joules, 100, {"lut": tables})
    return Point(number, Candidate({"cores": cores, "engines": [array]}), figures)


# What is searched


@pytest.mark.parametrize(("additions", "choices"), [(0, (0,)), (1, (0, 1))])
def test_additions_to_sums_are_searched_for_networks_that_have_some(
    additions: int, choices: tuple[int, ...], tmp_path: Path
) -> None:
    searched = task(blocks(additions), tmp_path).space
    assert searched.choices["residual_adds"] == choices
    assert searched.choices["static_exponents"] == (0,), "nothing calibrates"
    assert searched.nearest(load_accelerator("pynq_z2_dense"))["residual_adds"] == choices[-1]


def test_static_exponents_are_searched_where_samples_calibrate_and_nobody_says_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "accelerator_names", lambda: ["kv260_dense", "kv260_two_cores"])

    def found(given: Task) -> tuple[object, list[str]]:
        return given.space.choices["static_exponents"], [one.origin for one in given.ready()]

    calibrated = task(blocks(0), tmp_path, KV260, calibrated=True)
    assert found(calibrated) == ((0, 1), ["kv260_dense", "kv260_two_cores"])
    assert calibrated.space.nearest(load_accelerator("kv260_two_cores"))["static_exponents"] == 1
    refused = replace(calibrated, static=False)
    assert found(refused) == ((0,), ["kv260_dense"])
    assert found(replace(calibrated, calibration=None)) == ((0,), ["kv260_dense"])
    assert calibrated.identity["space"] != refused.identity["space"], "it is another study"


def test_keys_are_written_where_they_are_true_and_more_columns_fit_without_logic_for_exponents() -> None:
    given = {**space().nearest(load_accelerator("pynq_z2_dense")), "rows": 4, "fill": PARTS, "residual_adds": 0}
    plain, static, adding, both = (
        space().candidate({**given, **dict.fromkeys(keys, 1)}) for keys in ((), EXTRAS[:1], EXTRAS[1:], EXTRAS)
    )
    assert [one.extras for one in (plain, static, adding, both)] == [(), EXTRAS[:1], EXTRAS[1:], EXTRAS]
    assert not set(EXTRAS) & plain.described["engines"][0].keys()
    columns = [one.accelerator().config.columns for one in (adding, plain, static)]
    assert columns[0] < columns[1] < columns[2]
    config = static.accelerator().config
    assert estimate_resources(config).total.lut < estimate_resources(replace(config, static_exponents=False)).total.lut


def test_a_point_is_plainer_without_each_of_its_keys_and_without_all() -> None:
    values = {"rows": 8, "static_exponents": 1, "residual_adds": 1}
    left = [(one["static_exponents"], one["residual_adds"]) for one in Space.plainer(values)]
    assert left == [(0, 1), (1, 0), (0, 0)]
    assert all(one["rows"] == 8 for one in Space.plainer(values))
    assert Space.plainer({**values, "static_exponents": 0}) == [{"rows": 8, "static_exponents": 0, "residual_adds": 0}]
    assert Space.plainer({"static_exponents": 0, "residual_adds": 0}) == []


# What is found


@pytest.mark.parametrize(("network", "adds"), [(blocks(2), True), (blocks(1, kernel=5, count=3), False)])
def test_the_best_for_a_residual_network_adds_to_its_sums_if_that_is_no_tie(
    network: Network, adds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun with an accelerator that does, a search tries its like without the key in the end."""
    monkeypatch.setattr(task_module, "accelerator_names", lambda: ["pynq_z2_dense"])
    given = task(network, tmp_path)
    found = Search(given).run(2)
    adding, plain = (min((p for p in found.points if bool(p.candidate.extras) == key), key=given.goal.first)
                     for key in (True, False))  # fmt: skip
    assert adding.figures.seconds < plain.figures.seconds
    assert (adding.figures.seconds < 0.95 * plain.figures.seconds) == adds
    assert ties(found.front, given.goal)[0] == (adding if adds else plain)
    assert found.trials == 3


def test_static_exponents_are_compiled_scheduled_and_loaded_again(tmp_path: Path) -> None:
    given = task(blocks(1), tmp_path, KV260, calibrated=True)
    values = {**given.space.nearest(load_accelerator("kv260_two_cores")), "fill": PARTS // 2}
    candidate = given.space.candidate(values)
    accelerator = candidate.accelerator()
    program = given.compiled(candidate, accelerator)
    nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
    assert {node.policy.policy for node in nodes} == {Policy.STATIC}
    assert any(node.adds_second for node in nodes)
    finding = replace(accelerator, config=replace(accelerator.config, static_exponents=False))
    assert program_cycles(program).scheduled() == program_cycles(given.compiled(candidate, finding)).scheduled() > 0
    made = given.point(0, candidate, values, [])
    row, = write_results(Exploration(given, [made], 0), tmp_path)
    assert row.accelerator is not None
    written = (tmp_path / row.accelerator).read_text()
    assert f"# Restricted: {RESTRICTED}.\n" in written
    assert "static_exponents: true" in written
    assert load_accelerator(tmp_path / row.accelerator).digest == accelerator.digest
    options = replace(candidate.options, policy="max")
    with pytest.raises(ConfigurationError, match="finds exponents at run time"):
        compile_for_figures(given.network, accelerator, given.calibration, options)


# What is recommended


@pytest.mark.parametrize("key", EXTRAS)
def test_a_point_with_a_key_beats_a_plainer_one_by_more_than_a_tie_alone(key: str) -> None:
    goal, plain = Goal(), point(1, 100.0, 1.0)
    near, far = point(2, 95.1, 0.9, key), point(3, 94.9, 0.9, key)
    assert front([plain, near], goal) == [near, plain]
    assert front([plain, far], goal) == [far]
    assert ties([near, plain], goal) == [plain, near]
    assert front([point(1, 100.0, 1.0, key), point(2, 99.9, 0.9)], goal)[0].number == 2, "a plainer one beats at once"


def test_the_plainest_has_no_static_exponents_then_the_fewest_cores_then_no_additions() -> None:
    order = [
        point(1, 100, 1, tables=900), point(2, 100, 1, "residual_adds", tables=800), point(3, 100, 1, cores=2),
        point(4, 100, 1, "static_exponents", tables=700), point(5, 100, 1, *EXTRAS),
    ]  # fmt: skip
    assert ties(order[::-1], Goal()) == order
    assert Candidate({}, {}, "kv260_two_cores").plainness == (True, 2, True)


def test_text_and_page_say_what_static_exponents_exclude(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = task(blocks(0), tmp_path, KV260, calibrated=True)
    values = given.space.nearest(load_accelerator("kv260_two_cores"))
    static = given.point(0, given.space.candidate(values), values, [])
    found = Exploration(given, [static], 0)
    rows = [Row(static, "net_t0", "net_t0.yaml", "net_t0_recipe.yaml")]
    _show(found, rows, tmp_path, None)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"net_t0: {RESTRICTED}; --no-static-exponents searches without such accelerators" in shown
    assert RESTRICTED in [fact.note for fact in page(found, rows).facts]
    assert ", static" in shown
    candidate = given.space.candidate({**values, "static_exponents": 0, "cores": 1})
    plain = replace(static, candidate=candidate, figures=replace(static.figures, seconds=static.figures.seconds * 1.01))
    found = Exploration(given, [static, plain], 0)
    assert _best(found, [*rows, Row(plain, "net_t1")]).name == "net_t1"
    assert "net_t1 with no static_exponents, " in capsys.readouterr().out
    # The page recommends the same one.
    assert RESTRICTED not in [fact.note for fact in page(found, [*rows, Row(plain, "net_t1")]).facts]
