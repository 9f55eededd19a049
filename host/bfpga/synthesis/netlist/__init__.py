"""A scheduled loop body as hardware: Verilog, its size and timing after mapping by Yosys, and its simulation."""
