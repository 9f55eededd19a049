"""`bfpga doctor` tries what it reports: what is installed and does not work is not there, with cause and remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bfpga.cli import doctor
from bfpga.cli.doctor import Check


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a module of this name and text before the one that is installed, for new processes."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def put(module: str, text: str) -> None:
        (tmp_path / f"{module}.py").write_text(text)

    return put


def test_pynq_without_the_pkg_resources_of_old_setuptools_does_not_work(broken: Callable[[str, str], None]) -> None:
    """What installing other packages leaves when it raises setuptools above 80."""
    pytest.importorskip("pynq")
    broken("pkg_resources", "raise ModuleNotFoundError('No module named pkg_resources', name='pkg_resources')\n")
    check = doctor.pynq()
    assert not check.found
    assert "is installed and does not work: PYNQ needs pkg_resources" in check.detail
    assert "pip install 'setuptools<=80'" in check.detail


@pytest.mark.parametrize(
    ("module", "examine"),
    [("onnxruntime", doctor.onnx_runtime), ("onnx", doctor.onnx_reader), ("clang", doctor.libclang),
     ("distributed", doctor.dask)],
)  # fmt: skip
def test_a_package_that_cannot_be_imported_is_not_found(
    module: str, examine: Callable[[], Check], broken: Callable[[str, str], None]
) -> None:
    pytest.importorskip(module)
    assert examine().found
    broken(module, "raise ImportError('libabsent.so: cannot open shared object file')\n")
    check = examine()
    assert not check.found
    assert "does not work: ImportError: libabsent.so" in check.detail
    assert check.remedy.startswith("pip install ")


def test_a_package_that_ends_its_process_ends_no_check(broken: Callable[[str, str], None]) -> None:
    broken("onnxruntime", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n")
    assert not doctor.onnx_runtime().found


def test_a_compiler_that_only_tells_its_version_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a g++ whose parts were removed, or without the headers of the C++ library."""
    program = tmp_path / "g++"
    program.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'g++ 12.2.0' || { echo 'no cc1plus' >&2; exit 1; }\n")
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    for check in (doctor.compiler(), doctor.native_layers(), doctor.ap_int_headers()):
        assert (check.found, check.detail) == (False, "no cc1plus"), check.name
    monkeypatch.setenv("CXX", "g++")
    assert doctor.compiler().found


def test_a_tclsh_of_another_release_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tclsh"
    program.write_text("#!/bin/sh\necho 'version conflict for package \"Tcl\": have 8.5.19, need 8.6-' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor.tclsh()
    assert not check.found
    assert "have 8.5.19" in check.detail
