"""Bits of a memory's words that carry nothing are not stored, and no other is left out."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from effort import some_of
from ip_simulation import SimulatedIp
from process_designs import TINY
from verilog_simulation import missing_tools

from bfpga.accelerator.loader import load_accelerator
from bfpga.rtl import memories
from bfpga.rtl.ip import ip_verilog
from bfpga.rtl.stored_bits import stored_bits
from bfpga.rtl.words import ONE, ZERO, Word
from bfpga.vendor.kernel_ips import KernelIp, StreamPort
from bfpga.vendor.render import kernel_sources

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

SOURCE = Path(__file__).with_name("recorded.cpp")
PORTS = (StreamPort("words", False, 32, False), StreamPort("results", True, 32, False))
IP = KernelIp("recorded", "recorded", "recorded", "src/recorded.cpp", False, PORTS)
#: First bits of the fields of a structure, as a C++ compiler for x86 places them.
FLAG, VALUE, UNREAD, AGAIN, KIND, FIRST, WIDE = 0, 32, 64, 80, 88, 96, 128
SIGN, WIDE_SIGN = VALUE + 17, WIDE + 8
WORDS = 400


def commands() -> list[int]:
    """Half of them write; some end a call, so the last one, after which no pipeline waits for more."""
    generator = random.Random(5)
    found = [generator.getrandbits(30) for _ in range(WORDS)]
    return [word | (generator.random() < 0.5) << 30 | (generator.random() < 0.1) << 31 for word in found] + [1 << 31]


def meaning(words: Sequence[int]) -> list[int]:
    """What the process writes."""
    entries, results = [(0, 0, 0, 5, 3, 0)] * 16, []
    for word in words:
        flag, value, again, kind, first, wide = entries[word & 15]
        results += [flag | again << 1 | kind << 2 | first << 10, value & 0xFFFFFFFF, wide & 0xFFFFFFFF]
        if word >> 30 & 1:
            number = word >> 5 & 0x3FFFF
            written = word >> 4 & 1
            signed = word - (word >> 31 << 32)
            entries[word & 15] = (written, number - (number >> 17 << 18), written, 5, 0, signed >> 23)
    return results


def results(directory: Path) -> list[int]:
    """What its Verilog writes."""
    made = ip_verilog(load_accelerator(TINY), IP, kernel_sources({IP.source: SOURCE.read_text()}))
    done = SimulatedIp(made, directory).run({"words": commands()}, {"results": 3 * WORDS + 3})
    return done.beats["results"]


@functools.cache
def word() -> Word:
    """What is stored of a word of the memory."""
    found: list[Word] = []

    def seen(*given):  # type: ignore[no-untyped-def]
        found.extend(stored_bits(*given))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memories, "stored_bits", seen)
        ip_verilog(load_accelerator(TINY), IP, kernel_sources({IP.source: SOURCE.read_text()}))
    (only,) = found
    return only


def test_a_word_has_the_bits_of_its_fields_that_are_read_and_no_copies() -> None:
    assert word().stored == (FLAG, *range(VALUE, VALUE + 18), FIRST, *range(WIDE, WIDE + 9))


def test_bits_that_are_not_stored_are_constants_or_copies() -> None:
    sources = word().sources
    # What reads a number of 18 bits leaves the others of its 32 alone; those of an `int` are all read.
    assert set(sources[SIGN + 1 : VALUE + 32]) == {ZERO}
    assert set(sources[WIDE_SIGN : WIDE + 32]) == {WIDE_SIGN}
    assert set(sources[UNREAD : UNREAD + 16]) == {ZERO}
    assert sources[AGAIN] == FLAG
    assert [sources[KIND + bit] for bit in range(8)] == [ONE, ZERO, ONE, *[ZERO] * 5]
    # Both are 1 at power-on, and 0 in all that is written.
    assert sources[FIRST : FIRST + 3] == (FIRST, FIRST, ZERO)


def test_a_process_means_in_verilog_what_it_means_in_python(tmp_path: Path) -> None:
    assert results(tmp_path) == meaning(commands())


@pytest.mark.parametrize("bit", some_of((FLAG, VALUE, SIGN, FIRST, WIDE, WIDE_SIGN), SIGN))
def test_every_stored_bit_is_needed(bit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the Verilog writes something else."""
    without = Word(tuple(ZERO if source == bit else source for source in word().sources))
    monkeypatch.setattr(memories, "stored_bits", lambda *_: [without])
    assert results(tmp_path) != meaning(commands())


def test_a_word_is_put_together_of_what_is_stored() -> None:
    """Runs, copies of a sign, copies of single bits, constants."""
    narrow = Word((0, 1, 1, ONE, 4, 5, 6, 6, 6, ZERO, 0))
    assert narrow.stored == (0, 1, 4, 5, 6)
    assert narrow.packed(0b1_0000_1010_1010) == 0b01010
    assert narrow.packed_text("d") == "{d[6:4], d[1:0]}"
    assert narrow.text("w") == "{w[0], 1'b0, {2{w[4]}}, w[4:2], 1'b1, w[1], w[1:0]}"
    assert Word.whole(8).text("w") == Word.whole(8).packed_text("w") == "w"
