"""Loop bodies written by hand: a builder that returns the index of every operation."""

from __future__ import annotations

from bfpga.synthesis.body import LoopBody, Memory, Opcode, Operation, Place, Register, Stream, Waiver


class BodyBuilder:
    """A loop body that grows by calls; ``always`` is an enable that is 1."""

    def __init__(self) -> None:
        self.body = LoopBody("loop", Place("kernel.cpp", 1, "top"), 1)
        self.always = self.constant(1, 1)

    def add(self, opcode: Opcode, width: int, *operands: int, **fields: int | str) -> int:
        """An operation whose place is line index + 1."""
        place = Place("kernel.cpp", len(self.body.operations) + 1, "top")
        self.body.operations.append(Operation(opcode, width, operands, place=place, **fields))  # type: ignore[arg-type]
        return len(self.body.operations) - 1

    def constant(self, value: int, width: int) -> int:
        return self.add(Opcode.CONSTANT, width, value=value & ((1 << width) - 1))

    def invariant(self, width: int, name: str) -> int:
        return self.add(Opcode.INVARIANT, width, name=name)

    def state(self, width: int, name: str = "state") -> int:
        """The current value of a new register; ``follow`` gives the next."""
        index = self.add(Opcode.STATE, width, register=len(self.body.registers))
        self.body.registers.append(Register(name, width, index, index))
        return index

    def follow(self, state: int, following: int) -> None:
        number = self.body.operations[state].register
        old = self.body.registers[number]
        self.body.registers[number] = Register(old.name, old.width, state, following)

    def counter(self, width: int, step: int = 1, name: str = "i") -> int:
        """A register that grows by ``step``."""
        state = self.state(width, name)
        self.follow(state, self.add(Opcode.ADD, width, state, self.constant(step, width)))
        return state

    def memory(self, words: int, width: int, *waivers: Waiver, ports: str = "auto", name: str = "") -> int:
        number = len(self.body.memories)
        self.body.memories.append(Memory(name or f"memory{number}", words, width, ports=ports, waivers=list(waivers)))
        return number

    def read(self, memory: int, address: int, enable: int | None = None) -> int:
        width = self.body.memories[memory].width
        enable = self.always if enable is None else enable
        index = self.add(Opcode.MEMORY_READ, width, address, enable, memory=memory)
        self.body.memories[memory].accesses.append(index)
        return index

    def write(self, memory: int, address: int, data: int, enable: int | None = None) -> int:
        enable = self.always if enable is None else enable
        index = self.add(Opcode.MEMORY_WRITE, 0, address, data, enable, memory=memory)
        self.body.memories[memory].accesses.append(index)
        return index

    def stream(self, width: int) -> int:
        self.body.streams.append(Stream(f"stream{len(self.body.streams)}", width))
        return len(self.body.streams) - 1

    def receive(self, stream: int, enable: int | None = None) -> int:
        enable = self.always if enable is None else enable
        index = self.add(Opcode.STREAM_READ, self.body.streams[stream].width, enable, stream=stream)
        self.body.streams[stream].accesses.append(index)
        return index

    def send(self, stream: int, data: int, enable: int | None = None) -> int:
        enable = self.always if enable is None else enable
        index = self.add(Opcode.STREAM_WRITE, 0, data, enable, stream=stream)
        self.body.streams[stream].accesses.append(index)
        return index

    def invert(self, condition: int) -> int:
        return self.add(Opcode.XOR, 1, condition, self.constant(1, 1))


def histogram(*waivers: Waiver) -> tuple[LoopBody, int, int, int]:
    """``bins[samples[i]] += 1``: the body and its read of a bin, its sum and its write."""
    b = BodyBuilder()
    samples, bins = b.memory(1024, 8, name="samples"), b.memory(256, 32, *waivers, name="bins")
    place = b.read(samples, b.counter(10))
    old = b.read(bins, place)
    new = b.add(Opcode.ADD, 32, old, b.constant(1, 32))
    return b.body, old, new, b.write(bins, place, new)
