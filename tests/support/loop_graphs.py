"""Loop bodies made at random: every operation at many widths, state, memories and streams, with a valid schedule."""

from __future__ import annotations

import random

from bfpga.synthesis.body import LoopBody, Memory, Opcode, Operation, Place, Register, Stream
from bfpga.synthesis.netlist.pipeline import FIXED
from bfpga.synthesis.schedule_types import Schedule

PLACE = Place("loop.hpp", 1, "run")
_BINARY = (
    Opcode.ADD, Opcode.SUB, Opcode.MUL, Opcode.UDIV, Opcode.SDIV, Opcode.UREM, Opcode.SREM, Opcode.AND, Opcode.OR,
    Opcode.XOR, Opcode.SHL, Opcode.LSHR, Opcode.ASHR, Opcode.EQ, Opcode.NE, Opcode.ULT, Opcode.ULE, Opcode.SLT,
    Opcode.SLE,
)  # fmt: skip
_COMPARES = (Opcode.EQ, Opcode.NE, Opcode.ULT, Opcode.ULE, Opcode.SLT, Opcode.SLE)
_UNARY = (Opcode.POPCOUNT, Opcode.CLZ, Opcode.CTZ)


class RandomBody:
    """A body that grows by random operations."""

    def __init__(self, seed: int, operations: int = 100, widest: int = 200) -> None:
        self.random = random.Random(seed)
        self.body = LoopBody("random", PLACE, 1)
        self.widest = widest
        for register in range(6):
            width = self._width()
            current = self.add(Opcode.STATE, width, register=register)
            self.body.registers.append(Register(f"r{register}", width, current, -1))
        for number in range(4):
            self.add(Opcode.INVARIANT, self._width(), name=f"i{number}")
        self.body.memories.append(Memory("memory", 1024, 40))
        self.body.streams.append(Stream("stream", 33))
        # Every operation once, the rest at random.
        for opcode in (*_BINARY, *_UNARY, Opcode.SELECT, Opcode.ZEXT, Opcode.SEXT, Opcode.SLICE, Opcode.CONCAT):
            self._computed(opcode)
        while len(self.body.operations) < operations:
            self._any()
        self._finish()

    def add(self, opcode: Opcode, width: int, *operands: int, **more: object) -> int:
        self.body.operations.append(Operation(opcode, width, operands, place=PLACE, **more))  # type: ignore[arg-type]
        return len(self.body.operations) - 1

    def _width(self) -> int:
        return self.random.choice((1, 2, 3, 8, 17, 31, 32, 33, 64, self.random.randint(1, self.widest)))

    def _value(self, width: int = 0) -> int:
        """A value there is, or of a width: cut or extended from one."""
        index = self.random.choice([i for i, each in enumerate(self.body.operations) if each.width])
        found = self.body.operations[index].width
        if not width or found == width:
            return index
        if found > width:
            return self.add(Opcode.SLICE, width, index, value=self.random.randint(0, found - width))
        return self.add(self.random.choice((Opcode.ZEXT, Opcode.SEXT)), width, index)

    def _any(self) -> None:
        choice = self.random.random()
        if choice < 0.1:
            width = self._width()
            self.add(Opcode.CONSTANT, width, value=self.random.getrandbits(width))
        elif choice < 0.15:
            self._access(Opcode.MEMORY_READ, 40, self._value(10), self._value(1), memory=0)
        elif choice < 0.2:
            self._access(Opcode.STREAM_READ, 33, self._value(1), stream=0)
        elif choice < 0.25:
            self._access(Opcode.MEMORY_WRITE, 0, self._value(10), self._value(40), self._value(1), memory=0)
        elif choice < 0.3:
            self._access(Opcode.STREAM_WRITE, 0, self._value(33), self._value(1), stream=0)
        else:
            kinds = (*_BINARY, *_UNARY, Opcode.SELECT, Opcode.ZEXT, Opcode.SEXT, Opcode.SLICE, Opcode.CONCAT)
            self._computed(self.random.choice(kinds))

    def _access(self, opcode: Opcode, width: int, *operands: int, memory: int = -1, stream: int = -1) -> None:
        index = self.add(opcode, width, *operands, memory=memory, stream=stream)
        (self.body.memories if memory >= 0 else self.body.streams)[0].accesses.append(index)

    def _computed(self, opcode: Opcode) -> None:
        width = self._width()
        if opcode in _BINARY:
            binding = self.random.choice(("", "fabric")) if opcode is Opcode.MUL else ""
            self.add(
                opcode, 1 if opcode in _COMPARES else width, self._value(width), self._value(width), binding=binding
            )
        elif opcode in _UNARY:
            self.add(opcode, width + 8, self._value(width + 8))
        elif opcode is Opcode.SELECT:
            self.add(opcode, width, self._value(1), self._value(width), self._value(width))
        elif opcode is Opcode.CONCAT:
            parts = [self._value() for _ in range(self.random.randint(1, 3))]
            self.add(opcode, sum(self.body.operations[part].width for part in parts), *parts)
        elif opcode is Opcode.SLICE:
            value = self._value()
            found = self.body.operations[value].width
            low = self.random.randint(0, found - 1)
            self.add(opcode, self.random.randint(1, found - low), value, value=low)
        else:
            value = self._value()
            self.add(opcode, self.body.operations[value].width + self.random.randint(1, 20), value)

    def _finish(self) -> None:
        registers = self.body.registers
        for number, register in enumerate(registers):
            # One register holds, one takes another's value, the others take anything.
            following = self._value(register.width)
            if number == 0:
                following = register.current
            elif number == 1 and registers[2].width == register.width:
                following = registers[2].current
            registers[number] = Register(register.name, register.width, register.current, following)

        # Every value is looked at.
        self.body.outputs = [index for index, each in enumerate(self.body.operations) if each.width]

    def inputs(self, iterations: int) -> tuple[list[int], dict[int, int], list[dict[int, int]]]:
        """Initial state, invariants and reads."""
        draw = self.random.getrandbits
        operations = self.body.operations
        initial = [draw(register.width) for register in self.body.registers]
        invariants = {i: draw(o.width) for i, o in enumerate(operations) if o.opcode is Opcode.INVARIANT}
        external = [i for i, o in enumerate(operations) if o.opcode in (Opcode.MEMORY_READ, Opcode.STREAM_READ)]
        reads = [{index: draw(operations[index].width) for index in external} for _ in range(iterations)]
        return initial, invariants, reads

    def schedule(self) -> Schedule:
        """Stages that wait now and then, latencies, and the least interval with which the registers are in time."""
        operations = self.body.operations
        stage, latency = [0] * len(operations), [0] * len(operations)
        wiring = (Opcode.ZEXT, Opcode.SEXT, Opcode.SLICE, Opcode.CONCAT)
        for index, operation in enumerate(operations):
            ready = max([stage[operand] + latency[operand] for operand in operation.operands], default=0)
            moves = operation.opcode not in FIXED and operation.opcode is not Opcode.STATE
            stage[index] = ready + int(
                moves and operation.opcode not in wiring and len(operations) * self.random.random() < 8
            )
            if operation.opcode in (Opcode.MEMORY_READ, Opcode.MUL):
                latency[index] = self.random.choice((0, 1, 2))
        interval = 1
        for index, operation in enumerate(operations):
            for operand in operation.operands if operation.opcode not in wiring else ():
                for register in self.body.registers:
                    if register.current in self._roots(operand):
                        following = max([stage[r] + latency[r] for r in self._roots(register.next)], default=0)
                        interval = max(interval, following - stage[index])
        return Schedule(self.body, 10.0, 1.0, interval, 1 + max(stage), stage, [0.0] * len(stage), latency)

    def _roots(self, index: int) -> set[int]:
        operation = self.body.operations[index]
        if operation.opcode in (Opcode.ZEXT, Opcode.SEXT, Opcode.SLICE, Opcode.CONCAT):
            return set().union(*(self._roots(operand) for operand in operation.operands))
        return {index}
