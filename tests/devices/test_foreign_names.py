"""Names, digests and numbers of files stay data: none of them becomes C++ that is compiled and loaded."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_networks import Network, compiled
from structure_mutations import packed, signed

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.board.virtual.bitfile import read_emulation_bitstream, write_emulation_bitstream
from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.programming import program_board
from bfpga.contract.configuration import ARRAY, KernelConfig
from bfpga.contract.layout import layout
from bfpga.engines.configurations import config_from_dict, config_to_dict
from bfpga.errors import BfpgaError, ConfigurationError, DeviceError, ProgramError
from bfpga.program.file import HEADER, load_program, save_program
from bfpga.vendor.block_design import block_design
from bfpga.vendor.handoff import render_handoff
from bfpga.vendor.overlay_files import write_overlay
from bfpga.vendor.render import render_kernel

TINY = load_accelerator("tiny")


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    """A file that only the attack makes."""
    return tmp_path / "taken"


def attack(taken: Path) -> str:
    """A name that ends the comment it stands in, and brings a function that runs when the library is loaded."""
    return f"tiny\n#ifndef TAKEN\n#define TAKEN\n#include <cstdio>\n{constructor(taken)}\n#endif\n//"


def constructor(taken: Path) -> str:
    """A function that runs when the library is loaded."""
    return f'__attribute__((constructor)) static void taken() {{ fclose(fopen("{taken}", "w")); }}'


def refused(kind: type[BfpgaError], action: Callable[[], Any], *named: object) -> None:
    """The action ends with one sentence that names all of ``named``."""
    with pytest.raises(kind) as caught:
        action()
    text = str(caught.value)
    assert "\n" not in text
    assert all(str(item) in text for item in named), text


def changed_program(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> tuple[Path, Any]:
    """A program file whose header was changed, and samples for it."""
    network = Network(4, 8)
    network.add("MatMul", "x", network.weights(8, 6))
    path = tmp_path / "net.program"
    save_program(replace(compiled(network, tmp_path, TINY.config), digest=TINY.digest), path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts[HEADER])
    change(header["program"])
    members = parts | {HEADER: json.dumps(header).encode()}
    path.write_bytes(packed(signed([*members.items()]), zipfile.ZIP_STORED))  # the digest is right again
    return path, network.samples(1)["x"]


@pytest.mark.parametrize("key", ["accelerator", "digest"])
def test_a_program_file_brings_no_code(tmp_path: Path, taken: Path, key: str) -> None:
    path, sample = changed_program(tmp_path, lambda program: program.update({key: attack(taken)}))
    refused(ProgramError, lambda: bfpga.run(load_program(path), sample, "csim"), path, key, "must be")
    assert not taken.exists()


def test_numbers_of_a_program_file_are_numbers(tmp_path: Path, taken: Path) -> None:
    code = f"Rounding::Rne; {constructor(taken)} static constexpr int rest = 1"
    path, sample = changed_program(tmp_path, lambda program: program["config"].update(weight_words=code))
    refused(ProgramError, lambda: bfpga.run(load_program(path), sample, "csim"), path, "weight_words", "1..65536")
    assert not taken.exists()


def test_an_overlay_brings_no_code(tmp_path: Path, taken: Path) -> None:
    folder = tmp_path / "tiny"
    write_overlay(TINY, folder)
    manifest = json.loads((folder / "overlay.yaml").read_text())
    manifest["accelerator"]["name"] = attack(taken)
    (folder / "overlay.yaml").write_text(json.dumps(manifest))
    refused(ConfigurationError, lambda: bfpga.load(folder, "virtual"), folder / "overlay.yaml", "accelerator.name")
    assert not taken.exists()


def written_bitstream(tmp_path: Path, **changes: Any) -> Path:
    """An emulation bitstream of `tiny` with a description that was changed."""
    description = {
        "kind": ARRAY, "layout": layout(TINY.config.functions), "name": TINY.name, "digest": TINY.digest,
        "configuration": json.loads(json.dumps(config_to_dict(TINY.config))),
    }  # fmt: skip
    path = tmp_path / "tiny.bit"
    write_emulation_bitstream(path, render_handoff(block_design(TINY)), {"accelerator": description | changes})
    return path


@pytest.mark.parametrize("key", ["name", "digest"])
def test_an_emulation_bitstream_brings_no_code(tmp_path: Path, taken: Path, key: str) -> None:
    path = written_bitstream(tmp_path, **{key: attack(taken)})
    with VirtualBoard("zynq7") as board:
        refused(DeviceError, lambda: program_board(board, read_emulation_bitstream(path)), path, "accelerator", key)
    assert not taken.exists()


# Numbers of a kernel


def test_a_configuration_comes_back_from_a_file() -> None:
    for name in ("tiny", "pynq_z2_mixed", "zcu104_cluster"):
        config = load_accelerator(name).config
        assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": "4"}, "columns is '4'; must be a whole number 1..256"),
        ({"columns": True}, "columns is True; must be a whole number"),
        ({"columns": 2.0}, "columns is 2.0"),
        ({"weight_words": 1 << 40}, "weight_words is 1099511627776; must be a whole number 1..65536"),
        ({"parameter_rows": None}, "parameter_rows is None"),
        ({"stream_bits": 48}, "stream_bits is 48; must be one of 32, 64, 128, 256, 512"),
        ({"multiplier": "dsp\n"}, r"multiplier is 'dsp\n'; must be one of dsp, dsp_packed, dsp_quad, shift"),
        ({"functions": ["none", "exec"]}, "functions is ('none', 'exec'); must be a list of which each is one of"),
        ({"functions": "none"}, "functions is 'none'"),
        ({"wide_memory": 1}, "wide_memory is 1; must be true or false"),
        ({"format": {"mantissa_bits": 8}}, "number format: exponent_bits is missing"),
        ({"format": "bfp8"}, "number format is 'bfp8'; must be a section"),
        ({"shift": {"exp_width": 3}}, "shift format: x_width is missing"),
        ({"colums": 4}, "'colums' is unknown; did you mean `columns`?"),
        ({"rows": 3}, "rows is 3; must be a multiple of lanes"),
        ({"multiplier": "shift"}, "shift is missing; shift units have words"),
        ({"shift_columns": 2}, "shift is missing"),
    ],
)
def test_a_wrong_number_is_named(change: dict[str, Any], message: str) -> None:
    values = json.loads(json.dumps(config_to_dict(TINY.config))) | change
    refused(ConfigurationError, lambda: config_from_dict(values), message)


def test_a_configuration_is_checked_wherever_it_is_made() -> None:
    refused(ConfigurationError, lambda: KernelConfig(rows=np.int64(4)), "rows is ")  # type: ignore[arg-type]
    refused(ConfigurationError, lambda: replace(TINY.config, lanes=3), "lanes is 3; must be one of 1, 2, 4")


@pytest.mark.parametrize("name", ["", "Tiny", "9", "a-b", "a b", "a\n", "../a", "a" * 65, "ä"])
def test_kernels_are_rendered_for_names_only(name: str) -> None:
    refused(ConfigurationError, lambda: render_kernel(name, TINY.digest, TINY.config), "name of the kernel is ")
    refused(ConfigurationError, lambda: render_kernel("a", name, TINY.config), "digest of the kernel is ")
