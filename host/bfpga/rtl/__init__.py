"""Complete Verilog of a kernel, made from its C++."""
