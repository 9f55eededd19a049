"""LOADs that stand behind long operations, so that the sequencer holds nobody up with their tensors."""

from __future__ import annotations

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.schedule.prefetched_loads import prefetched_loads
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.program import KernelOperation, MemoryUse
from bfpga.program.schedule import schedule

SKIPPING = load_accelerator("pynq_z2_zero_skip").config
Range = tuple[int, int]


def load(words: Range, slot: int, pixels: int) -> KernelOperation:
    descriptor = Descriptor(
        Operation.LOAD, output_slot=slot, output_pixels=pixels, output_width=pixels, output_pixel_words=1
    )
    return KernelOperation("a", descriptor, memory=MemoryUse((), (words,)))


def pool(reads: Range, writes: Range, slots: tuple[int, int], groups: int) -> KernelOperation:
    """A maximum of 9 steps for each group of pixels and word."""
    descriptor = Descriptor(
        Operation.MAX, input_slot=slots[0], second_slot=slots[0], output_slot=slots[1], kernel_height=3,
        kernel_width=3, output_rows=4, output_pixels=groups * SKIPPING.columns, output_width=SKIPPING.columns,
        read_slots=1, write_slots=1, groups=groups,
    )  # fmt: skip
    return KernelOperation("a", descriptor, memory=MemoryUse((reads,), (writes,)))


FIRST, SECOND, RESULT = (0, 100), (100, 200), (200, 300)


def test_a_load_stands_behind_the_operation_that_takes_longer() -> None:
    """Two places for what is loaded: that of a strip comes while the strip before is computed, its results are not
    waited for, and none comes before the words are free."""
    strips = [pool(FIRST if n % 2 == 0 else SECOND, RESULT, (n % 2, 2), 60) for n in range(4)]
    loads = [load(FIRST if n % 2 == 0 else SECOND, n % 2, 800) for n in range(4)]
    given = [loads[0], loads[1], strips[0], loads[2], strips[1], loads[3], strips[2], strips[3]]
    found = prefetched_loads(given, SKIPPING)
    assert found == [loads[0], strips[0], loads[1], strips[1], loads[2], strips[2], loads[3], strips[3]]
    assert schedule(SKIPPING, found).clocks < 0.85 * schedule(SKIPPING, given).clocks


def test_a_load_takes_the_longest_operation_where_none_takes_longer_and_keeps_its_place_without_one() -> None:
    short, long = pool(SECOND, RESULT, (1, 2), 10), pool(SECOND, RESULT, (1, 2), 30)
    reader, coming = pool(FIRST, RESULT, (0, 2), 10), load(FIRST, 0, 4000)
    assert prefetched_loads([reader, short, long, short, coming, reader], SKIPPING) == [
        reader, short, long, coming, short, reader,
    ]  # fmt: skip
    # Words that are in use until then, and an exponent that is.
    assert prefetched_loads([reader, coming, reader], SKIPPING) == [reader, coming, reader]
    same = load(SECOND, 0, 100)
    assert prefetched_loads([pool((300, 400), RESULT, (0, 2), 30), same, reader], SKIPPING)[1] is same
    # What is not known to leave words alone uses them.
    unknown = KernelOperation("a", long.descriptor)
    assert prefetched_loads([unknown, short, coming, reader], SKIPPING) == [unknown, short, coming, reader]
