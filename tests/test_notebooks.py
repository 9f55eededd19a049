"""The notebooks run on a virtual board as their pages show it, are stored without outputs, and find their files."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
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
        "accuracy: 97.00%",
        "virtual board: Kernel `accelerator` was started and has not finished",
        "bit-exact: False",
        "layer /c2/Conv, tensor",
        "bit-exact: True",
    ],
    "05_keywords": ["heard: Silence, Yes, Left, Off, Up, Right"],
    "06_camera": ["16 of 16 pictures read right"],
}
#: Without --all: what 02 shows, 04 runs between its faults.
DEFAULT = [path for path in NOTEBOOKS if path.stem != "02_board_against_emulator"]
#: What a notebook server of a board has beside its image's packages.
JUPYTER = ("IPython", "matplotlib")
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
            assert top in {*IMAGE_PACKAGES, *JUPYTER, "pathlib", "time", "copy", "wave"} or module in known, module


def board_sources(path: Path) -> list[str]:
    """Code cells that run on a board: those behind the heading `Run it` where there is one."""
    cells = read(path).cells
    starts = [index for index, cell in enumerate(cells) if cell.source.startswith("## Run it")]
    return [cell.source for cell in cells[starts[0] if starts else 0 :] if cell.cell_type == "code"]


# Sound and pictures of the user


def defined(name: str, *cells: str, **names: Any) -> dict[str, Any]:
    """What cells of a notebook define: those that contain each of the texts. names: what is there before."""
    found = sources(EXAMPLES / f"{name}.ipynb")
    space: dict[str, Any] = {"np": np, **names}
    for text in cells:
        (cell,) = [cell for cell in found if text in cell]
        exec(compile(cell, name, "exec"), space)
    return space


def wav(path: Path, data: npt.NDArray[Any], rate: int, channels: int = 1) -> str:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, data.itemsize, rate, 0, "NONE", ""))
        file.writeframes(data.tobytes())
    return str(path)


def test_a_recording_of_any_rate_and_length_is_read(tmp_path: Path) -> None:
    recorded = defined("05_keywords", "def recorded")["recorded"]
    tone = (10000 * np.sin(2 * np.pi * 440 * np.arange(12000) / 8000)).astype("<i2")
    stereo = np.stack([tone, np.zeros_like(tone)], axis=1)
    found = recorded(wav(tmp_path / "stereo.wav", stereo, 8000, 2))
    assert len(found) == 24000
    assert np.abs(np.fft.rfft(found)).argmax() == 440 * 24000 // 16000
    assert len(recorded(wav(tmp_path / "short.wav", tone[:100], 16000))) == 16000
    with pytest.raises(ValueError, match="8 bits a sample; 16 are needed"):
        recorded(wav(tmp_path / "bytes.wav", tone.astype(np.uint8), 8000))


def test_the_features_are_those_the_network_was_trained_with() -> None:
    """Silence is the smallest value of MLPerf Tiny's features, -128 at scale 0.5847029 and zero point 83; a tone's
    logarithmic spectrum is rebuilt from its waves with the tone's band as its largest."""
    space = defined("05_keywords", "def mel", RATE=16000)
    silence = space["mfcc"](np.zeros(16000))
    assert silence.shape == (49, 10)
    assert np.abs(np.round(silence / 0.5847029 + 83) - [-128, *9 * [83]]).max() == 0
    time = np.arange(16000) / 16000
    for hertz in (300, 1000, 3000):
        features = space["mfcc"](np.sin(2 * np.pi * hertz * time)).mean(axis=0)
        spectrum = features @ space["waves"].T
        centre = space["edges"][1:-1][spectrum.argmax()]
        assert abs(centre - space["mel"](hertz)) < 3 * (space["edges"][1] - space["edges"][0])


class _Camera:
    """OpenCV as far as the notebook uses it: one picture of a camera with a dark bar, then none."""

    COLOR_BGR2GRAY = 6

    def __init__(self) -> None:
        self.pictures, self.released = 1, 0

    def VideoCapture(self, number: int) -> _Camera:  # noqa: N802
        assert number == 0
        return self

    def read(self) -> tuple[bool, npt.NDArray[np.uint8] | None]:
        self.pictures -= 1
        picture = np.full((480, 640, 3), 200, np.uint8)
        picture[120:360, 300:340] = 20
        return (True, picture) if self.pictures >= 0 else (False, None)

    def cvtColor(self, picture: npt.NDArray[np.uint8], _: int) -> npt.NDArray[np.uint8]:  # noqa: N802
        return picture[..., 0]

    def resize(self, picture: npt.NDArray[np.uint8], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
        assert size == (160, 120)
        return picture[::4, ::4]

    def release(self) -> None:
        self.released += 1


def test_a_camera_takes_the_place_of_made_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    camera = _Camera()
    monkeypatch.setitem(sys.modules, "cv2", camera)
    space = defined("06_camera", "CAMERA = None  #", "def camera_pictures", "def digit_in", "def framed")
    space["CAMERA"] = 0
    pictures = space["camera_pictures"]()
    picture, label = next(pictures)
    assert label is None
    digit = space["digit_in"](picture)
    assert digit.shape == (28, 28)
    assert digit[4:24].sum() > 0.99 * digit.sum() > 50  # 20 pixels high, in the middle
    assert abs((digit.sum(axis=0) @ (np.arange(28) + 0.5)) / digit.sum() - 14) <= 0.5
    with pytest.raises(RuntimeError, match="camera 0 gives no picture"):
        next(pictures)
    assert camera.released == 1


def test_paper_without_ink_is_no_digit() -> None:
    space = defined("06_camera", "CAMERA = None  #", "def digit_in", "def framed")
    noise = np.random.default_rng(0).normal(0, 6, (120, 160))
    assert space["digit_in"](np.clip(180 + noise, 0, 255).astype(np.uint8)) is None
    assert space["digit_in"](np.zeros((120, 160), np.uint8)) is None
