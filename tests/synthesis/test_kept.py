"""Figures in the package are those of the kernels as they are, IP by IP."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.estimate.hardware import LoopFigures
from bfpga.synthesis import kept
from bfpga.synthesis.ip_figures import ip_records, kernel_figures, read_records
from bfpga.synthesis.kept import Compiled, keep_figures, kept_figures, package_path, packaged_records
from bfpga.vendor.render import library_directory

PACKAGED = [name for name in accelerator_names() if package_path(load_accelerator(name)).exists()]


def test_figures_of_the_common_accelerator_are_there() -> None:
    assert "pynq_z2_dense" in PACKAGED


def test_figures_are_kept_for_other_accelerators(tmp_path: Path) -> None:
    other = load_accelerator("tiny_first_light")
    assert kept_figures(replace(other, clock_mhz=50.0), tmp_path) is None
    known = kept_figures(load_accelerator("pynq_z2_dense"), tmp_path)
    assert known is not None
    keep_figures(known, load_accelerator("pynq_z2_dense"), tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_figures_that_other_code_has_made_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache outlives a version of the toolkit, and its figures may not be those of the next."""
    own = replace(load_accelerator("tiny"), clock_mhz=50.0)
    known = kept_figures(load_accelerator("tiny"), tmp_path)
    assert known is not None
    ips = {name: replace(ip, sources=Compiled.of(own).digests[name]) for name, ip in ip_records(known).items()}
    made = kernel_figures(own, ips)
    keep_figures(made, own, tmp_path)
    assert kept_figures(own, tmp_path) == made
    monkeypatch.setattr(kept, "source_digest", lambda *packages: "another")
    assert kept_figures(own, tmp_path) is None


# What makes figures stale

Edit = Callable[[str, str, str], None]
TINY = load_accelerator("tiny")
ALL = {"sequencer", "scratchpad", "weights", "array", "post", "store"}


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edit:
    """Replaces text in a header of a copy of the library, from which kernels are made then."""
    copy = tmp_path / "include"
    shutil.copytree(library_directory(), copy)
    monkeypatch.setattr("bfpga.vendor.render.library_directory", lambda: copy)

    def change(header: str, pattern: str, text: str) -> None:
        path = copy / "bfpga" / header
        changed, times = re.subn(pattern, text, path.read_text(), count=1)
        assert times, f"{header} has no `{pattern}`"
        path.write_text(changed)

    return change


@pytest.fixture
def stale() -> Callable[[], set[str]]:
    """The IPs whose sources are no longer what they were."""
    before = Compiled.of(TINY).digests
    return lambda: {name for name, digest in Compiled.of(TINY).digests.items() if before[name] != digest}


def packaged_loop(ip: str) -> LoopFigures:
    """The loop of an IP, of whatever state of its sources, with places in the present ones."""
    ips = read_records(package_path(TINY), Compiled.of(TINY).files)
    (loop,) = ips[ip].loops
    return loop


@pytest.mark.parametrize(
    ("header", "pattern", "text", "expected"),
    [
        ("output/table_steps.hpp", r">> FRACTION_BITS", ">> (FRACTION_BITS + 1)", {"post"}),
        ("processes/systolic/array.hpp", r"#pragma HLS PIPELINE II=1", "#pragma HLS PIPELINE II=2", {"array"}),
        ("ports/visible_stream.hpp", r"(?m)^#pragma HLS INLINE$", "#pragma HLS INLINE off", ALL),
    ],
)
def test_a_changed_header_makes_the_ips_stale_that_include_it(
    stale: Callable[[], set[str]], edit: Edit, header: str, pattern: str, text: str, expected: set[str], tmp_path: Path
) -> None:
    edit(header, pattern, text)
    assert stale() == expected
    assert kept_figures(TINY, tmp_path / "cache") is None


def test_comments_make_no_figures_stale_and_places_follow(stale: Callable[[], set[str]], edit: Edit) -> None:
    file, _, line = packaged_loop("array").place.partition(":")
    edit("processes/systolic/array.hpp", r"#pragma once\n", "// A comment.\n\n#pragma once\n")
    assert stale() == set()
    assert packaged_loop("array").place == f"{file}:{int(line) + 2}"


def test_a_file_of_another_name_makes_no_figures_stale(
    stale: Callable[[], set[str]], edit: Edit, tmp_path: Path
) -> None:
    """Its places have the name alone until they are made anew."""
    header = tmp_path / "include" / "bfpga" / "processes" / "systolic" / "array.hpp"
    header.rename(header.with_name("renamed.hpp"))
    header.write_text('#pragma once\n#include "bfpga/processes/systolic/renamed.hpp"\n')
    assert stale() == set()
    assert packaged_loop("array").place == "bfpga/processes/systolic/array.hpp"


def test_the_number_of_a_kernel_makes_no_figures_stale() -> None:
    assert Compiled.of(replace(TINY, digest="1" * 64)) == Compiled.of(TINY)


@pytest.mark.parametrize(
    ("change", "expected"),
    [({"position_bins": 17}, {"post"}), ({"weight_words": 1024}, ALL), ({"tensor_slots": 64}, set())],
)
def test_a_changed_number_makes_the_ips_stale_that_read_it(change: dict[str, int], expected: set[str]) -> None:
    found = Compiled.of(replace(TINY, config=replace(TINY.config, **change))).digests  # type: ignore[arg-type]
    assert {name for name, digest in Compiled.of(TINY).digests.items() if found[name] != digest} == expected


@pytest.mark.parametrize("content", ["", "{}\n{}\n", '{"accelerator": "tiny"}\n{"name": "Rows"}\n', "\xff", "["])
def test_a_damaged_file_has_no_figures(content: str, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(content, encoding="latin-1")
    assert Compiled.of(TINY).records(path) == {}
    shutil.copy(package_path(TINY), path)
    assert Compiled.of(TINY).records(path) == packaged_records(TINY) != {}
    path.write_text(path.read_text()[:-20])
    assert Compiled.of(TINY).records(path) == {}
