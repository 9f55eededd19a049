// What the array is built from, one unit a module, for counting look-up tables (benchmarks/array/lut_estimate.py).
//
// The arithmetic is that of hls/vitis_hls_templates/include/bfpga: shift_multiplier.hpp, shift_tiles.hpp,
// column_weights.hpp, multiplier.hpp, dot_tiles.hpp. Zero code `neg_min`, relative signs, base 2.
// Written as carry chains want it: "plus or minus" is one adder, and the +1 of a negation is its carry input.

// Combinational part: A of shifter 2, C of shifter 1, B of the adder (SM R7 to R14).
module shift_terms #(parameter XW = 8, EW = 3, D = 0, BOTH = 1, TERM = XW + (1 << EW) - 1, SUM = TERM + D + 1) (
    input signed [XW-1:0] x,
    input [2*EW+1:0] word,
    input pow2,
    output signed [TERM-1:0] a, c,
    output signed [SUM-1:0] b,
    output s1, s2
);
    wire [EW-1:0] e1 = word[EW-1:0], e2 = word[2*EW:EW+1];
    assign s1 = word[EW], s2 = word[2*EW+1];
    // Two terms of a two-hot weight cancel up to D = 2^EW - 1; beyond, the zero code holds in both modes (SM 2.4).
    wire gated = (BOTH ? pow2 : 1'b0) || D > (1 << EW) - 1;
    wire signed [XW-1:0] x1 = gated && s1 && e1 == 0 ? {XW{1'b0}} : x;
    wire signed [XW-1:0] x2 = gated && s2 && e2 == 0 ? {XW{1'b0}} : x;
    wire signed [TERM-1:0] wide1 = x1, wide2 = x2;
    assign c = wide1 <<< e1, a = wide2 <<< e2;
    wire signed [TERM+D-1:0] raised = {c, {D{1'b0}}};
    wire signed [SUM-1:0] first = a, second = raised;
    add_sub #(.BITS(SUM)) adder (.a(first), .b(second), .subtract(s1), .sum(b));
endmodule

// a + b or a - b in one carry chain.
module add_sub #(parameter BITS = 16) (input [BITS-1:0] a, b, input subtract, output [BITS-1:0] sum);
    wire [BITS:0] total = {a, 1'b1} + {b ^ {BITS{subtract}}, subtract};
    assign sum = total[BITS:1];
endmodule

// One product with its register: a power of two (TWO_HOT = 0) or the sum of two.
module shift_product #(parameter XW = 8, EW = 3, D = 0, TWO_HOT = 1) (
    input clk,
    input signed [XW-1:0] x,
    input [2*EW+1:0] word,
    output reg signed [XW+(1<<EW)+D-1:0] product
);
    wire signed [XW+(1<<EW)-2:0] a, c;
    wire signed [XW+(1<<EW)+D-1:0] b;
    wire s1, s2;
    shift_terms #(.XW(XW), .EW(EW), .D(D), .BOTH(0)) terms (x, word, 1'b0, a, c, b, s1, s2);
    always @(posedge clk) product <= TWO_HOT ? b : a;
endmodule

// Weight register, product registers and their routing (SM R17, R18, R29). Without BOTH, two-hot products only.
module shift_stage #(parameter XW = 8, EW = 3, D = 0, BOTH = 1, TERM = XW + (1 << EW) - 1, SUM = TERM + D + 1) (
    input clk,
    input signed [XW-1:0] x,
    input [2*EW+1:0] word,
    input pow2,
    output reg signed [SUM-1:0] product0,
    output reg signed [TERM-1:0] product1,
    output reg negative0, negative1
);
    wire signed [TERM-1:0] a, c;
    wire signed [SUM-1:0] b, a_wide = a;
    wire s1, s2;
    shift_terms #(.XW(XW), .EW(EW), .D(D), .BOTH(BOTH)) terms (x, word, pow2, a, c, b, s1, s2);
    always @(posedge clk) begin
        product0 <= BOTH && pow2 ? a_wide : b;
        product1 <= BOTH && pow2 ? c : {TERM{1'b0}};
        negative0 <= s2;
        negative1 <= s1;
    end
endmodule

// The sum of LANES products with their signs: a carry chain for each lane but one, and `pending`, the sign that is left
// to the carry input of the accumulator.
module lanes_sum #(parameter BITS = 16, LANES = 2, SUM = BITS + $clog2(LANES)) (
    input [LANES-1:0] negative,
    input [LANES*BITS-1:0] values,
    output signed [SUM-1:0] sum,
    output pending
);
    generate
        if (LANES == 1) begin
            assign sum = values ^ {BITS{negative[0]}};
            assign pending = negative[0];
        end else if (LANES == 2) begin
            pair_sum #(.BITS(BITS)) pair (values[BITS-1:0], values[2*BITS-1:BITS], negative[0], negative[1], sum);
            assign pending = negative[1];
        end else begin
            wire signed [BITS:0] low, high;
            wire signed [SUM-1:0] wide_low = low, wide_high = high;
            pair_sum #(.BITS(BITS)) pair0 (values[BITS-1:0], values[2*BITS-1:BITS], negative[0], negative[1], low);
            pair_sum #(.BITS(BITS))
                pair1 (values[3*BITS-1:2*BITS], values[4*BITS-1:3*BITS], negative[2], negative[3], high);
            add_carry #(.BITS(SUM)) pairs (.a(wide_low), .b(wide_high), .carry(negative[1]), .sum(sum));
            assign pending = negative[3];
        end
    endgenerate
endmodule

// The accumulator of one row, and what pooling and addition do with it (DotTiles::multiply, maximum, sum), in one
// adder: acc <= (first ? 0 : acc) + operand. The operand is the sum of products, or in rows of the word at hand
// (`mine`) the aligned summand or the larger activation; other rows keep what they have. A maximum is a new start.
module row_accumulator #(parameter VALUE = 17, MW = 8, ACC = 32) (
    input clk, enable, first, maximum, sum, mine, present,
    input signed [VALUE-1:0] value,
    input pending,
    input signed [MW:0] term,
    output reg signed [ACC-1:0] acc
);
    initial acc = 0;
    localparam signed [MW:0] SMALLEST = -(1 << (MW - 1));
    wire reduces = maximum || sum;
    wire signed [MW:0] reduction = mine && present ? term : maximum ? SMALLEST : {MW+1{1'b0}};
    localparam WIDER = VALUE > MW + 1 ? VALUE : MW + 1;
    wire signed [WIDER-1:0] wide_value = value, wide_reduction = reduction;
    wire signed [WIDER-1:0] operand = reduces ? wide_reduction : wide_value;
    wire signed [ACC-1:0] wide = operand, next;
    wire [ACC-1:0] base = first || maximum ? {ACC{1'b0}} : acc;
    add_carry #(.BITS(ACC)) adder (.a(wide), .b(base), .carry(pending && !reduces), .sum(next));
    // While a maximum is sought the accumulator holds mantissas.
    wire larger = $signed(term[MW-1:0]) > $signed(acc[MW-1:0]);
    always @(posedge clk) if (enable && (!maximum || first || mine && present && larger)) acc <= next;
endmodule

module add_carry #(parameter BITS = 16) (input [BITS-1:0] a, b, input carry, output [BITS-1:0] sum);
    wire [BITS:0] total = {a, 1'b1} + {b, carry};
    assign sum = total[BITS:1];
endmodule

// Two products, inverted where negative; the carry of the second sign is left to the next chain.
module pair_sum #(parameter BITS = 16) (
    input signed [BITS-1:0] a, b,
    input negative_a, negative_b,
    output signed [BITS:0] sum
);
    wire signed [BITS-1:0] inverted_a = a ^ {BITS{negative_a}}, inverted_b = b ^ {BITS{negative_b}};
    wire signed [BITS:0] wide_a = inverted_a, wide_b = inverted_b;
    add_carry #(.BITS(BITS+1)) adder (.a(wide_a), .b(wide_b), .carry(negative_a), .sum(sum));
endmodule

// A tile of shift units (ShiftUnits::Weights::accumulate): LANES products a clock into the accumulator of a row, or with
// BOTH modes into those of two.
module shift_tile #(parameter XW = 8, EW = 3, D = 0, LANES = 2, BOTH = 0, ACC = 32) (
    input clk, enable, first, pow2, maximum, sum, mine, present,
    input [LANES*XW-1:0] x,
    input [LANES*(2*EW+2)-1:0] words,
    input signed [XW:0] term,
    output signed [ACC-1:0] q0, q1
);
    localparam TERM = XW + (1 << EW) - 1, PRODUCT = TERM + D + 1, GROWTH = $clog2(LANES);
    reg [LANES*XW-1:0] x_r;
    reg [LANES*(2*EW+2)-1:0] words_r;
    reg pow2_r;
    wire [LANES*PRODUCT-1:0] products0;
    wire [LANES*TERM-1:0] products1;
    wire [LANES-1:0] negative0, negative1;
    wire signed [PRODUCT+GROWTH-1:0] sum0;
    wire pending0;
    always @(posedge clk) {x_r, words_r, pow2_r} <= {x, words, pow2};
    genvar l;
    generate
        for (l = 0; l < LANES; l = l + 1) begin : lane
            shift_stage #(.XW(XW), .EW(EW), .D(D), .BOTH(BOTH)) stage (
                clk, x_r[l*XW +: XW], words_r[l*(2*EW+2) +: 2*EW+2], pow2_r,
                products0[l*PRODUCT +: PRODUCT], products1[l*TERM +: TERM], negative0[l], negative1[l]);
        end
        lanes_sum #(.BITS(PRODUCT), .LANES(LANES)) lanes0 (negative0, products0, sum0, pending0);
        row_accumulator #(.VALUE(PRODUCT+GROWTH), .MW(XW), .ACC(ACC))
            row0 (clk, enable, first, maximum, sum, mine, present, sum0, pending0, term, q0);
        if (BOTH) begin
            reg pow2_p;
            wire signed [TERM+GROWTH-1:0] sum1;
            wire pending1;
            always @(posedge clk) pow2_p <= pow2_r;
            lanes_sum #(.BITS(TERM), .LANES(LANES)) lanes1 (negative1, products1, sum1, pending1);
            plain_accumulator #(.VALUE(TERM+GROWTH), .ACC(ACC))
                row1 (clk, enable && !maximum && !sum && (pow2_p || first), first, sum1, pending1, q1);
        end else assign q1 = 0;
    endgenerate
endmodule

// The second accumulator of a row: products only.
module plain_accumulator #(parameter VALUE = 17, ACC = 32) (
    input clk, enable, first,
    input signed [VALUE-1:0] value,
    input pending,
    output reg signed [ACC-1:0] acc
);
    initial acc = 0;
    wire signed [ACC-1:0] wide = value, next;
    wire [ACC-1:0] base = first ? {ACC{1'b0}} : acc;
    add_carry #(.BITS(ACC)) adder (.a(wide), .b(base), .carry(pending), .sum(next));
    always @(posedge clk) if (enable) acc <= next;
endmodule

// Two rows that share a DSP block (PackedProducts::unpack): `products` comes from the block, SHIFT bits between fields.
module packed_rows #(parameter SHIFT = 17, FIELD = 19, MW = 8, ACC = 32) (
    input clk, enable, first, maximum, sum, mine, present,
    input [SHIFT+FIELD-1:0] products,
    input signed [2*MW+1:0] terms,
    output signed [ACC-1:0] q0, q1
);
    reg [SHIFT+FIELD-1:0] products_r;
    always @(posedge clk) products_r <= products;
    // A negative low field has borrowed one from the high field.
    row_accumulator #(.VALUE(SHIFT), .MW(MW), .ACC(ACC)) row0 (
        clk, enable, first, maximum, sum, mine, present, products_r[SHIFT-1:0], 1'b0, terms[MW:0], q0);
    row_accumulator #(.VALUE(FIELD), .MW(MW), .ACC(ACC)) row1 (
        clk, enable, first, maximum, sum, mine, present, products_r[SHIFT+FIELD-1:SHIFT], products_r[SHIFT-1],
        terms[2*MW+1:MW+1], q1);
endmodule

// The row of a tile whose products a DSP block adds up.
module dsp_row #(parameter MW = 8, LANES = 2, ACC = 32, VALUE = 2 * MW + $clog2(LANES)) (
    input clk, enable, first, maximum, sum, mine, present,
    input signed [VALUE-1:0] products,
    input signed [MW:0] term,
    output signed [ACC-1:0] q0
);
    reg signed [VALUE-1:0] products_r;
    always @(posedge clk) products_r <= products;
    row_accumulator #(.VALUE(VALUE), .MW(MW), .ACC(ACC))
        row0 (clk, enable, first, maximum, sum, mine, present, products_r, 1'b0, term, q0);
endmodule

// The registers of a finished pass and the way of its rows out, one a clock (DotTiles::forward, result).
module forwarder #(parameter ROWS = 16, ACC = 32) (
    input clk, forward,
    input [ROWS*ACC-1:0] accumulators,
    input [$clog2(ROWS)-1:0] row,
    output reg [ACC-1:0] result
);
    reg [ROWS*ACC-1:0] finished;
    always @(posedge clk) begin
        if (forward) finished <= accumulators;
        result <= finished[row*ACC +: ACC];
    end
endmodule

// A weight of the memory as a mantissa: itself, or the integer its two-hot word stands for (ColumnWeights::Mantissas).
module two_hot_value #(parameter MW = 8, EW = 3, D = 0, BITS = MW > 2*EW+2 ? MW : 2*EW+2) (
    input clk, two_hot,
    input [BITS-1:0] weight,
    output reg signed [MW-1:0] mantissa
);
    localparam TERM = 2 + (1 << EW) - 1, SUM = TERM + D + 1;
    wire signed [TERM-1:0] a, c;
    wire signed [SUM-1:0] b;
    wire s1, s2;
    shift_terms #(.XW(2), .EW(EW), .D(D), .BOTH(0)) terms (2'sd1, weight[2*EW+1:0], 1'b0, a, c, b, s1, s2);
    // Values are mantissas: higher bits than a mantissa's are not kept.
    wire signed [SUM:0] value;
    wire signed [SUM:0] wide = b;
    add_sub #(.BITS(SUM+1)) sign (.a({SUM+1{1'b0}}), .b(wide), .subtract(s2), .sum(value));
    always @(posedge clk) mantissa <= two_hot ? value : weight[MW-1:0];
endmodule
