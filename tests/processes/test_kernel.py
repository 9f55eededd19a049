"""The kernel of processes: values of the emulator in any order of its processes, errors, pieces, its top functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from array_programs import Program, empty, mixed_program, random_tensor
from cpp_units import exact_compiler
from effort import drawn, some_of
from kernel_pairs import SMALL, WIDE_MEMORY, small
from project_bench import compiled_bench, said_by_bench
from stream_depths import DepthTrial, sufficient_depths

from bfpga.board.virtual.compiled_kernel import CompiledKernel
from bfpga.board.virtual.stream import Stream
from bfpga.contract import program as contract
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, Flag, Operation
from bfpga.contract.program import BlockTensor
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.devices.base import Device
from bfpga.devices.csim import CSimulation, Integers
from bfpga.devices.kernel_start import KernelResult
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.kernel import streams
from bfpga.errors import DeviceError
from bfpga.formats.shift_format import ShiftFormat
from bfpga.vendor.render import write_project
from bfpga.verify.check import verify

#: Arrays of all kinds of multipliers, with weights that pass one or several blocks of columns.
KINDS = {
    "plain": SMALL,
    "packed": small(columns=20, multiplier="dsp_packed", array=SystolicArray(1), weight_stream_bits=128),
    "shift": small(multiplier="shift", shift=ShiftFormat(), array=SystolicArray(1)),
    "mixed": small(columns=4, shift_columns=1, shift=ShiftFormat(), array=SystolicArray(2)),
    "wide": WIDE_MEMORY,
}
#: Random networks of an array, half of them with an order drawn by chance.
CASES = drawn(10)
#: Orders drawn by chance of one start.
SEEDS = drawn(60)


@pytest.fixture(scope="module")
def kernel() -> CSimulation:
    return CSimulation(SMALL)


def run(kernel: CSimulation) -> tuple[KernelResult, dict[str, BlockTensor]]:
    program, tensors = mixed_program(kernel.config)
    return kernel.run_operations(program.operations, tensors), tensors


def run_raw(
    kernel: CSimulation, cut_input: int = 0, cut_weights: int = 0, capacity: int | None = None, **fields: int
) -> KernelResult:
    """The start of ``run`` with damaged streams; ``fields``: of the descriptor of the first GEMM."""
    program, tensors = mixed_program(SMALL)
    packet = bytearray(streams.input_packet(program.operations, SMALL, tensors))
    load = sum(len(streams.input_packet([operation], SMALL, tensors)) for operation in program.operations[:2])
    words = np.frombuffer(packet, "<i4", DESCRIPTOR_WORDS, load)
    for name, value in fields.items():
        words[FIELDS.index(name)] = value
    weights = streams.weight_stream(program.operations)
    size = streams.output_bytes(program.operations, SMALL) if capacity is None else capacity
    return kernel.run_packet(
        len(program.operations), packet[: len(packet) - cut_input], weights[: len(weights) - cut_weights], size
    )


@pytest.mark.parametrize("kind", some_of(KINDS, "plain", "packed"))
def test_random_networks_have_the_values_and_the_work_of_the_emulator(kind: str) -> None:
    """Whatever the order of the processes and however full their streams are."""
    opened = 0

    def opener(target: str) -> Callable[[contract.Program], Device]:
        def open_program(program: contract.Program) -> Device:
            nonlocal opened
            kernel = CSimulation(program.config)
            kernel.disturb(opened if opened % 2 else 0)
            opened += 1
            return StreamingDevice(program, kernel, target)

        return open_program

    report = verify([KINDS[kind]], ["csim"], CASES, device_for=opener)
    assert report.mismatch is None
    assert opened >= CASES


def run_waiting(kernel: CSimulation) -> KernelResult:
    """A layer whose weights are through when its command comes: it begins as soon as it may."""
    rng, program = np.random.default_rng(3), Program(kernel.config)
    x, y = program.tensor(4, 5, 4), program.tensor(4, 5, 4)
    program.load("x", x)
    fields = program.weights(rng.integers(-100, 101, (4, 1, 1, 4)))
    fields["flags"] |= Flag.FIRST | Flag.LAST
    program.compute(Operation.GEMM, x, y, output_exponent=4, **fields)
    program.store("y", y)
    tensors = {"x": random_tensor(rng, x, kernel.config), "y": empty(y)}
    return kernel.run_operations(program.operations, tensors)


@pytest.mark.parametrize("integers", [pytest.param("ap_int", marks=pytest.mark.slow), "exact"])
def test_integers_of_every_kind_give_the_same_bits(kernel: CSimulation, integers: Integers) -> None:
    """And no memory is used against its waivers: the exact ones check that."""
    if integers == "exact":
        exact_compiler()
    other = CSimulation(SMALL, integers)
    assert run(other)[0] == run(kernel)[0]
    assert run_waiting(other) == run_waiting(kernel)


def test_no_order_of_the_processes_changes_a_bit(kernel: CSimulation) -> None:
    expected = run(kernel)[0]
    try:
        for seed in range(1, SEEDS + 1):
            kernel.disturb(seed)
            assert run(kernel)[0] == expected, seed
    finally:
        kernel.disturb(0)


def test_streams_as_deep_as_stated_or_deeper_never_keep_processes_waiting(kernel: CSimulation) -> None:
    """Issue 14: random depths at or above the stated ones; `benchmarks.verify.stream_depths` draws 10,000."""
    rng = np.random.default_rng(14)
    try:
        for _ in range(drawn(8)):
            trial = DepthTrial(rng, kernel)
            assert [trial.run(sufficient_depths(rng, SMALL), int(rng.integers(9))) for _ in range(5)] == [None] * 5
    finally:
        kernel.disturb(0)
        kernel.hold({})


def test_processes_that_wait_in_a_circle_are_named_and_the_next_start_runs(kernel: CSimulation) -> None:
    """Issue 14: parameters of a pass that find no room bar the weights behind them (docs/kernel.md)."""
    expected, said = run(kernel)[0], r"wait for each other: .*`weights` writes `parameters`, which is full"
    kernel.hold({"parameters": 1})
    try:
        for _ in range(2):  # nothing of a start is left in a pipeline
            with pytest.raises(DeviceError, match=said):
                run(kernel)
    finally:
        kernel.hold({})
    assert run(kernel)[0] == expected


def test_weights_never_wait_behind_parameters_of_sums_on_their_way_through_many_blocks() -> None:
    """Passes as short as the way through a block of one row: room for the parameters of a single pass would do."""
    kernel = CSimulation(KINDS["packed"])
    rng, program = np.random.default_rng(3), Program(kernel.config)
    x, y = program.tensor(4, 5, 1), program.tensor(4, 5, 40)
    program.load("x", x)
    fields = program.weights(rng.integers(-100, 101, (40, 1, 1, 1)), rng.integers(-99, 100, 40))
    fields["flags"] |= Flag.FIRST | Flag.LAST
    program.compute(Operation.GEMM, x, y, output_exponent=4, **fields)
    program.store("y", y)
    tensors = {"x": random_tensor(rng, x, kernel.config), "y": empty(y)}
    expected = kernel.run_operations(program.operations, tensors)
    for seed in range(1, 20):
        kernel.disturb(seed)
        assert kernel.run_operations(program.operations, tensors) == expected
    kernel.disturb(0)
    kernel.hold({"parameters": kernel.config.accumulator_rows})
    assert kernel.run_operations(program.operations, tensors) == expected


@pytest.mark.parametrize(("depths", "said"), [({"sms": 3}, "no stream 'sms'"), ({"sums": 0}, "cannot hold 0 words")])
def test_a_depth_that_means_nothing_is_refused(kernel: CSimulation, depths: dict[str, int], said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        kernel.hold(depths)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ({"cut_input": 8}, "stream `input` is empty: the kernel waits for 1 more beats of descriptor 6"),
        ({"cut_weights": 16}, "stream `weights` is empty: the kernel waits for 2 more beats of weights from word 0"),
        ({"capacity": 100}, "stream `output` is full: its reader has taken 12 beats and expects no more"),
        ({"operation": 9}, "a descriptor has no such operation: 9"),
        ({"groups": 0}, "a descriptor has no groups of output pixels; groups is 0"),
        ({"after_fills": 2}, "a GEMM waits for weight transfers behind it; GEMMs so far: 1"),
        ({"after_loads": 2}, "a descriptor waits for operations behind it; descriptors that use the activation mem"),
    ],
    ids=lambda item: next(iter(item)) if isinstance(item, dict) else "",
)
def test_a_start_that_cannot_go_on_says_why_and_the_next_one_runs(
    kernel: CSimulation, damage: dict[str, int], sentence: str
) -> None:
    expected = run_raw(kernel)
    with pytest.raises(DeviceError, match=sentence):
        run_raw(kernel, **damage)
    assert run_raw(kernel) == expected


@pytest.mark.parametrize("seed", [0, 5, 8])
def test_pieces_of_streams_give_the_same_bits(kernel: CSimulation, seed: int) -> None:
    """A board that is slow with all streams at once: no process waits for what another one could still do.

    seed: of an order of the three streams and of the processes (issue 14).
    """
    program, tensors = mixed_program(SMALL)
    left = {
        INPUT_STREAM: streams.input_packet(program.operations, SMALL, tensors),
        WEIGHT_STREAM: streams.weight_stream(program.operations),
    }
    expected = run_raw(kernel)
    pieces = CompiledKernel(SMALL, "kernel", "0" * 8)
    wires = {name: Stream(name, 64) for name in (*left, OUTPUT_STREAM)}
    output = b""
    pieces.disturb(seed)
    pieces.start({"descriptor_count": len(program.operations), "control": 0})
    for _ in range(5000):
        for name, data in left.items():
            left[name] = data[wires[name].push(data[:24], False) :]
        pieces.step(wires)
        output += wires[OUTPUT_STREAM].pop(16)[0].tobytes()
        if pieces.finished and not wires[OUTPUT_STREAM].level:
            break
    results = pieces.results()
    assert (output, results["cycles"], results["status"]) == (expected.output, expected.cycles, expected.status)
    assert [operation.cycles for operation in pieces.operations()] == expected.operation_cycles


def test_top_functions_side_by_side_pass_the_test_bench(kernel: CSimulation, tmp_path: Path) -> None:
    """The IPs with the memories and crossbars that they have in hardware, against vectors."""

    def vectors(config: KernelConfig) -> dict[str, bytes]:
        program, tensors = mixed_program(config)
        sent = streams.input_packet(program.operations, config, tensors)
        result = kernel.run_operations(program.operations, tensors)
        counted = [result.cycles, result.overflow, result.underflow, result.status, *result.checksums]
        return {
            "starts.txt": " ".join(map(str, ["mixed", len(program.operations), 1, *counted, "\n"])).encode(),
            "mixed.input.bin": bytes(sent),
            "mixed.weights.bin": streams.weight_stream(program.operations),
            "mixed.output.bin": result.output,
        }

    project = write_project("tiny", "00000000", SMALL, tmp_path / "project", vectors)
    bench = compiled_bench(project, SMALL)
    for changed, said in ((False, "PASS: 1 starts, 0 differences"), (True, "FAIL: 1 starts, 1 differences")):
        if changed:
            expected = project / "tb" / "vectors" / "mixed.output.bin"
            expected.write_bytes(expected.read_bytes()[:-1] + b"\x7f")
        assert said in said_by_bench(bench, project)
