"""The notebooks run on a virtual board as their pages show it, are stored without outputs, and find their files."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from effort import some_of

pytest.importorskip("pynq")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).parent.parent
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
#: What each notebook must have printed when it is through.
CONCLUSIONS = {
    "01_first_inference": ["accuracy: 99.00% of 500 digits", "tensor_dma"],
    "02_board_against_emulator": ["bit-exact: True", "equal"],
    "03_custom_accelerator": ["of 100 digits", "bit-exact: True"],
    "04_debugging_a_mismatch": [
        "the checksum of `input` is",
        "accuracy: 99.00%",
        "virtual board: Kernel `accelerator` was started and has not finished",
        "bit-exact: False",
        "layer /c2/Conv, tensor",
        "bit-exact: True",
    ],
}
#: Without --all: what 02 shows, 04 runs between its faults.
DEFAULT = [path for path in NOTEBOOKS if path.stem != "02_board_against_emulator"]
notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def sources(path: Path) -> list[str]:
    return [cell.source for cell in read(path).cells if cell.cell_type == "code"]


def test_every_notebook_has_a_conclusion_to_reach() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(CONCLUSIONS)


@pytest.mark.parametrize("path", some_of(NOTEBOOKS, *DEFAULT), ids=lambda path: path.stem)
def test_notebook_runs_on_a_virtual_board(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy of its folder, as a kernel of its own; the site's page has what it prints, and as many pictures."""
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # Hundreds of digits run: a kernel that is compiled for speed, the one of tests/board.
    monkeypatch.setenv("BFPGA_CXXFLAGS", "-O1")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    notebook_pages = importlib.import_module("notebook_pages")
    shutil.copytree(EXAMPLES / "models", tmp_path / "models")
    notebook = notebook_pages.executed(path, tmp_path)
    shown, pictures = notebook_pages.page(notebook, path.stem)
    assert shown == (PAGES / f"{path.stem}.md").read_text(), "python scripts/notebook_pages.py renews the pages"
    assert set(pictures) == {picture.name for picture in PAGES.glob(f"{path.stem}_*.png")}
    text = printed(notebook)
    for conclusion in CONCLUSIONS[path.stem]:
        assert conclusion in text
    assert "DIFFERENT" not in text


def printed(notebook: Any) -> str:
    """Everything that the cells printed or returned, as text; warnings of the kernel would show up here too."""
    parts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            assert output.get("name") != "stderr", output.text
            parts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(parts)


@notebooks
def test_pictures_are_drawn(path: Path) -> None:
    assert any("plt." in source for source in sources(path))


@notebooks
def test_stored_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text())
    nbformat.validate(nbformat.from_dict(notebook))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


@notebooks
def test_the_first_code_cell_is_the_one_line_to_change(path: Path) -> None:
    assert sources(path)[0] == 'TARGET = "virtual"  # "board" on a PYNQ board'
    assert not any(re.search(r"^TARGET\s*=", source, re.MULTILINE) for source in sources(path)[1:])


@notebooks
def test_cells_are_short(path: Path) -> None:
    """A cell is read at a glance."""
    for cell in read(path).cells:
        assert len(cell.source.splitlines()) <= 20, cell.source
        assert max(map(len, cell.source.splitlines())) <= 120


@notebooks
def test_no_absolute_paths(path: Path) -> None:
    """Files are found beside the notebook, in a clone and on a board."""
    text = path.read_text()
    assert not re.search(r"""["'( ](/(home|tmp|root|usr|opt|work)\b|~/|[A-Z]:\\\\)""", text)
    assert "sys.path" not in text


@notebooks
def test_a_board_needs_nothing_that_its_image_lacks(path: Path) -> None:
    """Cells that a board runs import numpy, matplotlib and modules of the bundle."""
    from bfpga.deploy.closure import IMAGE_PACKAGES, board_modules

    known = board_modules()
    for source in board_sources(path):
        for module in re.findall(r"^(?:from|import) ([\w.]+)", source, re.MULTILINE):
            top = module.split(".")[0]
            assert top in {*IMAGE_PACKAGES, "matplotlib", "pathlib", "time", "copy"} or module in known, module


def board_sources(path: Path) -> list[str]:
    """Code cells that run on a board: those behind the heading `Run it` where there is one."""
    cells = read(path).cells
    starts = [index for index, cell in enumerate(cells) if cell.source.startswith("## Run it")]
    return [cell.source for cell in cells[starts[0] if starts else 0 :] if cell.cell_type == "code"]
