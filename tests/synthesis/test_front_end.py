"""From C++ with HLS pragmas to the graph of its pipelined loops."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

from bfpga.errors import ToolError
from bfpga.synthesis.body import LoopBody, Opcode, Waiver
from bfpga.synthesis.frontend.annotate import annotate
from bfpga.synthesis.frontend.cfg import natural_loops
from bfpga.synthesis.frontend.ir import Block, Function, Instruction
from bfpga.synthesis.frontend.kernel import analyse_source
from bfpga.synthesis.frontend.loops import bindings
from bfpga.synthesis.frontend.region import Region
from bfpga.vendor.render import library_directory

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")

_SOURCE = """\
#include "bfpga/ports/stream.hpp"
using bfpga::int_t;
using bfpga::uint_t;
struct State {
    int_t<11> address;
    int_t<5> bank;
    int_t<24> sum[4];
    int_t<8> cell[3][64][2];
    State() {
#pragma HLS ARRAY_PARTITION variable=sum complete dim=0
#pragma HLS ARRAY_PARTITION variable=cell complete dim=1
#pragma HLS ARRAY_RESHAPE variable=cell complete dim=3
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell type=inter false
    }
};
void top(bfpga::stream<uint_t<16>>& input, bfpga::stream<uint_t<16>>& output, int count) {
    static State state;
    static const signed char step[64] = {1, 2, 3};
    static const signed char last[64] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
Sum:
    for (int n = 0; n < count; ++n) {
#pragma HLS PIPELINE II=1
        const uint_t<16> word = input.read();
        state.address = static_cast<int_t<11>>(state.address + step[n & 63] + last[n & 63]);
        for (int row = 0; row < 4; ++row) {
#pragma HLS UNROLL
            state.sum[row] = static_cast<int_t<24>>(state.sum[row] + static_cast<int_t<8>>(word >> row));
        }
    }
Copy:
    for (int n = 0; n < count; ++n) {
#pragma HLS PIPELINE II=2
        const int bank = n & 1;
        const int_t<8> low = state.cell[bank][n & 63][0];
        const int_t<8> high = state.cell[bank][n & 63][1];
        state.cell[2][n & 63][0] = high;
        state.cell[2][n & 63][1] = low;
        if (low > 3) {
            output.write(static_cast<uint_t<16>>(low));
        }
    }
}
"""


@functools.cache
def loops() -> dict[str, LoopBody]:
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "code.cpp"
        source.write_text(_SOURCE)
        return {loop.name: loop for loop in analyse_source(source).loops}


def test_loops_have_their_labels_places_and_stated_intervals() -> None:
    assert [(loop.name, loop.stated_interval) for loop in loops().values() if loop.stated_interval] == [
        ("Sum", 1),
        ("Copy", 2),
    ]
    line = _SOURCE.splitlines().index("#pragma HLS PIPELINE II=1") + 1
    assert str(loops()["Sum"].place) == f"code.cpp:{line}"


def test_registers_are_as_wide_as_their_types() -> None:
    widths = {register.name: register.width for register in loops()["Sum"].registers}
    assert widths["address"] == 11
    assert [widths[f"sum[{row}]"] for row in range(4)] == [24] * 4
    assert "bank" not in widths


def test_inner_loops_are_unrolled_and_operations_name_their_lines() -> None:
    body = loops()["Sum"]
    sums = [o for o in body.operations if o.opcode is Opcode.ADD and o.width == 24]
    assert len(sums) == 4
    line = next(n for n, text in enumerate(_SOURCE.splitlines(), 1) if "state.sum[row] =" in text)
    assert {(o.place.file, o.place.line) for o in sums if o.place} == {("code.cpp", line)}


def test_partitioned_and_reshaped_arrays_are_banks_of_words() -> None:
    memories = {memory.name: memory for memory in loops()["Copy"].memories}
    assert sorted(memories) == ["cell[0]", "cell[1]", "cell[2]"]
    assert {(m.words, m.width, m.ports, m.implementation) for m in memories.values()} == {(64, 16, "ram_s2p", "bram")}
    assert [len(memories[f"cell[{bank}]"].accesses) for bank in range(3)] == [1, 1, 1]


def test_a_table_that_ends_in_zeros_has_all_its_words() -> None:
    """clang writes it as a structure of what is before the zeros and of the zeros."""
    tables = {table.initial[:4]: table for table in loops()["Sum"].memories}
    assert {begin: (table.words, len(table.initial)) for begin, table in tables.items()} == {
        (1, 2, 3, 0): (64, 64), (5, 6, 7, 8): (64, 64)
    }  # fmt: skip


def test_of_several_bindings_of_one_name_the_nearest_counts() -> None:
    header = "bfpga/array/lane_multiplier.hpp"
    text = (library_directory() / header).read_text(encoding="utf-8")
    products = [line for line, code in enumerate(text.split("\n"), 1) if "product = static_cast" in code]
    found = bindings({header: text})
    assert [found[header, line] for line in products] == ["dsp", "dsp", "fabric"]  # PixelPair, LaneDsp, LaneLut


def test_waivers_are_of_the_memory_that_the_pragma_names() -> None:
    for memory in loops()["Copy"].memories:
        assert [(waiver.kind, waiver.direction) for waiver in memory.waivers] == [("inter", "")]
        assert isinstance(memory.waivers[0], Waiver)
        assert memory.waivers[0].place is not None
        assert memory.waivers[0].place.file == "code.cpp"


def test_streams_are_accessed_once_an_iteration_under_their_condition() -> None:
    reads, writes = loops()["Sum"], loops()["Copy"]
    assert [(s.name, s.width, len(s.accesses)) for s in reads.streams] == [("input", 16, 1)]
    assert [(s.name, s.width, len(s.accesses)) for s in writes.streams] == [("output", 16, 1)]
    write = writes.operations[writes.streams[0].accesses[0]]
    enable = writes.operations[write.operands[1]]
    assert enable.opcode is not Opcode.CONSTANT


def test_an_inner_loop_without_bound_is_named(tmp_path: Path) -> None:
    source = tmp_path / "code.cpp"
    source.write_text(
        "int data[64];\nint top(int count, int inner) {\n    int sum = 0;\nOuter:\n"
        "    for (int n = 0; n < count; ++n) {\n#pragma HLS PIPELINE II=1\n"
        "        for (int k = 0; k < inner; ++k) {\n            sum += data[k] * n;\n        }\n    }\n"
        "    return sum;\n}\n"
    )
    with pytest.raises(ToolError, match=r"code\.cpp:\d+: a loop within the pipelined loop Outer .* no constant number"):
        analyse_source(source)


@pytest.mark.parametrize("condition", ["if (n > from)", "if (false)"])
def test_a_word_of_which_only_some_lanes_are_stored_is_refused(tmp_path: Path, condition: str) -> None:
    """The other lanes would have to keep what they hold."""
    source = tmp_path / "code.cpp"
    source.write_text(
        "struct Lanes {\n    Lanes() {\n#pragma HLS ARRAY_RESHAPE variable=cell complete dim=2\n"
        "#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=bram\n    }\n    short cell[64][2];\n};\n"
        "void top(int count, int from) {\n    static Lanes lanes;\nFill:\n"
        "    for (int n = 0; n < count; ++n) {\n#pragma HLS PIPELINE II=1\n"
        "        lanes.cell[n & 63][0] = static_cast<short>(n);\n"
        f"        {condition} {{\n            lanes.cell[n & 63][1] = static_cast<short>(n);\n        }}\n    }}\n}}\n"
    )
    with pytest.raises(ToolError, match="a part of a word of cell is not stored whenever others are"):
        analyse_source(source)


def test_what_clang_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    source = tmp_path / "code.cpp"
    source.write_text("int top() { return nothing; }\n")
    with pytest.raises(ToolError, match="use of undeclared identifier 'nothing'"):
        analyse_source(source)


def test_annotation_keeps_every_line_where_it_is() -> None:
    annotated = annotate(_SOURCE, "code.cpp")
    assert annotated.count("\n") == _SOURCE.count("\n")
    assert "#pragma HLS" not in annotated
    assert 'bfpga_hls_loop("PIPELINE II=1", "code.cpp", 23, "Sum");' in annotated


def test_the_exits_of_a_loop_have_the_order_of_the_function() -> None:
    """Sets of names have another order in each process; netlists and figures may not."""
    steps = [f"%step{k}" for k in range(12)]
    blocks = {"%begin": Block("%begin", [Instruction("", "br", f"label {steps[0]}")])}
    for k, name in enumerate(steps):
        text = f"i1 %c{k}, label {steps[(k + 1) % len(steps)]}, label %out{k}"
        blocks[name] = Block(name, [Instruction("", "br", text)])
    blocks |= {f"%out{k}": Block(f"%out{k}", [Instruction("", "ret", "void")]) for k in range(len(steps))}
    function = Function("f", {}, blocks)
    (loop,) = natural_loops(function)
    exits = [(name, f"%out{k}") for k, name in enumerate(steps)]
    assert loop.exits(function) == [target for _, target in exits]
    assert Region.of_loop(function, loop).exits == exits
