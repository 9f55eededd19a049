"""IPs in Verilog that stand in for those of a kernel: what a test of registers, FIFOs and host needs, by hand.

A start copies the input stream to the output stream, through the streams `loads` and `stored`; bit 0 of its last beat's
bytes that come in is TLAST. Weights are counted. `cycles` reports the beats, `weight_checksum` those of weights.
"""

from __future__ import annotations

from collections.abc import Mapping

from bfpga.contract.registers import ARGUMENT_REGISTERS, INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.rtl.ip import IpVerilog
from bfpga.rtl.ports import stream_ports
from bfpga.vendor.kernel_ips import KernelIp

#: Outputs by process; {n} is the number of beats in `descriptor_count`.
_SEQUENCER = f"""
    reg busy, waits;
    reg [31:0] beats;
    wire ends = busy & ~waits & beats == descriptor_count;
    wire reported = busy & waits & store_reports_TVALID;
    assign loads_TDATA = {INPUT_STREAM}_TDATA;
    assign loads_TVALID = busy & ~waits & ~ends & {INPUT_STREAM}_TVALID;
    assign {INPUT_STREAM}_TREADY = busy & ~waits & ~ends & loads_TREADY;
    assign store_commands_TDATA = descriptor_count;
    assign store_commands_TVALID = ap_start & ~busy;
    assign store_reports_TREADY = busy & waits;
    assign ap_done = reported;
    assign ap_ready = reported;
    assign ap_idle = ~busy & ~ap_start;
    always @(posedge ap_clk)
        if (!ap_rst_n) begin
            busy <= 1'b0;
            waits <= 1'b0;
            beats <= 0;
        end else begin
            busy <= busy ? ~reported : ap_start & store_commands_TREADY;
            waits <= busy & (waits | ends) & ~reported;
            beats <= ~busy ? 0 : beats + ({INPUT_STREAM}_TVALID & {INPUT_STREAM}_TREADY);
        end
"""
_RESULTS = {"cycles": "beats", "status": "control", "weight_checksum": "store_reports_TDATA"}
_SCRATCHPAD = """
    assign stored_TDATA = loads_TDATA;
    assign stored_TVALID = loads_TVALID;
    assign loads_TREADY = stored_TREADY;
"""
_WEIGHTS = f"""
    assign {WEIGHT_STREAM}_TREADY = 1'b1;
"""
_STORE = f"""
    reg [31:0] left;
    reg reports;
    wire beat = {OUTPUT_STREAM}_TVALID & {OUTPUT_STREAM}_TREADY;
    assign {OUTPUT_STREAM}_TDATA = stored_TDATA;
    assign {OUTPUT_STREAM}_TVALID = stored_TVALID & left != 0;
    assign {OUTPUT_STREAM}_TLAST = left == 1;
    assign stored_TREADY = {OUTPUT_STREAM}_TREADY & left != 0;
    assign store_commands_TREADY = left == 0 & ~reports;
    assign store_reports_TDATA = 32'd7;
    assign store_reports_TVALID = reports;
    always @(posedge ap_clk)
        if (!ap_rst_n) begin
            left <= 0;
            reports <= 1'b0;
        end else begin
            left <= store_commands_TVALID & store_commands_TREADY ? store_commands_TDATA : left - beat;
            reports <= reports ? ~store_reports_TREADY : beat & left == 1;
        end
"""
BODIES = {"sequencer": _SEQUENCER, "scratchpad": _SCRATCHPAD, "weights": _WEIGHTS, "store": _STORE}


def stand_in(ip: KernelIp, bodies: Mapping[str, str] = BODIES) -> IpVerilog:
    """An IP that has a body here; of others every output is 0."""
    body = bodies.get(ip.part, "")
    ports = [port for stream in ip.streams for port in stream_ports(stream)]
    lines = ["input wire ap_clk", "input wire ap_rst_n", *(f"{p['direction']} {p['range']}{p['name']}" for p in ports)]
    if ip.control:
        lines += ["input wire ap_start", *(f"output wire {name}" for name in ("ap_done", "ap_ready", "ap_idle"))]
        for item in ARGUMENT_REGISTERS:
            lines.append(f"{'output' if item.access == 'r' else 'input'} wire [31:0] {item.name}")
            if item.access == "r":
                lines.append(f"output wire {item.name}_ap_vld")
                body += f"    assign {item.name}_ap_vld = ap_done;\n"
                body += f"    assign {item.name} = {_RESULTS.get(item.name, 0)};\n"
    for port in ports:
        if port["direction"].startswith("output") and f"assign {port['name']} =" not in body:
            body += f"    assign {port['name']} = 0;\n"
    name = f"{ip.function}_core" if ip.control else ip.function
    text = f"module {name} (\n    " + ",\n    ".join(lines) + f"\n);\n{body}endmodule\n"
    return IpVerilog(ip, {name: text})
