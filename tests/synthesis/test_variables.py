"""Variables that outlive their loop: only what somebody reads is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.synthesis.frontend.kernel import analyse_source

SOURCE = """
#include "bfpga/numeric/types.hpp"
struct Process {
    // Read by nobody; read after the loop; only its lowest byte is read again.
    uint32_t told, counted, wide;
    void run(volatile uint32_t* in, volatile uint32_t* out) {
        counted = 0;
    Words:
        for (int k = 0; k < 64; ++k) {
#pragma HLS PIPELINE II=1
            const uint32_t word = *in;
            told = word;
            wide = word;
            counted += word & 1;
        }
        *out = counted;
        *out = wide & 255;
    }
};
void top(volatile uint32_t* in, volatile uint32_t* out) {
    static Process process;
    process.run(in, out);
}
"""


def test_a_loop_keeps_what_is_read_after_it(tmp_path: Path) -> None:
    (tmp_path / "top.cpp").write_text(SOURCE)
    (loop, *_) = analyse_source(tmp_path / "top.cpp").loops
    kept = {register.name.split("@")[0]: register.width for register in loop.registers}
    assert "told" not in kept
    assert kept["counted"] == 32
    assert kept["wide"] == 8
