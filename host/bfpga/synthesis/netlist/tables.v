// Cells of Yosys' own library that a mapped netlist keeps, as expressions that CXXRTL takes.
module \$lut (A, Y);
    parameter WIDTH = 1;
    parameter LUT = 0;
    input [WIDTH-1:0] A;
    output Y;
    assign Y = LUT >> A;
endmodule

module \$_NOT_ (A, Y);
    input A;
    output Y;
    assign Y = ~A;
endmodule
