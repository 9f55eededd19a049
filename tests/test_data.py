"""Sample files within bounds: what a file says of itself never decides how much memory or time it takes."""

from __future__ import annotations

import io
import os
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mutations import mutations

from bfpga.data import load_samples
from bfpga.errors import DataError
from bfpga.formats import archive as archives

X = np.linspace(-1, 1, 6 * 2 * 3, dtype=np.float32).reshape(6, 2, 3)
MUTANTS = 2000


def npz(compressed: bool = False, **arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def zeros(gigabytes: int) -> bytes:
    """A file of a few megabytes whose array `x` unpacks to gigabytes of zeros."""
    shape = (gigabytes << 10, 1 << 10, 1 << 8)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        # It says that it has gigabytes; 64 MiB are there.
        target.writestr("x.npy", header.getvalue() + bytes(64 << 20))
    return stream.getvalue()


def test_first_samples_are_read_without_the_others(tmp_path: Path) -> None:
    """A small file that unpacks to gigabytes costs what the samples cost that are wanted."""
    path = tmp_path / "x.npz"
    path.write_bytes(zeros(8))
    assert load_samples(path, count=5).x.shape == (5, 1 << 10, 1 << 8)


def test_arrays_beyond_the_memory_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(x=X, y=np.arange(6)))
    assert len(load_samples(path)) == 6
    monkeypatch.setattr(archives, "memory_limit", lambda: 400)
    with pytest.raises(DataError, match=r"array 'x' is too large: .* 144 bytes .* 100 .*-n takes the first"):
        load_samples(path)
    assert len(load_samples(path, count=2)) == 2


def test_labels_are_cut_with_their_samples(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(x=X, y=np.arange(6), x_scale=np.float32(2)))
    found = load_samples(path, count=4)
    np.testing.assert_array_equal(found.x, X[:4] * 2)
    assert found.y is not None
    np.testing.assert_array_equal(found.y, range(4))


def test_arrays_in_columns_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(x=np.asfortranarray(X)))
    np.testing.assert_array_equal(load_samples(path, count=4).x, X[:4])


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "missing"])
def test_what_is_no_regular_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    with pytest.raises(DataError, match=r"no regular file|is a directory|no such file"):
        load_samples(path)


def damaged(kind: str) -> Iterator[bytes]:
    """Files with damage anywhere, or whole archives around a damaged array, whose checksums are right."""
    if kind != "array":
        yield from mutations(npz(kind == "compressed", x=X, y=np.arange(6), x_offset=np.float32(1)), MUTANTS // 4, 12)
        return
    stream = io.BytesIO()
    np.save(stream, X)
    # A header has more meaning than data: most of the damage falls there.
    for mutant in mutations(stream.getvalue()[: 128 + 16], MUTANTS // 2, 13):
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w") as target:
            target.writestr("x.npy", mutant + stream.getvalue()[128 + 16 :])
        yield whole.getvalue()


def refusal(path: Path) -> str:
    """What is said of a file; empty for samples."""
    try:
        load_samples(path, (2, 3), count=5)
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["stored", "compressed", "array"])
def test_damaged_sample_files_give_samples_or_one_error(kind: str, tmp_path: Path) -> None:
    path, messages = tmp_path / "x.npz", []
    for mutant in damaged(kind):
        path.write_bytes(mutant)
        messages.append(refusal(path))
    refused = [message for message in messages if message]
    assert len(refused) > MUTANTS // 8
    assert all(message.startswith(str(path)) and "\n" not in message for message in refused)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_that_numpy_does_not_write_are_read_or_refused(method: int, tmp_path: Path) -> None:
    """Other packers than numpy's; their streams have errors of their own (LZMAError)."""
    path, packed = tmp_path / "x.npz", io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as target, zipfile.ZipFile(io.BytesIO(npz(x=X))) as source:
        target.writestr("x.npy", source.read("x.npy"))
        end = target.start_dir
        start = end - target.filelist[0].compress_size
    path.write_bytes(packed.getvalue())
    np.testing.assert_array_equal(load_samples(path).x, X)
    refused = 0
    for place in range(start, end):
        data = bytearray(packed.getvalue())
        data[place] ^= 0xFF
        path.write_bytes(data)
        message = refusal(path)
        refused += message.startswith(str(path))
        if not message:
            np.testing.assert_array_equal(load_samples(path).x, X)
    assert refused > 0.9 * (end - start)


def test_samples_of_another_shape_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    """4 MB that would be 5.5 GB, with or without `-n`: the header says that no sample fits the network."""
    path = tmp_path / "bomb.npz"
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "<f4", "fortran_order": False, "shape": (1, 1_400_000_000)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target, target.open("x.npy", "w") as stream:
        stream.write(content.getvalue())
        for _ in range(16):
            stream.write(bytes(1 << 24))
    tracemalloc.start()
    try:
        for count in (5, None):
            with pytest.raises(DataError, match="a sample has shape"):
                load_samples(path, (64,), count)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_arrays_beside_the_samples_are_bounded_by_them(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(x=X, x_offset=np.zeros(1 << 20)))
    with pytest.raises(DataError, match="array 'x_offset' is too large"):
        load_samples(path)
