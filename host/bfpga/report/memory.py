"""Which tensor has which words of the activation memories, and when: from the operations that write and read them.

An exponent register belongs to one region of the memories at a time, so what an operation writes and reads is known
by the registers that its descriptor names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import HostNode, KernelOperation, Program
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS, COUNTED_OPERATIONS, adds_tensor
from bfpga.report.timing import Timed, kernel_operations

#: Rectangles of a picture at most; of more, strips in the same words become one.
MOST_ALLOCATIONS = 1500


@dataclass
class Allocation:
    """Words [first, last) of every bank that hold a tensor, or rows of it, in cycles [begin, end)."""

    tensor: str
    first: int
    last: int
    begin: float
    end: float
    start: int


@dataclass(frozen=True)
class MemoryMap:
    """words: of each bank; banks; bytes of all banks together."""

    words: int
    banks: int
    octets: int
    allocations: list[Allocation]

    @property
    def highest(self) -> int:
        """The most words of a bank that hold values at one moment."""
        moments = sorted({item.begin for item in self.allocations})
        held = (
            sum(item.last - item.first for item in self.allocations if item.begin <= moment < item.end)
            for moment in moments
        )
        return max(held, default=0)


def memory_map(program: Program, work: Sequence[Timed]) -> MemoryMap:
    """Tensors in the activation memories during one sample."""
    config = program.config
    outputs = {node.name: node.output for node in program.nodes if not isinstance(node, HostNode)}
    living: dict[tuple[int, int], Allocation] = {}
    found: list[Allocation] = []
    for operation, timed in kernel_operations(work):
        for slot in _reads(operation.descriptor):
            if (read := living.get((timed.start, slot))) is not None:
                read.end = max(read.end, timed.end)
        if (words := written_words(config, operation.descriptor)) is None:
            continue
        tensor = _written_tensor(operation, outputs)
        key = (timed.start, operation.descriptor.output_slot)
        loads = operation.descriptor.operation == Operation.LOAD  # a strip of its own, in words that others had
        known = None if loads else living.get(key)
        if known is not None and known.tensor == tensor and _touch((known.first, known.last), words):
            known.first, known.last = min(known.first, words[0]), max(known.last, words[1])
            known.end = max(known.end, timed.end)
            continue
        living[key] = Allocation(tensor, *words, timed.begin, timed.end, timed.start)
        found.append(living[key])
    if len(found) > MOST_ALLOCATIONS:
        found = _merged(found)
    octets = config.activation_words * config.banks * config.lanes * config.format.container_bits // 8
    return MemoryMap(config.activation_words, config.banks, octets, found)


def _merged(allocations: Sequence[Allocation]) -> list[Allocation]:
    """Strips of a tensor that follow each other in the same words as one."""
    result: dict[tuple[str, int, int, int], Allocation] = {}
    for item in allocations:
        known = result.setdefault((item.tensor, item.first, item.last, item.start), item)
        known.end = max(known.end, item.end)
    return list(result.values())


def written_words(config: KernelConfig, descriptor: Descriptor) -> tuple[int, int] | None:
    """Words [first, last) of the banks that an operation writes; None if it writes none.

    From the walk over the output pixels: each step moves by words and banks, and every ``banks`` banks are a word row.
    """
    kind = Operation(descriptor.operation)
    if kind not in (*ARRAY_OPERATIONS, Operation.LOAD) or descriptor.flags & Flag.MEASURE:
        return None
    words = descriptor.output_pixel_words
    wrap = _pixels(config, descriptor.output_wrap_word, descriptor.output_wrap_bank, words)
    columns = min(descriptor.output_width, descriptor.output_pixels)
    rows = -(-descriptor.output_pixels // descriptor.output_width)
    down, across = (rows - 1) * (descriptor.output_width + wrap), columns - 1
    corners = [descriptor.output_bank + pixels for pixels in (0, across, down, down + across)]  # rows may run backwards
    lowest, highest = (descriptor.output_word + pixel // config.banks * words for pixel in (min(corners), max(corners)))
    return lowest, highest + -(-descriptor.output_rows // config.lanes)


def _pixels(config: KernelConfig, word: int, bank: int, pixel_words: int) -> int:
    """Pixels that an address of words and banks represents."""
    return word // pixel_words * config.banks + bank


def _reads(descriptor: Descriptor) -> set[int]:
    """Exponent registers of what an operation reads."""
    kind = Operation(descriptor.operation)
    if kind is Operation.STORE:
        return {descriptor.input_slot}
    if kind not in COUNTED_OPERATIONS:
        return set()
    two = kind is Operation.SUM or adds_tensor(descriptor)
    return {descriptor.input_slot, descriptor.second_slot} if two else {descriptor.input_slot}


def _written_tensor(operation: KernelOperation, outputs: Mapping[str, str]) -> str:
    if operation.transfer is not None:
        return operation.transfer.tensor
    return outputs.get(operation.layer, operation.layer)


def _touch(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
