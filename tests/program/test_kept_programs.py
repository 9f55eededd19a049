"""Programs that stay on the chip: what crosses the input stream, what the sequencer hears, what starts compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from array_programs import Program, mixed_program
from kernel_pairs import SMALL

from bfpga.board.virtual.process_time import received_counts
from bfpga.contract.descriptor import Descriptor, Flag
from bfpga.contract.program import BlockTensor, KernelOperation, MemoryUse
from bfpga.devices.csim import CSimulation
from bfpga.engines.kernel.order import COUNTS, SampleRow, in_stream, start_counts
from bfpga.engines.kernel.program_memory import ProgramMemory
from bfpga.errors import DeviceError
from bfpga.program.kept_programs import KeptPrograms
from bfpga.program.packets import SamplePackets

CONFIG = replace(SMALL, program_descriptors=24)
HEADER, DESCRIPTOR = 64, 320


def operations_of(program: Program) -> list[KernelOperation]:
    """With one store that ends the packet, the last one, and the words that each operation uses: a sample's image may
    be loaded while what comes of the one before is stored."""
    operations = program.operations
    operations[-2].descriptor.flags &= ~int(Flag.END_PACKET)
    begins = [operations[index].descriptor.output_word for index in (0, 2, 3, 4)]
    assert begins == sorted(set(begins))
    x, hidden, pooled, y = zip(begins, [*begins[1:], CONFIG.activation_words], strict=True)
    uses = (
        ((), (x,)), ((), ()), ((x,), (hidden,)), ((hidden,), (pooled,)), ((hidden, pooled), (y,)),
        ((hidden,), ()), ((y,), ()),
    )  # fmt: skip
    for operation, (reads, writes) in zip(operations, uses, strict=True):
        operation.memory = MemoryUse(reads, writes)
    return operations


def samples_of(tensors: dict[str, BlockTensor], count: int, seed: int = 3) -> dict[str, BlockTensor]:
    rng = np.random.default_rng(seed)
    return {
        name: BlockTensor(
            rng.integers(-7, 8, (count, *tensor.mantissa.shape[1:]), np.int32), rng.integers(-9, 9, count, np.int32)
        )
        for name, tensor in tensors.items()
    }


def without_counts(descriptors: Sequence[Descriptor]) -> list[Descriptor]:
    return [replace(item, **dict.fromkeys(COUNTS, 0)) for item in descriptors]


def plain_operations(operations: list[KernelOperation], samples: int, ahead: int) -> list[Descriptor]:
    """Descriptors of a start as a host without a program memory sends them: the last store alone ends the packet."""
    listed = [item.descriptor for item in in_stream(operations, samples, ahead)]
    ends = max(number for number, item in enumerate(listed) if item.flags & Flag.END_PACKET)
    return [
        replace(item, flags=item.flags & ~int(Flag.END_PACKET)) if number < ends else item
        for number, item in enumerate(listed)
    ]


def start(kernel: CSimulation, packets: SamplePackets, tensors: dict[str, BlockTensor], sends: bool) -> None:
    """Run all samples in one start, into the tensors."""
    count = len(tensors["x"].exponent)
    weights = np.tile(np.frombuffer(packets.weights, np.uint8), count)
    packet = packets.pack(tensors, 0, count, sends)
    result = kernel.run_packet(count * len(packets.operations), packet, weights, count * packets.output_bytes)
    assert result.packets == 1
    packets.unpack(result.output, tensors, 0, count)


def same(got: dict[str, BlockTensor], expected: dict[str, BlockTensor]) -> bool:
    return all(
        np.array_equal(got[name].mantissa, expected[name].mantissa)
        and np.array_equal(got[name].exponent, expected[name].exponent)
        for name in ("hidden", "y")
    )


@pytest.mark.parametrize("samples", [1, 2, 3, 9])
@pytest.mark.parametrize("ahead", [0, 3, 5])
def test_the_sequencer_hears_the_operations_of_every_sample_and_what_each_waits_for(samples: int, ahead: int) -> None:
    operations = operations_of(mixed_program(CONFIG)[0])
    packets = KeptPrograms(CONFIG).packets(operations, ahead)
    assert packets.kept is not None
    tensors = samples_of(mixed_program(CONFIG)[1], samples)
    heard = list(ProgramMemory(CONFIG).descriptors(packets.pack(tensors, 0, samples).tobytes()))
    assert without_counts(heard) == without_counts(plain_operations(operations, samples, ahead))
    awaited = start_counts(in_stream(operations, samples, ahead), CONFIG)[0]
    np.testing.assert_array_equal(received_counts(heard), awaited)


def test_numbers_that_operations_wait_for_wrap_around_as_those_that_are_counted() -> None:
    operations = operations_of(mixed_program(CONFIG)[0])
    operations = [*16 * operations[:1], *operations]  # loads, which are counted
    packets, samples = KeptPrograms(CONFIG).packets(operations), 4_200
    assert packets.kept is not None
    heard = list(ProgramMemory(CONFIG).descriptors(packets.kept.opening(samples, True)))
    assert len(heard) == samples * len(operations)
    awaited = start_counts(operations, CONFIG, samples).reshape(-1, len(COUNTS))
    done = awaited.max(axis=0)
    assert done.max() > 1 << 16
    late = slice(-50 * len(operations), None)
    np.testing.assert_array_equal(received_counts(heard)[late] * (awaited[late] > done - 500),
                                  awaited[late] * (awaited[late] > done - 500))  # fmt: skip


def test_a_sample_sends_its_tensors_and_nothing_else() -> None:
    operations = operations_of(mixed_program(CONFIG)[0])
    tensors = samples_of(mixed_program(CONFIG)[1], 5)
    packets, plain = KeptPrograms(CONFIG).packets(operations), SamplePackets(operations, SMALL)
    program = len(operations) * DESCRIPTOR
    assert packets.input_bytes == plain.input_bytes - program
    assert len(packets.pack(tensors, 0, 5, sends=True)) == HEADER + program + 5 * packets.input_bytes
    assert len(packets.pack(tensors, 0, 5, sends=False)) == HEADER + 5 * packets.input_bytes


@pytest.mark.parametrize("ahead", [0, 3, 5])
def test_starts_that_repeat_a_program_compute_what_single_starts_compute(ahead: int) -> None:
    """The first one sends it, the second one names it, the third one has a sample; one that is sent comes between."""
    operations = operations_of(mixed_program(CONFIG)[0])
    packets = KeptPrograms(CONFIG).packets(operations, ahead)
    kernel, reference = CSimulation(CONFIG), CSimulation(SMALL)
    for number, count in enumerate((5, 3, 1, 4)):
        got, expected = (samples_of(mixed_program(CONFIG)[1], count, number) for _ in range(2))
        for sample in range(count):
            reference.run_operations(operations, expected, sample)
        start(kernel, packets, got, sends=number == 0)
        assert same(got, expected)
        again = {name: BlockTensor(one.mantissa[:1].copy(), one.exponent[:1].copy()) for name, one in expected.items()}
        kernel.run_operations(operations, again)
        assert np.array_equal(again["y"].mantissa[0], expected["y"].mantissa[0])


def test_two_programs_stay_side_by_side() -> None:
    operations, places = operations_of(mixed_program(CONFIG)[0]), KeptPrograms(CONFIG)
    kernel, reference = CSimulation(CONFIG), CSimulation(SMALL)
    both = [places.packets(operations, ahead) for ahead in (0, 5)]
    assert [packets.kept.base for packets in both if packets.kept] == [0, len(operations)]
    for number, packets in enumerate((*both, *both)):
        got, expected = (samples_of(mixed_program(CONFIG)[1], 3, number) for _ in range(2))
        sends = places.sends(packets)
        assert sends == (number < 2)
        start(kernel, packets, got, sends)
        for sample in range(3):
            reference.run_operations(operations, expected, sample)
        assert same(got, expected)
    places.forget()
    assert places.sends(both[0])


def test_a_program_that_is_too_long_or_begins_with_a_measurement_comes_with_every_sample() -> None:
    operations = operations_of(mixed_program(CONFIG)[0])
    few = KeptPrograms(replace(CONFIG, program_descriptors=len(operations) - 1))
    assert few.packets(operations).kept is None
    measuring = [replace(operations[0], first_only=True), *operations[1:]]
    assert KeptPrograms(CONFIG).packets(measuring).kept is None
    places = KeptPrograms(replace(CONFIG, program_descriptors=2 * len(operations) - 1))
    assert places.packets(operations).kept is not None
    assert places.packets(operations).kept is None


def test_a_program_that_is_not_in_the_memory_is_no_program() -> None:
    """What a host must not forget: a start that names a program which it has not sent goes wrong."""
    operations = operations_of(mixed_program(CONFIG)[0])
    packets, tensors = KeptPrograms(CONFIG).packets(operations), samples_of(mixed_program(CONFIG)[1], 2)
    with pytest.raises(DeviceError):
        start(CSimulation(CONFIG), packets, tensors, sends=False)


def test_operations_that_wait_for_loads_of_the_next_sample_are_not_kept() -> None:
    """The last row has no next sample: what would wait for its loads would wait for ever."""
    operations = operations_of(mixed_program(CONFIG)[0])
    assert KeptPrograms(CONFIG).packets(operations, 3).kept is not None
    operations[3].memory = None  # it may use any word
    assert KeptPrograms(CONFIG).packets(operations, 3).kept is None


def test_a_load_among_the_operations_of_the_sample_before_keeps_a_program_from_the_memory() -> None:
    """Its number among the loads would differ in the first row, which lacks it."""
    operations = operations_of(mixed_program(CONFIG)[0])
    moved = [*operations, operations[0]]
    row = SampleRow.of(moved, 4)
    assert any(moved[index] is operations[0] for index in row.order[row.previous])
    assert KeptPrograms(replace(CONFIG, program_descriptors=64)).packets(moved, 4).kept is None
