"""Loops as a user's own process may have them: each has a row with the right interval, or one clear error."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

from bfpga.cli import main
from bfpga.errors import ToolError
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.dependences import Dependences

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.synthesis.frontend import kernel
from bfpga.synthesis.schedule import Clock, schedule_loop

CLOCK = Clock(10.0, 2.7)
HEAD = """\
#include "bfpga/ports/stream.hpp"
using bfpga::int_t;
using bfpga::uint_t;
using Words = bfpga::stream<uint_t<16>>;
"""
#: A copy of a loop is another function's, so that LLVM gives the blocks of both the same names.
ALTERNATE = """
void NAME(Words& in, Words& out) {
    bool up = false;
NAME:
    for (int n = 0; n < COUNT; ++n) {
#pragma HLS PRAGMA
        out.write(up ? static_cast<uint_t<16>>(in.read() + 1) : static_cast<uint_t<16>>(in.read() - 1));
        up = !up;
    }
}
"""
#: One of two streams is chosen: LLVM makes one access of the two.
CHOICE = """
void choice(Words& first, Words& second, Words& out) {
Choice:
    for (int n = 0; n < 256; ++n) {
#pragma HLS PIPELINE II=1
        out.write(n % 4 == 1 ? first.read() : second.read());
    }
}
"""
#: Twelve DSP slices: Vitis HLS takes a product of five stages whatever the clock.
PRODUCT = """
void product(bfpga::stream<uint_t<64>>& in, bfpga::stream<uint_t<64>>& out, int count) {
    uint_t<64> all = 1;
Product:
    for (int n = 0; n < count; ++n) {
#pragma HLS PIPELINE II=1
        all = static_cast<uint_t<64>>(all * in.read());
    }
    out.write(all);
}
"""
#: Four words beside each other an iteration, each in a bank that is known.
BANKS = """
void banksNAME(Words& in, Words& out) {
    static uint_t<16> words[256];
#pragma HLS KIND variable=words cyclic factor=FACTOR dim=1
WriteNAME:
    for (int i = 0; i < 64; ++i) {
#pragma HLS PIPELINE II=1
        const uint_t<16> word = in.read();
        for (int k = 0; k < 4; ++k) {
            words[4 * i + k] = static_cast<uint_t<16>>(word + k);
        }
    }
ReadNAME:
    for (int i = 0; i < 64; ++i) {
#pragma HLS PIPELINE II=1
        uint_t<16> sum = 0;
        for (int k = 0; k < 4; ++k) {
            sum = static_cast<uint_t<16>>(sum + words[4 * i + k]);
        }
        out.write(sum);
    }
}
"""
#: A word that was written comes again after so many iterations, says its author.
APART = """
void apartCOUNT(Words& in, Words& out) {
    static uint_t<16> words[256];
#pragma HLS DEPENDENCE variable=words type=inter direction=RAW distance=COUNT dependent=true
ApartCOUNT:
    for (int i = 0; i < 64; ++i) {
#pragma HLS PIPELINE II=1
        const uint_t<8> at = static_cast<uint_t<8>>(in.read());
        const uint_t<16> word = words[at];
        words[at] = static_cast<uint_t<16>>(word * 3 + 1);
        out.write(word);
    }
}
"""
#: Each row is made of the row before; a word comes again after as many iterations as a row has words.
ROWS = """
void rowsCOUNT(Words& in, Words& out) {
    static uint_t<16> rows[16][COUNT];
    for (int r = 1; r < 16; ++r) {
    RowsCOUNT:
        for (int c = 0; c < COUNT; ++c) {
#pragma HLS PIPELINE II=1
            rows[r][c] = static_cast<uint_t<16>>(rows[r - 1][c] * 3 + in.read());
        }
    }
    out.write(rows[15][0]);
}
"""
#: The same of an index that goes around, and of a place that is so far behind it.
AROUND = """
void aroundCOUNT(Words& in, Words& out) {
    static uint_t<16> words[256];
    uint_t<8> at = 0;
AroundCOUNT:
    for (int n = 0; n < 1000; ++n) {
#pragma HLS PIPELINE II=1
        words[at] = static_cast<uint_t<16>>(words[static_cast<uint_t<8>>(at + 256 - COUNT)] * 3 + in.read());
        at = static_cast<uint_t<8>>(at + 1);
    }
    out.write(words[0]);
}
"""
#: No stream of hardware is one in this iteration and another in the next.
MOVING = """
void moving(Words& first, Words& second, Words& out) {
    Words* from = &first;
Moving:
    for (int n = 0; n < 256; ++n) {
#pragma HLS PIPELINE II=1
        const uint_t<16> word = from->read();
        from = word == 3 ? &second : from;
        out.write(word);
    }
}
"""
NESTED = """
void nested(volatile int* out) {
Outer:
    for (int n = 0; n < 100; ++n) {
#pragma HLS PIPELINE II=4
    Inner:
        for (int k = 0; k < 4; ++k) {
#pragma HLS PIPELINE II=1
            *out = k;
        }
    }
}
"""


def alternate(name: str, count: int, pragma: str) -> str:
    return ALTERNATE.replace("NAME", name).replace("COUNT", str(count)).replace("PRAGMA", pragma)


def banks(name: str, kind: str, factor: int) -> str:
    return BANKS.replace("NAME", name).replace("KIND", kind).replace("FACTOR", str(factor))


#: Functions of one source, so that clang runs once.
CODE = "".join((
    HEAD, alternate("Kept", 256, "PIPELINE II=1"), alternate("Unrolled", 4, "UNROLL"), CHOICE, PRODUCT,
    banks("Two", "ARRAY_PARTITION", 2), banks("Four", "ARRAY_PARTITION", 4), banks("Side", "ARRAY_RESHAPE", 4),
    *(APART.replace("COUNT", str(distance)) for distance in (1, 2, 4)),
    *(code.replace("COUNT", str(count)) for code in (ROWS, AROUND) for count in (1, 2, 32)),
))  # fmt: skip


def loops_of(code: str) -> dict[str, LoopBody]:
    """The loops of a source by their labels, and what is outside of them."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "code.cpp"
        source.write_text(code)
        return {loop.name: loop for loop in kernel.analyse_source(source).loops}


@functools.cache
def loops() -> dict[str, LoopBody]:
    return loops_of(CODE)


def interval(name: str) -> int:
    return schedule_loop(loops()[name], "xc7z020clg400-1", CLOCK).interval


def line_of(text: str, code: str) -> int:
    """First line of a source that contains a text."""
    return next(number for number, line in enumerate(code.splitlines(), 1) if text in line)


def test_a_loop_stays_where_another_function_unrolls_a_block_of_the_same_name() -> None:
    assert interval("Kept") == 1
    assert "Unrolled" not in loops()


def test_a_pipelined_loop_without_a_row_is_an_error_that_names_it() -> None:
    line = line_of("II=1", HEAD + NESTED)
    with pytest.raises(ToolError, match=rf"^code\.cpp:{line}: the pipelined loop Inner is no loop of its own"):
        loops_of(HEAD + NESTED)


def test_the_gate_fails_on_a_pipelined_loop_without_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = {"src/store.cpp": NESTED}
    monkeypatch.setattr(kernel, "kernel_files", lambda _: code)
    monkeypatch.setattr(kernel, "sources_by_ip", lambda _: {"store": "src/store.cpp"})
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    assert main(["synthesize", "tiny", "--check", "--loop", "Outer", "--no-count"]) != 0
    assert "store.cpp:8: the pipelined loop Inner is no loop of its own" in " ".join(capsys.readouterr().err.split())


def test_a_read_of_one_of_two_streams_is_one_of_each_under_its_condition() -> None:
    body = loops()["Choice"]
    enables = [body.operations[stream.accesses[0]].operands[0] for stream in body.streams if stream.name != "out"]
    assert sorted((stream.name, len(stream.accesses)) for stream in body.streams) == [
        ("first", 1), ("out", 1), ("second", 1)
    ]  # fmt: skip
    assert len(enables) == 2
    assert Dependences(body).predicates.exclusive(*enables)
    assert interval("Choice") == 1


def test_a_stream_that_changes_between_iterations_is_an_error_with_its_line() -> None:
    line = line_of("from->read()", HEAD + MOVING)
    with pytest.raises(ToolError, match=rf"^code\.cpp:{line}: Moving has no hardware here: .* moves from iteration"):
        loops_of(HEAD + MOVING)


def test_a_carried_product_of_64_bits_is_a_multiplier_of_five_stages() -> None:
    assert interval("Product") == 5


@pytest.mark.parametrize(("name", "accesses"), [("Two", 2), ("Four", 1), ("Side", 1)])
def test_words_beside_each_other_are_in_banks_that_are_known(name: str, accesses: int) -> None:
    for access in ("Write", "Read"):
        memories = loops()[access + name].memories
        assert {len(memory.accesses) for memory in memories} == {accesses}
        assert len(memories) == 4 // accesses
        assert interval(access + name) == 1


@pytest.mark.parametrize(("distance", "expected"), [(1, 3), (2, 2), (4, 1)])
def test_a_stated_distance_leaves_a_word_so_many_iterations(distance: int, expected: int) -> None:
    assert interval(f"Apart{distance}") == expected


@pytest.mark.parametrize(("behind", "expected"), [(1, 3), (2, 2), (32, 1)])
def test_a_word_of_the_row_before_or_of_a_ring_comes_again_after_iterations_that_are_known(
    behind: int, expected: int
) -> None:
    assert (interval(f"Rows{behind}"), interval(f"Around{behind}")) == (expected, expected)
