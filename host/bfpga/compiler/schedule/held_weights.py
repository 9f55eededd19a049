"""Pieces of weights that stay in the weight memory of a skip array from one operation to a later one.

Layers whose weights do not stay for the whole program bring them with every strip that they compute, in a place of
their own. Here places are given anew, start by start: a piece that is still there when it is read again is not brought
a second time. What gives way is what is needed last (Belady, 1966); pieces are of different lengths, so it is the run
of words whose pieces are needed last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import KernelOperation
from bfpga.engines.kernel.order import any_overlap, parameter_range, weight_range

#: GEMMs before one whose pieces do not give way to its own, so that these come while those are multiplied: what is
#: mostly the best first.
READ_BEFORE = (1, 0, 2)
_NEVER = 1 << 30


@dataclass(frozen=True)
class SharedMemory:
    """Weight words and parameter rows from ``word`` and ``row`` on, which the layers of a start use in turn."""

    word: int
    row: int
    words: int
    rows: int

    @staticmethod
    def after(config: KernelConfig, word: int, row: int) -> SharedMemory:
        """What weights that stay leave: all from ``word`` and ``row`` on."""
        return SharedMemory(word, row, config.weight_words, config.parameter_rows)


@dataclass(frozen=True)
class _Use:
    """A GEMM and the WEIGHTS operation whose words it reads; each WEIGHTS of the same words is one ``piece``."""

    index: int
    piece: int
    brings: KernelOperation


def held_weights(operations: Sequence[KernelOperation], shared: SharedMemory) -> Iterator[list[KernelOperation]]:
    """A start's operations with pieces that stay, in several ways, all of the same results.

    None where not every sample runs all operations, or where weights are computed.
    """
    fills = [item for item in operations if item.descriptor.operation == Operation.WEIGHTS]
    if not fills or any(item.first_only for item in operations) or any(item.channels for item in fills):
        return
    uses = _uses(operations)
    for read_before in READ_BEFORE:
        found = _Places(shared, uses, read_before).operations(operations)
        if found is not None:
            yield found


def _uses(operations: Sequence[KernelOperation]) -> list[_Use]:
    """The GEMMs whose weights a WEIGHTS of the start brings."""
    pieces: dict[tuple[str, bytes], int] = {}
    brought: dict[str, list[KernelOperation]] = {}
    uses = []
    for index, operation in enumerate(operations):
        descriptor = operation.descriptor
        if descriptor.operation == Operation.WEIGHTS:
            brought.setdefault(operation.layer, []).append(operation)
        elif descriptor.operation == Operation.GEMM:
            brings = _bringing(operation, brought.get(operation.layer, []))
            if brings is not None:
                piece = pieces.setdefault((brings.layer, brings.weights), len(pieces))
                uses.append(_Use(index, piece, brings))
    return uses


def _bringing(operation: KernelOperation, brought: Sequence[KernelOperation]) -> KernelOperation | None:
    """The last of ``brought`` whose words and parameters a GEMM reads."""
    needed = weight_range(operation.descriptor), parameter_range(operation.descriptor)
    for brings in reversed(brought):
        there = weight_range(brings.descriptor), parameter_range(brings.descriptor)
        if all(_within(*ranges) for ranges in zip(needed, there, strict=True)):
            return brings
    return None


def _within(part: tuple[int, int], whole: tuple[int, int]) -> bool:
    return part[0] == part[1] or (whole[0] <= part[0] and part[1] <= whole[1])


@dataclass(frozen=True)
class _Held:
    """A piece in memory: its first word and row, those after its last ones, and which use of all was its last."""

    words: tuple[int, int]
    rows: tuple[int, int]
    used: int


class _Places:
    """Places of the pieces of one start. read_before: uses before one whose pieces do not give way to it."""

    def __init__(self, shared: SharedMemory, uses: Sequence[_Use], read_before: int) -> None:
        self.shared, self.uses, self.read_before = shared, uses, read_before
        self.held: dict[int, _Held] = {}
        #: Of every use the next one of its piece.
        self.next = [_NEVER] * len(uses)
        last: dict[int, int] = {}
        for number in reversed(range(len(uses))):
            self.next[number] = last.get(uses[number].piece, _NEVER)
            last[uses[number].piece] = number

    def operations(self, operations: Sequence[KernelOperation]) -> list[KernelOperation] | None:
        """The operations; None if a piece finds no place."""
        numbers = {use.index: number for number, use in enumerate(self.uses)}
        result: list[KernelOperation] = []
        for index, operation in enumerate(operations):
            if operation.descriptor.operation == Operation.WEIGHTS:
                continue
            if index in numbers:
                number = numbers[index]
                use = self.uses[number]
                if use.piece not in self.held:
                    if not self._bring(number):
                        return None
                    result.append(self._moved(use.brings, use))
                self.held[use.piece] = replace(self.held[use.piece], used=number)
                operation = self._moved(operation, use)
            result.append(operation)
        return result

    def _moved(self, operation: KernelOperation, use: _Use) -> KernelOperation:
        """An operation that fills or reads a piece at its present place."""
        descriptor, before, held = operation.descriptor, use.brings.descriptor, self.held[use.piece]
        word = descriptor.weight_base - before.weight_base + held.words[0]
        row = descriptor.parameter_base - before.parameter_base + held.rows[0]
        return replace(operation, descriptor=replace(descriptor, weight_base=word, parameter_base=row))

    def _bring(self, number: int) -> bool:
        """Give a piece its place; whether there is one."""
        brings, shared = self.uses[number].brings.descriptor, self.shared
        words = self._run(number, brings.weight_words, shared.word, shared.words, [held.words for held in self._all()])
        rows = self._run(number, brings.parameter_rows, shared.row, shared.rows, [held.rows for held in self._all()])
        if words is None or rows is None:
            return False
        for piece, held in list(self.held.items()):
            if any_overlap([held.words], [words]) or any_overlap([held.rows], [rows]):
                del self.held[piece]
        self.held[self.uses[number].piece] = _Held(words, rows, number)
        return True

    def _all(self) -> list[_Held]:
        return list(self.held.values())

    def _run(
        self, number: int, size: int, first: int, end: int, taken: Sequence[tuple[int, int]]
    ) -> tuple[int, int] | None:
        """The run of ``size`` words in [first, end) whose pieces are needed last, of such the one that was read first.

        taken: words of each piece that is held, in their order.
        """
        if size == 0:
            return first, first
        begins = {first, end - size, *(run[1] for run in taken), *(run[0] - size for run in taken)}
        best, chosen = (-1, -1, -1), None
        for begin in sorted(begin for begin in begins if first <= begin <= end - size):
            run = begin, begin + size
            met = [held for held, other in zip(self._all(), taken, strict=True) if any_overlap([other], [run])]
            needed = min((self._needed(held, number) for held in met), default=_NEVER)
            idle = number - max((held.used for held in met), default=-1)
            value = needed, idle, -begin
            if value > best:
                best, chosen = value, run
        return chosen

    def _needed(self, held: _Held, number: int) -> int:
        """How many uses from now on a piece is needed again; none if it must not give way."""
        if number - held.used <= self.read_before:
            return 0
        return min(self.next[held.used] - number, _NEVER)
