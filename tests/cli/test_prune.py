"""`bfpga prune`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bfpga.api.pruned import group_of
from bfpga.cli import main
from bfpga.compiler.read.network import read_network
from bfpga.engines.skip_array.assignment import assign
from bfpga.pruning.layers import WHOLE_KERNELS, Group, prunable_layers

MODELS = Path(__file__).parents[2] / "examples" / "models"
MODEL, DATA = str(MODELS / "mlp_digits.onnx"), str(MODELS / "digits_test.npz")
PRUNE = ["prune", MODEL, "--sparsity", "0.5", "-d", DATA, "--epochs", "1"]


def test_prune_tells_every_layer_and_the_accuracy_with_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*PRUNE, "--json", "found.json"]) == 0
    shown, found = capsys.readouterr(), json.loads(Path("found.json").read_text())
    assert shown.err == ""
    assert {path.name for path in tmp_path.iterdir()} == {"found.json", "mlp_digits_pruned50.onnx"}
    written = onnx.load("mlp_digits_pruned50.onnx").graph
    stored = {item.name: numpy_helper.to_array(item) for item in written.initializer}
    for layer, name in zip(found["layers"], ("a.weight", "b.weight"), strict=True):
        assert layer["nonzeros"] == np.count_nonzero(stored[name])
        assert f"{layer['nonzeros']:,}" in shown.out
    assert found["sparsity"] == pytest.approx(0.5, abs=1e-3)
    low, high = found["lost_points_interval"]
    assert low < found["lost_points"] < high
    assert f"lost: {found['lost_points']:.2f} points ({low:.2f} to {high:.2f};" in shown.out
    assert found["samples"] == {"learning": 180, "choosing": 45, "judging": 75}


def test_prune_judges_on_a_file_of_its_own(tmp_path: Path) -> None:
    target = ["-o", str(tmp_path / "o.onnx"), "--json", str(tmp_path / "f.json")]
    assert main([*PRUNE[:6], "--epochs", "0", "--held-out", DATA, "-n", "200", *target]) == 0
    found = json.loads((tmp_path / "f.json").read_text())
    assert found["samples"] == {"learning": 160, "choosing": 40, "judging": 300}
    assert found["judged_by_labels"]


def test_prune_leaves_as_many_weights_in_every_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "o.onnx"
    assert main([*PRUNE[:6], "--epochs", "0", "--structure", "even", "-o", str(written)]) == 0
    assert "as many in every kernel of a layer" in capsys.readouterr().out
    for layer in prunable_layers(read_network(written).graph()):
        weights = layer.weights.T if layer.outputs_last else layer.weights
        assert len({int(np.count_nonzero(kernel)) for kernel in weights}) == 1, layer.name


def test_prune_balances_the_groups_of_a_skip_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, found = tmp_path / "o.onnx", tmp_path / "f.json"
    target = ["-o", str(written), "--json", str(found)]
    assert main([*PRUNE[:6], "--epochs", "0", "--structure", "pynq_z2_zero_skip", *target]) == 0
    assert "as many for every one of 16 groups" in capsys.readouterr().out
    assert json.loads(found.read_text())["group"] == {"groups": 16, "lanes": 4, "rows": 128}
    first, _ = prunable_layers(read_network(written).graph())
    weights = first.weights.T if first.outputs_last else first.weights
    assert len(weights) > 16
    entries = 1 + np.count_nonzero(weights, axis=1)
    assigned = assign(entries, 16)
    loads = [int(entries[own[own >= 0]].sum()) for own in assigned.T]
    assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize(
    ("structure", "group"),
    [("32x1", (32, 1)), ("zcu104_cluster", WHOLE_KERNELS), ("zcu104_zero_skip_tile", None)],
)
def test_groups_are_those_that_an_engine_passes_over_at_once(structure: str, group: Group | None) -> None:
    """Each weight by itself on a tile, whose steps are single weights."""
    assert group_of(structure) == group


def test_prune_does_without_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Judged by what the network said before; the text says so."""
    monkeypatch.chdir(tmp_path)
    with np.load(DATA) as file:
        np.savez("unlabelled.npz", **{name: file[name] for name in file.files if name != "y"})
    assert main([*PRUNE[:4], "-d", "unlabelled.npz", "--epochs", "2", "--json", "f.json"]) == 0
    assert "no labels (`y`): right is what the network said before" in capsys.readouterr().out
    found = json.loads(Path("f.json").read_text())
    assert (found["accuracy"]["before"]["value"], found["judged_by_labels"], found["epochs"]) == (1, False, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sparsity", "80"], "--sparsity is 80; a share above 0 and up to 0.98 is needed"),
        (["--structure", "pynq_z2_dense"], "--structure: pynq_z2_dense has no engine that passes over zero weights"),
        (["--structure", "0x4"], "'0x4' is neither a file nor a known name"),
        (["--rate", "0"], "rate is 0; a share above 0 and up to 1 is needed"),
        (["-n", "20"], "has 20 samples; 40 at least are needed"),
        (["-o", "nowhere/out.onnx"], "nowhere: the directory does not exist"),
    ],
)
def test_prune_refuses_wrong_use_with_one_message(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*PRUNE, *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_prune_does_not_write_over_its_input_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without -o the name is made of the model's, and may lead to one of the inputs."""
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(Path(MODEL).read_bytes())
    Path("m_pruned50.onnx").symlink_to("m.onnx")
    assert main(["prune", "m.onnx", *PRUNE[2:]]) == 2
    assert "m_pruned50.onnx: is an input of this command" in capsys.readouterr().err
    assert Path("m.onnx").read_bytes() == Path(MODEL).read_bytes()
