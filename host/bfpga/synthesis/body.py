"""One iteration of a pipelined loop as a dataflow graph: what every later step of the synthesis reads.

Control flow is gone: each operation is evaluated in every iteration, effects (accesses to memories and streams) have an
enable. Values are plain bit vectors, at most as wide as the code states them. Loop-carried state is explicit: a
``Register`` has an operation that is its value at the beginning of an iteration and one that is its next value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Opcode(str, Enum):
    """What an operation does; operands are unsigned bit vectors unless the name says otherwise.

    ========================= ==========================================================================
    opcode                    operands -> result
    ========================= ==========================================================================
    CONSTANT                  () -> ``value``
    INVARIANT                 () -> value that is computed before the loop and stays; ``name``
    STATE                     () -> value of register ``register`` at the beginning of the iteration
    ADD SUB MUL               (a, b) -> lowest ``width`` bits; all three have the same width
    UDIV SDIV UREM SREM       (a, b)
    AND OR XOR                (a, b)
    SHL LSHR ASHR             (a, amount); an amount of ``width`` or more never occurs where the result is used
    EQ NE ULT ULE SLT SLE     (a, b) -> 1 bit
    SELECT                    (condition, if_true, if_false)
    ZEXT SEXT                 (a,) -> ``width`` bits, more than a's
    SLICE                     (a,) -> ``width`` bits of a from bit ``value`` on
    CONCAT                    (lowest, ..., highest) -> all bits
    POPCOUNT                  (a,) -> number of ones
    CLZ CTZ                   (a,) -> number of leading, trailing zeros; the width of a where a = 0
    MEMORY_READ               (address, enable) -> word of ``memory``; don't-care where enable = 0
    MEMORY_WRITE              (address, data, enable) -> nothing (width 0)
    STREAM_READ               (enable,) -> beat of ``stream``; blocks while the stream is empty
    STREAM_WRITE              (data, enable) -> nothing; blocks while the stream is full
    STREAM_STATUS             () -> 1 bit: the stream is not empty (``name`` = "empty") or not full ("full"), or TLAST
                              of the beat that was read ("last")
    ========================= ==========================================================================
    """

    CONSTANT = "constant"
    INVARIANT = "invariant"
    STATE = "state"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    UDIV = "udiv"
    SDIV = "sdiv"
    UREM = "urem"
    SREM = "srem"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    LSHR = "lshr"
    ASHR = "ashr"
    EQ = "eq"
    NE = "ne"
    ULT = "ult"
    ULE = "ule"
    SLT = "slt"
    SLE = "sle"
    SELECT = "select"
    ZEXT = "zext"
    SEXT = "sext"
    SLICE = "slice"
    CONCAT = "concat"
    POPCOUNT = "popcount"
    CLZ = "clz"
    CTZ = "ctz"
    MEMORY_READ = "memory_read"
    MEMORY_WRITE = "memory_write"
    STREAM_READ = "stream_read"
    STREAM_WRITE = "stream_write"
    STREAM_STATUS = "stream_status"
    FLOAT = "float"
    CALL = "call"


@dataclass(frozen=True)
class Place:
    """Where an operation comes from: file (as on the include path), line, function, and where that was inlined."""

    file: str
    line: int
    function: str
    caller: Place | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Operation:
    """A node of the graph. ``operands``: indices into ``LoopBody.operations``, always smaller than its own."""

    opcode: Opcode
    width: int
    operands: tuple[int, ...] = ()
    value: int = 0
    name: str = ""
    register: int = -1
    memory: int = -1
    stream: int = -1
    place: Place | None = None
    #: Values of this product carry a BIND_OP: "", "dsp" or "fabric".
    binding: str = ""


@dataclass(frozen=True, slots=True)
class Register:
    """Loop-carried state of ``width`` bits: ``current`` is its STATE operation, ``next`` what it becomes.

    ``left``: mask of the bits of a variable that may be read after the loop.
    """

    name: str
    width: int
    current: int
    next: int
    place: Place | None = None
    left: int = 0


@dataclass(frozen=True, slots=True)
class Waiver:
    """``#pragma HLS DEPENDENCE variable=... <kind> <direction> false`` of a memory, or ``distance=N true``.

    ``kind``: "inter" or "intra"; ``direction``: "RAW", "WAR", "WAW" or "" for all. ``distance``: iterations before
    which there is none, 0 if there never is one.
    """

    kind: str
    direction: str
    place: Place | None = None
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a register or invariant is in the flat LLVM IR: value ``root``, or a variable's bytes at ``offset``."""

    root: str
    offset: int = -1


@dataclass(frozen=True, slots=True)
class BankOrigin:
    """The array that a memory is a bank of; ``splits``: how each dimension is partitioned, "" for not."""

    root: str
    offset: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    splits: tuple[str, ...]
    bank: tuple[int, ...]


@dataclass(slots=True)
class Memory:
    """A memory after partition: one bank with its ports.

    ``accesses``: operations in program order. ``binding``: what BIND_STORAGE says ("ram_s2p", "ram_2p", ... and
    "bram", "lutram", "uram" or "auto"). ``initial``: words of a constant table, empty for a RAM. ``bits``: how many
    bits of a word carry something, as its type says (0: all).
    """

    name: str
    words: int
    width: int
    accesses: list[int] = field(default_factory=list)
    ports: str = "auto"
    implementation: str = "auto"
    waivers: list[Waiver] = field(default_factory=list)
    initial: tuple[int, ...] = ()
    place: Place | None = None
    bits: int = 0
    origin: BankOrigin | None = None


@dataclass(slots=True)
class Stream:
    """A stream and its accesses in program order."""

    name: str
    width: int
    accesses: list[int] = field(default_factory=list)


@dataclass(slots=True)
class LoopBody:
    """One iteration of a pipelined loop.

    ``operations`` is in program order, which is a topological order. ``leaves``: index of the 1-bit operation that is
    true where the iteration is the last one, or -1 if the loop has none. ``outputs``: values that are used after the
    loop (kept in registers when it ends). ``stated_interval``: the pragma's II.
    """

    name: str
    place: Place
    stated_interval: int
    operations: list[Operation] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    leaves: int = -1
    outputs: list[int] = field(default_factory=list)
    #: By the names of registers (up to "@") and invariants; ``header``: the loop's first block.
    origins: dict[str, Origin] = field(default_factory=dict)
    header: str = ""
    #: Outputs by what other bodies of the function call them: see ``frontend.segments``.
    exports: dict[str, int] = field(default_factory=dict)
