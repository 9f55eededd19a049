"""The compiled kernel in pieces: any cut of its streams gives what one uninterrupted simulation gives."""

from __future__ import annotations

import numpy as np
import pytest
from array_programs import mixed_program
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_pairs import SMALL

from bfpga.board.virtual.compiled_kernel import CompiledKernel, kernel_from_description
from bfpga.board.virtual.stream import Stream
from bfpga.contract.layout import layout
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.devices.csim import CSimulation
from bfpga.engines.kernel import streams
from bfpga.errors import DeviceError

DIGEST = "89abcdef01234567"


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    return CompiledKernel(SMALL, "kernel", DIGEST)


def start_data() -> tuple[int, bytes, bytes, int]:
    program, tensors = mixed_program(SMALL)
    packet = streams.input_packet(program.operations, SMALL, tensors)
    weights = streams.weight_stream(program.operations)
    return len(program.operations), packet, weights, streams.output_bytes(program.operations, SMALL)


def links(capacity: int = 4096) -> dict[str, Stream]:
    return {name: Stream(name, capacity) for name in (INPUT_STREAM, WEIGHT_STREAM, OUTPUT_STREAM)}


def run_in_pieces(kernel: CompiledKernel, sizes: list[int], capacity: int) -> tuple[bytes, list[int]]:
    """Feeds streams in pieces of the given sizes; the output stream and where its packets end."""
    count, packet, weights, _ = start_data()
    wires, left = links(capacity), {INPUT_STREAM: packet, WEIGHT_STREAM: weights}
    output, ends, turn = b"", [], 0
    kernel.start({"descriptor_count": count, "control": 1})
    while not kernel.finished:
        for name in (INPUT_STREAM, WEIGHT_STREAM):
            size = sizes[turn % len(sizes)]
            turn += 1
            accepted = wires[name].push(left[name][:size], False)
            left[name] = left[name][accepted:]
        kernel.step(wires)
        data, last = wires[OUTPUT_STREAM].pop(sizes[turn % len(sizes)] + 8)
        output += data.tobytes()
        ends += [len(output)] if last else []
        assert turn < 100_000, kernel.waiting
    while wires[OUTPUT_STREAM].level:
        data, last = wires[OUTPUT_STREAM].pop(1 << 20)
        output += data.tobytes()
        ends += [len(output)] if last else []
    assert left == {INPUT_STREAM: b"", WEIGHT_STREAM: b""}
    return output, ends


@settings(max_examples=drawn(40), deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=8), st.integers(16, 600))
def test_pieces_of_any_size_give_the_same_bits(kernel: CompiledKernel, sizes: list[int], capacity: int) -> None:
    count, packet, weights, size = start_data()
    expected = CSimulation(SMALL, digest=DIGEST).run_packet(count, packet, weights, size, clear_policies=True)
    output, ends = run_in_pieces(kernel, sizes, capacity)
    assert output == expected.output
    assert (len(ends), ends[-1]) == (expected.packets, size)
    results = kernel.results()
    assert (results["cycles"], results["overflow"], results["status"]) == (
        expected.cycles, expected.overflow, expected.status
    )  # fmt: skip
    sums = results["input_checksum"], results["weight_checksum"], results["output_checksum"]
    assert sums == expected.checksums
    assert results["identification"] == 0x89ABCDEF


def test_a_kernel_says_what_it_waits_for(kernel: CompiledKernel) -> None:
    count, packet, weights, _ = start_data()
    wires = links(1 << 16)
    kernel.start({"descriptor_count": count, "control": 0})
    kernel.step(wires)
    assert kernel.waiting == "stream `input_stream`: 40 more beats of descriptor 0"
    wires[INPUT_STREAM].push(packet, True)
    kernel.step(wires)
    assert kernel.waiting is not None
    assert kernel.waiting.startswith("stream `weight_stream`: ")
    wires[OUTPUT_STREAM].push(bytes(1 << 16), False)
    wires[WEIGHT_STREAM].push(weights, True)
    kernel.step(wires)
    assert kernel.waiting == "stream `output_stream`: nobody takes its beats"


def test_a_start_that_is_given_up_leaves_a_kernel_that_works(kernel: CompiledKernel) -> None:
    count, packet, _, _ = start_data()
    wires = links()
    kernel.start({"descriptor_count": count, "control": 0})
    wires[INPUT_STREAM].push(packet[:1000], True)
    kernel.step(wires)
    assert not kernel.finished
    kernel.reset()
    assert kernel.finished
    assert run_in_pieces(kernel, [64], 512)[0]


def test_a_start_without_descriptors_moves_nothing(kernel: CompiledKernel) -> None:
    wires = links()
    kernel.start({"descriptor_count": 0, "control": 0})
    assert kernel.step(wires)
    assert kernel.finished
    assert kernel.waiting is None
    assert (kernel.results()["cycles"], kernel.results()["identification"]) == (0, 0x89ABCDEF)


def test_a_descriptor_that_breaks_a_rule_never_finishes(kernel: CompiledKernel) -> None:
    wires = links()
    kernel.start({"descriptor_count": 1, "control": 0})
    wires[INPUT_STREAM].push(np.full(80, 99, "<i4").tobytes(), True)
    kernel.step(wires)
    assert kernel.waiting == "stopped: a descriptor has no such operation: 99"
    assert not kernel.step(wires)
    kernel.reset()


def test_descriptions_that_are_no_kernel_are_refused() -> None:
    with pytest.raises(DeviceError, match="of kind 'sparse'"):
        kernel_from_description({"kind": "sparse"})
    with pytest.raises(DeviceError, match="does not describe a systolic array"):
        kernel_from_description({"kind": "systolic_array", "layout": layout(), "configuration": {"columns": 2}})
    with pytest.raises(DeviceError, match="another layout than this toolkit's: no layout is named there"):
        kernel_from_description({"kind": "systolic_array", "configuration": {"columns": 2}})
