"""Malformed sample files: each gives one clear message and exit code 2, runs no code of the file, leaves nothing."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from refusals import refused

from bfpga.cli import main

GOOD = np.linspace(-1, 1, 4 * 3 * 8 * 8, dtype=np.float32).reshape(4, 3, 8, 8)
LABELS = np.arange(4)


class Trap:
    """Unpickling this creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.target,)


def archive(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def member(content: bytes, name: str = "x.npy") -> bytes:
    """A zip archive with one member of any content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        target.writestr(name, content)
    return buffer.getvalue()


def header(text: str) -> bytes:
    """An .npy file that is a header only."""
    line = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


def changed(position: tuple[int, ...], value: float) -> np.ndarray:
    result = GOOD.copy()
    result[position] = value
    return result


def plain_npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, GOOD)
    return buffer.getvalue()


WHOLE = archive(x=GOOD, y=LABELS)
#: Name -> content and what the message must contain.
FILES: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", ""),
    "text": (b"x,y\n1,2\n", ""),
    "zeros": (bytes(4000), ""),
    "no members": (member(b"", "readme.txt"), "x"),
    "missing x": (archive(y=LABELS), "x"),
    "misspelt x": (archive(X=GOOD), "x"),
    "array instead of archive": (plain_npy(), ""),
    "member is no array": (member(b"hello"), "x"),
    "member is empty": (member(b""), "x"),
    "header without data": (member(header("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3, 8, 8), }")), "x"),
    "gigantic header": (member(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }")), "x"),
    "header is code": (member(header("__import__('os').getcwd()")), "x"),
    "wrong size": (archive(x=np.zeros((4, 3, 9, 9), np.float32)), "8"),
    "wrong channels": (archive(x=np.zeros((4, 1, 8, 8), np.float32)), "3"),
    "channels last": (archive(x=np.zeros((4, 8, 8, 3), np.float32)), "3"),
    "one sample without batch": (archive(x=GOOD[0]), "a sample has shape (8, 8)"),
    "flat values": (archive(x=GOOD.ravel()), "x"),
    "scalar": (archive(x=np.float32(3)), "x"),
    "no samples": (archive(x=GOOD[:0]), "x"),
    "text values": (archive(x=np.full(GOOD.shape, "1")), "x"),
    "complex values": (archive(x=GOOD.astype(np.complex64)), "x"),
    "dates": (archive(x=np.zeros(GOOD.shape, "datetime64[s]")), "x"),
    "records": (archive(x=np.zeros(GOOD.shape, [("a", "f4"), ("b", "i4")])), "x"),
    "NaN": (archive(x=changed((2, 1, 3, 3), np.nan)), "x"),
    "infinity": (archive(x=changed((0, 0, 0, 0), np.inf)), "x"),
    "labels of another length": (archive(x=GOOD, y=np.arange(3)), "y"),
    "labels in two axes": (archive(x=GOOD, y=np.zeros((4, 10))), "y"),
    "text labels": (archive(x=GOOD, y=np.array(["a", "b", "c", "d"])), "y"),
    "scale is text": (archive(x=GOOD, x_scale=np.array("big")), "x_scale"),
    "scale is an array": (archive(x=GOOD, x_scale=np.ones(5)), "x_scale"),
    "scale is NaN": (archive(x=GOOD, x_scale=np.nan), "x_scale"),
    "offset is infinite": (archive(x=GOOD, x_offset=np.inf), "x_offset"),
    "offset is an object": (archive(x=GOOD, x_offset=np.array(None)), "x_offset"),
    **{f"truncated at {share} %": (WHOLE[: len(WHOLE) * share // 100], "") for share in (5, 30, 60, 90, 99)},
    "damaged data": (WHOLE[:400] + bytes(b ^ 255 for b in WHOLE[400:440]) + WHOLE[440:], ""),
}


def run_command(model: Path, data: Path) -> list[str]:
    return ["run", str(model), "-a", "tiny", "-d", str(data)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A network of one convolution on 3 x 8 x 8 values."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="layer")
    graph = helper.make_graph(
        [node],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, 6, 6])],
        [numpy_helper.from_array(np.full((4, 3, 3, 3), 0.25, np.float32), "w")],
    )
    path = tmp_path / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_the_unchanged_samples_run(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "samples.npz"
    data.write_bytes(archive(x=GOOD, x_scale=2.0, x_offset=0.5))
    assert main(["run", str(model), "-a", "tiny", "-d", str(data)]) == 0


@pytest.mark.parametrize("name", FILES)
def test_malformed_samples_are_refused(
    name: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, part = FILES[name]
    data = tmp_path / "samples.npz"
    data.write_bytes(content)
    refused(run_command(model, data), tmp_path, capsys, str(data), part)


@pytest.mark.parametrize("key", ["x", "y", "x_scale", "x_offset", "other"])
def test_object_arrays_are_never_unpickled(
    key: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key that is not read may hold anything, but nothing of it is executed."""
    trap = tmp_path / "trap"
    values: dict[str, Any] = {"x": GOOD, "y": LABELS, key: np.array([Trap(trap)] * 4, dtype=object)}
    data = tmp_path / "samples.npz"
    data.write_bytes(archive(**values))
    if key == "other":
        assert main(["run", str(model), "-a", "tiny", "-d", str(data)]) in (0, 2)
    else:
        refused(run_command(model, data), tmp_path, capsys, str(data), key)
    assert not trap.exists()


def test_pickle_instead_of_archive_is_never_loaded(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trap = tmp_path / "trap"
    data = tmp_path / "samples.npz"
    data.write_bytes(pickle.dumps(Trap(trap)))
    refused(run_command(model, data), tmp_path, capsys, str(data))
    assert not trap.exists()


def test_malformed_calibration_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.npz").write_bytes(archive(x=GOOD))
    (tmp_path / "bad.npz").write_bytes(archive(x=GOOD[:, :2]))
    arguments = ["run", str(model), "-a", "tiny", "-d", str(tmp_path / "good.npz")]
    assert main([*arguments, "-c", str(tmp_path / "bad.npz")]) == 2
    assert str(tmp_path / "bad.npz") in capsys.readouterr().err


def test_missing_file_and_directory_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.npz").mkdir()
    for name in ("nowhere.npz", "folder.npz"):
        refused(run_command(model, tmp_path / name), tmp_path, capsys, name)
