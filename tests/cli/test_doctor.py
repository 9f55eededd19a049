"""`bfpga doctor` tries what it reports: what is installed and does not work is not there, with cause and remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bfpga.cli import doctor
from bfpga.cli.doctor import Check

ROOT = Path(__file__).parents[2]


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
     ("distributed", doctor.dask), ("optuna", doctor.search), ("vl_convert", doctor.charts)],
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


def test_every_extra_is_tried_and_works_if_all_of_it_does() -> None:
    """Those that are named where the package is described, but for the ones that name others.

    Keras brings TensorFlow, and the site is for writers: neither is in `all`.
    """
    text = (ROOT / "pyproject.toml").read_text()
    text = text.split("[project.optional-dependencies]")[1].split("[project.scripts]")[0]
    declared = set(re.findall(r"^(\w+) = \[", text, re.M))
    tried = {check.extra for check in map(stub, doctor.CHECKS)} - {""}
    assert tried == declared - {"all", "dev"}
    whole = re.search(r'^all = \["bfpga\[(.*)\]"\]$', text, re.M)
    assert whole is not None
    assert set(whole[1].split(",")) == tried - {"site", "keras"}
    good, bad = Check("a", True, "1", "", "", extra="x"), Check("b", False, "not installed", "", "", extra="x")
    assert doctor.extras([good]) == [("x", True, "")]
    assert doctor.extras([good, bad]) == [("x", False, "b: not installed")]


def stub(check: Callable[[], Check]) -> Check:
    """What a check says where nothing can be started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "attempt", lambda *_: "not started")
        return check()
