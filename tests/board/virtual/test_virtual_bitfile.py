"""Emulation bitstreams: PYNQ's own parsers accept them, both byte orders are read, anything else is refused clearly."""

from __future__ import annotations

import importlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfpga.board.virtual.bitfile import (
    LARGEST_CONTENT,
    MAGIC,
    byte_swapped,
    decode_emulation_bitstream,
    read_emulation_bitstream,
    write_emulation_bitstream,
)
from bfpga.errors import DeviceError

pytestmark = pytest.mark.board

HANDOFF = (
    '<?xml version="1.0"?><EDKSYSTEM><SYSTEMINFO ARCH="zynq" DEVICE="7z020" NAME="adder" PACKAGE="clg400" '
    'SPEEDGRADE="-1"/></EDKSYSTEM>'
)
KERNELS = {"adder_0": {"kind": "adder", "increment": 3}}


@pytest.fixture
def bitfile(tmp_path: Path) -> Path:
    path = tmp_path / "adder.bit"
    write_emulation_bitstream(path, HANDOFF, KERNELS)
    return path


def swapped_words(data: bytes) -> bytes:
    return b"".join(data[start : start + 4][::-1] for start in range(0, len(data), 4))


def test_what_was_written_is_read(bitfile: Path) -> None:
    content = read_emulation_bitstream(bitfile)
    assert content.handoff == HANDOFF
    assert content.kernels == KERNELS


def test_header_and_conversion_of_pynq_itself(bitfile: Path) -> None:
    """The header that PYNQ strips names design and part; its `.bin` is read as well as the `.bit`."""
    pytest.importorskip("pynq")
    embedded: Any = importlib.import_module("pynq.pl_server.embedded_device")
    header = embedded.parse_bit_header(bitfile.read_bytes())
    assert (header["design"], header["part"]) == ("adder", "xc7z020clg400-1")
    assert int(header["length"]) == len(header["data"])
    assert len(header["data"]) % 4 == 0
    firmware = embedded.bit2bin(bitfile.read_bytes())
    assert not firmware.startswith(MAGIC)
    assert decode_emulation_bitstream(firmware).kernels == KERNELS


def test_the_same_content_is_the_same_file(bitfile: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.bit"
    write_emulation_bitstream(again, HANDOFF, KERNELS)
    assert again.read_bytes() == bitfile.read_bytes()


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="<&]", exclude_categories=("Cc", "Cs", "Cn", "Co"))),
    st.dictionaries(st.text(max_size=8), st.dictionaries(st.text(max_size=8), st.integers()), max_size=3),
)
def test_every_content_survives_both_byte_orders(
    tmp_path_factory: pytest.TempPathFactory, text: str, kernels: dict[str, dict[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("bit") / "any.bit"
    handoff = f"<EDKSYSTEM><!-- {text.replace('-', '')} --></EDKSYSTEM>"
    write_emulation_bitstream(path, handoff, kernels)
    data = path.read_bytes()
    payload = data[data.index(MAGIC) :]
    assert len(payload) % 4 == 0
    assert byte_swapped(payload) == swapped_words(payload)
    for form in (data, payload, swapped_words(payload)):
        content = decode_emulation_bitstream(form)
        assert (content.handoff, content.kernels) == (handoff, kernels)


@given(st.data())
def test_no_flipped_bit_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever bit flips in magic, words or JSON: the reader refuses the file or reads the same content."""
    path = tmp_path_factory.mktemp("bit") / "any.bit"
    write_emulation_bitstream(path, HANDOFF, KERNELS)
    content = bytearray(path.read_bytes())
    start = content.index(MAGIC)
    position = data.draw(st.integers(start, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        assert decode_emulation_bitstream(bytes(content)).kernels == KERNELS
    except DeviceError:
        return
    assert position >= len(content) - 3, "only a flipped bit of the padding may pass"


def test_a_small_file_cannot_fill_the_memory() -> None:
    body = zlib.compress(bytes(LARGEST_CONTENT + 1))
    data = MAGIC + struct.pack(">III", 1, len(body), zlib.crc32(body)) + body
    assert len(data) < 1 << 17
    with pytest.raises(DeviceError, match="unpacks to more than 64 MiB"):
        decode_emulation_bitstream(data)


@pytest.mark.parametrize(
    "content", [{"handoff": 1, "kernels": {}}, {"handoff": "", "kernels": []}, {"handoff": "", "kernels": {"a": "b"}}]
)
def test_contents_have_their_types(content: dict[str, Any]) -> None:
    body = zlib.compress(json.dumps(content).encode())
    with pytest.raises(DeviceError, match="must hold a text `handoff` and a section for each kernel"):
        decode_emulation_bitstream(MAGIC + struct.pack(">III", 1, len(body), zlib.crc32(body)) + body)


@given(st.data())
def test_no_truncated_file_is_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("bit") / "any.bit"
    write_emulation_bitstream(path, HANDOFF, KERNELS)
    content = path.read_bytes()
    with pytest.raises(DeviceError):
        decode_emulation_bitstream(content[: data.draw(st.integers(0, len(content) - 1))])


def real_bitstream(payload: bytes) -> bytes:
    """A container around configuration data: dummy words, then the sync word."""
    fields = [("a", b"base_wrapper;Version=2022.1\0"), ("b", b"7z020clg400\0"), ("c", b"2022/10/1\0"), ("d", b"1:2\0")]
    header = bytes.fromhex("00090ff00ff00ff00ff0000001")
    for tag, value in fields:
        header += tag.encode() + len(value).to_bytes(2, "big") + value
    return header + b"e" + len(payload).to_bytes(4, "big") + payload


def test_a_bitstream_of_real_hardware_is_named_as_such() -> None:
    payload = b"\xff" * 64 + bytes.fromhex("000000bb11220044ffffffffaa995566") + bytes(400)
    with pytest.raises(DeviceError, match=r"real hardware \(design base_wrapper, part 7z020clg400\)"):
        decode_emulation_bitstream(real_bitstream(payload), "base.bit")
    with pytest.raises(DeviceError, match="real hardware"):
        decode_emulation_bitstream(swapped_words(payload), "base.bin")


@pytest.mark.parametrize("content", [b"", b"PK\3\4 a zip archive", bytes(100), real_bitstream(bytes(64))])
def test_anything_else_is_not_a_bitstream(content: bytes) -> None:
    with pytest.raises(DeviceError, match="not a bitstream"):
        decode_emulation_bitstream(content, "file.bit")


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="cannot read the bitstream: No such file"):
        read_emulation_bitstream(tmp_path / "missing.bit")
    with pytest.raises(DeviceError, match="cannot write there: No such file"):
        write_emulation_bitstream(tmp_path / "missing" / "x.bit", HANDOFF, KERNELS)
    with pytest.raises(DeviceError, match="not XML"):
        write_emulation_bitstream(tmp_path / "x.bit", "design", KERNELS)
    with pytest.raises(DeviceError, match="not JSON"):
        write_emulation_bitstream(tmp_path / "x.bit", HANDOFF, {"k": {"value": object()}})
    assert list(tmp_path.iterdir()) == []
