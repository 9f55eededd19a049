"""Records of maps: what a kernel with a sparse cluster tells of them, on every device, is what its model says."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cluster_configs import CLUSTER, VARIANTS
from small_networks import Network, compiled

from bfpga.contract.arrays.sparse_cluster import ClusterVariant
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import KernelOperation, LaunchStep, Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_start import KernelResult
from bfpga.devices.parts import joined
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.kernel.records import MapRecords, emits_record, record_sizes, record_words, waits_for_store
from bfpga.errors import DeviceError
from bfpga.report.unit_shares import KERNEL, MODEL, unit_shares
from bfpga.runtime import compare
from bfpga.verify.check import opener

Samples = dict[str, np.ndarray]
#: Of a map in the network: so many blocks of output channels.
BLOCKS = 2


def network(folder: Path, variant: ClusterVariant = "B") -> tuple[Program, Samples]:
    """Two layers, the values of the first one's input above; units of variant B have a piece each, so limits move."""
    made = Network(4, 14, 14)
    made.conv(8, 4, 3, pads=[1, 1, 1, 1])
    made.add("Relu")
    made.conv(8, 8, 3, pads=[1, 1, 1, 1])
    made.used_rows = 5  # of the first layer's
    return replace(compiled(made, folder, VARIANTS[variant]), accelerator="small", digest="0" * 64), made.samples(3)


def operations(program: Program) -> list[KernelOperation]:
    (step,) = (step for step in program.steps if isinstance(step, LaunchStep))
    return step.operations


def maps(result: DeviceResult) -> dict[str, list[list[list[int]]]]:
    return {layer.name: layer.maps.words.tolist() for layer in result.layers if layer.maps is not None}


def cycles(result: DeviceResult) -> list[int]:
    """What brings records counts no clocks."""
    return [layer.cycles for layer in result.layers]


@pytest.mark.parametrize("variant", ["B", "E"])
@pytest.mark.parametrize("target", ["csim", "csim:ap_int", "csim:exact", "virtual"])
def test_a_kernel_tells_what_its_model_says(target: str, variant: ClusterVariant, tmp_path: Path) -> None:
    """SC R25, SC R33, SC R36, SC R56, SC R134, SC R153: each map with its moves, threshold, work and the
    values of every unit."""
    program, samples = network(tmp_path, variant)
    expected = Emulator(program).run(samples, trace=True)
    assert len(maps(expected)) == 2
    with ExitStack() as opened:
        for trace in (False, True):
            device = opener(target, opened)(program)
            try:
                found = device.run(samples, trace=trace)
            finally:
                device.close()
            assert maps(found) == maps(expected)
            assert cycles(found) == cycles(expected)


def test_records_say_what_they_hold(tmp_path: Path) -> None:
    """Counted here from the tensors: every value that is not zero is of one unit, once for each block."""
    program, samples = network(tmp_path)
    result = Emulator(program).run(samples, trace=True)
    first, second = (layer for layer in result.layers if layer.maps is not None)
    assert first.maps is not None
    assert second.maps is not None
    read = next(node.inputs[0] for node in program.nodes if node.name == second.name)
    nonzero = np.count_nonzero(result.tensors[read].mantissa, axis=(1, 2, 3))
    assert second.maps.values.sum(axis=(1, 2)).tolist() == (BLOCKS * nonzero).tolist()
    records, equal = first.maps, second.maps
    assert records.counted.all()
    assert records.moves.min() > 0
    work = records.values / BLOCKS
    assert np.array_equal(records.largest, work.max(axis=2))
    assert np.array_equal(records.smallest, work.min(axis=2))
    # The values of the second layer lie everywhere, so its maps are not worth counting.
    assert not equal.counted.any()
    assert not equal.moves.any()
    assert not equal.largest.any()


class Changed(CSimulation):
    """A kernel whose record of the first map of a start is another one."""

    word, change = 0, 0

    def finish(self) -> KernelResult:
        result = super().finish()
        output = np.frombuffer(result.output, "<u4").copy()
        if len(output) and self.word:
            output[-self.word] += self.change
        return replace(result, output=output.tobytes())


def test_a_wrong_record_is_a_difference(tmp_path: Path) -> None:
    """SC R25, SC R33, SC R56: a move, the threshold, the largest and the smallest work, values of units."""
    program, samples = network(tmp_path)
    kernel = Changed(program.config)
    device = StreamingDevice(program, kernel, "csim")
    for kernel.word, kernel.change in ((8, 1), (8, 1 << 16), (7, 1), (6, 1), (2, 1), (5, -1)):
        assert compare(program, samples, device).mismatch is not None, (kernel.word, kernel.change)
    kernel.word = 0
    assert compare(program, samples, device).bit_exact
    device.close()


def test_a_wrong_record_alone_is_told_with_its_map(tmp_path: Path) -> None:
    program, samples = network(tmp_path)
    device = StreamingDevice(program, CSimulation(program.config), "csim")
    comparison = compare(program, samples, device)
    assert comparison.maps == 3 * 2
    layer = next(layer for layer in comparison.got.layers if layer.maps is not None)
    assert layer.maps is not None
    words = layer.maps.words.copy()
    words[1, 0, 0] ^= 1
    layer.maps = MapRecords(words)
    mismatch = first_mismatch(program, comparison.expected, comparison.got)
    assert mismatch is not None
    assert (mismatch.kind, mismatch.layer, mismatch.index) == ("maps", layer.name, (1, 0))
    assert "moves, threshold" in mismatch.got
    device.close()


def test_records_need_no_more_room_than_a_store_brings(tmp_path: Path) -> None:
    """Nobody waits for a record that waits for him, however many maps of the next sample are ahead."""
    program, samples = network(tmp_path)
    program_operations = operations(program)
    sizes = record_sizes(program_operations, program.config)
    most = max(words for item, words in zip(program_operations, sizes, strict=True) if not emits_record(item, words))
    assert most == 2 * record_words(program.config)
    expected = maps(Emulator(program).run(samples, trace=True))
    for seed in range(4):
        kernel = CSimulation(program.config)
        kernel.disturb(seed)
        kernel.hold({"told": most})
        device = StreamingDevice(program, kernel, "csim")
        assert maps(device.run(samples)) == expected
        device.close()
    kernel = CSimulation(program.config)
    kernel.hold({"told": 1})
    device = StreamingDevice(program, kernel, "csim")
    with pytest.raises(DeviceError):
        device.run(samples)


def test_what_nobody_asks_for_is_not_told(tmp_path: Path) -> None:
    """A map behind the last STORE, one that only measures, one that may be skipped, more than there is room for."""
    program, _ = network(tmp_path)
    config = program.config
    size = record_words(config)
    first = next(item for item in operations(program) if item.descriptor.operation == Operation.GEMM)
    store = next(item for item in operations(program) if item.descriptor.operation == Operation.STORE)

    def flagged(flags: int) -> KernelOperation:
        return replace(first, descriptor=replace(first.descriptor, flags=first.descriptor.flags | flags))

    assert record_sizes([first, first, store, first], config) == [size, size, 2 * size, 0]
    measures, skipped = flagged(int(Flag.MEASURE)), flagged(1 << 21)
    assert record_sizes([measures, first, skipped, store], config) == [0, size, 0, size]
    assert record_sizes([store, store], config) == [0, 0]
    many = record_sizes([first] * 2000 + [store], config)
    room = 1024 // size
    assert many == [size] * room + [0] * (2000 - room) + [room * size]
    assert emits_record(first, size)
    assert not emits_record(store, size)
    assert waits_for_store([first], config)
    assert not waits_for_store([first, store], config)
    assert not waits_for_store([measures], config)


def test_batches_are_joined_and_shown(tmp_path: Path) -> None:
    """`bfpga run` shows what the kernel has told, and says so; without one what the model says."""
    program, samples = network(tmp_path)
    device = StreamingDevice(program, CSimulation(program.config), "csim")
    parts = [device.run({name: value[at] for name, value in samples.items()}) for at in (slice(0, 1), slice(1, 3))]
    whole = joined(parts)
    assert maps(whole) == maps(Emulator(program).run(samples, trace=True))
    reported, model = unit_shares(program, samples, whole.layers), unit_shares(program, samples)
    device.close()
    assert {share.source for share in reported} == {KERNEL}
    assert {share.source for share in model} == {MODEL}
    for one, other in zip(reported, model, strict=True):
        assert np.array_equal(one.moves, other.moves)
        assert np.array_equal(one.balanced, BLOCKS * other.balanced)
        assert np.array_equal(one.reached[one.counted], other.reached[other.counted])
        assert one.met == other.met


@pytest.mark.parametrize(("channels", "known"), [(32, True), (33, False)])
def test_the_model_says_nothing_of_words_that_are_no_channels(channels: int, known: bool, tmp_path: Path) -> None:
    """Blocks of four channels read two words of two; of 33 the last one reads a word of the pixel behind it."""
    made = Network(channels, 9, 9)
    made.conv(channels, channels, 3, group=channels)
    program = compiled(made, tmp_path, replace(CLUSTER, lanes=2))
    (layer,) = Emulator(program).run(made.samples(2), trace=True).layers
    assert (layer.maps is not None) == known
