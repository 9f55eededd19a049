"""`estimate --faster`: which ready accelerator is faster for a network, by the same estimate, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_networks import Network

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.cli import main
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.errors import ConfigurationError
from bfpga.explore import faster
from bfpga.explore.faster import Tried, find_faster, rivals, tried, why
from bfpga.explore.figures import compile_for_figures

DENSE, ROWS = load_accelerator("pynq_z2_dense"), load_accelerator("pynq_z2_transformer")
MIXED, ZERO_SKIP = load_accelerator("pynq_z2_mixed"), load_accelerator("pynq_z2_zero_skip")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers with a normalization and a Softmax between them, which a dense accelerator leaves to the host."""
    network = Network(16, 32)
    network.add("MatMul", network.last, network.weights(32, 32))
    network.add("LayerNormalization", network.last, network.weights(32), network.weights(32), axis=-1)
    network.add("MatMul", network.last, network.weights(32, 32))
    network.add("Softmax", network.last, axis=-1)
    network.add("MatMul", network.last, network.weights(32, 8))
    path = tmp_path_factory.mktemp("faster") / "net.onnx"
    path.write_bytes(network.model().SerializeToString())
    return path


def on(accelerator: Accelerator, model: Path) -> Tried:
    program = compile_for_figures(read_network(model), accelerator, None, CompileOptions())
    return tried(accelerator, program)


def timed(own: Tried, factor: float) -> Tried:
    """As if a sample took so many times as long."""
    sample = own.sample
    return replace(own, sample=replace(sample, seconds=factor * sample.seconds, stream=factor * sample.stream))


def test_rivals_are_of_the_board_and_ask_no_more_of_the_user() -> None:
    names = [other.name for other in rivals(DENSE)]
    assert {"pynq_z2_transformer", "pynq_z2_mixed", "pynq_z2_flows", "pynq_z2_bfp16", "pynq_z2_zero_skip"} <= set(names)
    assert not {"tiny", "pynq_z2_dense", "pynq_z2_shift", "zcu104_dense"} & set(names)
    assert not rivals(load_accelerator("pynq_z2_bfp16")), "mantissas of 8 bits are coarser"
    assert [other.name for other in rivals(load_accelerator("kv260_dense"))] == ["kv260_transformer", "kv260_two_cores"]
    assert "pynq_z2_dense" in [other.name for other in rivals(load_accelerator("pynq_z2_shift"))]


def test_rivals_fit_their_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faster, "excess", lambda used, board: 0.01)
    assert rivals(DENSE) == []


def test_the_fastest_is_named_with_what_stays_on_the_chip(model: Path) -> None:
    own, best = on(DENSE, model), on(ROWS, model)
    found = find_faster(own, [ROWS, MIXED], read_network(model), None, CompileOptions())
    assert found is not None
    assert found.accelerator == "pynq_z2_transformer"
    assert found.images_per_second == pytest.approx(best.images_per_second)
    assert found.images_per_second > 1.05 * own.images_per_second
    assert found.why == "LayerNormalization, Softmax stay on the chip"


def test_the_one_at_hand_may_be_the_fastest(model: Path) -> None:
    assert find_faster(on(ROWS, model), [DENSE, MIXED], read_network(model), None, CompileOptions()) is None


@pytest.mark.parametrize(("factor", "named"), [(1.04, False), (1.06, True)])
def test_a_tie_is_not_worth_a_change(factor: float, named: bool, model: Path) -> None:
    own = timed(on(ROWS, model), factor)
    found = find_faster(own, [ROWS], read_network(model), None, CompileOptions())
    assert (found is not None) == named


def test_what_cannot_run_the_network_is_not_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(network: object, accelerator: Accelerator, *rest: object) -> None:
        raise ConfigurationError(f"{accelerator.name} cannot")

    own, moved = on(DENSE, model), []
    monkeypatch.setattr(faster, "compile_for_figures", refused)
    network = read_network(model)
    progress = lambda done, whole: moved.append((done, whole))  # noqa: E731
    assert find_faster(own, [ROWS, MIXED], network, None, CompileOptions(), progress) is None
    assert moved == [(1, 2), (2, 2)]


def test_without_the_boards_cores_nothing_is_known(model: Path) -> None:
    own = on(DENSE, model)
    own = replace(own, sample=replace(own.sample, includes_host=False))
    assert find_faster(own, [ROWS], read_network(model), None, CompileOptions()) is None


def test_each_gain_has_its_reason(model: Path) -> None:
    own = on(ROWS, model)
    half = timed(own, 0.5)
    assert why(own, replace(half, accelerator=ZERO_SKIP)) == "zeros of weights take no time there"
    assert why(own, replace(half, accelerator=MIXED)) == "448 multiply-accumulates a clock instead of 288"
    fewer = replace(half, sample=replace(half.sample, moved=0.4 * own.sample.moved))
    assert why(own, fewer).endswith(f"bytes of a sample cross its streams instead of {own.sample.moved:,.0f}")
    smaller = accelerator_around(replace(ROWS.config, columns=4))
    assert why(own, replace(half, accelerator=smaller)) == "its array has a form that these layers fill better"


def test_estimate_ends_with_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(faster, "accelerator_names", lambda: ["pynq_z2_dense", "pynq_z2_transformer", "tiny"])
    target = tmp_path / "found.json"
    assert main(["estimate", "pynq_z2_dense", str(model), "--faster", "--json", str(target)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    found = json.loads(target.read_text())["program"]["faster"]
    assert last == (
        f"pynq_z2_transformer is faster: {found['images_per_second']:,.0f} images/s (estimated), "
        "LayerNormalization, Softmax stay on the chip"
    )
    assert main(["estimate", "pynq_z2_transformer", str(model), "--faster", "--json", str(target)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "no other ready accelerator of TUL PYNQ-Z2 is more than 5 % faster"
    assert json.loads(target.read_text())["program"]["faster"] is None
    assert main(["estimate", "pynq_z2_dense", "--faster"]) == 2
    assert "--faster compares accelerators for a network" in capsys.readouterr().err
