// What a DSP48E2 does (UG579) as far as mapped netlists ask for it: a product of 27 x 18 bits and a sum of 48, with their
// registers and cascades. The pre-adder, patterns and other functions of the adder are not here; where a netlist asks for
// one, all bits of the result are wrong.
module DSP48E2 #(
    parameter ACASCREG = 1, ADREG = 1, ALUMODEREG = 1, AREG = 1, BCASCREG = 1, BREG = 1, CARRYINREG = 1,
    parameter CARRYINSELREG = 1, CREG = 1, DREG = 1, INMODEREG = 1, MREG = 1, OPMODEREG = 1, PREG = 1,
    parameter AMULTSEL = "A", BMULTSEL = "B", A_INPUT = "DIRECT", B_INPUT = "DIRECT",
    parameter USE_MULT = "MULTIPLY", USE_SIMD = "ONE48"
) (
    input CLK, CEA1, CEA2, CEB1, CEB2, CEC, CEM, CEP, RSTA, RSTB, RSTC, RSTM, RSTP,
    input [29:0] A, ACIN, input [17:0] B, BCIN, input [47:0] C, PCIN, input [26:0] D,
    input [4:0] INMODE, input [3:0] ALUMODE, input [8:0] OPMODE, input [2:0] CARRYINSEL, input CARRYIN,
    output [29:0] ACOUT, output [17:0] BCOUT, output [47:0] P, PCOUT
);
    // Factors: with one register it is the second one, whose enable is CEA2.
    wire [29:0] a = A_INPUT == "CASCADE" ? ACIN : A;
    wire [17:0] b = B_INPUT == "CASCADE" ? BCIN : B;
    reg [29:0] a1 = 0, a2 = 0;
    reg [17:0] b1 = 0, b2 = 0;
    always @(posedge CLK) begin
        if (RSTA) a1 <= 0; else if (CEA1) a1 <= a;
        if (RSTA) a2 <= 0; else if (CEA2) a2 <= AREG == 2 ? a1 : a;
        if (RSTB) b1 <= 0; else if (CEB1) b1 <= b;
        if (RSTB) b2 <= 0; else if (CEB2) b2 <= BREG == 2 ? b1 : b;
    end
    wire [29:0] a_last = AREG == 0 ? a : a2;
    wire [17:0] b_last = BREG == 0 ? b : b2;
    assign ACOUT = ACASCREG == 1 && AREG == 2 ? a1 : a_last;
    assign BCOUT = BCASCREG == 1 && BREG == 2 ? b1 : b_last;

    // The product, and what may be added to it.
    wire signed [44:0] product = $signed(a_last[26:0]) * $signed(b_last);
    reg signed [44:0] m = 0;
    reg [47:0] c = 0;
    always @(posedge CLK) begin
        if (RSTM) m <= 0; else if (CEM) m <= product;
        if (RSTC) c <= 0; else if (CEC) c <= C;
    end
    wire signed [47:0] m_last = MREG == 1 ? m : product;
    wire [47:0] c_last = CREG == 1 ? c : C;

    // Four multiplexers in front of the adder. X and Y have the product between them.
    reg [47:0] w, x, y, z;
    always @* begin
        case (OPMODE[1:0])
            0: x = 0;
            1: x = m_last;
            2: x = P;
            default: x = {a_last, b_last};
        endcase
        case (OPMODE[3:2])
            2: y = {48{1'b1}};
            3: y = c_last;
            default: y = 0;
        endcase
        case (OPMODE[6:4])
            1: z = PCIN;
            2: z = P;
            3: z = c_last;
            5: z = {{17{PCIN[47]}}, PCIN[47:17]};
            6: z = {{17{P[47]}}, P[47:17]};
            default: z = 0;
        endcase
        case (OPMODE[8:7])
            1: w = P;
            3: w = c_last;
            default: w = 0;
        endcase
    end
    wire is_other = INMODE != 0 || ALUMODE != 0 || CARRYINSEL != 0 || CARRYIN || OPMODE[6:4] == 4 || OPMODE[8:7] == 2
        || (OPMODE[0] != OPMODE[2] && OPMODE[1:0] < 2) || AMULTSEL != "A" || BMULTSEL != "B" || USE_SIMD != "ONE48";
    wire [47:0] sum = is_other ? ~(w + x + y + z) : w + x + y + z;
    reg [47:0] p = 0;
    always @(posedge CLK) if (RSTP) p <= 0; else if (CEP) p <= sum;
    assign P = PREG == 1 ? p : sum;
    assign PCOUT = P;
endmodule
