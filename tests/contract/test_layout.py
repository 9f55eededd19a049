"""The layout: what differs is named, changes the digest, and is refused wherever a file of another layout is opened."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from other_layout import DIFFERENCES, OtherToolkit, run_other_toolkit

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.board.overlays import StagedFiles, find_overlay
from bfpga.contract import layout as contract_layout
from bfpga.contract.arrays.skip_array import SkipArray
from bfpga.contract.checksum import stream_checksum
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, Descriptor, Flag, Operation
from bfpga.contract.layout import VERSION, layout, layout_digest, layout_mismatch
from bfpga.contract.program import ArrayNode
from bfpga.contract.registers import REGISTERS
from bfpga.devices import csim, toolchain
from bfpga.devices.csim import CSimulation
from bfpga.devices.simulated_kernel import load_library
from bfpga.engines.kernel import streams
from bfpga.engines.systolic.shift_words import with_zero
from bfpga.errors import DeviceError, ProgramError, ToolError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat
from bfpga.program.file import HEADER, load_program
from bfpga.program.file import VERSION as PROGRAM_VERSION
from bfpga.vendor.render import library_directory, render_kernel


def changed(*keys: str | int, to: Any = None, drop: bool = False) -> dict[str, Any]:
    """The layout with one value replaced or one key removed."""
    result = copy.deepcopy(layout())
    parent: Any = result
    for key in keys[:-1]:
        parent = parent[key]
    if drop:
        del parent[keys[-1]]
    else:
        parent[keys[-1]] = to
    return result


# Naming what differs


DIFFERENT = {
    "reordered field": (
        changed("descriptor", "fields", to=["flags", "operation", *FIELDS[2:]]),
        "descriptor word 0 is `operation` here and `flags` there; descriptor word 1 is `flags` here and `operation` "
        "there",
    ),
    "field more": (
        changed("descriptor", "fields", to=[*FIELDS, "surplus"]),
        f"descriptor word {len(FIELDS)} is missing here and `surplus` there",
    ),
    "longer descriptor": (
        changed("descriptor", "words", to=96), "`descriptor.words` of the layout is 80 here and 96 there",
    ),
    "enumeration": (changed("enumerations", "Function", "TANH", to=7), "`Function.TANH` is 4 here and 7 there"),
    "member less": (
        changed("enumerations", "Flag", "KEPT", drop=True), "`Flag.KEPT` is 16384 here and missing there",
    ),
    "status bit": (changed("enumerations", "Status", "OVERFLOW", to=8), "`Status.OVERFLOW` is 1 here and 8 there"),
    "moved register": (
        changed("registers", "cycles", "offset", to="0x34"),
        "the offset of register `cycles` is `0x30` here and `0x34` there",
    ),
    "access": (
        changed("registers", "status", "access", to="rw"), "the access of register `status` is `r` here and `rw` there",
    ),
    "beat": (
        changed("beats", "parameter_row", "exponent", to="bits 48..63"),
        "`exponent` of the beat `parameter_row` is `bits 32..47` here and `bits 48..63` there",
    ),
    "order": (
        changed("orders", "activations", to="group pixel word lane"),
        "the order of activations is `group word pixel lane` here and `group pixel word lane` there",
    ),
    "checksum": (changed("checksum", "rotation", to=3), "`checksum.rotation` of the layout is 1 here and 3 there"),
    "version": (changed("version", to=VERSION + 1), f"`version` of the layout is {VERSION} here and {VERSION + 1} the"),
    "section of another kind": (
        changed("descriptor", to=3), "`descriptor.words` of the layout is 80 here and missing there; descriptor word 0",
    ),
    "many": (changed("descriptor", "fields", to=list(FIELDS[1:])), f"and {len(FIELDS) - 6} more differences"),
    "none": (None, "no layout is named there"),
}  # fmt: skip


@pytest.mark.parametrize(("there", "text"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_is_named(there: object, text: str) -> None:
    assert text in str(layout_mismatch(there))


def test_equal_layouts_differ_in_nothing_and_come_back_from_json() -> None:
    assert layout_mismatch(layout()) is None
    assert layout_mismatch(json.loads(json.dumps(layout()))) is None


def test_a_new_function_leaves_kernels_without_it_as_they_were() -> None:
    """A bitstream of the usual functions stays valid; a file that names a function this package lacks does not."""
    assert "GELU" not in layout()["enumerations"]["Function"]
    assert layout_digest() == layout_digest(("none", "tanh")) != layout_digest(("none", "gelu"))
    assert layout_mismatch(layout(("gelu",))) is None


def test_rows_change_nothing_for_a_kernel_without_them() -> None:
    """Issue 37: their operation and their words are named in the layout of kernels with their process alone."""
    assert "ROWS" not in layout()["enumerations"]["Operation"]
    assert layout_digest() != layout_digest(parts=[Operation.ROWS])
    assert layout_mismatch(layout(parts=[Operation.ROWS])) is None
    assert "row_inverse" in layout(parts=[Operation.ROWS])["descriptor"]["shared"]


def test_loaded_tables_change_nothing_for_a_kernel_without_them() -> None:
    assert "TABLE" not in layout()["enumerations"]["Operation"]
    assert layout_digest() != layout_digest(parts=[Operation.TABLE]) != layout_digest(parts=[Operation.ROWS])
    assert layout_mismatch(layout(parts=[Operation.TABLE])) is None


def test_a_function_that_is_missing_is_named() -> None:
    unknown = changed("enumerations", "Function", "LATER", to=30)
    assert "`Function.LATER` is missing here and 30 there" in str(layout_mismatch(unknown))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(layout())) | st.text(max_size=3), inner)
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_whatever_a_file_names_as_layout_is_a_short_text(there: Any) -> None:
    assert len(layout_mismatch(there) or "") < 2000


# Layout and digest


def swapped(fields: Sequence[str]) -> tuple[str, ...]:
    return (fields[1], fields[0], *fields[2:])


PATCHES: dict[str, tuple[str, Any]] = {
    "fields": ("FIELDS", swapped(FIELDS)),
    "shared words": ("SHARED_WORDS", {"most_moves": "chunk_steps"}),
    "words": ("DESCRIPTOR_WORDS", DESCRIPTOR_WORDS + 16),
    "enumerations": ("ENUMERATIONS", contract_layout.ENUMERATIONS[1:]),
    "bits": ("BITS", contract_layout.BITS[1:]),
    "registers": ("REGISTERS", (replace(REGISTERS[0], offset=0x44), *REGISTERS[1:])),
    "beats": ("BEATS", {}),
    "activations": ("ACTIVATION_ORDER", ("lane",)),
    "weights": ("WEIGHT_ORDER", ("lane",)),
    "checksum": ("ROTATION", 3),
    "version": ("VERSION", VERSION + 1),
}


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
def test_every_part_of_the_layout_changes_the_identification(
    patch: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_accelerator("tiny").digest
    monkeypatch.setattr(contract_layout, *patch)
    assert load_accelerator("tiny").digest[:8] != before[:8]


def test_headers_of_different_layouts_do_not_compile_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project of which one part is rendered again after the layout has changed."""
    files = render_kernel("k", "0" * 8, KernelConfig())
    monkeypatch.setattr("bfpga.vendor.render.FIELDS", swapped(FIELDS))
    monkeypatch.setattr(contract_layout, "FIELDS", swapped(FIELDS))
    other = render_kernel("k", "0" * 8, KernelConfig())
    name = "include/bfpga/contract/descriptor.hpp"
    for path, text in {**files, name: other[name]}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    places = ["-I", str(tmp_path / "include"), "-I", str(library_directory())]
    source = str(tmp_path / "src" / "config.hpp")
    with pytest.raises(ToolError, match=r"descriptor\.hpp and config.hpp are of different layouts"):
        toolchain.run_compiler(["-std=c++14", "-DBFPGA_NATIVE_INTEGERS", "-fsyntax-only", *places, source])
    (tmp_path / name).write_text(files[name])
    toolchain.run_compiler(["-std=c++14", "-DBFPGA_NATIVE_INTEGERS", "-fsyntax-only", *places, source])


# The version of what the mapping does not hold

#: Version -> SHA-256 of the bytes of ``packed_streams``.
PACKED = {5: "e0cee9558576854044f8b165336545148adc3453bcbef401010a3d452d074224"}


def packed_streams() -> bytes:
    """Every kind of bytes on the streams, from numbers that need no random generator."""
    narrow = KernelConfig(columns=2, rows=4, lanes=2, format=BlockFormat(mantissa_bits=4))
    shift = KernelConfig(columns=2, rows=4, lanes=2, multiplier="shift", shift=with_zero(ShiftFormat(x_width=8)))
    wide = KernelConfig(columns=3, rows=8, lanes=4)
    skipping = replace(wide, multiplier="dsp_packed", columns=2, array=SkipArray(3, chunk=64))
    # A few words of a descriptor: the mapping holds which fields there are, and in which order.
    data = [Descriptor(**{name: n - 20 for n, name in enumerate(FIELDS)}).to_words()[:8].tobytes()]
    for config in (KernelConfig(columns=2, rows=4, lanes=2), narrow):
        limit = config.format.mantissa_max
        data += [streams.header(-5, config), streams.pack_rows(pattern((3, 5, 3), limit), config)]
        node = layer(pattern((7, 2, 3, 5), limit))
        data += [streams.pack_parameters(node, config, 0, 7), streams.pack_weights(node, config, 0, 7)]
    powers = np.left_shift(1, pattern((7, 1, 2, 5), 3) + 3)
    data.append(streams.pack_weights(layer(pattern((7, 2, 3, 1), 90), groups=7, reuses_taps=True), wide, 0, 7))
    data += [streams.pack_weights(layer(powers, weight_format=name), shift, 0, 7) for name in shift.weight_formats]
    sparse = pattern((7, 3, 3, 5), 90) * (pattern((7, 3, 3, 5), 1) > 0)
    data.append(streams.pack_weights(layer(sparse), skipping, 0, 7))
    joined = b"".join(data)
    return joined + stream_checksum(streams.pad_to(joined, 8), 64).to_bytes(4, "little")


def pattern(shape: tuple[int, ...], limit: int) -> np.ndarray:
    """Whole numbers from -limit to limit in an order without a short period."""
    return (np.arange(np.prod(shape)).reshape(shape) ** 2 * 7 + np.arange(shape[-1])) % (2 * limit + 1) - limit


def layer(weights: np.ndarray, **fields: Any) -> ArrayNode:
    count = len(weights)
    return ArrayNode(
        "layer", "gemm", ("x",), "y", count, weights=weights, bias=np.arange(count) * 999 - 3000,
        weight_exponents=np.arange(count) - 9, **fields,
    )  # fmt: skip


def test_packed_bytes_change_with_the_version_only() -> None:
    found = hashlib.sha256(packed_streams()).hexdigest()
    assert PACKED.get(VERSION) == found, (
        "the bytes on the streams are others than before: raise VERSION of bfpga.contract.layout, so that kernels of "
        f"the earlier bytes are refused, and add {{VERSION: {found!r}}} to PACKED"
    )


def test_words_that_fields_share_belong_to_the_operation() -> None:
    """A GEMM on a sparse cluster says more than a descriptor has words; one on a skip array has its own there."""
    skips = Descriptor(operation=Operation.GEMM, chunk_steps=9, chunk_buffers=3, entry_words=-1)
    cluster = Descriptor(Operation.GEMM, Flag.CLUSTER, map_groups=9, most_moves=3, work_difference=-1)
    for descriptor in (skips, cluster):
        assert Descriptor.from_words(descriptor.to_words()) == descriptor
    assert skips.to_words()[2:].tolist() == cluster.to_words()[2:].tolist()
    other = replace(cluster, flags=0).to_words()
    assert other.tolist() == Descriptor(operation=Operation.GEMM).to_words().tolist()


# Files of another toolkit


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> OtherToolkit:
    return run_other_toolkit(tmp_path_factory.mktemp("other"))


def assert_named(failure: pytest.ExceptionInfo[Exception]) -> str:
    """Every difference is in the message."""
    text = str(failure.value)
    for difference in DIFFERENCES:
        assert difference in text, text
    return text


def test_a_kernel_of_another_layout_has_another_identification(other: OtherToolkit) -> None:
    assert other.digest[:8] != load_accelerator("tiny").digest[:8]


def test_a_program_of_another_layout_is_refused(other: OtherToolkit) -> None:
    with pytest.raises(ProgramError) as failure:
        load_program(other.program)
    assert "Compile the network again" in assert_named(failure)


def test_a_program_without_a_layout_is_refused(other: OtherToolkit, tmp_path: Path) -> None:
    header = {"magic": "bfpga program", "version": PROGRAM_VERSION, "program": {}}
    with zipfile.ZipFile(tmp_path / "net.program", "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
    with pytest.raises(ProgramError, match="no layout is named there"):
        load_program(tmp_path / "net.program")


def test_a_compiled_kernel_of_another_layout_is_refused(
    other: OtherToolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache holds it under the name that the kernel of this layout would have."""
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    monkeypatch.setattr(csim, "_compile", lambda *arguments: shutil.copy(other.library, arguments[-2]))
    tiny = load_accelerator("tiny")
    with pytest.raises(DeviceError) as failure:
        CSimulation(tiny.config, "native", tiny.name, tiny.digest)
    assert "the kernel is compiled again" in assert_named(failure)


def test_a_compiled_kernel_without_a_layout_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "old.cpp"
    source.write_text('extern "C" unsigned bfpga_identification() { return 1; }')
    toolchain.run_compiler(["-shared", "-fPIC", str(source), "-o", str(tmp_path / "old.so")])
    with pytest.raises(DeviceError, match=r"old\.so: the compiled kernel is of another layout.*no layout is named"):
        load_library(tmp_path / "old.so")


@pytest.mark.parametrize("target", ["virtual", "board"])
def test_an_overlay_of_another_layout_is_refused(other: OtherToolkit, target: str) -> None:
    with pytest.raises(DeviceError) as failure:
        bfpga.load(other.overlay, target)
    assert "`bfpga overlay tiny`" in assert_named(failure)


@pytest.mark.parametrize("target", ["virtual", "board"])
def test_a_bitstream_of_another_layout_is_refused(other: OtherToolkit, target: str) -> None:
    with pytest.raises(DeviceError) as failure:
        bfpga.load(other.built, target)
    assert "`bfpga build tiny`" in assert_named(failure)


def test_a_virtual_board_refuses_a_bitstream_of_another_layout(
    other: OtherToolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The overlay is of this layout, but what PYNQ loads is not."""
    pytest.importorskip("pynq")
    mine = find_overlay("tiny")
    staged = StagedFiles(other.bitstream, other.bitstream.with_suffix(".hwh"))
    shutil.copy(mine.handoff, tmp_path / staged.handoff.name)
    shutil.copy(staged.bitstream, tmp_path)
    moved = StagedFiles(tmp_path / staged.bitstream.name, tmp_path / staged.handoff.name)
    monkeypatch.setattr("bfpga.board.overlay.staged_files", lambda *arguments: moved)
    with pytest.raises(DeviceError) as failure:
        bfpga.load(mine.directory, "virtual")
    assert "the emulation bitstream holds a kernel of another layout" in assert_named(failure)
