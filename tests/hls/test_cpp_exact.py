"""Kernels with exact integers as a synthesis tool sees them: no vendor's header, widths and streams in LLVM IR."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cpp_units import exact_compiler
from effort import some_of

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.devices import toolchain
from bfpga.errors import ToolError
from bfpga.vendor import clang
from bfpga.vendor.render import library_directory, top_files, write_project


def compiled(source: str, project: Path, *flags: str) -> str:
    """What clang says to or makes of a source of a project, without the simulation's checks."""
    command = [*exact_compiler(), *toolchain.WARNINGS, *clang.ANALYSIS_FLAGS, *flags]
    command += ["-I", str(library_directory()), "-I", str(project / "include"), "-I", str(project / "src"), source]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def project_of(name: str, directory: Path) -> Path:
    accelerator = load_accelerator(name)
    return write_project(accelerator.name, accelerator.digest, accelerator.config, directory / accelerator.name)


@pytest.mark.parametrize("name", some_of(accelerator_names(), "tiny", "zcu104_hetero", "zcu104_cluster"))
def test_ready_accelerators_compile_without_checks(name: str, tmp_path: Path) -> None:
    project = project_of(name, tmp_path)
    for top in top_files(load_accelerator(name).config):
        compiled(str(project / top), project, "-fsyntax-only")


def test_transfers_and_memories_have_the_widths_of_the_hardware(tmp_path: Path) -> None:
    """A beat is one access of its stream; products and addresses have odd widths."""
    project, config = project_of("tiny", tmp_path), load_accelerator("tiny").config
    flags = ("-O1", "-S", "-emit-llvm", "-o", "-")
    code = "".join(compiled(str(project / top), project, *flags) for top in top_files(config))
    beat = config.stream_bits
    assert f"load volatile i{beat}" in code
    assert f"store volatile i{beat}" in code
    widths = {int(width) for width in re.findall(r"= (?:add|sub|mul|shl)(?: \w+)* i(\d+)", code)}
    assert widths - {1, 8, 16, 32, 64}


STREAM = """
#include "bfpga/ports/stream.hpp"
struct Pair { int16_t first, second; };
int pass(bfpga::stream<Pair>& from, bfpga::stream<bfpga::uint_t<24>>& to) {
    Pair pair;
    if (!from.read_nb(pair) || to.full()) return 0;
    to.write(static_cast<bfpga::uint_t<24>>(pair.first));
    return pair.second;
}
"""


def test_a_stream_of_structures_is_read_in_one_access(tmp_path: Path) -> None:
    source = tmp_path / "unit.cpp"
    source.write_text(STREAM)
    code = compiled(str(source), tmp_path, "-O1", "-S", "-emit-llvm", "-o", "-")
    accesses = re.findall(r"(load|store) volatile i(\d+)", code)
    assert accesses == [("load", "8"), ("load", "32"), ("load", "8"), ("store", "32")]


def test_both_kinds_of_integers_at_once_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "unit.cpp"
    source.write_text('#include "bfpga/numeric/types.hpp"\n')
    command = [*exact_compiler(), *toolchain.WARNINGS, *clang.EXACT_FLAGS, "-DBFPGA_NATIVE_INTEGERS", "-fsyntax-only"]
    result = subprocess.run(
        [*command, "-I", str(library_directory()), str(source)], capture_output=True, text=True, check=False
    )
    assert "exclude each other" in result.stderr


def program(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho 'Debian clang version {version}'\n")
    path.chmod(0o755)
    return path


def test_a_clang_of_the_path_is_taken_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = program(tmp_path / "clang++", "16.0.6")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clang.find_clang() == (str(new),)


def test_an_old_clang_and_no_package_are_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").mkdir()
    program(tmp_path / "old" / "clang++", "14.0.0")
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    monkeypatch.setattr(clang.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"clang 16 or later.*pip install 'bfpga\[synthesis\]'"):
        clang.find_clang()


def test_the_packages_clang_uses_the_library_of_gpp_or_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert clang.find_clang()[1] == "c++"
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/g++" if name == "g++" else None)
    assert clang.find_clang()[1:3] == ("clang", "--driver-mode=g++")
