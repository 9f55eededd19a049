"""Networks with a name: the list, its figures, and their names in the place of files."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from bfpga.cli import main
from bfpga.cli.models import packaged_figures
from bfpga.compiler.read import named
from bfpga.compiler.read.named import NAMED, named_network
from bfpga.compiler.read.network import Network
from bfpga.data import load_samples
from bfpga.training import from_nothing, synthetic
from bfpga.training.network import LearningNetwork

ROOT = Path(__file__).parents[2]
#: Whose figures are computed again, and the accelerators that are tried: the one of the table and a slower one.
CHECKED, BOARD, SLOWER = "digits", "pynq_z2", "tiny"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> object:
    """The command that makes the figures."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return importlib.import_module("benchmarks.compiler.models")


def test_a_row_of_the_figures_is_what_is_computed_now(table: object) -> None:
    kept = packaged_figures()[CHECKED]
    accelerators = [SLOWER, kept["boards"][BOARD]["accelerator"]]
    found = table.figures_of(table.Judge(named_network(CHECKED)), accelerators)  # type: ignore[attr-defined]
    assert found["boards"][BOARD] == kept["boards"][BOARD]
    assert {name: found[name] for name in ("metric", "samples", "float")} == {
        name: kept[name] for name in ("metric", "samples", "float")
    }


def test_the_page_has_the_tables_of_the_figures(table: object) -> None:
    page = (ROOT / "docs" / "models.md").read_text()
    for text in table.markdown(packaged_figures()):  # type: ignore[attr-defined]
        assert set(text.splitlines()) - set(page.splitlines()) <= {text.splitlines()[1]}


def test_the_list_has_every_network_and_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json", str(tmp_path / "models.json")]) == 0
    printed = capsys.readouterr().out
    assert all(network.name in printed for network in NAMED)
    assert "zcu104" in printed
    assert json.loads((tmp_path / "models.json").read_text())["networks"].keys() == {item.name for item in NAMED}


def test_a_name_runs_on_its_own_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "digits", "-a", "tiny"]) == 0
    assert "mlp_digits on tiny, emulator, 300 samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "lennet", "-a", "tiny"], "did you mean `lenet`?"),
        (["estimate", "tiny", "lennet"], "known networks: digits, mnist"),
        (["run", "keywords", "-a", "tiny"], "bfpga models --train keywords"),
        (["run", str(NAMED[0].model_path), "-a", "tiny"], "--data is missing"),
        (["models", "--train", "lenet"], "networks that are trained here: keywords, anomaly"),
    ],
)
def test_what_is_no_network_is_one_message(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_shipped_network_is_no_place_to_write_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy.onnx"
    shutil.copy(NAMED[0].model_path, copy)
    assert main(["run", "digits", "-a", "tiny", "--json", str(NAMED[0].model_path)]) == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert copy.read_bytes() == NAMED[0].model_path.read_bytes()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where trained networks are kept; compiled layers stay where they are."""
    monkeypatch.setattr(named, "cache_directory", tmp_path.joinpath)
    return tmp_path


def test_a_trained_network_is_kept_with_what_it_learned_from_and_runs(cache: Path) -> None:
    moves: list[int] = []
    path = from_nothing.train("anomaly", lambda done, _: moves.append(done), epochs=2)
    assert path.is_relative_to(cache)
    assert moves == list(range(1, len(moves) + 1))
    network = named_network("anomaly")
    assert network is not None
    kept = load_samples(network.calibration_path).x
    assert np.allclose(kept, from_nothing.COURSES["anomaly"].train().values[: from_nothing.CALIBRATION_SAMPLES])
    assert main(["run", "anomaly", "-a", "tiny", "-n", "8"]) == 0


def error(model: onnx.ModelProto, samples: synthetic.Samples) -> float:
    """Mean squared error of an autoencoder."""
    learning = LearningNetwork(Network(Path("network"), model, model).graph(), "network")
    return float(np.square(learning.forward({"v0": samples.values}) - samples.values).mean())


def test_training_teaches_what_a_machine_sounds_like_and_not_its_faults() -> None:
    course = from_nothing.COURSES["anomaly"]
    model = from_nothing.trained(course.model(), synthetic.machine(1000, 1), course, 20, None)
    unseen, faulty = synthetic.machine(200, 5), synthetic.machine(200, 5, 1.0)
    assert error(model, unseen) < error(model, faulty)
    assert error(model, unseen) < error(course.model(), unseen) / 5


def test_computed_samples_are_the_same_at_every_call_and_others_by_their_seed() -> None:
    for make in (synthetic.keywords, lambda count, seed: synthetic.machine(count, seed, 0.5)):
        one, again, other = make(20, 1), make(20, 1), make(20, 2)
        assert np.array_equal(one.x, again.x)
        assert not np.array_equal(one.x, other.x)
    assert set(synthetic.machine(50, 1).labels) == {0}
