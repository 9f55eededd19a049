"""Overlays: written complete, found by name, path, package, cache or program, and never used when a file is another."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from array_kinds import each_kind

from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.board import overlays
from bfpga.board.overlays import (
    find_overlay,
    load_overlay,
    overlay_for_program,
    provide_overlay,
    staged_files,
    store_overlay,
)
from bfpga.cli import main
from bfpga.contract.program import Program
from bfpga.engines.configurations import config_to_dict
from bfpga.errors import ConfigurationError, DeviceError, ProgramError
from bfpga.vendor.manifest import Manifest, content_hash, read_manifest, write_manifest
from bfpga.vendor.overlay_files import OverlayBuild, write_overlay

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "overlays"


@dataclass(frozen=True)
class AcceleratorOfProgram:
    """What finding an overlay needs of a program."""

    accelerator: str
    digest: str


def program(accelerator: str, digest: str) -> Program:
    return cast(Program, AcceleratorOfProgram(accelerator, digest))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the user."""
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "overlays"


@pytest.fixture
def other(tmp_path: Path) -> Accelerator:
    """An accelerator that is none of the ready ones."""
    text = (ROOT / "configs" / "accelerators" / "tiny.yaml").read_text()
    path = tmp_path / "other.yaml"
    path.write_text(text.replace("name: tiny", "name: other").replace("weight_words: 512", "weight_words: 1024"))
    return load_accelerator(path)


def build_of(folder: Path, content: bytes = b"bits") -> OverlayBuild:
    """Files as a build leaves them."""
    folder.mkdir(exist_ok=True)
    (folder / "top.bit").write_bytes(content)
    (folder / "top.hwh").write_bytes(b"\xef\xbb\xbf<EDKSYSTEM/>")
    (folder / "timing.rpt").write_text("WNS 0.1")
    reports = {"timing_report": folder / "timing.rpt"}
    return OverlayBuild(folder / "top.bit", folder / "top.hwh", {"vivado": "2024.1"}, {"lut": 1}, {"wns": 0.1}, reports)


# The overlays of ready accelerators


@pytest.mark.parametrize("name", each_kind())
def test_a_ready_overlay_is_written_when_it_is_asked_for(name: str, tmp_path: Path, cache: Path) -> None:
    accelerator = load_accelerator(name)
    overlay = find_overlay(name)
    assert overlay.directory == cache / accelerator.digest
    assert overlay.manifest == write_overlay(accelerator, tmp_path / name)
    assert overlay.handoff.read_bytes() == (tmp_path / name / overlay.handoff.name).read_bytes()
    write_manifest(read_manifest(tmp_path / name / "overlay.yaml"), tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_bytes() == (tmp_path / name / "overlay.yaml").read_bytes()


def test_committed_overlays_are_of_their_accelerators(tmp_path: Path) -> None:
    """Those of builds, if there are any; one that `bfpga overlay` has written here is of the present toolkit too."""
    for path in sorted(COMMITTED.glob("*/overlay.yaml")):
        found = load_overlay(path).manifest
        manifest = write_overlay(load_accelerator(path.parent.name), tmp_path / path.parent.name)
        plain = {"files": {}, "tools": None, "utilization": None, "timing": None, "clock": found.clock}
        assert replace(found, **plain) == replace(manifest, **plain), f"{path.parent} is of another accelerator"


def test_a_ready_overlay_has_its_slower_clock(cache: Path) -> None:
    assert find_overlay("pynq_z2_dense_first_light").manifest.clock.requested_mhz == 100


def test_an_overlay_of_a_package_is_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlays, "_own_places", lambda: [tmp_path])
    write_overlay(load_accelerator("tiny"), tmp_path / "tiny", build_of(tmp_path / "build"))
    assert find_overlay("tiny").directory == tmp_path / "tiny"


def test_a_machine_that_reads_no_accelerators_knows_no_ready_overlay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bfpga.accelerator.loader", None)
    with pytest.raises(DeviceError, match="there is no overlay 'tiny': known overlays: none"):
        find_overlay("tiny")


# Writing


def test_a_written_overlay_names_its_handoff_by_its_content(tmp_path: Path) -> None:
    manifest = write_overlay(load_accelerator("tiny"), tmp_path / "new" / "tiny")
    overlay = load_overlay(tmp_path / "new" / "tiny")
    assert overlay.manifest == manifest
    digest = content_hash(overlay.handoff.read_bytes())
    assert overlay.handoff.name == f"tiny-{digest[:8]}.hwh"
    assert manifest.handoff.sha256 == digest
    assert overlay.bitstream is None


def test_writing_again_removes_the_files_of_the_earlier_version(tmp_path: Path) -> None:
    accelerator = load_accelerator("tiny")
    earlier = write_overlay(accelerator, tmp_path)
    foreign = tmp_path / "tiny-notes.hwh"
    foreign.write_text("mine")
    later = write_overlay(replace(accelerator, clock_mhz=50.0), tmp_path)
    assert earlier.handoff.name != later.handoff.name
    assert {path.name for path in tmp_path.iterdir()} == {"overlay.yaml", later.handoff.name, foreign.name}


def test_a_build_brings_bitstream_and_reports_under_one_stem(tmp_path: Path) -> None:
    manifest = write_overlay(load_accelerator("tiny"), tmp_path / "tiny", build_of(tmp_path / "build"))
    overlay = load_overlay(tmp_path / "tiny")
    assert overlay.bitstream is not None
    assert overlay.bitstream.read_bytes() == b"bits"
    assert overlay.bitstream.stem == overlay.handoff.stem
    assert manifest.tools == {"vivado": "2024.1"}
    report = manifest.files["timing_report"]
    assert report is not None
    assert (tmp_path / "tiny" / report.name).read_text() == "WNS 0.1"
    again = write_overlay(load_accelerator("tiny"), tmp_path / "tiny", build_of(tmp_path / "build", b"other bits"))
    assert len(list((tmp_path / "tiny").iterdir())) == 4
    assert again.bitstream != manifest.bitstream


def test_a_bitstream_is_not_lost_by_accident(tmp_path: Path) -> None:
    accelerator = load_accelerator("tiny")
    built = write_overlay(accelerator, tmp_path / "tiny", build_of(tmp_path / "build"))
    with pytest.raises(ConfigurationError, match=r"\.bit: the overlay holds a bitstream.*--discard-bitstream"):
        write_overlay(accelerator, tmp_path / "tiny")
    assert load_overlay(tmp_path / "tiny").manifest == built
    assert write_overlay(accelerator, tmp_path / "tiny", discard_bitstream=True).bitstream is None


def test_an_interrupted_write_leaves_the_old_overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator = load_accelerator("tiny")
    earlier = write_overlay(accelerator, tmp_path)

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bfpga.vendor.overlay_files.write_manifest", stop)
    with pytest.raises(KeyboardInterrupt):
        write_overlay(replace(accelerator, clock_mhz=50.0), tmp_path)
    assert load_overlay(tmp_path).manifest == earlier


def test_the_command_writes_overlays(tmp_path: Path, capsys: pytest.CaptureFixture[str], other: Accelerator) -> None:
    assert main(["overlay", str(other.path), "-o", str(tmp_path / "out")]) == 0
    assert "overlay of other" in capsys.readouterr().out
    assert load_overlay(tmp_path / "out" / "other").manifest.accelerator.digest == other.digest
    assert main(["overlay", "--all", "-o", str(tmp_path / "all")]) == 0
    assert {path.name for path in (tmp_path / "all").iterdir()} == set(accelerator_names())


@pytest.mark.parametrize("arguments", [[], ["tiny", "--all"]], ids=["nothing", "both"])
def test_the_command_wants_one_accelerator_or_all(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["overlay", *arguments]) == 2
    assert "give one accelerator, or --all" in capsys.readouterr().err


# Finding


@pytest.mark.parametrize("form", ["name", "directory", "text", "manifest"])
def test_an_overlay_is_found_by_name_directory_and_manifest(form: str) -> None:
    """R86: bitstreams are kept as overlays and found when loaded."""
    directory = store_overlay(load_accelerator("tiny"))
    wanted = {"name": "tiny", "directory": directory, "text": str(directory), "manifest": directory / "overlay.yaml"}
    overlay = find_overlay(wanted[form])
    assert overlay.name == "tiny"
    assert overlay.directory.samefile(directory)


def test_a_directory_in_the_working_directory_needs_no_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Accelerator
) -> None:
    write_overlay(other, tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert find_overlay("mine").name == "other"


def test_an_unknown_name_gives_the_near_ones() -> None:
    with pytest.raises(DeviceError) as caught:
        find_overlay("pynq_z2_dence")
    message = str(caught.value)
    assert "did you mean `pynq_z2_dense`?" in message
    assert all(name in message for name in accelerator_names())
    assert "bfpga overlay FILE" in message


@pytest.mark.parametrize("missing", ["nowhere/at/all", "overlay.yaml", Path("nowhere")])
def test_a_path_without_an_overlay_is_refused(
    missing: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeviceError, match="there is no overlay: neither a directory"):
        find_overlay(missing)


def install_package(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, body: str = "") -> Path:
    """A package with an entry point `pynq.overlays` on the path of this interpreter."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(body)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[pynq.overlays]\n{name} = {name}.overlays\n")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return package


def test_overlays_of_other_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Accelerator
) -> None:
    package = install_package(tmp_path / "site", "foreign_overlays", monkeypatch)
    (package / "overlays").mkdir()
    (package / "overlays" / "__init__.py").touch()
    write_overlay(other, package / "overlays" / "other")
    assert find_overlay("other").directory == package / "overlays" / "other"
    assert overlay_for_program(program("other", other.digest)).directory == package / "overlays" / "other"
    sys.modules.pop("foreign_overlays", None)


def test_a_broken_package_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(tmp_path / "site", "broken_overlays", monkeypatch, "raise RuntimeError('no board')")
    with pytest.raises(DeviceError, match="there is no overlay 'other'"):
        find_overlay("other")


def test_stored_overlays_are_found_by_name_and_by_digest(cache: Path, other: Accelerator) -> None:
    directory = store_overlay(other)
    assert directory == cache / other.digest
    assert find_overlay("other").directory == directory
    assert overlay_for_program(program("other", other.digest)).directory == directory
    assert store_overlay(other) == directory


def test_a_damaged_overlay_of_the_cache_hides_no_other(cache: Path, other: Accelerator) -> None:
    (cache / ("0" * 64)).mkdir(parents=True)
    (cache / ("0" * 64) / "overlay.yaml").write_text("{")
    store_overlay(other)
    assert find_overlay("other").name == "other"


def test_storing_keeps_a_built_overlay(tmp_path: Path, cache: Path, other: Accelerator) -> None:
    built = write_overlay(other, cache / other.digest, build_of(tmp_path / "build"))
    assert load_overlay(store_overlay(other)).manifest == built


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Accelerator
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path / "file"))
    with pytest.raises(DeviceError, match=r"cannot write an overlay there.*set BFPGA_CACHE"):
        store_overlay(other)


# Changed files


def damage(directory: Path, change: Callable[[Path], Any]) -> Manifest:
    manifest = read_manifest(directory / "overlay.yaml")
    change(directory / manifest.handoff.name)
    return manifest


def test_a_changed_file_is_refused_with_both_hashes(tmp_path: Path) -> None:
    write_overlay(load_accelerator("tiny"), tmp_path / "tiny")
    manifest = damage(tmp_path / "tiny", lambda path: path.write_bytes(path.read_bytes() + b" "))
    found = content_hash((tmp_path / "tiny" / manifest.handoff.name).read_bytes())
    with pytest.raises(DeviceError) as caught:
        find_overlay(tmp_path / "tiny")
    assert manifest.handoff.name in str(caught.value)
    assert f"SHA-256 {manifest.handoff.sha256} expected, {found} found" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path, other: Accelerator) -> None:
    write_overlay(other, tmp_path / "other")
    manifest = damage(tmp_path / "other", Path.unlink)
    with pytest.raises(
        DeviceError, match=rf"{manifest.handoff.name}: named by overlay\.yaml and cannot be read: No such"
    ):
        find_overlay(tmp_path / "other")


def test_a_changed_bitstream_is_refused(tmp_path: Path) -> None:
    manifest = write_overlay(load_accelerator("tiny"), tmp_path / "tiny", build_of(tmp_path / "build"))
    assert manifest.bitstream is not None
    (tmp_path / "tiny" / manifest.bitstream.name).write_bytes(b"bitz")
    with pytest.raises(DeviceError, match=r"\.bit: is not the file of overlay\.yaml"):
        load_overlay(tmp_path / "tiny")


def test_a_damaged_manifest_is_refused_by_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "overlay.yaml").write_text('{"format": 3}')
    monkeypatch.setattr(overlays, "_own_places", lambda: [tmp_path])
    with pytest.raises(
        ConfigurationError, match=r"overlay\.yaml: not a valid manifest of an overlay: name: is missing"
    ):
        find_overlay("tiny")


# Overlay of a program


def test_the_overlay_of_a_program_is_found_by_its_digest() -> None:
    accelerator = load_accelerator("zcu104_dense")
    overlay = overlay_for_program(program("renamed", accelerator.digest))
    assert overlay.name == "zcu104_dense"
    overlay.check_program(program("renamed", accelerator.digest))


def test_a_built_overlay_is_preferred(tmp_path: Path, cache: Path) -> None:
    accelerator = load_accelerator("tiny")
    write_overlay(accelerator, cache / accelerator.digest, build_of(tmp_path / "build"))
    assert overlay_for_program(program("tiny", accelerator.digest)).directory == cache / accelerator.digest
    assert find_overlay("tiny").bitstream is not None


def test_a_program_of_a_ready_accelerator_gets_its_overlay(cache: Path) -> None:
    digest = load_accelerator("tiny").digest
    assert overlay_for_program(program("tiny", digest)).directory == cache / digest


def test_an_unbuilt_overlay_of_the_cache_is_written_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator = load_accelerator("tiny")
    manifest = write_overlay(accelerator, cache / accelerator.digest)
    write_manifest(replace(manifest, layout={}), cache / accelerator.digest / "overlay.yaml")
    monkeypatch.setattr(overlays, "_own_places", list)
    assert overlay_for_program(program("tiny", accelerator.digest)).manifest == manifest


def test_an_accelerator_of_the_users_own_is_provided_once(
    cache: Path, other: Accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provide_overlay(program("other", other.digest), other)
    assert overlay_for_program(program("other", other.digest)).directory == cache / other.digest
    monkeypatch.setattr(overlays, "_own_places", lambda: [tmp_path])
    ready = load_accelerator("tiny")
    write_overlay(ready, tmp_path / "tiny")
    provide_overlay(program("tiny", ready.digest), ready)
    assert [path.name for path in cache.iterdir()] == [other.digest]


def test_a_program_of_an_unknown_accelerator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = "ab" * 32
    with pytest.raises(DeviceError, match=rf"no overlay holds accelerator mine \({digest[:12]}\).*bfpga overlay FILE"):
        overlay_for_program(program("mine", digest))
    with pytest.raises(DeviceError, match=r"the overlay of that name holds another one.*compile the network again"):
        overlay_for_program(program("tiny", digest))
    # A board without the compiler's packages says the same.
    monkeypatch.setitem(sys.modules, "bfpga.accelerator.loader", None)
    with pytest.raises(DeviceError, match="no overlay holds accelerator mine"):
        overlay_for_program(program("mine", digest))


def test_a_program_of_another_accelerator_is_refused_with_both_names() -> None:
    with pytest.raises(ProgramError) as caught:
        find_overlay("tiny").check_program(program("mine", "ab" * 32))
    message = str(caught.value)
    assert f"compiled for accelerator mine ({'ab' * 6})" in message
    assert f"holds accelerator tiny ({load_accelerator('tiny').digest[:12]})" in message


# Staging


def test_a_virtual_board_gets_an_emulation_bitstream_next_to_the_handoff(tmp_path: Path) -> None:
    from bfpga.board.virtual.bitfile import read_emulation_bitstream

    overlay = find_overlay("tiny")
    staged = staged_files(overlay, tmp_path / "staged", virtual=True)
    assert staged.bitstream.with_suffix(".hwh") == staged.handoff
    assert staged.handoff.read_bytes() == overlay.handoff.read_bytes()
    content = read_emulation_bitstream(staged.bitstream)
    assert content.handoff == overlay.handoff.read_text()
    kernel = content.kernels["accelerator"]
    assert kernel["kind"] == "systolic_array"
    assert kernel["digest"] == overlay.manifest.accelerator.digest
    assert kernel["configuration"] == json.loads(json.dumps(config_to_dict(overlay.manifest.config)))
    assert staged_files(overlay, tmp_path / "staged", virtual=True) == staged
    assert len(list((tmp_path / "staged").iterdir())) == 2


def test_a_handoff_in_another_encoding_is_refused(tmp_path: Path) -> None:
    manifest = write_overlay(load_accelerator("tiny"), tmp_path / "tiny")
    path = tmp_path / "tiny" / manifest.handoff.name
    content = path.read_bytes()
    path.write_bytes(content.decode().encode("utf-16"))
    text = (tmp_path / "tiny" / "overlay.yaml").read_text()
    (tmp_path / "tiny" / "overlay.yaml").write_text(
        text.replace(manifest.handoff.sha256, content_hash(path.read_bytes()))
    )
    overlay = find_overlay(tmp_path / "tiny")
    with pytest.raises(DeviceError, match=rf"{manifest.handoff.name}: is no hardware handoff: byte 0 is no UTF-8"):
        staged_files(overlay, tmp_path / "staged", virtual=True)
    assert list((tmp_path / "staged").iterdir()) == []


def test_other_content_is_staged_under_another_name(tmp_path: Path) -> None:
    accelerator = load_accelerator("tiny")
    stems = set()
    for n, clock in enumerate((100.0, 50.0)):
        write_overlay(replace(accelerator, clock_mhz=clock), tmp_path / str(n))
        stems.add(staged_files(load_overlay(tmp_path / str(n)), tmp_path / "staged", virtual=True).bitstream.stem)
    assert len(stems) == 2


def test_a_real_board_gets_the_files_of_the_build(tmp_path: Path) -> None:
    write_overlay(load_accelerator("tiny"), tmp_path / "tiny", build_of(tmp_path / "build"))
    overlay = load_overlay(tmp_path / "tiny")
    staged = staged_files(overlay, tmp_path / "staged")
    assert staged.bitstream.read_bytes() == b"bits"
    assert staged.bitstream.with_suffix(".hwh") == staged.handoff
    staged.bitstream.write_bytes(b"half")
    assert staged_files(overlay, tmp_path / "staged").bitstream.read_bytes() == b"bits"
    assert staged_files(overlay, tmp_path / "staged").handoff.read_bytes() == overlay.handoff.read_bytes()


def test_a_real_board_refuses_an_overlay_that_was_never_built(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"tiny in .* has no bitstream: it was never built.*bfpga build tiny"):
        staged_files(find_overlay("tiny"), tmp_path)


# Packaging


def project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
    return cast("dict[str, Any]", tomllib.loads((ROOT / "pyproject.toml").read_text()))


def test_every_package_is_installed() -> None:
    host = ROOT / "host"
    found = {".".join(path.parent.relative_to(host).parts) for path in (host / "bfpga").rglob("__init__.py")}
    mapped = {"bfpga.configs", "bfpga.overlays", "bfpga.examples", "vitis_hls_templates"}
    assert set(project()["tool"]["setuptools"]["packages"]) == found | mapped


def test_pynq_finds_overlays_and_notebooks_of_the_installed_package() -> None:
    points = project()["project"]["entry-points"]
    assert points["pynq.overlays"] == {"bfpga": "bfpga.overlays"}
    assert points["pynq.notebooks"] == {"bfpga": "bfpga.examples"}
    directories = project()["tool"]["setuptools"]["package-dir"]
    assert (directories["bfpga.overlays"], directories["bfpga.examples"]) == ("overlays", "examples")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages as a wheel installs them, from a copy of the repository that holds what git does."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("installed")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.hwh")
    for part in ("host", "hls", "configs", "overlays", "examples"):
        shutil.copytree(ROOT / part, folder / "clone" / part, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, folder / "clone")
    script = "import setuptools; setuptools.setup()"
    arguments = [sys.executable, "-c", script, "-q", "build", "--build-lib", str(folder / "site")]
    subprocess.run(arguments, cwd=folder / "clone", check=True, capture_output=True)
    shutil.rmtree(folder / "clone")
    return folder / "site"


def test_overlays_of_an_installed_package_are_found_outside_the_clone(
    installed: Path, cache: Path, tmp_path: Path
) -> None:
    """R86, where pip has put the package: every overlay is written into the cache, as the virtual board reads it."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import bfpga\n"
        "from pathlib import Path\n"
        "from bfpga.accelerator.loader import accelerator_names\n"
        "from bfpga.board.overlays import find_overlay, staged_files\n"
        "overlays = [find_overlay(name) for name in accelerator_names()]\n"
        "staged = staged_files(overlays[0], Path('staged'), virtual=True)\n"
        "print(bfpga.__file__, staged.bitstream.is_file())\n"
        "for overlay in overlays: print(overlay.name, overlay.directory)\n"
    )
    command = [sys.executable, "-c", script, str(installed)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    first, *others = result.stdout.splitlines()
    assert first == f"{installed / 'bfpga' / '__init__.py'} True"
    assert [line.split()[0] for line in others] == accelerator_names()
    assert {Path(line.split()[1]).parent for line in others} == {cache}


def test_manifests_and_files_of_builds_are_package_data(tmp_path: Path) -> None:
    patterns = project()["tool"]["setuptools"]["package-data"]["bfpga.overlays"]
    built = write_overlay(load_accelerator("tiny"), tmp_path / "tiny", build_of(tmp_path / "build"))
    assert built.bitstream is not None
    packaged = {path.name for pattern in patterns for path in tmp_path.glob(pattern)}
    assert {"overlay.yaml", built.handoff.name, built.bitstream.name} <= packaged
