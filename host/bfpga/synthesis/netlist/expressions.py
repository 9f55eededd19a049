"""Verilog expressions of the operations of a loop body."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bfpga.synthesis.body import Opcode, Operation
from bfpga.synthesis.graph import amount_bits
from bfpga.synthesis.netlist.significance import Bits
from bfpga.synthesis.schedule_types import DIGIT_BITS, DIGIT_REGISTERS

_INFIX = {
    Opcode.ADD: "+", Opcode.SUB: "-", Opcode.AND: "&", Opcode.OR: "|", Opcode.XOR: "^",
    Opcode.EQ: "==", Opcode.NE: "!=", Opcode.ULT: "<", Opcode.ULE: "<=", Opcode.UDIV: "/", Opcode.UREM: "%",
}  # fmt: skip
_SIGNED_INFIX = {Opcode.SLT: "<", Opcode.SLE: "<=", Opcode.SDIV: "/", Opcode.SREM: "%"}
_SHIFTS = {Opcode.SHL: "<<", Opcode.LSHR: ">>", Opcode.ASHR: ">>>"}
#: Defined where Yosys maps a part: cells of its own library represent products that shall take no DSP block.
MAPPING = "BFPGA_MAPPING"

#: Defined by a reader whose memories begin with zeros anyway: Yosys takes minutes for a loop of some thousand words.
ZEROED = "BFPGA_ZEROED"


def vector(width: int, lowest: int = 0) -> str:
    """Range of a vector of bits ``lowest`` to ``width - 1``."""
    return f"[{width - 1}:{lowest}]"


def literal(value: int, width: int) -> str:
    return f"{width}'h{value & ((1 << width) - 1):x}"


def fitted(name: str, width: int, wanted: int) -> str:
    """A net of ``width`` bits as one of ``wanted`` bits."""
    if width == wanted:
        return name
    return f"{name}{vector(wanted)}" if width > wanted else f"{{{literal(0, wanted - width)}, {name}}}"


#: Bits of the wider factor that every DSP block takes, signed (UG479: 25 by 18, UG579: 27 by 18).
_WIDEST_FACTOR = 25
#: Registers of a product after its multiplier; those before them are at its factors, as DSP blocks have them.
_OUTPUT_REGISTERS = 1


def assignment(
    name: str, operation: Operation, operands: Sequence[str], widths: Sequence[int], bits: Sequence[Bits]
) -> list[str]:
    """Lines that declare the wire ``name`` with the result of an operation; operands are names of whole vectors."""
    opcode, width = operation.opcode, operation.width
    if opcode is Opcode.MUL:
        is_signed, factors = _factors(operation, operands, bits)
        return _product(name, operation, factors, is_signed)
    if opcode is Opcode.POPCOUNT:
        return _ones(name, width, operands[0], widths[0])
    if opcode in (Opcode.CLZ, Opcode.CTZ):
        return _zeros(name, width, operands[0], widths[0], leading=opcode is Opcode.CLZ)
    return [f"wire {vector(width)} {name} = {_expression(opcode, operands, widths)};"]


def wiring(operation: Operation, operands: Sequence[str], widths: Sequence[int]) -> str:
    """Expression of an operation that only names wires."""
    operand, width = operands[0], operation.width
    match operation.opcode:
        case Opcode.ZEXT:
            return f"{{{literal(0, width - widths[0])}, {operand}}}"
        case Opcode.SEXT:
            return f"{{{{{width - widths[0]}{{{operand}[{widths[0] - 1}]}}}}, {operand}}}"
        case Opcode.SLICE:
            return f"{operand}{vector(operation.value + width, operation.value)}"
        case Opcode.CONCAT:
            return "{" + ", ".join(reversed(operands)) + "}"
    raise ValueError(f"{operation.opcode.value} is more than wires")


def _expression(opcode: Opcode, operands: Sequence[str], widths: Sequence[int]) -> str:
    if opcode is Opcode.SELECT:
        condition, if_true, if_false = operands
        return f"{condition} ? {if_true} : {if_false}"
    first, second = operands
    if opcode in _SHIFTS:
        bits = amount_bits(widths[0])
        value = f"$signed({first})" if opcode is Opcode.ASHR else first
        return f"{value} {_SHIFTS[opcode]} {second}{vector(bits)}" if bits else first
    quotient = opcode in (Opcode.UDIV, Opcode.SDIV, Opcode.UREM, Opcode.SREM)
    if opcode in _SIGNED_INFIX:
        value = f"$signed({first}) {_SIGNED_INFIX[opcode]} $signed({second})"
    else:
        value = f"{first} {_INFIX[opcode]} {second}"
    # Both branches of a choice have to be signed for a signed quotient.
    return f"{second} == 0 ? {widths[0]}'sd0 : {value}" if quotient else value


def registered_product(
    name: str, operation: Operation, operands: Sequence[str], bits: Sequence[Bits], latency: int
) -> list[str]:
    """A product of a DSP block with registers inside: at the factors, and one after the multiplier."""
    is_signed, factors = _factors(operation, operands, bits)
    lines: list[str] = []
    for clock in range(latency - _OUTPUT_REGISTERS):
        names = [f"{name}_{side}{clock}" for side in "ab"]
        for register, (factor, count) in zip(names, factors, strict=True):
            lines.append(f"reg {vector(count)} {register};")
            lines.append(f"always @(posedge clk) if (ce) {register} <= {factor};")
        factors = [(register, count) for register, (_, count) in zip(names, factors, strict=True)]
    lines += _product(f"{name}_c", operation, factors, is_signed)
    lines.append(f"reg {vector(operation.width)} {name}_p;")
    lines.append(f"always @(posedge clk) if (ce) {name}_p <= {name}_c;")
    return [*lines, f"wire {vector(operation.width)} {name} = {name}_p;"]


def serial_product(
    name: str, operation: Operation, operands: Sequence[str], bits: Sequence[Bits], phases: Sequence[str]
) -> list[str]:
    """A product of the wider factor and, one a cycle, the digits of the narrower one, from the highest down.

    ``phases``: what is 1 in the cycle in which the factors are there, in those of the digits, and in the two after. A
    row of DSP blocks holds digits of the wider factor, each block with a register behind its multiplier; their sum goes
    along the cascade of the row.
    """
    width = operation.width
    is_signed, factors = _factors(operation, operands, bits)
    # Of a product of `width` bits it does not matter whether factors of so many bits have a sign.
    signed = [
        (text, count) if is_signed or count == width else (f"{{1'b0, {text}}}", count + 1) for text, count in factors
    ]
    (narrow, narrow_bits), (wide, wide_bits) = sorted(signed, key=lambda factor: factor[1])
    first, digits = phases[0], phases[1 : 1 - DIGIT_REGISTERS]
    kept = DIGIT_BITS * len(digits) + 1
    if narrow_bits > kept:
        raise ValueError(f"a product has {len(digits)} digits of a factor of {narrow_bits} bits")
    lows = range(DIGIT_BITS * (len(digits) - 1), 0, -DIGIT_BITS)
    chosen = [f"{name}_b{vector(kept, lows[0] if lows else 0)}"]
    chosen += [f"{{1'b0, {name}_b{vector(low, low - DIGIT_BITS)}}}" for low in lows]
    digit = chosen[-1]
    for phase, other in zip(reversed(digits[:-1]), reversed(chosen[:-1]), strict=True):
        digit = f"{phase} ? {other} : {digit}"
    zero, *later = phases[DIGIT_REGISTERS - 1 :]
    moved = f"if ({zero}) {name} <= {literal(0, width)}; else if ({' | '.join(later)}) {name} <= {name}_s;"
    return [
        f"reg signed {vector(wide_bits)} {name}_a;",
        f"reg signed {vector(kept)} {name}_b;",
        f"reg signed {vector(wide_bits + DIGIT_BITS + 1)} {name}_p;",
        f"reg signed {vector(width)} {name};",
        f"wire signed {vector(DIGIT_BITS + 1)} {name}_d = {digit};",
        f"wire signed {vector(width)} {name}_s = ({name} <<< {DIGIT_BITS}) + {name}_p;",
        f"always @(posedge clk) if (ce & {first}) {name}_a <= {wide};",
        f"always @(posedge clk) if (ce & {first}) {name}_b <= $signed({narrow});",
        *_row_of_blocks(name, wide_bits),
        f"always @(posedge clk) if (ce) begin {moved} end",
    ]


def row_blocks(bits: int) -> int:
    """DSP blocks that a digit of a product takes, by the bits of its wider factor: digits, and the rest in the last."""
    return 1 + max(0, -(-(bits - _WIDEST_FACTOR) // DIGIT_BITS))


def _row_of_blocks(name: str, bits: int) -> Iterator[str]:
    """The product of ``name``_a, of so many bits, and the digit ``name``_d, two cycles later in ``name``_p."""
    blocks = row_blocks(bits)
    top = bits - DIGIT_BITS * (blocks - 1)
    size = vector(max(top, DIGIT_BITS + 1) + DIGIT_BITS + 1)
    lows = [f"{name}_r{block}{vector(DIGIT_BITS)}" for block in range(blocks - 1)]
    for block in range(blocks):
        low = DIGIT_BITS * block
        own = f"$signed({name}_a{vector(bits, low)})"
        if block < blocks - 1:
            own = f"$signed({{1'b0, {name}_a{vector(low + DIGIT_BITS, low)}}})"
        carried = f" + ({name}_r{block - 1} >>> {DIGIT_BITS})" if block else ""
        yield f"reg signed {size} {name}_m{block};"
        yield f"always @(posedge clk) if (ce) {name}_m{block} <= {own} * {name}_d;"
        yield f"wire signed {size} {name}_r{block} = {name}_m{block}{carried};"
    yield f"always @(posedge clk) if (ce) {name}_p <= {{{', '.join([f'{name}_r{blocks - 1}', *reversed(lows)])}}};"


def _factors(operation: Operation, operands: Sequence[str], bits: Sequence[Bits]) -> tuple[bool, list[tuple[str, int]]]:
    """Whether a product is signed, and the bits of its factors that carry something, with how many these are: a DSP
    block takes 25 by 18, or 27 by 18, signed."""
    is_signed = any(factor.is_signed for factor in bits)
    counts = [max(1, min(operation.width, factor.signed if is_signed else factor.unsigned)) for factor in bits]
    return is_signed, [(f"{operand}{vector(count)}", count) for operand, count in zip(operands, counts, strict=True)]


def _product(name: str, operation: Operation, factors: Sequence[tuple[str, int]], is_signed: bool) -> list[str]:
    plain = " * ".join(f"$signed({factor})" if is_signed else factor for factor, _ in factors)
    width = vector(operation.width)
    if operation.binding != "fabric":
        return [f"wire {width} {name} = {plain};"]
    (one, one_bits), (other, other_bits) = factors
    cell = (
        f"\\$__soft_mul #(.A_SIGNED({int(is_signed)}), .B_SIGNED({int(is_signed)}), .A_WIDTH({one_bits}), "
        f".B_WIDTH({other_bits}), .Y_WIDTH({operation.width})) {name}_cell (.A({one}), .B({other}), "
        f".Y({name}));"
    )
    return [f"wire {width} {name};", f"`ifdef {MAPPING}", cell, "`else", f"assign {name} = {plain};", "`endif"]


def selected_sum(name: str, width: int, selected: str, other: str) -> list[str]:
    """Lines that declare the sum ``name`` of a value that is selected and another one.

    A carry chain takes one of its inputs past its look-up tables: that is the other one, so that the selection and the
    sum share tables. Left to Yosys the order would depend on what else it maps in the same run.
    """
    cell = (
        f"\\$alu #(.A_SIGNED(0), .B_SIGNED(0), .A_WIDTH({width}), .B_WIDTH({width}), .Y_WIDTH({width})) {name}_cell "
        f"(.A({other}), .B({selected}), .CI(1'b0), .BI(1'b0), .X({name}_x), .Y({name}), .CO({name}_co));"
    )
    unused = f"wire {vector(width)} {name}_x, {name}_co;"
    plain = f"assign {name} = {other} + {selected};"
    return [f"wire {vector(width)} {name};", f"`ifdef {MAPPING}", unused, cell, "`else", plain, "`endif"]


def _ones(name: str, width: int, operand: str, count: int) -> list[str]:
    """Full adders of three bits, then a balanced tree of sums."""
    lines: list[str] = []
    terms: list[str] = []
    for place in range(0, count, 3):
        bits = [f"{operand}[{bit}]" for bit in range(place, min(place + 3, count))]
        both = " | ".join(f"{a} & {b}" for index, a in enumerate(bits) for b in bits[index + 1 :]) or "1'b0"
        terms.append(f"{name}_t{place}")
        lines.append(f"wire [1:0] {terms[-1]} = {{{both}, {' ^ '.join(bits)}}};")
    size, level = 2, 0
    while len(terms) > 1:
        size, level = size + 1, level + 1
        sums = []
        for number in range(0, len(terms) - 1, 2):
            sums.append(f"{name}_l{level}_{number}")
            lines.append(f"wire {vector(size)} {sums[-1]} = {terms[number]} + {terms[number + 1]};")
        terms = sums + ([terms[-1]] if len(terms) % 2 else [])
    lines.append(f"wire {vector(width)} {name} = {terms[0]};")
    return lines


def _zeros(name: str, width: int, operand: str, count: int, leading: bool) -> list[str]:
    """Halves with a one or without, from the whole vector down; a one after the last bit stops the count."""
    size = 1 << count.bit_length()
    # Counted from bit 0: reversed, the highest bit is the first.
    bits = [f"{operand}[{bit}]" for bit in range(count)] if leading else [operand]
    lines = [f"wire {vector(size)} {name}_v = {{{literal(1, size - count)}, {', '.join(bits)}}};"]
    value, found = f"{name}_v", []
    while size > 1:
        half = size // 2
        zero, lower = f"{name}_z{half}", f"{name}_h{half}"
        lines.append(f"wire {zero} = ~|{value}{vector(half)};")
        lines.append(f"wire {vector(half)} {lower} = {zero} ? {value}{vector(size, half)} : {value}{vector(half)};")
        found.append(zero)
        value, size = lower, half
    lines.append(f"wire {vector(width)} {name} = {{{', '.join(found)}}};")
    return lines
