"""Every benchmark starts, and documents name benchmarks that exist."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if "def main(" in path.read_text()
)
#: Files that may name a benchmark.
KINDS = ("pyproject.toml", "*.md", "docs/**/*.md", "host/**/*.py")
READERS = [path for kind in KINDS for path in ROOT.glob(kind)]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks run in the root of the clone; what they add to the path goes with the test."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_starts_and_tells_how_it_is_called(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(name).main(["--help"])
    assert ended.value.code == 0
    assert f"python -m {name}" in capsys.readouterr().out


def test_benchmarks_that_files_name_exist() -> None:
    missing = []
    for path in READERS:
        text = path.read_text()
        named = re.findall(r"(?<![\w/])(benchmarks/[\w/]+\.\w+)", text)
        named += [f"{name.replace('.', '/')}.py" for name in re.findall(r"python -m (benchmarks[.\w]+)", text)]
        missing += [(str(path.relative_to(ROOT)), name) for name in named if not (ROOT / name).is_file()]
    assert missing == []


def test_training_images_are_read_as_their_package_has_them(tmp_path: Path) -> None:
    pictures = pytest.importorskip("PIL.Image", reason="the training images are PNG files: pip install pillow")
    module = importlib.import_module("benchmarks.training.four_bits")
    images = np.random.default_rng(0).integers(0, 256, (10, 3, 32, 32), np.uint8)
    for number in range(5):
        rows = images[2 * number : 2 * number + 2].transpose(0, 2, 3, 1).reshape(2, 1024, 3)
        pictures.fromarray(rows).save(tmp_path / f"data_batch_{number + 1}.png")
    (tmp_path / "train_lables.json").write_text("[3, 1, 4, 1, 5, 9, 2, 6, 5, 3]")
    found, labels = module.training_images(tmp_path)
    assert np.array_equal(found, images)
    assert labels.tolist() == [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    (tmp_path / "data_batch_1.png").rename(tmp_path / "test_batch.png")
    (tmp_path / "test_lables.json").write_text("[8, 7]")
    others, labels = module.other_images(tmp_path, np.array([0]))
    assert np.array_equal(others, images[1:2])
    assert labels.tolist() == [7]
