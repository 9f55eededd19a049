"""`bfpga advise`: what it tries, which one it recommends and why, and the command that follows."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.cli import main
from bfpga.cli.advise import following, reason
from bfpga.contract.program import Program
from bfpga.explore import ready
from bfpga.explore.candidate import RESTRICTED
from bfpga.explore.figures import Figures
from bfpga.explore.ready import KINDS, Offer, kind_of, recommend
from bfpga.precision.judge import Judge, Score

MODELS = Path(__file__).parents[2] / "examples" / "models"
MODEL, DATA = str(MODELS / "mlp_digits.onnx"), str(MODELS / "digits_test.npz")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    target = tmp_path_factory.mktemp("board") / "found.json"
    assert main(["advise", MODEL, "--board", "pynq_z2", "-d", DATA, "-n", "64", "--json", str(target)]) == 0
    return dict(json.loads(target.read_text()))


def test_all_ready_accelerators_of_the_board_are_tried_at_their_clocks(found: dict[str, Any]) -> None:
    ready = {name: one for name in accelerator_names() if (one := load_accelerator(name)).board.name == "pynq_z2"}
    wanted = {name: one for name, one in ready.items() if not one.demonstrator}
    assert ready.keys() - wanted.keys() == {"tiny"}
    rows = {row["accelerator"]: row for row in found["accelerators"] if row["recipe"] is None}
    assert {name: row["clock_mhz"] for name, row in rows.items()} == {n: one.clock_mhz for n, one in wanted.items()}
    speeds = [row["images_per_second"] for row in found["accelerators"]]
    assert speeds == sorted(speeds, reverse=True)


def test_cycles_are_those_of_the_schedule_and_accuracy_that_of_an_evaluation(
    found: dict[str, Any], tmp_path: Path
) -> None:
    from bfpga.cli import work
    from bfpga.compiler.options import CompileOptions
    from bfpga.program.cycles import program_cycles

    row = next(row for row in found["accelerators"] if row["accelerator"] == "pynq_z2_dense")
    described, network = load_accelerator("pynq_z2_dense"), work.read(Path(MODEL), None)
    samples = work.estimate_samples(network, None, Path(DATA))
    cycles = program_cycles(work.compile_for_estimate(described, network, samples, CompileOptions()))
    rate = described.board.assumed_gb_s * 1e9 / (described.clock_mhz * 1e6)
    assert row["cycles"] == pytest.approx(cycles.scheduled(16, rate) / 16)
    result = tmp_path / "result.json"
    assert main(["evaluate", MODEL, "-a", "pynq_z2_dense", "-d", DATA, "-n", "64", "--json", str(result)]) == 0
    judged = json.loads(result.read_text())
    assert row["accuracy"] == pytest.approx(100 * judged["accuracy"])
    assert row["lost"] == pytest.approx(100 * (judged["float_accuracy"] - judged["accuracy"]))


def test_the_command_that_follows_compiles_the_network(
    found: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(found["next"])
    assert words[:3] == ["bfpga", "compile", MODEL]
    assert words[words.index("-a") + 1] == found["recommended"]
    assert main(words[1:]) == 0
    assert (tmp_path / "mlp_digits.bfpga").exists()


def test_what_cannot_run_is_listed_with_the_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["pynq_z2_dense", "pynq_z2_zero_skip", "pynq_z2_shift"]
    monkeypatch.setattr(ready, "accelerator_names", lambda: names)
    model = str(MODELS / "lenet_mnist_pruned90.onnx")
    assert main(["advise", model, "--board", "pynq_z2", "--formats", "linear"]) == 0
    shown = capsys.readouterr().out
    assert "pynq_z2_shift cannot run it: weights of format linear are not for this array" in shown
    assert "recommended: pynq_z2_zero_skip on TUL PYNQ-Z2, " in shown
    assert "times as fast as pynq_z2_dense\n" in shown
    assert "zeros of the weights: 90.0 %; of what layers read, a mean of layers: not known without samples" in shown
    assert "what the driver takes for each start, which no board has measured" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([MODEL, "--board", "pynq_z1"], "no ready accelerator is for Digilent PYNQ-Z1; bfpga explore MODEL --board"),
        ([MODEL, "--board", "pynq_z9"], "pynq_z9"),
        (["nowhere.onnx", "--board", "pynq_z2"], "nowhere.onnx"),
    ],
)
def test_wrong_use_is_one_message(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.strip().splitlines()) == 1


def offer(name: str, rate: float, loss: float | None = None, tables: int = 30_000, excess: float = 0.0) -> Offer:
    accuracy = None if loss is None else 99.0 - loss
    figures = Figures(1 / rate, 2 / rate, 0.001, 1000, {"lut": tables}, accuracy, loss)
    return Offer(load_accelerator(name), "", "", figures, excess)


def test_ties_go_to_the_plainest_and_are_named() -> None:
    offers = [
        offer("pynq_z2_sparse", 1000), offer("pynq_z2_mixed", 990, tables=20_000),
        offer("pynq_z2_dense", 951, tables=40_000), offer("pynq_z2_flows", 940),
    ]  # fmt: skip
    chosen = recommend(offers, 0.5)
    assert chosen.best is offers[2]
    assert chosen.ties == (offers[1], offers[0])
    assert chosen.behind is offers[3]
    assert reason(chosen, 0.5) == (
        "recommended: pynq_z2_dense on TUL PYNQ-Z2, 951 images/s, the plainest of 3 that tie within 5 % "
        "(an array of DSP blocks, 75 % of the LUTs; the others: pynq_z2_mixed, pynq_z2_sparse)"
    )


def test_static_exponents_are_less_plain_and_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, other = offer("kv260_dense", 1000, tables=30_000), offer("kv260_dense", 1001, tables=20_000)
    config = replace(other.accelerator.config, static_exponents=True)
    static = replace(other, accelerator=replace(other.accelerator, config=config))
    assert recommend([static, plain], 0.5).best is plain
    said = []
    for name in ("kv260_two_cores", "kv260_dense"):
        monkeypatch.setattr(ready, "accelerator_names", lambda name=name: [name])
        assert main(["advise", MODEL, "--board", "kv260"]) == 0
        said.append(f"{name}: {RESTRICTED}\n" in capsys.readouterr().out)
    assert said == [True, False]


def test_look_up_tables_decide_between_arrays_of_one_kind() -> None:
    few, many = offer("pynq_z2_flows", 1000, tables=30_000), offer("pynq_z2_dense", 1001, tables=30_001)
    assert recommend([many, few], 0.5).best is few


def test_a_difference_of_five_percent_is_none_that_ties() -> None:
    fast, slow = offer("pynq_z2_sparse", 1000), offer("pynq_z2_dense", 949)
    chosen = recommend([fast, slow], 0.5)
    assert (chosen.best, chosen.ties) == (fast, ())
    assert reason(chosen, 0.5).endswith("1,000 images/s, 1.05 times as fast as pynq_z2_dense")


def test_accuracy_goes_before_speed_and_a_board_that_is_too_full_counts_last() -> None:
    lossy, good = offer("pynq_z2_dense", 2000, 0.6), offer("pynq_z2_bfp16", 1000, 0.1)
    full = offer("tiny", 3000, 0.0, excess=0.1)
    assert recommend([full, lossy, good], 0.5).best is good
    assert recommend([lossy, good], 0.6).best is lossy
    none = recommend([lossy, good], 0.05)
    assert (none.best, none.exact) == (good, False)
    assert reason(none, 0.05).endswith(": none loses at most 0.05 points, this one loses least (0.10)")


def test_mantissas_of_four_bits_are_recommended_only_where_samples_judged_them() -> None:
    """Twice the products of 8 bits are faster for every network, and most networks lose points with them."""
    quad, dense = offer("pynq_z2_quad", 2000), offer("pynq_z2_dense", 1000)
    assert recommend([quad, dense], 0.5).best is dense
    assert recommend([quad], 0.5).best is quad
    judged = [offer("pynq_z2_quad", 2000, 0.4), offer("pynq_z2_dense", 1000, 0.0)]
    assert recommend(judged, 0.5).best is judged[0]
    assert recommend(judged, 0.3).best is judged[1]


def test_what_loses_too_much_is_tried_with_a_finer_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that the usual recipe misses by construction: the accelerator appears again with the other one."""
    monkeypatch.setattr(ready, "accelerator_names", lambda: ["pynq_z2_dense"])
    measured = ready.Judge.score

    def score(judge: Judge, program: Program) -> Score:
        parts = any(tensor.parts > 1 for tensor in program.tensors.values())
        return replace(measured(judge, program), lost=0.0 if parts else 1.0)

    monkeypatch.setattr(ready.Judge, "score", score)
    target = tmp_path / "found.json"
    command = ["advise", str(MODELS / "mlp_mnist.onnx"), "--board", "pynq_z2", "-d", str(MODELS / "mnist_test.npz")]
    assert main([*command, "-n", "16", "--json", str(target)]) == 0
    found = json.loads(target.read_text())
    assert {row["recipe"]: row["lost"] for row in found["accelerators"]} == {None: 1.0, "two_parts": 0.0}
    assert found["recipe"] == "two_parts"
    assert " -r two_parts " in found["next"]


def test_the_next_command_repeats_what_was_asked() -> None:
    best = replace(offer("pynq_z2_dense", 1), recipe="two_parts")
    assert following(best, Path("my net.onnx"), Path("x.npz"), ["a=1,3"], ["class"]) == (
        "bfpga compile 'my net.onnx' -a pynq_z2_dense -r two_parts -c x.npz --input-shape a=1,3 --outputs class "
        "-o 'my net.bfpga'"
    )


def test_every_ready_accelerator_has_a_kind() -> None:
    kinds = {name: kind_of(load_accelerator(name).config) for name in accelerator_names()}
    assert set(kinds.values()) == set(KINDS)
    assert kinds["pynq_z2_dense"] == KINDS[0]
    assert kinds["pynq_z2_shift"] == kinds["zcu104_mixed"] == KINDS[1]
    assert kinds["zcu104_hetero"] == kinds["zcu104_cluster"] == kinds["zcu104_zero_skip_tile"] == KINDS[2]
