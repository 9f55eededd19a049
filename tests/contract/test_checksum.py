"""Checksums of streams: numpy's way against the definition, beat by beat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfpga.contract.checksum import repeated_checksum, stream_checksum


def by_definition(data: bytes, beat_bits: int) -> int:
    total = 0
    for beat in np.frombuffer(data, "<u4").reshape(-1, beat_bits // 32):
        fold = 0
        for word in beat:
            fold ^= int(word)
        total = ((total << 1 | total >> 31) & 0xFFFFFFFF) ^ fold
    return total


beats = st.integers(0, 100)
widths = st.sampled_from([32, 64, 128, 512])


@given(st.data(), beats, widths)
def test_the_checksum_follows_its_definition(data: st.DataObject, count: int, bits: int) -> None:
    stream = data.draw(st.binary(min_size=count * bits // 8, max_size=count * bits // 8))
    assert stream_checksum(stream, bits) == by_definition(stream, bits)


@given(st.data(), st.integers(1, 70), widths)
def test_every_flipped_bit_is_found(data: st.DataObject, count: int, bits: int) -> None:
    stream = bytearray(data.draw(st.binary(min_size=count * bits // 8, max_size=count * bits // 8)))
    before = stream_checksum(stream, bits)
    place = data.draw(st.integers(0, len(stream) * 8 - 1))
    stream[place // 8] ^= 1 << place % 8
    assert stream_checksum(stream, bits) != before


@given(st.integers(1, 40), st.integers(0, 6), st.randoms(use_true_random=False))
def test_a_repeated_stream_needs_one_pass_only(count: int, repeats: int, random: object) -> None:
    stream = bytes(random.randrange(256) for _ in range(8 * count))  # type: ignore[attr-defined]
    assert repeated_checksum(stream_checksum(stream, 64), count, repeats) == stream_checksum(stream * repeats, 64)


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1), st.integers(1, 100), st.integers(0, 40))
def test_damage_to_all_of_an_odd_number_of_repeats_is_found(checksum: int, damage: int, beats: int, half: int) -> None:
    repeats = 2 * half + 1
    assert repeated_checksum(checksum ^ damage, beats, repeats) != repeated_checksum(checksum, beats, repeats)


def test_damage_to_all_of_an_even_number_of_repeats_may_cancel() -> None:
    assert repeated_checksum(5, 64, 2) == repeated_checksum(7, 64, 2)


def test_a_stream_of_broken_beats_is_refused() -> None:
    with pytest.raises(ValueError, match="reshape"):
        stream_checksum(bytes(12), 64)
