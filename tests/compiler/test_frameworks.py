"""Networks of PyTorch and Keras: what works without either; the rest is in tests/training/test_fine_tuning.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bfpga
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.frameworks import export_network, framework_of
from bfpga.errors import ModelError, ToolError

DATA = Path(__file__).parents[1] / "data"


class StandIn:
    """A Keras model as far as exporting needs it."""

    __module__ = "keras.src.models.model"
    name, inputs = "network", (np.zeros((1, 4), np.float32),)

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.called = error, False

    def __call__(self, x: Any) -> None:
        self.called = x.shape == (1, 4)

    def export(self, path: str, format: str, verbose: bool) -> None:
        assert self.called
        if self.error:
            raise self.error
        Path(path).write_bytes((DATA / "exported" / "keras_normalization.onnx").read_bytes())


def test_a_keras_model_is_exported_by_its_own_exporter() -> None:
    """Keras refuses to export what never ran, so it is called on zeros first."""
    program = bfpga.compile(StandIn(), "pynq_z2_dense")
    assert program.name == "standin"
    assert len(program.outputs) == 1


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ModuleNotFoundError("No module named 'tf2onnx'", name="tf2onnx"), ToolError, r"pip install 'bfpga\[keras\]'"),
        (ValueError("no such layer\nand more"), ModelError, "network cannot be exported .* ValueError: no such layer$"),
    ],
)
def test_an_exporter_that_fails_is_one_error(tmp_path: Path, error: Exception, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        export_network(StandIn(error), tmp_path / "network.onnx")
    assert not list(tmp_path.iterdir())


def test_other_objects_are_no_networks(tmp_path: Path) -> None:
    assert {framework_of(value) for value in (None, 3, "file.onnx", Path(), np.zeros(3))} == {""}
    assert framework_of(StandIn()) == "keras"
    with pytest.raises(ModelError, match="this is a int"):
        export_network(3, tmp_path / "network.onnx")


def test_neither_package_is_imported_for_a_file() -> None:
    code = (
        "import sys, bfpga; from bfpga.compiler.read.frameworks import framework_of; bfpga.compile; "
        "print({'torch', 'keras', 'tensorflow', 'onnxscript'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_fine_tuned_file_gives_the_bits_that_it_was_trained_with() -> None:
    """Exported by the tutorial, with the scores of the module in float64: no PyTorch is needed for them."""
    options = CompileOptions(
        formats="power_of_two", bias_correction=False, compensation=False, equalize=False, fill_mantissas=False,
        remainders="never",
    )  # fmt: skip
    data = np.load(DATA / "fine_tuning" / "tutorial.npz")
    program = bfpga.compile(DATA / "fine_tuning" / "tutorial.onnx", "pynq_z2_shift", None, options)
    found = next(iter(bfpga.run(program, data["x"]).outputs.values()))
    assert len(np.unique(data["y"])) > 20
    assert np.array_equal(found, data["y"])
