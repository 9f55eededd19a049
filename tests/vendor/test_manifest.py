"""The manifest of an overlay: what is read comes back as it was written, and what is wrong is named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.cores import Core
from bfpga.contract.functions import FUNCTION_NAMES
from bfpga.contract.layout import layout
from bfpga.engines.configurations import config_to_dict
from bfpga.errors import ConfigurationError
from bfpga.formats.block_format import BlockFormat
from bfpga.vendor.block_design import block_design
from bfpga.vendor.json_fields import WIDTH, FieldError
from bfpga.vendor.manifest import (
    FORMAT,
    AcceleratorEntry,
    BoardEntry,
    CellEntry,
    ClockEntry,
    DmaEntry,
    FileEntry,
    Manifest,
    content_hash,
    file_hash,
    hashed_stem,
    manifest_text,
    parse_manifest,
    read_manifest,
    write_manifest,
)
from bfpga.vendor.overlay_files import make_manifest

VALID = make_manifest(
    block_design(load_accelerator("pynq_z2_dense")),
    {"handoff": FileEntry("pynq_z2_dense-01234567.hwh", "0" * 64), "bitstream": None},
)


# Reading what was written


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "overlay.yaml"
    write_manifest(VALID, path)
    assert read_manifest(path) == VALID
    assert [file.name for file in tmp_path.iterdir()] == ["overlay.yaml"]


def test_a_manifest_holds_the_accelerator(tmp_path: Path) -> None:
    accelerator = load_accelerator("pynq_z2_dense")
    assert VALID.config == accelerator.config
    assert VALID.accelerator.digest == accelerator.digest
    assert f"{VALID.identification:08x}" == accelerator.digest[:8]
    assert VALID.layout == layout(*accelerator.config.layout_parts)
    assert VALID.interrupts == Core(0).interrupts
    assert VALID.cells["accelerator"] == CellEntry("xilinx.com:hls:bfpga_systolic:1.0", 0x43C00000, 0x10000)
    assert VALID.dma == DmaEntry(length_bits=26, stream_bits=64, weight_stream_bits=64, alignment=8)
    assert VALID.bitstream is None


def test_buffers_are_aligned_to_the_widest_memory_side() -> None:
    wide = make_manifest(block_design(load_accelerator("zcu104_dense")), VALID.files)
    assert wide.dma.alignment == 16


def test_the_text_is_yaml_too() -> None:
    import yaml

    assert yaml.safe_load(manifest_text(VALID)) == json.loads(manifest_text(VALID))


def test_the_text_is_short_and_fits_a_screen() -> None:
    """Long lists, as the fields of a descriptor, are filled like a paragraph."""
    short = replace(VALID, accelerator=replace(VALID.accelerator, description=""))
    lines = manifest_text(short).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) < 180


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
TEXTS = st.text(max_size=20)
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
COUNTS = st.integers(1, 1 << 20)
MEGAHERTZ = st.floats(1, 1000)
JSON_OBJECTS = st.none() | st.dictionaries(
    TEXTS, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
FILES = st.builds(FileEntry, st.from_regex(r"[a-z0-9_]{1,8}-[0-9a-f]{8}\.[a-z]{3}", fullmatch=True), DIGESTS)
FORMATS = st.builds(BlockFormat, st.integers(2, 16), st.integers(4, 8), rounding=st.sampled_from(["rne", "trunc"]))
MANIFESTS = st.builds(
    Manifest,
    name=NAMES,
    accelerator=st.builds(AcceleratorEntry, NAMES, DIGESTS, TEXTS),
    board=st.builds(BoardEntry, NAMES, TEXTS, TEXTS, TEXTS, st.sampled_from(["zynq7", "zynqmp"])),
    clock=st.builds(ClockEntry, MEGAHERTZ, MEGAHERTZ),
    configuration=st.builds(
        KernelConfig, FORMATS, st.integers(1, 128), st.sampled_from([2, 8, 64]), accumulator_bits=st.just(58),
        functions=st.sets(st.sampled_from(FUNCTION_NAMES[1:]), max_size=3).map(lambda names: ("none", *sorted(names))),
    ).map(config_to_dict),
    layout=st.dictionaries(TEXTS, st.lists(NAMES) | st.dictionaries(TEXTS, TEXTS | st.integers())),
    cells=st.dictionaries(NAMES, st.builds(CellEntry, TEXTS, st.integers(0, (1 << 64) - 1), COUNTS), max_size=3),
    dma=st.builds(DmaEntry, COUNTS, COUNTS, COUNTS, COUNTS),
    interrupts=st.lists(TEXTS, max_size=4).map(tuple),
    files=st.fixed_dictionaries({"handoff": FILES, "bitstream": st.none() | FILES}, optional={"timing": FILES}),
    tools=JSON_OBJECTS,
    utilization=JSON_OBJECTS,
    timing=JSON_OBJECTS,
)


@given(MANIFESTS)
@settings(max_examples=drawn(100))
def test_every_manifest_comes_back_as_it_was_written(manifest: Manifest) -> None:
    text = manifest_text(manifest)
    assert parse_manifest(text) == manifest
    assert manifest_text(parse_manifest(text)) == text


# Refusing what is wrong


def changed(*keys: str | int, to: Any = None, drop: bool = False) -> str:
    """The text of a valid manifest with one value replaced or one key removed."""
    document = json.loads(manifest_text(VALID))
    parent = document
    for key in keys[:-1]:
        parent = parent[key]
    if drop:
        del parent[keys[-1]]
    else:
        parent[keys[-1]] = to
    return json.dumps(document)


WRONG = {
    "a later version": (changed("format", to=4), "format: is 4; this toolkit reads 3. `bfpga overlay` writes"),
    "the version before": (changed("format", to=2), "described kernels and layouts otherwise"),
    "version of another type": (changed("format", to=True), "format: must be the version of the keys, 3"),
    "no version": (changed("format", drop=True), "format: must be the version"),
    "missing section": (changed("board", drop=True), "board: is missing"),
    "missing key": (changed("accelerator", "digest", drop=True), "accelerator.digest: is missing"),
    "unknown key": (changed("clok", to={}), "clok: is unknown; did you mean `clock`?"),
    "unknown inner key": (changed("dma", "lenght_bits", to=1), "dma.lenght_bits: is unknown; did you mean"),
    "text for a number": (changed("clock", "actual_mhz", to="100"), "clock.actual_mhz: must be a number, is \"100\""),
    "number for a text": (changed("board", "part", to=7), "board.part: must be a text, is 7"),
    "truth for a number": (changed("dma", "length_bits", to=True), "dma.length_bits: must be an integer, is true"),
    "fraction for an integer": (changed("configuration", "rows", to=1.5), "kernel configuration: rows is 1.5"),
    "negative clock": (changed("clock", "requested_mhz", to=-1), "clock.requested_mhz: must be positive"),
    "clock without bounds": (changed("clock", "actual_mhz", to=10**400), "clock.actual_mhz: must be a finite number"),
    "no list": (changed("interrupts", to={}), "interrupts: must be a list"),
    "no layout": (changed("layout", drop=True), "layout: is missing"),
    "layout of another type": (changed("layout", to=[]), "layout: must be an object"),
    "list for an object": (changed("cells", to=[]), "cells: must be an object"),
    "no object": (changed("board", to="pynq_z2"), "board: must be an object with the keys of BoardEntry"),
    "inner list element": (changed("interrupts", 1, to=3), "interrupts[1]: must be a text"),
    "cell without an address": (changed("cells", "tensor_dma", "base", drop=True), "cells.tensor_dma.base: is missing"),
    "address as a number": (changed("cells", "tensor_dma", "base", to=1), "cells.tensor_dma.base: must be a hexadec"),
    "address that is none": (changed("cells", "tensor_dma", "base", to="0xg"), "cells.tensor_dma.base: must be a hexa"),
    "short hash": (changed("files", "handoff", "sha256", to="12"), "files.handoff.sha256: must be a SHA-256"),
    "unknown choice": (changed("board", "processing_system", to="zynq8"), "must be one of zynq7, zynqmp, is \"zynq8\""),
    "unknown rounding": (changed("configuration", "format", "rounding", to="up"), "must be one of trunc, tozero"),
    "no handoff": (changed("files", "handoff", to=None), "files.handoff: must name a file"),
    "handoff missing": (changed("files", "handoff", drop=True), "files.handoff: is missing"),
    "bitstream missing": (changed("files", "bitstream", drop=True), "files.bitstream: is missing"),
    "file outside": (changed("files", "handoff", "name", to="../x.hwh"), "files.handoff.name: must be a file name"),
    "absolute file": (changed("files", "handoff", "name", to="/etc/passwd"), "files.handoff.name: must be a file name"),
    "hidden file": (changed("files", "handoff", "name", to=".x"), "files.handoff.name: must be a file name"),
    "name with directories": (changed("name", to="a/b"), "name: must be a plain name"),
    "empty": ("", "line 1, column 1: not JSON"),
    "YAML that is no JSON": ("format: 1\n", "line 1, column 1: not JSON"),
    "a list": ("[]", "must be an object"),
    "not a number": (changed("clock", "actual_mhz", to=float("nan")), "not JSON: NaN is no number"),
    "given twice": ('{"format": 1, "format": 1}', "format: is given twice"),
    "deep": ("[" * 100000, "nested too deeply"),
    "long number": ("1" * 5000, "not JSON"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_manifest_is_refused_with_path_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "overlay.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@given(st.integers(0, len(manifest_text(VALID)) - 3))
def test_a_truncated_manifest_is_refused(length: int) -> None:
    with pytest.raises(FieldError):
        parse_manifest(manifest_text(VALID)[:length])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(sorted(json.loads(manifest_text(VALID)))), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_other_document_is_refused_without_a_traceback(document: Any) -> None:
    if isinstance(document, dict):
        document["format"] = FORMAT
    with pytest.raises(FieldError):
        parse_manifest(json.dumps(document).replace("Infinity", "1"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"overlay\.yaml: cannot read the manifest of an overlay: No such file"
    ):
        read_manifest(tmp_path / "overlay.yaml")
    (tmp_path / "overlay.yaml").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_manifest(tmp_path / "overlay.yaml")


def test_a_failed_write_leaves_the_old_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "overlay.yaml"
    write_manifest(VALID, path)

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match=r"the disk is full: .* bytes are needed"):
        write_manifest(replace(VALID, name="other"), path)
    monkeypatch.undo()
    assert read_manifest(path) == VALID
    assert [file.name for file in tmp_path.iterdir()] == ["overlay.yaml"]


# Helpers and what a board needs


def test_names_change_with_the_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert file_hash(tmp_path / "file") == content_hash(b"content")
    assert hashed_stem("tiny", content_hash(b"content")) == f"tiny-{content_hash(b'content')[:8]}"
    assert content_hash(b"content") != content_hash(b"Content")


def test_a_board_reads_manifests_with_the_standard_library_alone() -> None:
    script = (
        "import sys\n"
        "import bfpga.vendor.manifest\n"
        "import bfpga.board.overlays\n"
        "foreign = {'jinja2', 'pydantic', 'yaml', 'pynq', 'onnx', 'typer', 'rich', 'grpc'}\n"
        "print(sorted(foreign & {name.split('.')[0] for name in sys.modules}))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
