"""A pipelined loop of the flat function as a ``LoopBody``, or what is outside of its loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from bfpga.errors import ToolError
from bfpga.synthesis.body import LoopBody, Opcode, Operation, Origin, Place, Register
from bfpga.synthesis.frontend.cells import Cells, Index, MemoryAccess, RegisterAccess
from bfpga.synthesis.frontend.cfg import Loop
from bfpga.synthesis.frontend.flatten import LOOP_NOTE, LoopNote
from bfpga.synthesis.frontend.intrinsics import UntranslatedError, intrinsic
from bfpga.synthesis.frontend.ir import (
    Block,
    Function,
    Instruction,
    integer_width,
    phi_pairs,
    pointer_operand,
    split_list,
    split_type,
)
from bfpga.synthesis.frontend.memory_accesses import MemoryAccesses, is_choice
from bfpga.synthesis.frontend.places import Places
from bfpga.synthesis.frontend.region import END, Conditions, Region
from bfpga.synthesis.frontend.stream_accesses import StreamAccesses, StreamPlace
from bfpga.synthesis.graph import Graph, mask_of

#: A value that must not be used: a variable before its first write.
UNDEFINED = -1
_ARITHMETIC = {"add": Opcode.ADD, "sub": Opcode.SUB, "mul": Opcode.MUL}
_DIVISION = {"udiv": Opcode.UDIV, "sdiv": Opcode.SDIV, "urem": Opcode.UREM, "srem": Opcode.SREM}
_LOGIC = {"and": Opcode.AND, "or": Opcode.OR, "xor": Opcode.XOR}
_SHIFT = {"shl": Opcode.SHL, "lshr": Opcode.LSHR, "ashr": Opcode.ASHR}
_EXTENSION = {"zext": Opcode.ZEXT, "sext": Opcode.SEXT}
_FLAGS = re.compile(r"^(?:(?:nuw|nsw|exact|disjoint|nneg|samesign|volatile|fast|contract) )*")
_FLOAT_WIDTH = {"float": 32, "double": 64, "half": 16}
_COMPARE = {
    "eq": (Opcode.EQ, False), "ne": (Opcode.NE, False), "ult": (Opcode.ULT, False), "ule": (Opcode.ULE, False),
    "ugt": (Opcode.ULT, True), "uge": (Opcode.ULE, True), "slt": (Opcode.SLT, False), "sle": (Opcode.SLE, False),
    "sgt": (Opcode.SLT, True), "sge": (Opcode.SLE, True),
}  # fmt: skip
_CALL = re.compile(r'(?:[\w()-]+ )*?(\w+|void|\{[^}]*\}) @("[^"]+"|[\w.$-]+)\((.*)\)')
_IGNORED = ("llvm.lifetime.end", "llvm.assume", "llvm.dbg", "llvm.experimental", LOOP_NOTE)


class BodyBuilder:
    """Translates one loop."""

    def __init__(
        self, function: Function, region: Region, body: LoopBody, places: Places, cells: Cells,
        pieces_of: set[str] | None = None,
    ) -> None:  # fmt: skip
        self._function, self._places, self._cells = function, places, cells
        self._graph = Graph()
        self._region = region
        self._conditions = Conditions(self._graph, self._region, self._edge)
        self._values: dict[str, int] = {}
        self._states: dict[str, dict[tuple[str, int], int]] = {}
        self._state: dict[tuple[str, int], int] = {}
        self._block = region.header
        self._enable = -1
        self._body = body
        body.header = region.header
        self._defined = {i.result for name in region.order if name != END for i in function.blocks[name].instructions}
        self._initial: dict[tuple[str, int], int] = {}
        self._of_register: dict[tuple[str, int], int] = {}
        self._memories = MemoryAccesses(self._graph, body, cells, self._index)
        self._streams = StreamAccesses(self._graph, body, cells)
        self._header_phis: list[tuple[str, int, Instruction]] = []
        #: Values of variables that a loop which is left out begins with.
        self._handed_over: set[int] = set()
        cells.scan(function, region.blocks, pieces_of)

    # -- the walk through the blocks

    def build(self) -> LoopBody:
        """The loop's body.

        Raises:
            UntranslatedError: an instruction has no translation.
        """
        for name in self._region.order:
            if name == END:
                continue
            self._enter(name)
            for instruction in self._function.blocks[name].instructions:
                self._translate_placed(instruction)
            self._states[name] = self._state
        self._memories.flush()
        self._streams.flush()
        self._finish()
        return self._body

    def _enter(self, name: str) -> None:
        self._block = name
        self._enable = self._conditions.executed(name)
        before = self._region.before[name]
        if name == self._region.header:
            self._state = {}
        elif len(before) == 1:
            self._state = dict(self._state_after(before[0]))
        else:
            self._state = self._merged_state(name, before)

    def _state_after(self, block: str) -> dict[tuple[str, int], int]:
        """What is known of variables after a block; a loop that is left out may have changed those that it shares."""
        state = self._states[block]
        if block not in self._region.skipped:
            return state
        shared = [key for key in state if self._cells.is_carried(key)]
        self._handed_over.update(state[key] for key in shared if state[key] != UNDEFINED)
        return {key: value for key, value in state.items() if key not in set(shared)}

    def _merged_state(self, name: str, before: list[str]) -> dict[tuple[str, int], int]:
        states = [self._state_after(b) for b in before]
        keys = dict.fromkeys(key for state in states for key in state)
        merged = {}
        for key in keys:
            values = [state[key] if key in state else self._initial_value(key) for state in states]
            merged[key] = values[0] if all(v == values[0] for v in values) else self._gated(name, before, values)
        return merged

    def _gated(self, name: str, before: list[str], values: list[int]) -> int:
        """The value of the edge by which a block is reached."""
        known = [(b, v) for b, v in zip(before, values, strict=True) if v != UNDEFINED]
        if not known:
            return UNDEFINED
        by_value: dict[int, list[str]] = {}
        for block, value in known:
            by_value.setdefault(value, []).append(block)
        chosen = sorted(by_value, key=lambda v: len(by_value[v]))
        result = chosen[-1]
        for value in reversed(chosen[:-1]):
            condition = self._graph.constant(0, 1)
            for block in by_value[value]:
                edge = self._conditions.edge(self._region.above[name], block, name)
                condition = self._graph.logic(Opcode.OR, condition, edge)
            result = self._graph.select(condition, value, result)
        return result

    def _edge(self, before: str, block: str) -> int:
        """Condition of an edge where the block that it leaves is executed."""
        last = self._function.blocks[before].instructions[-1]
        if before in self._region.skipped:
            return self._after_loop(before, block)
        targets = [self._region.target(before, t) for t in self._function.blocks[before].successors()]
        if all(target == block for target in targets):
            return self._graph.constant(1, 1)
        if last.opcode == "br":
            condition = self._operand("i1", split_list(last.text)[0].split()[-1])
            return condition if targets[0] == block else self._graph.invert(condition)
        return self._switch_edge(last, targets, block)

    def _after_loop(self, before: str, block: str) -> int:
        """Condition of an exit of a loop that is left out: unknown here where there are several."""
        if len(self._region.successors[before]) == 1:
            return self._graph.constant(1, 1)
        return self._graph.add(Operation(Opcode.INVARIANT, 1, name=f"{before} is left to {block}"))

    def _switch_edge(self, last: Instruction, targets: list[str], block: str) -> int:
        head, cases = last.text.split("[", 1)
        kind, value = split_type(split_list(head)[0])
        subject = self._operand(kind, value.split(",")[0])
        constants = re.findall(rf"{kind} (-?\d+|true|false), label", cases)
        taken, others = self._graph.constant(0, 1), self._graph.constant(0, 1)
        for constant, target in zip(constants, targets[1:], strict=True):
            equal = self._graph.compare(Opcode.EQ, subject, self._operand(kind, constant))
            if target == block:
                taken = self._graph.logic(Opcode.OR, taken, equal)
            else:
                others = self._graph.logic(Opcode.OR, others, equal)
        return self._graph.invert(others) if targets[0] == block else taken

    # -- operands

    def _operand(self, kind: str, text: str) -> int:
        text = text.strip()
        width = _FLOAT_WIDTH.get(kind) or integer_width(kind)
        if text in self._values:
            value = self._values[text]
            return self._graph.constant(0, width) if value == UNDEFINED else value
        if text.startswith("%"):
            if text in self._defined:
                raise UntranslatedError(f"{text} is used before it is computed")
            value = self._graph.add(Operation(Opcode.INVARIANT, width, name=text))
            self._values[text] = value
            self._body.origins[text] = Origin(text)
            return value
        return self._graph.constant(_literal(text, kind), width)

    def _operand_or_undefined(self, kind: str, text: str) -> int:
        if text in ("undef", "poison"):
            return UNDEFINED
        return self._values[text] if text in self._values else self._operand(kind, text)

    # -- instructions

    def _translate_placed(self, instruction: Instruction) -> None:
        try:
            self._translate(instruction)
        except ToolError as error:
            place = _line_in(self._body.place.file, self._graph.place) or self._body.place
            raise UntranslatedError(f"{place}: {self._body.name} has no hardware here: {error}") from error

    def _translate(self, instruction: Instruction) -> None:
        self._graph.place = self._places.of(instruction.debug) or self._graph.place
        opcode = instruction.opcode
        if opcode in ("br", "switch", "getelementptr", "alloca", "unreachable", "ret") or _is_pointer(instruction):
            return
        if opcode == "phi":
            self._phi(instruction)
        elif opcode == "store":
            self._store(instruction)
        elif opcode == "call":
            self._call(instruction)
        elif opcode == "load":
            self._values[instruction.result] = self._load(instruction)
        elif opcode == "icmp" and _compares_pointers(instruction):
            self._values[instruction.result] = self._end_of_array(instruction)
        else:
            self._values[instruction.result] = self._computed(instruction)

    def _end_of_array(self, instruction: Instruction) -> int:
        """A loop that sets up an array compares pointers; it is one outside of pipelines, and its circle is cut."""
        if not self._region.skipped:
            raise UntranslatedError(f"icmp {instruction.text[:80]}")
        return self._graph.add(Operation(Opcode.INVARIANT, 1, name=instruction.result))

    def _computed(self, instruction: Instruction) -> int:
        graph, opcode = self._graph, instruction.opcode
        text = _FLAGS.sub("", instruction.text)
        if opcode in _ARITHMETIC or opcode in _DIVISION or opcode in _LOGIC or opcode in _SHIFT:
            kind, rest = split_type(text)
            one, other = (self._operand(kind, part) for part in split_list(rest))
            if opcode in _ARITHMETIC:
                return graph.arithmetic(_ARITHMETIC[opcode], one, other, self._binding(opcode))
            if opcode in _LOGIC:
                return graph.logic(_LOGIC[opcode], one, other)
            if opcode in _SHIFT:
                return graph.shift(_SHIFT[opcode], one, other)
            return graph.division(_DIVISION[opcode], one, other)
        if opcode == "icmp":
            predicate, rest = text.split(" ", 1)
            kind, rest = split_type(_FLAGS.sub("", rest))
            one, other = (self._operand(kind, part) for part in split_list(rest))
            compare, swapped = _COMPARE[predicate]
            return graph.compare(compare, other, one) if swapped else graph.compare(compare, one, other)
        if opcode in _EXTENSION or opcode in ("trunc", "bitcast", "freeze"):
            return self._converted(opcode, text)
        if opcode == "select":
            parts = [split_type(part) for part in split_list(text)]
            condition = self._operand(*parts[0])
            return graph.select(condition, self._operand(*parts[1]), self._operand(*parts[2]))
        return self._float(instruction, text)

    def _binding(self, opcode: str) -> str:
        place = self._graph.place
        return self._cells.binding(place) if opcode == "mul" and place is not None else ""

    def _converted(self, opcode: str, text: str) -> int:
        kind, rest = split_type(text)
        value, _, target = rest.partition(" to ")
        operand = self._operand(kind, value or rest)
        if opcode in ("freeze", "bitcast"):
            return operand
        width = integer_width(target.strip())
        return (
            self._graph.slice(operand, 0, width)
            if opcode == "trunc"
            else self._graph.extend(_EXTENSION[opcode], operand, width)
        )

    def _float(self, instruction: Instruction, text: str) -> int:
        opcode = instruction.opcode
        if not opcode.startswith("f") and opcode not in ("sitofp", "uitofp"):
            raise UntranslatedError(f"{opcode} {instruction.text[:80]}")
        head, _, target = text.partition(" to ")
        if opcode == "fcmp":
            head = head.split(" ", 1)[1]
        kind, rest = split_type(head)
        operands = tuple(self._operand(kind, part) for part in split_list(rest))
        width = 1 if opcode == "fcmp" else _width_of(target.strip() or kind)
        return self._graph.add(Operation(Opcode.FLOAT, width, operands, name=opcode))

    def _phi(self, instruction: Instruction) -> None:
        kind, rest = split_type(_FLAGS.sub("", instruction.text))
        width = _width_of(kind)
        pairs = phi_pairs(rest)
        if self._is_carried(pairs):
            register = len(self._body.registers)
            current = self._graph.add(Operation(Opcode.STATE, width, register=register), shared=False)
            name = self._cells.value_name(instruction.result)
            self._body.registers.append(Register(name, width, current, -1, self._graph.place))
            self._values[instruction.result] = current
            self._header_phis.append((kind, register, instruction))
            self._body.origins[name] = Origin(instruction.result)
            return
        incoming = {self._entry(block): self._operand_or_undefined(kind, value) for value, block in pairs}
        before = [b for b in self._region.before[self._block] if b in incoming]
        self._values[instruction.result] = self._gated(self._block, before, [incoming[b] for b in before])

    def _is_carried(self, pairs: list[tuple[str, str]]) -> bool:
        """Whether a phi takes a value from an edge that ends the iteration."""
        if self._block == self._region.header:
            return True
        return any(
            block in self._region.successors and self._region.target(block, self._block) == END for _, block in pairs
        )

    def _entry(self, block: str) -> str:
        """The block that replaces a predecessor in the region: for a loop that is left out the one before it."""
        if block in self._region.successors:
            return block
        return next((b for b, exits in self._region.skipped.items() if self._block in exits), block)

    # -- memory

    def _load(self, instruction: Instruction) -> int:
        volatile = instruction.text.startswith("volatile ")
        kind, pointer = split_list(_FLAGS.sub("", instruction.text))[:2]
        operand = split_type(pointer)[1]
        width = _width_of(kind)
        if volatile:
            return self._streams.read(self._stream_places(operand), self._block, width)
        size = -(-width // 8)
        if self._region.skipped and not self._cells.is_known(operand):
            return self._graph.add(Operation(Opcode.INVARIANT, width, name=instruction.result))
        values = []
        for access, condition in self._cells.accesses(operand):
            values.append((self._read(access, size), condition))
        return self._graph.slice(self._of_conditions(values), 0, width)

    def _of_conditions(self, values: list[tuple[int, tuple[tuple[str, bool], ...]]]) -> int:
        result = values[-1][0]
        for value, condition in reversed(values[:-1]):
            result = self._graph.select(self._holds(condition), value, result)
        return result

    def _holds(self, condition: tuple[tuple[str, bool], ...]) -> int:
        value = self._graph.constant(1, 1)
        for text, holds in condition:
            bit = self._entered(*text.split(" ")) if " " in text else self._operand("i1", text)
            value = self._graph.logic(Opcode.AND, value, bit if holds else self._graph.invert(bit))
        return value

    def _entered(self, block: str, before: str) -> int:
        """Condition of entering a block from one of its predecessors, where the block is executed."""
        return self._conditions.edge(self._region.above[block], self._entry(before), block)

    def _store(self, instruction: Instruction) -> None:
        volatile = instruction.text.startswith("volatile ")
        value_text, pointer = split_list(_FLAGS.sub("", instruction.text))[:2]
        kind, value = split_type(value_text)
        operand = split_type(pointer)[1]
        if kind == "ptr":
            return
        data = self._operand(kind, value)
        if volatile:
            self._streams.write(self._stream_places(operand), self._block, data)
            return
        size = -(-self._graph.width(data) // 8)
        self._write_all(operand, self._graph.extend(Opcode.ZEXT, data, 8 * size), size)

    def _write_all(self, operand: str, data: int, size: int) -> None:
        if self._region.skipped and not self._cells.is_known(operand):
            return
        for access, condition in self._cells.accesses(operand):
            self._write(access, data, size, self._holds(condition))

    def _initial_value(self, key: tuple[str, int]) -> int:
        """What an atom of a variable is at the beginning of an iteration."""
        if key not in self._initial:
            width = 8 * self._cells.atom_size(key)
            name = self._cells.atom_name(key)
            self._body.origins[name] = Origin(*key)
            if not self._cells.is_carried(key):
                self._initial[key] = UNDEFINED
                return UNDEFINED
            exact, is_signed = self._cells.exact_bits(key) or (width, False)
            if self._cells.is_written(key):
                register = len(self._body.registers)
                current = self._graph.add(Operation(Opcode.STATE, exact, register=register), shared=False)
                self._body.registers.append(Register(name, exact, current, -1))
                self._of_register[key] = register
            else:
                current = self._graph.add(Operation(Opcode.INVARIANT, exact, name=name))
            self._initial[key] = self._graph.extend(Opcode.SEXT if is_signed else Opcode.ZEXT, current, width)
        return self._initial[key]

    def _atom(self, key: tuple[str, int]) -> int:
        constant = self._cells.constant_bytes(key)
        if constant is not None:
            return self._graph.constant(int.from_bytes(constant, "little"), 8 * len(constant))
        value = self._state[key] if key in self._state else self._initial_value(key)
        return self._graph.constant(0, 8 * self._cells.atom_size(key)) if value == UNDEFINED else value

    def _read_bytes(self, root: str, offset: int, size: int) -> int:
        return self._graph.concat([self._atom(key) for key in self._cells.atoms(root, offset, size)])

    def _write_bytes(self, root: str, offset: int, size: int, data: int, condition: int) -> None:
        position = 0
        for key in self._cells.atoms(root, offset, size):
            bits = 8 * self._cells.atom_size(key)
            part = self._graph.slice(data, position, bits)
            exact = self._cells.exact_bits(key)
            if exact is not None:
                kind = Opcode.SEXT if exact[1] else Opcode.ZEXT
                part = self._graph.extend(kind, self._graph.slice(part, 0, exact[0]), bits)
            if self._graph.constant_of(condition) != 1:
                part = self._graph.select(condition, part, self._atom(key))
            self._state[key] = part
            position += bits

    def _index(self, index: Index, in_banks: bool = False) -> int:
        """Index of a dimension: constant part and terms. ``in_banks``: its lowest bits name one of several banks."""
        width = max(2, (index.extent - 1).bit_length() + 1)
        total = self._graph.constant(0 if in_banks else index.constant, width)
        for term, scale in index.terms:
            operand = self._operand(term.kind, term.operand)
            size = self._graph.width(operand)
            part = (
                self._graph.slice(operand, 0, width)
                if size >= width
                else self._graph.extend(Opcode.SEXT, operand, width)
            )
            if scale != 1:
                part = self._graph.arithmetic(Opcode.MUL, part, self._graph.constant(scale, width))
            total = self._graph.arithmetic(Opcode.ADD, total, part)
        if in_banks:
            total = self._graph.offset(total, index.constant)
        return self._graph.slice(total, 0, max(1, (index.extent - 1).bit_length()))

    def _read(self, access: RegisterAccess | MemoryAccess, size: int) -> int:
        if isinstance(access, MemoryAccess):
            return self._memories.read(access, size, self._enable)
        return self._read_element(access.root, access.offset, access.indices, size)

    def _read_element(self, root: str, offset: int, indices: Sequence[Index], size: int) -> int:
        """An element of registers: a tree of multiplexers by the bits of each index."""
        if not indices:
            return self._read_bytes(root, offset, size)
        dimension, *inner = indices
        index = self._index(dimension)
        value = self._graph.constant_of(index)
        if value is not None:
            return self._read_element(root, offset + value * dimension.stride, inner, size)
        places = (offset + choice * dimension.stride for choice in range(dimension.extent))
        return self._graph.element([self._read_element(root, place, inner, size) for place in places], index)

    def _write(self, access: RegisterAccess | MemoryAccess, data: int, size: int, condition: int) -> None:
        if isinstance(access, MemoryAccess):
            self._memories.write(access, data, size, self._enable, condition)
            return
        if not access.indices:
            self._write_bytes(access.root, access.offset, size, data, condition)
            return
        for offset, chosen in self._element_places(access):
            self._write_bytes(access.root, offset, size, data, self._graph.logic(Opcode.AND, condition, chosen))

    def _element_places(self, access: RegisterAccess) -> list[tuple[int, int]]:
        """Byte offset of every element that the indices may name, and the condition that they do."""
        places = [(access.offset, self._graph.constant(1, 1))]
        for dimension in access.indices:
            index = self._index(dimension)
            value = self._graph.constant_of(index)
            choices = range(dimension.extent) if value is None else [value]
            places = [
                (
                    offset + choice * dimension.stride,
                    self._graph.logic(Opcode.AND, condition, is_choice(self._graph, index, choice)),
                )
                for offset, condition in places
                for choice in choices
            ]
        return places

    # -- streams and calls

    def _stream_places(self, operand: str) -> list[StreamPlace]:
        """The streams that an operand may be: of several the code chooses one."""
        places = self._cells.resolve(operand)
        if not places:
            raise UntranslatedError(f"no stream is {operand}")
        found = []
        for place in places:
            condition, enable = UNDEFINED, self._enable
            if len(places) > 1:
                condition = self._holds(place.condition)
                enable = self._graph.logic(Opcode.AND, enable, condition)
            found.append(StreamPlace(self._streams.number(place.root), place.offset, condition, enable))
        return found

    def _call(self, instruction: Instruction) -> None:
        found = _CALL.match(instruction.text)
        if found is None:
            raise UntranslatedError(f"call {instruction.text[:100]}")
        kind, name, arguments = found.groups()
        if name.startswith(_IGNORED):
            return
        parts = [split_type(part) for part in split_list(arguments)]
        if name.startswith("llvm.lifetime.start"):
            self._forget(parts[-1][1])
        elif name.startswith(("llvm.memcpy", "llvm.memmove", "llvm.memset")):
            self._copy(name, split_list(arguments))
        elif name.startswith("llvm."):
            operands = [self._operand(part[0], part[1].split()[-1]) for part in parts if part[0].startswith("i")]
            self._values[instruction.result] = intrinsic(self._graph, name, kind, operands)
        else:
            raise UntranslatedError(f"call of {name}")

    def _forget(self, operand: str) -> None:
        for place in self._cells.resolve(operand.split()[-1]):
            for key in self._cells.all_atoms(place.root):
                self._state[key] = UNDEFINED

    def _copy(self, name: str, arguments: list[str]) -> None:
        target, source, count = arguments[0], arguments[1], int(arguments[2].split()[-1])
        if name.startswith("llvm.memset"):
            fill = bytes([int(source.split()[-1]) & 255]) * count
            data = self._graph.constant(int.from_bytes(fill, "little"), 8 * count)
        else:
            values = [(self._read(a, count), c) for a, c in self._cells.accesses(pointer_operand(source))]
            data = self._of_conditions(values)
        self._write_all(pointer_operand(target), data, count)

    # -- the end of the iteration

    def _finish(self) -> None:
        before = self._region.before[END]
        state = self._merged_state(END, before) if len(before) > 1 else self._state_after(before[0])
        nexts: dict[int, int] = {}
        for key, register in self._of_register.items():
            value = state.get(key, self._initial[key])
            value = self._initial[key] if value == UNDEFINED else value
            nexts[register] = self._graph.slice(value, 0, self._body.registers[register].width)
        for key, value in state.items():
            if key not in self._initial and self._cells.is_carried(key) and value != UNDEFINED:
                exact = self._cells.exact_bits(key)
                width = exact[0] if exact is not None else self._graph.width(value)
                register = len(self._body.registers)
                current = self._graph.add(Operation(Opcode.STATE, width, register=register), shared=False)
                self._body.registers.append(Register(self._cells.atom_name(key), width, current, -1))
                self._body.origins[self._cells.atom_name(key)] = Origin(*key)
                nexts[register] = self._graph.slice(value, 0, width)
        for kind, register, instruction in self._header_phis:
            pairs = phi_pairs(instruction.text)
            incoming = [(v, b) for v, b in pairs if b in self._region.successors and self._ends(b)]
            values = [self._operand_or_undefined(kind, value) for value, _ in incoming]
            current = self._body.registers[register].current
            value = values[0] if len(values) == 1 else self._gated(END, [b for _, b in incoming], values)
            nexts[register] = current if value == UNDEFINED else value
        phis = {register for _, register, _ in self._header_phis}
        self._body.registers = [
            replace(r, next=nexts.get(k, r.current), left=0 if k in phis or k not in nexts else mask_of(r.width))
            for k, r in enumerate(self._body.registers)
        ]
        leaves = self._graph.constant(0, 1)
        exits = [] if self._region.skipped else self._region.exits
        for block, _ in exits:
            leaves = self._graph.logic(Opcode.OR, leaves, self._exit_condition(block))
        self._body.leaves = leaves if exits else -1
        handed_over = (k for k in self._handed_over if self._graph.constant_of(k) is None)
        self._body.outputs = sorted({*self._live_outs(), *handed_over})
        self._body.operations = self._graph.operations

    def _ends(self, block: str) -> bool:
        return END in self._region.successors[block]

    def _exit_condition(self, block: str) -> int:
        """The block's branch leaves the loop (and does not go back to its header)."""
        last = self._function.blocks[block].instructions[-1]
        targets = self._function.blocks[block].successors()
        outside = [t not in self._region.blocks for t in targets]
        executed = self._conditions.executed(block)
        if all(outside):
            return executed
        if last.opcode == "br":
            condition = self._operand("i1", split_list(last.text)[0].split()[-1])
            taken = condition if outside[0] else self._graph.invert(condition)
            return self._graph.logic(Opcode.AND, executed, taken)
        return self._graph.logic(
            Opcode.AND,
            executed,
            self._switch_edge(last, [END if o else t for o, t in zip(outside, targets, strict=True)], END),
        )

    def export(self, name: str, value: int) -> None:
        """Adds a value of the iteration to those that other bodies of the function use."""
        self._body.exports[name] = value
        self._body.outputs = sorted({*self._body.outputs, value})

    def always(self) -> int:
        """The condition that always holds."""
        return self._graph.constant(1, 1)

    def leaving(self, block: str, target: str) -> int:
        """Condition that the iteration ends by the edge from a block to ``target``; "" means by a return."""
        executed = self._conditions.executed(block)
        targets = self._function.blocks[block].successors()
        if not target or all(each == target for each in targets):
            return executed
        last = self._function.blocks[block].instructions[-1]
        if last.opcode == "br":
            condition = self._operand("i1", split_list(last.text)[0].split()[-1])
            taken = condition if targets[0] == target else self._graph.invert(condition)
        else:
            taken = self._switch_edge(last, [END if each == target else each for each in targets], END)
        return self._graph.logic(Opcode.AND, executed, taken)

    def value_of(self, kind: str, text: str) -> int:
        """A value as it is when the iteration ends; `UNDEFINED` for one that must not be used."""
        return self._operand_or_undefined(kind, text)

    def defined_value(self, name: str) -> int:
        """A value that the body computes; `UNDEFINED` if it does not."""
        return self._values.get(name, UNDEFINED) if name in self._defined else UNDEFINED

    def _live_outs(self) -> list[int]:
        used = []
        names = re.compile(r'%"[^"]+"|%[\w.$-]+')
        for name, block in self._function.blocks.items():
            if name in self._region.blocks:
                continue
            for instruction in block.instructions:
                for operand in names.findall(instruction.text):
                    if operand in self._defined and self._values.get(operand, UNDEFINED) != UNDEFINED:
                        used.append(self._values[operand])
        return sorted(set(used))


def loop_body(notes: list[LoopNote], places: Places, function: Function, loop: Loop) -> LoopBody:
    """The body of a pipelined loop, still without operations."""
    pipeline = next(note for note in notes if note.text.startswith("PIPELINE"))
    stated = re.search(r"\bII\s*=\s*(\d+)", pipeline.text)
    function_name = ""
    for instruction in _instructions(function, loop):
        place = places.of(instruction.debug)
        if place is not None and place.file == pipeline.file:
            function_name = place.function
            break
    return LoopBody(
        pipeline.label or f"line{pipeline.line}",
        Place(pipeline.file, pipeline.line, function_name),
        int(stated.group(1)) if stated else 1,
    )


def _line_in(file: str, place: Place | None) -> Place | None:
    """Where a file calls what comes to be at a place; the place itself if nothing of the file does."""
    caller = place
    while caller is not None and caller.file != file:
        caller = caller.caller
    return caller or place


def _instructions(function: Function, loop: Loop) -> list[Instruction]:
    blocks: list[Block] = [function.blocks[name] for name in function.blocks if name in loop.blocks]
    return [instruction for block in blocks for instruction in block.instructions]


def _is_pointer(instruction: Instruction) -> bool:
    text = instruction.text
    return instruction.opcode in ("select", "phi", "load", "freeze") and (
        (instruction.opcode == "select" and ", ptr " in text)
        or (instruction.opcode in ("phi", "freeze") and text.startswith("ptr "))
        or (instruction.opcode == "load" and text.startswith("ptr,"))
    )


def _compares_pointers(instruction: Instruction) -> bool:
    return _FLAGS.sub("", instruction.text).split(" ", 2)[1] == "ptr"


def _width_of(kind: str) -> int:
    return _FLOAT_WIDTH.get(kind) or integer_width(kind)


def _literal(text: str, kind: str) -> int:
    if text in ("true", "false"):
        return int(text == "true")
    if text in ("undef", "poison", "zeroinitializer", "null"):
        return 0
    if kind in _FLOAT_WIDTH:
        return hash(text) & 0xFFFF
    return int(text)
