"""A variable that goes round a loop has one register, and another one where its old word is still needed."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from ip_simulation import SimulatedIp
from process_designs import TINY
from verilog_simulation import missing_tools

from bfpga.accelerator.loader import load_accelerator
from bfpga.rtl.ip import IpVerilog, ip_verilog
from bfpga.rtl.phis import SharedPhis
from bfpga.vendor.kernel_ips import KernelIp, StreamPort
from bfpga.vendor.render import kernel_sources

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

PORTS = (StreamPort("words", False, 32, False), StreamPort("results", True, 32, False))
IP = KernelIp("carried", "carried", "carried", "src/carried.cpp", False, PORTS)
#: `total` is one variable. What `sum` was before is used after it has changed.
SOURCE = """
#include "bfpga/ports/stream.hpp"
void carried(bfpga::stream<uint32_t>& words, bfpga::stream<uint32_t>& results) {
    bool more = true;
    uint32_t total = 7, sum = 1, before = 0;
    while (more) {
        const uint32_t word = words.read();
        const uint32_t old = sum;
        more = (word >> 31) == 0;
        if ((word & 1u) != 0) {
            uint32_t n = 0;
            bool last = false;
        Add:
            while (!last) {
#pragma HLS PIPELINE II = 1
                const uint32_t next = words.read();
                total = total * 3u + next;
                sum += next;
                last = n == 2;
                ++n;
            }
        } else if ((word & 2u) != 0) {
            sum = before;
        }
        results.write(total);
        results.write(sum);
        results.write(old);
        before = old;
    }
}
"""
WORD = (1 << 32) - 1


def meaning(words: Sequence[int]) -> list[int]:
    left, results = list(words), []
    while left:
        total, total_sum, before, more = 7, 1, 0, True
        while more and left:
            word = left.pop(0)
            old, more = total_sum, word >> 31 == 0
            if word & 1:
                for _ in range(3):
                    total, total_sum = (total * 3 + left[0]) & WORD, (total_sum + left.pop(0)) & WORD
            elif word & 2:
                total_sum = before
            results += [total, total_sum, old]
            before = old
    return results


def words() -> list[int]:
    generator = random.Random(9)
    found = []
    for _ in range(200):
        word = generator.getrandbits(2) | (generator.random() < 0.1) << 31
        found += [word, *(generator.getrandbits(32) for _ in range(3 * (word & 1)))]
    return [*found, 1 << 31]


def verilog() -> IpVerilog:
    return ip_verilog(load_accelerator(TINY), IP, kernel_sources({IP.source: SOURCE}))


def results(made: IpVerilog, directory: Path) -> list[int]:
    expected = meaning(words())
    simulated = SimulatedIp(made, directory)
    return simulated.run({"words": words()}, {"results": len(expected)}, 3, 0.2, 0.2).beats["results"]


def registers(made: IpVerilog) -> int:
    """Bits that the bodies share."""
    return sum(int(high) + 1 for high in re.findall(r"^reg \[(\d+):0\] shared_", made.text, re.MULTILINE))


def test_words_are_those_of_the_code(tmp_path: Path) -> None:
    assert results(verilog(), tmp_path) == meaning(words())


def test_a_variable_has_one_register(monkeypatch: pytest.MonkeyPatch) -> None:
    """A phi at the outer loop, one in the pipelined loop, one behind the condition: two registers less."""
    joined = registers(verilog())
    monkeypatch.setattr(SharedPhis, "groups", lambda self, widths: {phi: [phi] for phi in widths})
    assert joined <= registers(verilog()) - 2 * 32


def test_a_word_that_is_still_needed_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Joined in spite of that, phis lose words."""
    monkeypatch.setattr(SharedPhis, "_conflicting", lambda self: iter(()))
    assert results(verilog(), tmp_path) != meaning(words())
