"""The order of branches: a layer that needs nothing of the one before it fills the wait for that one's results.

Two layers that read the same tensor may be computed in any order. If the one after them needs only one of the two, as
in a residual block whose shortcut is a convolution, that one comes first: its results reach memory during the other.
Operations stay as they are, so no value changes; two layers change places only if neither uses what the other writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from bfpga.contract.descriptor import Operation, Policy
from bfpga.contract.predicates import counted_in, predicate_of
from bfpga.contract.program import KernelOperation
from bfpga.engines.kernel.cycles import COUNTED_OPERATIONS, WITH_PARAMETERS
from bfpga.engines.kernel.order import FILLING, Range, any_overlap, parameter_range, weight_range

Block = list[KernelOperation]


def branches_first(operations: Sequence[KernelOperation]) -> list[KernelOperation]:
    """The operations with two layers in each other's place wherever fewer of them then wait for the one before."""
    blocks = _blocks(operations)
    index = 1
    while index + 1 < len(blocks):
        first, second = blocks[index], blocks[index + 1]
        around = (blocks[index - 1], blocks[index + 2] if index + 2 < len(blocks) else [])
        fewer = _waits(around[0], second, first, around[1]) < _waits(around[0], first, second, around[1])
        if fewer and _independent(first, second):
            blocks[index : index + 2] = second, first
            index += 1
        index += 1
    return [operation for block in blocks for operation in block]


def _blocks(operations: Sequence[KernelOperation]) -> list[Block]:
    """Runs of operations of one layer with its WEIGHTS; LOADs and STOREs are blocks of their own."""
    moved = (Operation.LOAD, Operation.STORE)
    keys = groupby(operations, lambda item: (item.layer, item.descriptor.operation in moved))
    return [list(block) for _, block in keys]


def _waits(*blocks: Block) -> int:
    """How many of these begin with an operation that needs the last result of the block before."""
    return sum(_needs(*pair) for pair in pairwise(blocks))


def _needs(block: Block, following: Block) -> bool:
    """Whether the first computing operation of a block reads what the last one of the block before writes."""
    last = next((item for item in reversed(block) if _computes(item)), None)
    first = next((item for item in following if _computes(item)), None)
    if last is None or first is None:
        return False
    if last.memory is None or first.memory is None:
        return True
    return any_overlap(last.memory.writes, first.memory.reads)


def _independent(first: Block, second: Block) -> bool:
    """Whether two blocks may change places."""
    if not (any(map(_computes, first)) and any(map(_computes, second))):
        return False
    if any(map(_chooses, (*first, *second))):
        return False
    computing = [[item for item in block if _computes(item)] for block in (first, second)]
    if any(_conflict(one, other) for one in computing[0] for other in computing[1]):
        return False
    return _weights_stay(first, second) and _weights_stay(second, first)


def _conflict(one: KernelOperation, other: KernelOperation) -> bool:
    """Whether one operation uses words, exponents or a policy that the other one changes."""
    if one.memory is None or other.memory is None:
        return True
    learns = one.descriptor.policy != Policy.STATIC or other.descriptor.policy != Policy.STATIC
    if learns and one.descriptor.policy_slot == other.descriptor.policy_slot:
        return True
    slots = [_slots(item) for item in (one, other)]
    if one.descriptor.output_slot in slots[1] or other.descriptor.output_slot in slots[0]:
        return True
    return any_overlap(one.memory.writes, (*other.memory.reads, *other.memory.writes)) or any_overlap(
        other.memory.writes, one.memory.reads
    )


def _slots(item: KernelOperation) -> set[int]:
    """Exponent registers that an operation uses."""
    return {item.descriptor.input_slot, item.descriptor.second_slot, item.descriptor.output_slot}


def _weights_stay(block: Block, other: Block) -> bool:
    """Whether the weights and parameters that a block multiplies by are its own, whatever the other one fills in."""
    filled = list(_ranges(item for item in other if item.descriptor.operation in FILLING))
    own: list[tuple[int, Range]] = []
    for item in block:
        if item.descriptor.operation in FILLING:
            own += _ranges([item])
        elif item.descriptor.operation in WITH_PARAMETERS:
            for kind, words in _ranges([item]):
                if not _inside(words, [known for of, known in own if of == kind]) and any(
                    of == kind and any_overlap([words], [known]) for of, known in filled
                ):
                    return False
    return True


def _ranges(operations: Iterable[KernelOperation]) -> Iterator[tuple[int, Range]]:
    """Words (0) and rows of parameters (1) that operations fill in or read."""
    for item in operations:
        yield 0, weight_range(item.descriptor)
        yield 1, parameter_range(item.descriptor)


def _inside(words: Range, known: Sequence[Range]) -> bool:
    return any(first <= words[0] and words[1] <= last for first, last in known)


def _computes(item: KernelOperation) -> bool:
    return item.descriptor.operation in COUNTED_OPERATIONS


def _chooses(item: KernelOperation) -> bool:
    """Whether data decides about an operation, or it about others."""
    return predicate_of(item.descriptor) is not None or bool(counted_in(item.descriptor))
