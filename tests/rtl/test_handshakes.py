"""FIFOs and registers in Verilog: what they offer stays until it is taken, proved for every clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from handshake_proofs import reached_outputs, refuted
from verilog_simulation import missing_tools

from bfpga.accelerator.loader import load_accelerator
from bfpga.rtl.control import control_verilog
from bfpga.rtl.fifo import BLOCK, DISTRIBUTED, fifo_verilog
from bfpga.vendor.kernel_ips import kernel_ips

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))

#: Formal text in the modules: `offered` words of the clock before, and what must hold.
FIFO_RULES = """
    reg was_offered = 1'b0, was_reset = 1'b0;
    reg [WIDTH-1:0] word;
    // A word that is marked by chance, and where it is: it leaves as it came, in its turn.
    wire mark;
    assign mark = $anyseq;
    reg marked = 1'b0;
    reg [WIDTH-1:0] marked_word;
    reg [ADDRESS+1:0] before;
    wire leaves = out_TVALID & out_TREADY;
    wire [ADDRESS+1:0] held = count + out_TVALID;
    always @(posedge ap_clk) begin
        was_reset <= ~ap_rst_n;
        was_offered <= ap_rst_n & out_TVALID & ~out_TREADY;
        word <= out_TDATA;
        if (!ap_rst_n)
            marked <= 1'b0;
        else if (push & mark & ~marked) begin
            marked <= 1'b1;
            marked_word <= in_TDATA;
            before <= held - leaves;
        end else if (marked & leaves) begin
            before <= before - 1'b1;
            marked <= before != 0;
        end
    end
    always @* begin
        assert (count <= DEPTH);
        assert (!in_TREADY || count < DEPTH);
        assert (tail - head == count[ADDRESS-1:0]);
        if (was_offered) assert (out_TVALID && out_TDATA == word);
        if (was_reset) assert (!out_TVALID && !in_TREADY);
        if (marked) begin
            assert (before < held);
            if (before < out_TVALID) assert (out_TDATA == marked_word);
            else assert (words[head + before[ADDRESS-1:0] - out_TVALID] == marked_word);
        end
    end
"""
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


def with_rules(verilog: str, module: str, rules: str) -> str:
    """A text with formal rules at the end of a module."""
    begin = verilog.index(f"module {module} ")
    end = verilog.index("endmodule", begin)
    return verilog[:end] + rules + verilog[end:]


def slave() -> str:
    ip = kernel_ips(load_accelerator("tiny").config)[0]
    verilog = control_verilog(ip)
    return verilog[: verilog.index("endmodule") + len("endmodule\n")]


@pytest.mark.parametrize("style", [DISTRIBUTED, BLOCK])
def test_what_a_fifo_offers_stays_and_is_what_came_in(style: str, tmp_path: Path) -> None:
    module = f"bfpga_fifo_{style}"
    verilog = with_rules(fifo_verilog(), module, FIFO_RULES)
    assert refuted(verilog, module, tmp_path, {"WIDTH": 2, "ADDRESS": 2}) == ""


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
    verilog = with_rules(fifo_verilog(), module, FIFO_RULES)
    begin = verilog.index(f"module {module} ")
    faulty = verilog[:begin] + verilog[begin:].replace(right, wrong)
    assert faulty != verilog
    assert "proof did fail" in refuted(faulty, module, tmp_path, {"WIDTH": 2, "ADDRESS": 2})


@pytest.mark.parametrize("port", ["in_TVALID", "in_TDATA", "out_TREADY"])
def test_no_path_leads_through_a_fifo(port: str, tmp_path: Path) -> None:
    assert reached_outputs(fifo_verilog(), f"bfpga_fifo_{BLOCK}", tmp_path, port) == set()


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
