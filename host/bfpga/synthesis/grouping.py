"""Operations that share a LUT, an adder or a DSP slice, as the vendor's scheduler groups them.

Its reports call them "grouped into LUT with out node", "root node of TernaryAdder" and "root node of the DSP". An
operation that is grouped with its only user costs that user's delay alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bfpga.synthesis.body import LoopBody, Opcode, Operation

_LOGIC = {Opcode.AND, Opcode.OR, Opcode.XOR}
_SUMS = {Opcode.ADD, Opcode.SUB}
_EXTENSIONS = {Opcode.SEXT, Opcode.ZEXT}
_EFFECTS = {Opcode.MEMORY_WRITE, Opcode.STREAM_READ, Opcode.STREAM_WRITE, Opcode.CALL}
#: A product with a constant of so few non-zero digits is a sum of shifted terms.
SUMMED_TERMS = 2
#: Bits of a DSP slice's accumulator.
_ACCUMULATOR_BITS = 48


@dataclass(slots=True)
class Groups:
    """``live``: whether an operation matters; ``uses``: how often it is used by those that do.

    ``sources``: operations whose results each operation's delay starts from, past those that are grouped with it.
    ``hidden``: the operands of each that are grouped with it. ``ternary``: sums of three terms. ``multiplies`` and
    ``accumulates``: products and sums that share a DSP slice.
    """

    body: LoopBody
    live: list[bool]
    uses: list[int]
    sources: list[tuple[int, ...]] = field(default_factory=list)
    hidden: dict[int, tuple[int, ...]] = field(default_factory=dict)
    ternary: set[int] = field(default_factory=set)
    multiplies: set[int] = field(default_factory=set)
    accumulates: set[int] = field(default_factory=set)

    def is_inverter(self, index: int) -> bool:
        """True for an exclusive or with ones, which is part of whatever uses it."""
        operation = self.body.operations[index]
        if operation.opcode is not Opcode.XOR:
            return False
        ones = (1 << operation.width) - 1
        operands = (self.body.operations[operand] for operand in operation.operands)
        return any(operand.opcode is Opcode.CONSTANT and operand.value == ones for operand in operands)

    def terms_of_product(self, index: int) -> int:
        """Shifted terms that a product with a constant is the sum of (canonical signed digits); 0 for two variables."""
        for operand in self.body.operations[index].operands:
            factor = self.body.operations[operand]
            if factor.opcode is Opcode.CONSTANT:
                value = factor.value - (factor.value >> (factor.width - 1) << factor.width)
                return max((abs(value) ^ 3 * abs(value)).bit_count(), 1)
        return 0

    def source_product(self, index: int) -> int | None:
        """The product that gives a value, past extensions, if nothing else uses it and no binding keeps it in LUTs."""
        return _source_product(self, index)

    def significant_bits(self, index: int) -> int:
        """Bits of an operand that a signed multiplier needs."""
        operation = self.body.operations[index]
        if operation.opcode is Opcode.ZEXT:
            return min(self.significant_bits(operation.operands[0]) + 1, operation.width)
        if operation.opcode is Opcode.SEXT:
            return min(self.significant_bits(operation.operands[0]), operation.width)
        if operation.opcode is Opcode.CONSTANT:
            value = operation.value - (operation.value >> (operation.width - 1) << operation.width)
            return (value if value >= 0 else ~value).bit_length() + 1
        return operation.width


def group_operations(body: LoopBody, lut_inputs: int, slice_bits: tuple[int, int]) -> Groups:
    """Group the operations of ``body`` for LUTs of ``lut_inputs`` and DSP slices of ``slice_bits`` factors, signed."""
    live = live_operations(body)
    groups = Groups(body, live, _uses(body, live))
    for index, operation in enumerate(body.operations):
        if operation.opcode in _SUMS and operation.width <= _ACCUMULATOR_BITS:
            _accumulate(groups, index, slice_bits)
    levels = [0] * len(body.operations)
    for index, operation in enumerate(body.operations):
        sources = tuple(dict.fromkeys(operation.operands))
        if operation.opcode in _LOGIC or operation.opcode is Opcode.SELECT:
            sources = _merged(groups, sources, levels, lut_inputs)
        elif operation.opcode in _SUMS and index not in groups.accumulates:
            sources = _added(groups, index, sources, levels, lut_inputs)
        groups.sources.append(sources)
        if hidden := tuple(operand for operand in operation.operands if operand not in sources):
            groups.hidden[index] = hidden
        levels[index] = 1 + max((levels[source] for source in sources), default=0)
    return groups


def live_operations(body: LoopBody, registers: bool = False) -> list[bool]:
    """Which operations an effect, an output or the loop's end depends on; ``registers``: or any register."""
    operations = body.operations
    live = [False] * len(operations)
    following = {register.current: register.next for register in body.registers}
    waiting = list(following) if registers else []
    waiting += [index for index, operation in enumerate(operations) if operation.opcode in _EFFECTS]
    waiting += [*body.outputs, *([body.leaves] if body.leaves >= 0 else [])]
    waiting += [register.current for register in body.registers if register.left]
    while waiting:
        index = waiting.pop()
        if live[index]:
            continue
        live[index] = True
        waiting.extend(operations[index].operands)
        if index in following:
            waiting.append(following[index])
    return live


def _uses(body: LoopBody, live: list[bool]) -> list[int]:
    """How often each operation is used by others that matter, next values of registers counted."""
    uses = [0] * len(body.operations)
    for index, operation in enumerate(body.operations):
        if live[index]:
            for operand in operation.operands:
                uses[operand] += 1
    for register in body.registers:
        uses[register.next] += live[register.current] + bool(register.left)
    for index in [*body.outputs, *([body.leaves] if body.leaves >= 0 else [])]:
        uses[index] += 1
    return uses


def _merged(groups: Groups, operands: tuple[int, ...], levels: list[int], most: int) -> tuple[int, ...]:
    """Sources of a LUT operation: past logic and selections that only it uses, the deepest first, while all fit."""
    operations = groups.body.operations
    inputs = {operand for operand in operands if operations[operand].opcode is not Opcode.CONSTANT}
    for operand in sorted(inputs, key=lambda each: (-levels[each], each)):
        if not _is_mergeable(groups, operand):
            continue
        merged = (inputs - {operand}) | set(groups.sources[operand])
        if len(merged) <= most:
            inputs = merged
    return tuple(sorted(inputs))


def _is_mergeable(groups: Groups, index: int) -> bool:
    opcode = groups.body.operations[index].opcode
    if groups.is_inverter(index):
        return True
    return groups.uses[index] == 1 and (opcode in _LOGIC or opcode is Opcode.SELECT)


def _added(groups: Groups, index: int, operands: tuple[int, ...], levels: list[int], most: int) -> tuple[int, ...]:
    """Sources of a sum: past a sum that only it uses, which makes it ternary, or past logic before its LUTs."""
    operations = groups.body.operations
    width = operations[index].width
    for operand in sorted(operands, key=lambda each: -levels[each]):
        operation = operations[operand]
        alone = groups.uses[operand] == 1 and operand not in groups.ternary and operand not in groups.accumulates
        if operation.opcode in _SUMS and operation.width == width and alone:
            groups.ternary.add(index)
            others = tuple(each for each in operands if each != operand)
            return tuple(sorted({*others, *operation.operands}))
    # The carry chain takes one input of each LUT.
    return _merged(groups, operands, levels, most - 1)


def _accumulate(groups: Groups, index: int, slice_bits: tuple[int, int]) -> None:
    """Put a sum and a product that only it uses into one DSP slice where the factors fit."""
    wide, narrow = slice_bits
    for operand in groups.body.operations[index].operands:
        product = _source_product(groups, operand)
        if product is None or product in groups.multiplies:
            continue
        bits = sorted(groups.significant_bits(factor) for factor in groups.body.operations[product].operands)
        is_sum = 0 < groups.terms_of_product(product) <= SUMMED_TERMS
        if bits[0] <= narrow and bits[1] <= wide and not is_sum:
            groups.multiplies.add(product)
            groups.accumulates.add(index)
            return


def _source_product(groups: Groups, index: int) -> int | None:
    """The product that gives ``index``, past extensions, if nothing else uses it and no binding keeps it in LUTs."""
    operations = groups.body.operations
    operation: Operation = operations[index]
    kept = operation.width
    while groups.uses[index] == 1 and (
        operation.opcode in _EXTENSIONS or (operation.opcode is Opcode.SLICE and operation.value == 0)
    ):
        index = operation.operands[0]
        kept = min(kept, operation.width)
        operation = operations[index]
    if kept < min(operation.width, sum(groups.significant_bits(factor) for factor in operation.operands)):
        return None
    if operation.opcode is not Opcode.MUL or groups.uses[index] != 1 or operation.binding == "fabric":
        return None
    return index
