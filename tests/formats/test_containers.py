"""Elements in containers of streams and files."""

from __future__ import annotations

import numpy as np
import pytest

from bfpga.formats.containers import pack_elements, unpack_elements


@pytest.mark.parametrize("bits", [4, 8, 16, 32])
@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_elements_round_trip_through_containers(bits: int, count: int) -> None:
    """BFP 2.4: bytes that follow are not read"""
    low = -(1 << (bits - 1))
    values = np.random.default_rng(count).integers(low, -low, count, dtype=np.int64)
    values[0] = low
    packed = pack_elements(values, bits)
    assert len(packed) == -(-count * bits // 8)
    for data in (packed, memoryview(packed), np.frombuffer(packed * 2, np.uint8)):
        assert unpack_elements(data, bits, count).tolist() == values.tolist()
    assert unpack_elements(packed, bits)[:count].tolist() == values.tolist()


def test_containers_are_little_endian_and_four_bits_share_a_byte_low_first() -> None:
    """BFP 2.4"""
    assert pack_elements(np.array([1, -2, 3]), 4) == bytes([0xE1, 0x03])
    assert pack_elements(np.array([0x1234, -1]), 16) == bytes([0x34, 0x12, 0xFF, 0xFF])
    assert pack_elements(np.array([-2]), 32) == bytes([0xFE, 0xFF, 0xFF, 0xFF])
