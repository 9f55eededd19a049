"""The graph of a loop body says what the code said, however it simplifies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.synthesis.body import LoopBody, Opcode, Operation, Place, Register, Stream
from bfpga.synthesis.graph import Graph, mask_of, signed
from bfpga.synthesis.narrow import narrowed
from bfpga.synthesis.netlist.interpret import iterate

_BINARY = (Opcode.ADD, Opcode.SUB, Opcode.MUL, Opcode.AND, Opcode.OR, Opcode.XOR)
_COMPARE = (Opcode.EQ, Opcode.NE, Opcode.ULT, Opcode.ULE, Opcode.SLT, Opcode.SLE)
_INPUTS = 3


def _binary(opcode: Opcode, a: int, b: int, width: int) -> int:
    results = {
        Opcode.ADD: a + b, Opcode.SUB: a - b, Opcode.MUL: a * b, Opcode.AND: a & b, Opcode.OR: a | b, Opcode.XOR: a ^ b,
    }  # fmt: skip
    return results[opcode] & mask_of(width)


def _compare(opcode: Opcode, a: int, b: int, width: int) -> int:
    x, y = signed(a, width), signed(b, width)
    results = {
        Opcode.EQ: a == b, Opcode.NE: a != b, Opcode.ULT: a < b, Opcode.ULE: a <= b,
        Opcode.SLT: x < y, Opcode.SLE: x <= y,
    }  # fmt: skip
    return int(results[opcode])


class _Twin:
    """Builds a graph and computes beside it what each value has to be."""

    def __init__(self, draw: Callable[..., int], inputs: list[int]) -> None:
        self.graph, self.draw = Graph(), draw
        self.values: list[tuple[int, int]] = []
        self.registers: list[Register] = []
        for number, value in enumerate(inputs):
            width = draw(st.integers(1, 20))
            index = self.graph.add(Operation(Opcode.STATE, width, register=number), shared=False)
            self.registers.append(Register(f"r{number}", width, index, index))
            self.values.append((index, value & mask_of(width)))

    def pick(self) -> tuple[int, int]:
        return self.values[self.draw(st.integers(0, len(self.values) - 1))]

    def of_width(self, width: int) -> tuple[int, int]:
        """Some value, extended or cut to a width."""
        index, value = self.pick()
        own = self.graph.width(index)
        if own >= width:
            low = self.draw(st.integers(0, own - width))
            return self.graph.slice(index, low, width), value >> low & mask_of(width)
        if self.draw(st.booleans()):
            return self.graph.extend(Opcode.SEXT, index, width), signed(value, own) & mask_of(width)
        return self.graph.extend(Opcode.ZEXT, index, width), value

    def amount(self, width: int) -> tuple[int, int]:
        """An amount by which values of a width are shifted: known, or a value of so few bits that it is below."""
        bits = width.bit_length() - 1
        if bits and self.draw(st.booleans()):
            index, value = self.of_width(bits)
            return self.graph.extend(Opcode.ZEXT, index, width), value
        count = self.draw(st.integers(0, width - 1))
        return self.graph.constant(count, width), count

    def grow(self) -> None:
        graph, draw = self.graph, self.draw
        width = draw(st.integers(1, 24))
        (a, x), (b, y) = self.of_width(width), self.of_width(width)
        if draw(st.integers(0, 4)) == 0:
            y = draw(st.integers(0, mask_of(width)))
            b = graph.constant(y, width)
        kind = draw(st.integers(0, 5))
        if kind == 0:
            opcode = draw(st.sampled_from(_BINARY[:3]))
            made = graph.arithmetic(opcode, a, b), _binary(opcode, x, y, width)
        elif kind == 1:
            opcode = draw(st.sampled_from(_BINARY[3:]))
            made = graph.logic(opcode, a, b), _binary(opcode, x, y, width)
        elif kind == 2:
            opcode = draw(st.sampled_from(_COMPARE))
            made = graph.compare(opcode, a, b), _compare(opcode, x, y, width)
        elif kind == 3:
            c, chosen = self.of_width(1)
            made = graph.select(c, a, b), x if chosen else y
        elif kind == 4:
            made = graph.concat([a, b]), x | y << width
        else:
            amount, count = self.amount(width)
            opcode = draw(st.sampled_from((Opcode.SHL, Opcode.LSHR, Opcode.ASHR)))
            moved = {Opcode.SHL: x << count, Opcode.LSHR: x >> count, Opcode.ASHR: signed(x, width) >> count}[opcode]
            made = graph.shift(opcode, a, amount), moved & mask_of(width)
        self.values.append(made)


@st.composite
def twins(draw: Callable[..., int]) -> tuple[_Twin, list[int]]:
    inputs = draw(st.lists(st.integers(0, 2**20 - 1), min_size=_INPUTS, max_size=_INPUTS))
    twin = _Twin(draw, inputs)
    for _ in range(draw(st.integers(1, 14))):
        twin.grow()
    return twin, inputs


def _body(twin: _Twin) -> LoopBody:
    return LoopBody(
        "Loop", Place("code.cpp", 1, "f"), 1, twin.graph.operations, twin.registers,
        streams=[Stream("out", 64)], outputs=[index for index, _ in twin.values],
    )  # fmt: skip


@settings(max_examples=drawn(150), deadline=None)
@given(twins())
def test_simplified_operations_have_the_values_of_the_code(pair: tuple[_Twin, list[int]]) -> None:
    twin, inputs = pair
    state = [value & mask_of(register.width) for value, register in zip(inputs, twin.registers, strict=True)]
    outcome = iterate(_body(twin), state, {}, {})
    for index, value in twin.values:
        assert outcome.values[index] == value, twin.graph.operations[index]


@settings(max_examples=drawn(100), deadline=None)
@given(twins(), st.data())
def test_narrowing_keeps_every_effect(pair: tuple[_Twin, list[int]], data: st.DataObject) -> None:
    """Registers of sums and copies; what is written to a stream stays the same for some iterations."""
    twin, inputs = pair
    graph = twin.graph
    for number, register in enumerate(twin.registers):
        after, _ = twin.of_width(register.width)
        twin.registers[number] = Register(register.name, register.width, register.current, after)
    (sent, _), (enable, _) = twin.pick(), twin.of_width(1)
    graph.add(Operation(Opcode.STREAM_WRITE, 0, (sent, enable), stream=0), shared=False)
    body = _body(twin)
    body.outputs = []
    slim = narrowed(body)
    state = [value & mask_of(r.width) for value, r in zip(inputs, twin.registers, strict=True)]
    slim_state = [_initial(r, twin.registers, state) for r in slim.registers]
    for _ in range(4):
        one, other = iterate(body, state, {}, {}), iterate(slim, slim_state, {}, {})
        assert _sent(body, one) == _sent(slim, other)
        state, slim_state = list(one.state), list(other.state)


@pytest.mark.parametrize("bit", [0, 1])
def test_shift_cut_to_its_lowest_bit_keeps_it_only_unshifted(bit: int) -> None:
    """The amount of one bit is as large as the width that is left: no amount of a shift of one bit is read."""
    graph = Graph()
    value = graph.add(Operation(Opcode.STATE, 1, register=0), shared=False)
    shifted = graph.shift(Opcode.SHL, graph.extend(Opcode.ZEXT, value, 2), value)
    enable = graph.compare(Opcode.EQ, graph.slice(shifted, 0, 1), graph.constant(0, 1))
    graph.add(Operation(Opcode.STREAM_WRITE, 0, (value, enable), stream=0), shared=False)
    registers, streams = [Register("r", 1, value, value)], [Stream("out", 64)]
    body = LoopBody("Loop", Place("code.cpp", 1, "f"), 1, graph.operations, registers, streams=streams)
    assert _sent(body, iterate(body, [bit], {}, {})) == (bit, 1)
    slim = narrowed(body)
    assert _sent(slim, iterate(slim, [bit], {}, {})) == (bit, 1)


def _initial(register: Register, wide: list[Register], state: list[int]) -> int:
    """The bits of the old register that a part of it holds: its name ends with the bit from which it begins."""
    name, *low = register.name.split("@")
    number = next(k for k, r in enumerate(wide) if r.name == name)
    return state[number] >> sum(map(int, low)) & mask_of(register.width)


def _sent(body: LoopBody, outcome: object) -> tuple[int, ...] | None:
    index = next(k for k, o in enumerate(body.operations) if o.opcode is Opcode.STREAM_WRITE)
    data, enable = body.operations[index].operands
    values = outcome.values  # type: ignore[attr-defined]
    width = body.operations[data].width
    return (values[data], width) if values[enable] else None


def test_slices_of_a_shifter_share_its_stages() -> None:
    """Each slice would be a shifter of its own, and those of the next stage one for each of these."""
    graph = Graph()
    value = graph.add(Operation(Opcode.STATE, 24, register=0), shared=False)
    for bit in range(4):
        chosen = graph.add(Operation(Opcode.STATE, 1, register=1 + bit), shared=False)
        moved = graph.extend(Opcode.SEXT, graph.slice(value, 1 << bit, 24 - (1 << bit)), 24)
        graph.compare(Opcode.NE, graph.slice(value, 0, 1 << bit), graph.constant(0, 1 << bit))
        value = graph.select(chosen, moved, value)
    assert sum(operation.opcode is Opcode.SELECT for operation in graph.operations) == 4


def test_an_element_is_chosen_by_the_bits_of_its_index() -> None:
    graph = Graph()
    values = [graph.add(Operation(Opcode.STATE, 8, register=k), shared=False) for k in range(13)]
    index = graph.add(Operation(Opcode.STATE, 4, register=13), shared=False)
    graph.element(values, index)
    opcodes = [operation.opcode for operation in graph.operations]
    assert opcodes.count(Opcode.SELECT) == len(values) - 1
    assert Opcode.EQ not in opcodes


@settings(max_examples=drawn(200), deadline=None)
@given(
    st.sampled_from((Opcode.UDIV, Opcode.SDIV, Opcode.UREM, Opcode.SREM)), st.integers(2, 20), st.integers(0, 1 << 20),
    st.integers(0, 18),
)  # fmt: skip
def test_a_division_by_a_power_of_two_needs_no_divider(opcode: Opcode, width: int, value: int, places: int) -> None:
    value, places = value & mask_of(width), min(places, width - 2)
    graph = Graph()
    index = graph.add(Operation(Opcode.STATE, width, register=0), shared=False)
    result = graph.division(opcode, index, graph.constant(1 << places, width))
    body = LoopBody("loop", Place("", 0, ""), 1, graph.operations, [Register("x", width, index, index)])
    dividend = signed(value, width) if opcode in (Opcode.SDIV, Opcode.SREM) else value
    quotient = abs(dividend) >> places
    quotient = -quotient if dividend < 0 else quotient
    rest = dividend - (quotient << places)
    expected = quotient if opcode in (Opcode.UDIV, Opcode.SDIV) else rest
    assert iterate(body, [value], {}, {}).values[result] == expected & mask_of(width)
    assert not {o.opcode for o in graph.operations} & {Opcode.UDIV, Opcode.SDIV, Opcode.UREM, Opcode.SREM}


def test_a_shift_of_which_few_bits_are_used_may_go_beyond_them() -> None:
    """A wide shift whose lowest bits are used: in 4 bits, an amount of 4 or more leaves nothing."""
    graph = Graph()
    word, amount = (graph.add(Operation(Opcode.STATE, 3, register=k), shared=False) for k in range(2))
    registers = [Register(f"r{k}", 3, index, index) for k, index in enumerate((word, amount))]
    wide = graph.shift(Opcode.SHL, graph.extend(Opcode.ZEXT, word, 64), graph.extend(Opcode.ZEXT, amount, 64))
    sent = (graph.slice(wide, 0, 4), graph.constant(1, 1))
    graph.add(Operation(Opcode.STREAM_WRITE, 0, sent, stream=0), shared=False)
    streams = [Stream("out", 4)]
    body = LoopBody("Loop", Place("code.cpp", 1, "f"), 1, graph.operations, registers, streams=streams)
    slim = narrowed(body)
    for x in range(8):
        for count in range(8):
            assert _sent(slim, iterate(slim, [x, count], {}, {})) == (x << count & 15, 4)
