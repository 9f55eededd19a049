"""Schedules: what a kernel reads, writes, keeps and moves, followed word by word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from effort import drawn, each_once
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_walk import MemoryWalk, check_coverage
from small_networks import Network, compiled, joined_network, largest_error, residual_network

from bfpga.compiler.options import CompileOptions
from bfpga.compiler.schedule.matmul import matmul_step
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import ArrayNode, HostNode, KernelOperation, LaunchStep, MatMulNode, Program
from bfpga.engines.kernel.cycles import pass_steps
from bfpga.engines.kernel.pitch import conflict_free, rows_of_a_group
from bfpga.formats.block_format import BlockFormat

SMALL = KernelConfig(format=BlockFormat(mantissa_bits=8), columns=5, rows=4, lanes=2, activation_words=256)


def operations(program: Program, kind: Operation) -> list[KernelOperation]:
    launches = [step for step in program.steps if isinstance(step, LaunchStep)]
    return [o for step in launches for o in step.operations if o.descriptor.operation == kind]


@pytest.mark.parametrize(("words", "build"), each_once([4096, 90, 60, 40, 30], [residual_network, joined_network]))
def test_every_word_is_read_where_it_was_written(build: object, words: int, tmp_path: Path) -> None:
    """R68: memory of every size, down to single rows; smaller memories spill and cut, they refuse nothing."""
    network = build()  # type: ignore[operator]
    program = compiled(network, tmp_path, replace(SMALL, activation_words=words))
    MemoryWalk(program).run()
    check_coverage(program)
    assert largest_error(network, program) < 0.2


def test_a_concatenation_goes_on_after_a_layer_of_the_host(tmp_path: Path) -> None:
    """The part that the stage before has stored is loaded again; a place in memory alone does not hold it."""
    network = Network(4, 3, 5)
    first = network.conv(20, 4, 1)
    wide = network.conv(20, 20, 3, pads=[1, 1, 1, 1])  # has no room for one row
    network.add("Concat", wide, network.conv(4, 20, 1, source=first), axis=1)
    network.conv(3, 24, 1)
    program = compiled(network, tmp_path, replace(SMALL, columns=2, lanes=1, activation_words=120, weight_words=30))
    assert any(isinstance(node, HostNode) for node in program.nodes)
    MemoryWalk(program).run()
    check_coverage(program)


def test_a_network_that_fits_is_one_kernel_start(tmp_path: Path) -> None:
    """R68"""
    program = compiled(residual_network(), tmp_path)
    assert [type(step) for step in program.steps] == [LaunchStep]
    assert len(operations(program, Operation.LOAD)) == len(operations(program, Operation.STORE)) == 1
    assert operations(program, Operation.STORE)[0].descriptor.flags & Flag.END_PACKET


def test_a_layer_that_does_not_fit_is_computed_in_strips(tmp_path: Path) -> None:
    network = Network(4, 40, 30)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path, replace(SMALL, activation_words=300))
    node = program.nodes[0]
    assert isinstance(node, ArrayNode)
    assert len(node.tiles) > 1
    MemoryWalk(program).run()
    check_coverage(program)


def test_strips_that_alternate_between_regions_share_the_layers_exponent(tmp_path: Path) -> None:
    """Processes load one strip while they compute another; the exponent is chosen for the first of them alone."""
    network = Network(16, 48, 20)
    network.conv(8, 16, 3, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path, replace(SMALL, activation_words=800))
    descriptors = [operation.descriptor for operation in operations(program, Operation.GEMM)]
    assert len({d.output_word for d in descriptors}) > 1
    assert len({d.output_slot for d in descriptors}) == 1


def test_a_layer_without_room_for_one_row_runs_on_the_host(tmp_path: Path) -> None:
    network = Network(8, 20, 20)
    network.conv(8, 8, 5)
    program = compiled(network, tmp_path, replace(SMALL, activation_words=40))
    assert any("40" in note and "activation memory" in note for note in program.notes)
    assert largest_error(network, program) < 1e-5


@pytest.mark.parametrize(("words", "rows"), [(400, 2048), (150, 2048), (40, 2048), (4096, 12), (4096, 4)])
def test_weights_that_do_not_fit_are_loaded_or_streamed(words: int, rows: int, tmp_path: Path) -> None:
    """R2, R61"""
    network = residual_network()
    config = replace(SMALL, weight_words=words, parameter_rows=rows)
    program = compiled(network, tmp_path, config)
    MemoryWalk(program).run()
    check_coverage(program)
    loads = [*program.setup.operations, *operations(program, Operation.WEIGHTS)]
    for operation in loads:
        d = operation.descriptor
        assert d.weight_base + d.weight_words <= words
        assert d.parameter_base + d.parameter_rows <= rows
        beats = d.parameter_rows + d.weight_words * config.beats_per_weight_word
        assert len(operation.weights) == beats * config.weight_stream_bits // 8
    assert largest_error(network, program) < 0.2


def test_streamed_weights_come_in_the_order_of_the_steps(tmp_path: Path) -> None:
    """R61"""
    network = Network(64)
    network.add("Gemm", "x", network.weights(20, 64), network.weights(20), transB=1)
    config = replace(SMALL, weight_words=8)
    program = compiled(network, tmp_path, config)
    (gemm,) = operations(program, Operation.GEMM)
    assert gemm.descriptor.flags & Flag.STREAM_WEIGHTS
    steps = gemm.descriptor.blocks * gemm.descriptor.channel_words
    assert len(gemm.weights) == steps * config.beats_per_weight_word * config.weight_stream_bits // 8


def test_steps_and_slots_are_what_the_cycle_model_expects(tmp_path: Path) -> None:
    """R71"""
    for build in (residual_network, joined_network):
        program = compiled(build(), tmp_path, replace(SMALL, activation_words=60, weight_words=150))
        for kind in (Operation.GEMM, Operation.MAX, Operation.SUM):
            for operation in operations(program, kind):
                assert operation.descriptor.steps == pass_steps(program.config, operation.descriptor)


def test_layers_of_measured_range_are_measured_before_they_are_computed(tmp_path: Path) -> None:
    """R24"""
    program = compiled(residual_network(), tmp_path, replace(SMALL, activation_words=60), calibrate=False)
    MemoryWalk(program).run()
    seen: dict[str, list[Flag]] = {}
    for kind in (Operation.GEMM, Operation.SUM):
        for operation in operations(program, kind):
            seen.setdefault(operation.layer, []).append(Flag(operation.descriptor.flags))
    for flags in seen.values():
        half = len(flags) // 2
        assert all(flag & Flag.MEASURE for flag in flags[:half])
        assert not any(flag & Flag.MEASURE for flag in flags[half:])
        assert [bool(flag & Flag.FIRST) for flag in flags] == [i in (0, half) for i in range(len(flags))]
        assert [bool(flag & Flag.LAST) for flag in flags] == [i == len(flags) - 1 for i in range(len(flags))]


@pytest.mark.parametrize("policy", ["stats", "rolling_max", "feedback"])
def test_predicting_policies_measure_their_first_result_only(policy: str, tmp_path: Path) -> None:
    """R38"""
    options = CompileOptions(policy=policy)  # type: ignore[arg-type]
    program = compiled(residual_network(), tmp_path, replace(SMALL, activation_words=60), options)
    measures = [o for o in operations(program, Operation.GEMM) if o.descriptor.flags & Flag.MEASURE]
    assert measures
    assert all(operation.first_only for operation in measures)
    slots = [node.policy.slot for node in program.nodes if isinstance(node, ArrayNode) and not node.policy.inherit]
    assert len(set(slots)) == len(slots)


def test_history_that_is_given_needs_no_measurement(tmp_path: Path) -> None:
    """R31"""
    program = compiled(residual_network(), tmp_path, SMALL, CompileOptions(policy="static_history"))
    gemms = operations(program, Operation.GEMM)
    assert not any(operation.descriptor.flags & Flag.MEASURE for operation in gemms)
    assert all(operation.descriptor.flags & Flag.PRESET for operation in gemms)


def test_products_of_activations_are_cut_to_the_memories() -> None:
    node = MatMulNode("product", ("a", "b"), "c", batch=2, rows=30, inner=16, columns=20)
    config = replace(SMALL, activation_words=40, weight_words=24)
    step = matmul_step(0, node, config, {})
    stored = [o.transfer for o in step.operations if o.descriptor.operation == Operation.STORE]
    assert [(part.y0, part.y1) for part in stored if part] == [
        (y, min(y + stored[0].y1, 30)) for y in range(0, 30, stored[0].y1)  # type: ignore[union-attr]
    ]
    gemms = [o.descriptor for o in step.operations if o.descriptor.operation == Operation.GEMM]
    assert sum(d.output_pixels * d.output_rows for d in gemms) == 30 * 20
    words = [o.descriptor.weight_words for o in step.operations if o.descriptor.operation == Operation.WEIGHTS]
    assert max(words) <= config.weight_words


def brute_force(columns: int, banks: int, width: int, pixels: int, strides: tuple[int, int], pitch: int) -> bool:
    for start in range(0, pixels, columns):
        seen = set()
        for pixel in range(start, min(start + columns, pixels)):
            y, x = divmod(pixel, width)
            seen.add((y * strides[1] * pitch + x * strides[0]) % banks)
        if len(seen) < min(columns, pixels - start):
            return False
    return True


@settings(deadline=None, max_examples=drawn(300))
@given(
    st.integers(1, 13), st.integers(1, 40), st.integers(1, 12), st.integers(1, 4), st.integers(1, 4), st.integers(0, 20)
)
def test_conflicts_are_found_exactly(columns: int, width: int, height: int, x: int, y: int, extra: int) -> None:
    banks = KernelConfig(columns=columns).banks
    pitch = width * x + extra
    found = conflict_free(columns, banks, width, width * height, x, y, pitch)
    assert found == brute_force(columns, banks, width, width * height, (x, y), pitch)
    rows = max(
        min(start + columns, width * height) - 1 - start + start % width for start in range(0, width * height, columns)
    )
    assert rows_of_a_group(columns, width, width * height) == rows // width + 1
