"""Borders in Verilog: what an IP, a FIFO and the registers offer stays until it is taken, proved for every clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import some_of
from handshake_proofs import reached_outputs, refuted
from tiny_verilog import IPS, verilog
from verilog_simulation import missing_tools

from bfpga.rtl.control import control_verilog
from bfpga.rtl.fifo import BLOCK, DISTRIBUTED, fifo_verilog
from bfpga.rtl.ip import REGISTER, REGISTER_NAME, SLICE, SLICE_NAME

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

#: Formal text in what holds words: `offered` is the word of the clock before. A word is marked by chance: it leaves as
#: it came, in its turn. ``<held>``: how many words there are, a number of so many ``<bits>``; ``<taken>``: one comes;
#: ``<at>``: the word behind so many others; ``<own>``: what else must hold.
HELD_RULES = """
    reg was_offered = 1'b0, was_reset = 1'b0, marked = 1'b0;
    reg [WIDTH-1:0] offered, marked_word;
    reg [<bits>-1:0] before;
    wire mark;
    assign mark = $anyseq;
    wire [<bits>-1:0] held = <held>;
    wire leaves = out_valid & out_ready;
    always @(posedge clk) begin
        was_reset <= reset;
        was_offered <= ~reset & out_valid & ~out_ready;
        offered <= out_data;
        if (reset)
            marked <= 1'b0;
        else if (<taken> & mark & ~marked) begin
            marked <= 1'b1;
            marked_word <= in_data;
            before <= held - leaves;
        end else if (marked & leaves) begin
            before <= before - 1'b1;
            marked <= before != 0;
        end
    end
    always @* begin
        if (was_offered) assert (out_valid && out_data == offered);
        if (was_reset) assert (!out_valid);
        if (marked) begin
            assert (before < held);
            assert (<at> == marked_word);
        end
        <own>
    end
"""


def held_rules(**parts: str) -> str:
    """The rules of a module that holds words."""
    text = HELD_RULES
    for name, part in parts.items():
        text = text.replace(f"<{name}>", part)
    return text


FIFO_RULES = """
    wire clk = ap_clk, reset = ~ap_rst_n, out_valid = out_TVALID, out_ready = out_TREADY;
    wire [WIDTH-1:0] in_data = in_TDATA, out_data = out_TDATA;
""" + held_rules(
    bits="(ADDRESS + 2)", held="count + out_TVALID", taken="push",
    at="(before < out_TVALID ? out_TDATA : words[head + before[ADDRESS-1:0] - out_TVALID])",
    own="""assert (count <= DEPTH);
        assert (!in_TREADY || count < DEPTH);
        assert (tail - head == count[ADDRESS-1:0]);
        if (was_reset) assert (!in_TREADY);""",
)  # fmt: skip


def border_rules(held: str, last: str) -> str:
    """The rules of what is behind an output of an IP. ``last``: the word that came last if there are two."""
    at, own = f"(before == 0 ? out_data : {last})", "assert (out_valid == (held != 0));"
    return held_rules(bits="2", held=held, taken="in_valid & in_ready", at=at, own=own)


#: Name of the module -> its text and rules.
BORDERS = {
    SLICE_NAME: (SLICE, border_rules("has_first + has_second", "second")),
    REGISTER_NAME: (REGISTER, border_rules("has_word", "word")),
}
CONTROL_RULES = """
    reg was_answered = 1'b0, was_read = 1'b0, was_done = 1'b0;
    reg [31:0] shown;
    always @(posedge ap_clk) begin
        was_answered <= ap_rst_n & BVALID & ~BREADY;
        was_read <= ap_rst_n & RVALID & ~RREADY;
        was_done <= ap_rst_n & (ap_done | (done & ~read_control));
        shown <= RDATA;
    end
    always @* begin
        if (was_answered) assert (BVALID);
        if (was_read) assert (RVALID && RDATA == shown);
        if (was_done) assert (done);
        assert (!write || (has_address && has_data));
    end
"""
INPUTS = ("AWADDR", "AWVALID", "WDATA", "WSTRB", "WVALID", "BREADY", "ARADDR", "ARVALID", "RREADY")


def with_rules(text: str, module: str, rules: str) -> str:
    """A text with formal rules at the end of a module."""
    begin = text.index(f"module {module} ")
    end = text.index("endmodule", begin)
    return text[:end] + rules + text[end:]


def border_module(part: str, stream: str) -> str:
    """The module whose output the output stream of an IP is."""
    *_, core = verilog(part).modules.values()
    (instance,) = [each for each in core.split(";") if f".out_valid({stream}_TVALID)" in each]
    assert f"{stream}_TDATA" in instance[instance.index(".out_data(") :]
    # It is declared, and driven nowhere else.
    assert core.count(f"{stream}_TVALID") == 2
    return instance.split()[0]


def slave() -> str:
    text = control_verilog(IPS["sequencer"])
    return text[: text.index("endmodule") + len("endmodule\n")]


@pytest.mark.parametrize("style", [DISTRIBUTED, BLOCK])
def test_what_a_fifo_offers_stays_and_is_what_came_in(style: str, tmp_path: Path) -> None:
    module = f"bfpga_fifo_{style}"
    text = with_rules(fifo_verilog(), module, FIFO_RULES)
    assert refuted(text, module, tmp_path, {"WIDTH": 2, "ADDRESS": 2}) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("count < DEPTH - 1'b1", "count < DEPTH"),
        ("(~out_TVALID | out_TREADY)", "1'b1"),
        ("tail <= tail + 1'b1", "tail <= tail + 1'b1 + mark"),
        ("pop | (out_TVALID & ~out_TREADY)", "pop"),
    ],
)
def test_a_fifo_with_a_fault_is_refuted(right: str, wrong: str, tmp_path: Path) -> None:
    module = f"bfpga_fifo_{BLOCK}"
    text = with_rules(fifo_verilog(), module, FIFO_RULES)
    begin = text.index(f"module {module} ")
    faulty = text[:begin] + text[begin:].replace(right, wrong)
    assert faulty != text
    assert "proof did fail" in refuted(faulty, module, tmp_path, {"WIDTH": 2, "ADDRESS": 2})


@pytest.mark.parametrize("port", ["in_TVALID", "in_TDATA", "out_TREADY"])
def test_no_path_leads_through_a_fifo(port: str, tmp_path: Path) -> None:
    assert reached_outputs(fifo_verilog(), f"bfpga_fifo_{BLOCK}", tmp_path, port) == set()


@pytest.mark.parametrize("module", BORDERS)
def test_what_an_ip_offers_stays_and_is_what_came_in(module: str, tmp_path: Path) -> None:
    text, rules = BORDERS[module]
    assert refuted(with_rules(text, module, rules), module, tmp_path, {"WIDTH": 2}) == ""


@pytest.mark.parametrize(
    ("module", "right", "wrong"),
    [
        (SLICE_NAME, "has_second ? second : in_data", "in_data"),
        (SLICE_NAME, "free ? has_second | taken", "free ? taken"),
        (SLICE_NAME, "if (free)", ""),
        (REGISTER_NAME, "if (in_ready)", ""),
        (REGISTER_NAME, ": 1'b1)", ": 1'b0)"),
    ],
)
def test_a_border_with_a_fault_is_refuted(module: str, right: str, wrong: str, tmp_path: Path) -> None:
    text, rules = BORDERS[module]
    assert text.count(right) == 1
    assert "proof did fail" in refuted(
        with_rules(text.replace(right, wrong), module, rules), module, tmp_path, {"WIDTH": 2}
    )


@pytest.mark.parametrize("part", some_of(IPS, *(IPS.keys() - {"post", "scratchpad"})))
def test_every_output_of_an_ip_is_such_a_border(part: str) -> None:
    for port in IPS[part].streams:
        if port.master:
            assert border_module(part, port.name) == (SLICE_NAME if port.packets else REGISTER_NAME)


def test_what_the_registers_answer_stays(tmp_path: Path) -> None:
    module = "bfpga_systolic_control_s_axi"
    assert refuted(with_rules(slave(), module, CONTROL_RULES), module, tmp_path, {}) == ""


def test_a_register_that_forgets_an_answer_is_refuted(tmp_path: Path) -> None:
    module = "bfpga_systolic_control_s_axi"
    faulty = slave().replace("(RVALID ? ~RREADY : ARVALID)", "(RVALID ? 1'b0 : ARVALID)")
    assert faulty != slave()
    assert "proof did fail" in refuted(with_rules(faulty, module, CONTROL_RULES), module, tmp_path, {})


def test_no_path_leads_through_the_registers(tmp_path: Path) -> None:
    for port in INPUTS:
        assert reached_outputs(slave(), "bfpga_systolic_control_s_axi", tmp_path, port) == set(), port


def test_a_path_through_registers_is_seen(tmp_path: Path) -> None:
    faulty = slave().replace("assign ARREADY = ~RVALID;", "assign ARREADY = ~RVALID | RREADY;")
    assert reached_outputs(faulty, "bfpga_systolic_control_s_axi", tmp_path, "RREADY") == {"ARREADY"}
