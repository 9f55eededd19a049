"""Compiled libraries in the cache: a damaged one is built again instead of ending the process that loads it."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest
from mutations import mutations

from bfpga.devices import toolchain
from bfpga.devices.library_cache import cached_library, is_whole
from bfpga.errors import CacheError, ToolError

DAMAGES = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "header only": lambda data: data[:64],
    "foreign": lambda data: b"#!/bin/sh\n",
    "one bit": lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:],
    "longer": lambda data: data + b"\0",
}


def compiled(built: Path, directory: Path) -> None:
    source = directory / "answer.cpp"
    source.write_text('extern "C" int answer() { return 42; }\n')
    toolchain.run_compiler(["-fPIC", "-shared", str(source), "-o", str(built)])


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return cached_library(tmp_path_factory.mktemp("original") / "library.so", compiled).read_bytes()


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_library_is_built_again(tmp_path: Path, original: bytes, damage: str) -> None:
    path = cached_library(tmp_path / "library.so", lambda built, directory: built.write_bytes(original) and None)
    path.write_bytes(DAMAGES[damage](original))
    assert not is_whole(path)
    assert ctypes.CDLL(str(cached_library(path, compiled))).answer() == 42
    assert sorted(tmp_path.iterdir()) == [path.with_suffix(".sha256"), path]


def test_a_whole_library_is_not_built_again_and_a_damaged_record_counts_as_none(
    tmp_path: Path, original: bytes
) -> None:
    path, builds = tmp_path / "library.so", []

    def make(built: Path, directory: Path) -> None:
        built.write_bytes(original)
        builds.append(directory)

    cached_library(path, make)
    cached_library(path, make)
    assert len(builds) == 1
    record = path.with_suffix(".sha256")
    for mutant in mutations(record.read_bytes(), 20, seed=1):
        record.write_bytes(mutant)
        before = is_whole(path)
        cached_library(path, make)
        assert is_whole(path)
        assert before == (mutant == record.read_bytes())


def test_library_without_a_record_is_built_again(tmp_path: Path, original: bytes) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(original[:100])
    assert ctypes.CDLL(str(cached_library(path, compiled))).answer() == 42


def test_cache_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(ToolError, match="BFPGA_CACHE"):
        cached_library(tmp_path / "file" / "csim" / "library.so", compiled)


def test_full_disk_leaves_nothing_that_passes_for_a_library(tmp_path: Path) -> None:
    def make(built: Path, directory: Path) -> None:
        built.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "library.so"
    with pytest.raises(ToolError, match=r"library.so: .*the disk is full.*BFPGA_CACHE"):
        cached_library(path, make)
    assert not path.exists()
    assert not is_whole(path)
    assert list(tmp_path.iterdir()) == [path.with_suffix(".sha256")]


def test_a_library_that_others_can_write_is_built_again(tmp_path: Path, original: bytes) -> None:
    path = cached_library(tmp_path / "library.so", lambda built, directory: built.write_bytes(original) and None)
    assert path.stat().st_mode & 0o777 == 0o700
    path.chmod(0o770)
    assert not is_whole(path)
    assert cached_library(path, compiled).stat().st_mode & 0o777 == 0o700


def test_nothing_is_loaded_from_a_directory_that_others_can_write(tmp_path: Path, original: bytes) -> None:
    path = cached_library(tmp_path / "csim" / "library.so", lambda built, _: built.write_bytes(original) and None)
    path.parent.chmod(0o777)
    with pytest.raises(CacheError, match="csim: other users can write it"):
        cached_library(path, compiled)
