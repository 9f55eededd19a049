"""Maps that travel without their zeros: the form in numpy, the processes in C++, kernels with them on every device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from cluster_configs import CLUSTER
from effort import drawn, some_of
from hypothesis import given
from hypothesis import strategies as st
from kernel_pairs import small
from skip_arrays import SKIPS
from stream_depths import DepthTrial, sufficient_depths

from bfpga.accelerator.constraints import config_findings
from bfpga.compiler.schedule.compressed_maps import compress, measured_shares
from bfpga.compiler.schedule.node_operations import load_operation, store_operation
from bfpga.contract.arrays.skip_array import SparseArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag
from bfpga.contract.processes import process_streams
from bfpga.contract.program import BlockTensor, KernelOperation, LaunchStep, Program, TensorSpec
from bfpga.devices.csim import CSimulation, Integers
from bfpga.engines.kernel import streams
from bfpga.engines.kernel.map_streams import MapStreams
from bfpga.engines.kernel.regions import ActivationMemory
from bfpga.errors import DataError, DeviceError
from bfpga.estimate.program import moved_bytes
from bfpga.formats.map_beats import MapForm, Octets, pack_map, packed_beats, unpack_map
from bfpga.program.listing import listing
from bfpga.verify.check import random_configs, verify

FORMS = [MapForm(32, 8), MapForm(64, 8), MapForm(64, 16), MapForm(128, 16)]
DENSITIES = (0.0, 0.1, 0.5, 0.9, 1.0)


def packing(config: KernelConfig) -> KernelConfig:
    """The kernel with compressed maps."""
    result = replace(config, compressed_maps=True)
    assert not config_findings(result)
    return result


SPARSE = replace(CLUSTER, array=SparseArray(chunk=64, queue=16, passes=4))
#: A systolic array, one of 4-bit and one of 16-bit mantissas, skip arrays of both sources, a cluster.
KERNELS = {
    "array": packing(small()),
    "nibbles": packing(small(columns=2, lanes=1, mantissa_bits=4)),
    "wide": packing(small(mantissa_bits=16, accumulator_bits=40)),
    "sparse": packing(SPARSE),
    "weights": packing(SKIPS),
    "cluster": packing(CLUSTER),
}


def values_of(form: MapForm, beats: int, density: float, seed: int) -> Octets:
    """Bytes of plain beats, of which so many values are not zero."""
    rng, kind = np.random.default_rng(seed), np.uint8 if form.value_bits == 8 else np.uint16
    shape = beats * form.values
    drawn = rng.integers(1, 1 << form.value_bits, shape) * (rng.random(shape) < density)
    return drawn.astype(kind).view(np.uint8)


def written_by_hand(plain: Octets, form: MapForm) -> bytes:
    """The chunks of SC 2.3, value by value."""
    size, found = form.value_bits // 8, b""
    values = [plain[n : n + size].tobytes() for n in range(0, len(plain), size)]
    for first in range(0, len(values), form.beats * form.values):
        chunk = values[first : first + form.beats * form.values]
        there = [value for value in chunk if any(value)]
        count = -(-len(there) // form.values)
        head = sum(any(value) << place for place, value in enumerate(chunk)) | count << form.beats * form.values
        body = b"".join(there)
        found += head.to_bytes(form.octets, "little") + body + bytes(-len(body) % form.octets)
    return found


@given(st.sampled_from(FORMS), st.integers(1, 60), st.sampled_from(DENSITIES), st.integers(0, 99))
def test_chunks_are_those_of_a_writer_of_single_values(form: MapForm, beats: int, density: float, seed: int) -> None:
    """SC R37, R46 (2.3): masks and values lie together; a packed tensor tells its own length, within a bound."""
    plain = values_of(form, beats, density, seed)
    packed = pack_map(plain, form)
    assert packed.tobytes() == written_by_hand(plain, form)
    assert len(packed) == packed_beats(plain, form) * form.octets <= form.most_beats(beats) * form.octets
    found, used = unpack_map(np.concatenate([packed, packed]), beats, form)
    assert (found.tobytes(), used) == (plain.tobytes(), len(packed))


@pytest.mark.parametrize("form", FORMS)
def test_damaged_chunks_are_refused(form: MapForm) -> None:
    packed = pack_map(values_of(form, 40, 0.5, 1), form)
    for end in range(0, len(packed), form.octets):
        with pytest.raises(DataError, match="a compressed tensor"):
            unpack_map(packed[:end], 40, form)
    damaged = packed.copy()
    damaged[0] ^= 0xFF
    damaged[form.octets - 1] ^= 0x80 if form.values == 8 else 0x10
    with pytest.raises(DataError, match="a compressed tensor"):
        unpack_map(damaged, 40, form)


def copy_operations(
    config: KernelConfig, rng: np.random.Generator, count: int
) -> tuple[list[KernelOperation], dict[str, BlockTensor]]:
    """Loads and stores of random tensors; any of them compressed."""
    operations, tensors = [], {}
    for number in range(count):
        height, width, channels = (int(size) for size in rng.integers(1, 9, 3))
        region = ActivationMemory(config).place(name := f"t{number}", (0, height), width, width, channels)
        assert region is not None
        operations += [load_operation(config, name, region), store_operation(config, name, region)]
        most = config.format.mantissa_max
        kept = rng.random((1, height, width, channels)) < rng.choice(DENSITIES)
        mantissa = rng.integers(-most, most + 1, kept.shape) * kept
        tensors[name] = BlockTensor(mantissa.astype(np.int32), np.array([int(rng.integers(-9, 9))], np.int32))
    for operation in operations:
        operation.descriptor.flags |= int(Flag.COMPRESSED) * int(rng.random() < 0.7)
    operations[-1].descriptor.flags |= int(Flag.END_PACKET)
    return operations, tensors


@pytest.mark.parametrize("integers", ["native", "ap_int"])
@pytest.mark.parametrize("name", some_of(["array", "wide"], "wide"))
def test_what_is_loaded_comes_back_whatever_is_compressed(name: str, integers: Integers) -> None:
    """SC R44, R127, R143: each tensor of a start by itself, at any density, with pauses of processes and streams."""
    config = KERNELS[name]
    kernel, rng = CSimulation(config, integers), np.random.default_rng(3)
    for seed in range(12):
        kernel.disturb(seed)
        operations, tensors = copy_operations(config, rng, 3)
        before = {key: (tensor.mantissa.copy(), tensor.exponent.copy()) for key, tensor in tensors.items()}
        result = kernel.run_operations(operations, tensors)
        assert result.packets == 1
        for key, (mantissa, exponent) in before.items():
            assert np.array_equal(tensors[key].mantissa, mantissa), (seed, key)
            assert np.array_equal(tensors[key].exponent, exponent)


@pytest.mark.parametrize("name", list(KERNELS))
def test_frames_bring_the_plain_stream_and_less_of_it_where_there_are_zeros(name: str) -> None:
    """SC R20: one stream of whole beats; the kernel's checksum is that of the plain one."""
    config, rng = KERNELS[name], np.random.default_rng(5)
    maps = MapStreams.of(config)
    assert maps is not None
    assert MapStreams.of(replace(config, compressed_maps=False)) is None
    for _ in range(20):
        operations, tensors = copy_operations(config, rng, 2)
        packet = streams.input_packet(operations, config, tensors)
        sent = maps.sent(packet, len(operations))
        assert maps.plain_input(sent.tobytes()) == packet
        with pytest.raises(DataError, match="descriptors and tensors take"):
            maps.sent(packet + bytes(maps.form.octets), len(operations))


@pytest.mark.parametrize("name", some_of(KERNELS, "cluster"))
def test_random_networks_have_the_same_bits_with_compressed_maps(name: str) -> None:
    """SC R143, R149: emulator, which knows nothing of it, and C simulation, half of the networks disturbed."""
    report = verify([KERNELS[name]], ["csim"], drawn(12), seed=7)
    assert report.mismatch is None, report.mismatch
    assert report.cases == drawn(12)


def test_random_networks_on_the_virtual_board_have_the_same_bits() -> None:
    """SC R20: through the board's buffers and DMAs, whose output packets end earlier than their buffers."""
    report = verify([KERNELS["sparse"]], ["virtual"], 6, seed=8)
    assert report.mismatch is None, report.mismatch


@pytest.fixture
def kernel() -> Iterator[CSimulation]:
    simulation = CSimulation(KERNELS["sparse"])
    yield simulation
    simulation.disturb(0)
    simulation.hold({})


def test_streams_as_deep_as_stated_never_keep_processes_waiting(kernel: CSimulation) -> None:
    rng = np.random.default_rng(11)
    trial = DepthTrial(rng, kernel)
    assert [trial.run(sufficient_depths(rng, kernel.config), int(rng.integers(9))) for _ in range(5)] == [None] * 5


def test_a_start_after_one_that_was_given_up_finds_nothing_of_it() -> None:
    """Issue 36: values of a compressed tensor that the expander held were read as the next start's descriptors."""
    (config,) = random_configs(1, seed=3621)
    assert config.compressed_maps
    needed = {stream.name: stream.needed for stream in process_streams(config)}
    simulation, stopped = CSimulation(config), 0
    for seed in range(drawn(7)):
        trial = DepthTrial(np.random.default_rng([3621, seed]), simulation)
        for name in ("parameters", "post_commands", "stored_values", "entries_0"):
            found = trial.run(needed | {name: 1}, pauses=seed + 1)
            stopped += found is not None
            assert trial.run(needed) is None, (seed, name)
    assert stopped > 1


def test_masks_of_a_chunk_come_behind_its_values(kernel: CSimulation) -> None:
    """A stream of fewer values than a chunk has keeps its processes waiting: the stated depth is needed."""
    region = ActivationMemory(kernel.config).place("t0", (0, 8), 8, 8, 8)
    assert region is not None
    operations = [load_operation(kernel.config, "t0", region), store_operation(kernel.config, "t0", region)]
    operations[1].descriptor.flags |= int(Flag.COMPRESSED | Flag.END_PACKET)
    tensors = {"t0": BlockTensor(np.ones((1, 8, 8, 8), np.int32), np.zeros(1, np.int32))}
    kernel.hold({"stored_values": 2})
    with pytest.raises(DeviceError, match="wait for each other"):
        kernel.run_operations(operations, tensors)
    kernel.hold({})
    kernel.run_operations(operations, tensors)
    assert np.all(tensors["t0"].mantissa == 1)


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"stream_bits": 128}, "stream_bits"), ({"stream_bits": 32, "mantissa_bits": 16}, "stream_bits"),
     ({"mantissa_bits": 18, "stream_bits": 128}, "compressed_maps")],
)  # fmt: skip
def test_streams_whose_beats_hold_no_masks_of_a_chunk_are_refused(changes: dict[str, int], key: str) -> None:
    """The key alone is what is wrong: without it the kernel validates."""
    config = small(accumulator_bits=48, **changes)
    assert not config_findings(config)
    assert [item.key for item in config_findings(replace(config, compressed_maps=True))] == [key]


def test_the_compiler_compresses_what_becomes_shorter_and_the_listing_says_by_how_much() -> None:
    """SC R144: on samples; a tensor without zeros stays as it is."""
    config = KERNELS["array"]
    tensors = {name: TensorSpec(name, 8, 8, 8) for name in ("empty", "full", "unknown")}
    shares = measured_shares(
        {"empty": np.zeros((2, 8, 8, 8), np.int32), "full": np.ones((2, 8, 8, 8), np.int32)}, tensors, config
    )
    # 64 beats are 10 chunks: masks alone, or with every value.
    assert shares == {"empty": 10 / 64, "full": 74 / 64}
    assert not measured_shares({"empty": np.zeros((2, 8, 8, 8), np.int32)}, tensors, small())
    operations = []
    for name in tensors:
        region = ActivationMemory(config).place(name, (0, 8), 8, 8, 8)
        assert region is not None
        operations.append(load_operation(config, name, region))
    compress(operations, shares)
    assert [bool(item.descriptor.flags & Flag.COMPRESSED) for item in operations] == [True, False, False]
    program = Program(
        "net", "small", "0" * 64, config, 100.0, tensors, [], LaunchStep([]), [LaunchStep(operations)], {}, {}
    )
    assert (
        "maps on the streams: 1,104 bytes a sample, 1,536 with their zeros; without them travel empty"
        in listing(program)
    )
    assert [moved_bytes(config, item) for item in operations] == [408, 840, 840]
