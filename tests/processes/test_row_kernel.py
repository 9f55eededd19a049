"""A kernel with a process of rows: bits, counters and work of the emulator, who refuses what, what others see of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cut_starts import stopped_starts
from effort import drawn, some_of
from row_kernels import ROWS
from two_arrays import TWO_ARRAYS

from bfpga.accelerator.constraints import config_findings
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.weight_plan import plan_weights, setup_launch
from bfpga.contract.commands import ROW_COMMANDS
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import ROW_WORDS, Descriptor, Operation, word_names
from bfpga.contract.kernel_numbers import kernel_identity
from bfpga.contract.program import ArrayNode, BlockTensor, LaunchStep, Program, TensorSpec, Window
from bfpga.contract.rows import SOFTMAX_EXPONENT, RowOperation, RowWork
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import COUNTING_FLAGS, CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY
from bfpga.engines.configurations import check_config
from bfpga.engines.rows.cycles import EXCHANGE_STAGES, OPENING_CLOCKS
from bfpga.engines.rows.settings import Gains, RowSettings
from bfpga.errors import ConfigurationError, ModelError, ProgramError
from bfpga.formats.block_format import BlockFormat
from bfpga.program.checks import check_parts
from bfpga.program.file import load_program, save_program
from bfpga.program.listing import listing
from bfpga.program.schedule import schedule
from bfpga.vendor.render import render_kernel
from bfpga.verify.check import random_inputs, verify
from bfpga.verify.random_accelerator import random_row_config
from bfpga.verify.random_network import random_program

#: Clocks that the stages of pipelines, and what is done between loops, take where an operation waits for results, and
#: in which the end of a start goes through the processes.
STAGES, END = 45, 53
#: Of all columns and of one, with kept accumulators, with compressed maps, with shift columns.
OTHERS = {
    "all": replace(ROWS, columns=12, row_columns=12, lanes=4, activation_words=128),
    "one": replace(ROWS, columns=1, row_columns=1, lanes=1, rows=4),
    "wide": replace(ROWS, lanes=4, wide_memory=True, wide_words=64),
    "compressed": replace(ROWS, compressed_maps=True, lanes=1),
    "any": random_row_config(np.random.default_rng(3)),
}


def of_rows(program: Program) -> list[RowOperation]:
    """What the layers of a program do with rows."""
    return [node.rows.operation for node in program.nodes if isinstance(node, ArrayNode) and node.rows is not None]


@pytest.mark.parametrize(
    "target",
    ["csim", "csim:ap_int", "csim:exact", "csim:stalled", "virtual", pytest.param("rtl", marks=pytest.mark.slow)],
)
def test_random_networks(target: str) -> None:
    """Layers of all kinds around those of rows, with any policy: in C++, on the virtual board, in Verilog."""
    report = verify([ROWS], [target], drawn(30))
    assert report.mismatch is None, report.mismatch
    assert report.cases == drawn(30)


@pytest.mark.parametrize("name", some_of(OTHERS))
def test_random_networks_of_other_kernels(name: str) -> None:
    assert list(config_findings(OTHERS[name])) == []
    report = verify([OTHERS[name]], ["csim:stalled"], drawn(20))
    assert report.mismatch is None, report.mismatch


def test_random_networks_have_all_that_rows_may_have() -> None:
    """Otherwise the tests above would show little."""
    programs = [random_program(np.random.default_rng(seed), ROWS) for seed in range(60)]
    counts = Counter(operation for program in programs for operation in of_rows(program))
    assert min(counts[operation] for operation in RowOperation if operation) > 3


def test_a_start_after_one_that_stopped_gives_the_same_bits() -> None:
    """Wherever it stopped: nothing of it is left in the process, whose sums are never cleared."""
    assert stopped_starts(ROWS, range(drawn(24)), lambda program: bool(of_rows(program))) > 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"row_columns": 6}, "must be at most columns = 5"),
        ({"format": BlockFormat(7)}, "mantissas of 8 bits and saturation sym, not 7 bits and sym"),
        ({"format": BlockFormat(saturation="full")}, "not 8 bits and full"),
        ({"accumulator_bits": 23}, "accumulators of 24 bits, not 23"),
        ({"array": TWO_ARRAYS.array}, "only a systolic array has a process of rows beside it"),
        ({"count_registers": 2}, "a kernel with count_registers has no process of rows"),
    ],
)
def test_kernels_that_cannot_have_it_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"row_columns .*{said}"):
        check_config(replace(ROWS, **changes))


def program_of(
    operation: RowOperation, channels: int, pixels: int = 4, config: KernelConfig = ROWS
) -> list[LaunchStep]:
    """The starts of a layer of rows: that of its parameters, then that of the layer."""
    tensors = {name: TensorSpec(name, 1, pixels, channels) for name in ("x", "y")}
    window, gains = Window(output_height=1, output_width=pixels), Gains.of(np.ones(channels))
    settings = RowSettings.of(operation, channels, 1e-5)
    work = RowWork(operation, settings.epsilon, SOFTMAX_EXPONENT, gains.mantissa.astype(np.int32))
    work.gains = work.gains if operation.normalizes else None
    inputs = ("x", "x") if operation is RowOperation.PRODUCT else ("x",)
    nodes = [ArrayNode("rows", "rows", inputs, "y", channels, window, rows=work)]
    plans = plan_weights(nodes, config)
    return [setup_launch(nodes, plans, config), *Scheduler(config, tensors, nodes, plans, {"y"}).run()]


@pytest.mark.parametrize("operation", [operation for operation in RowOperation if operation])
def test_a_schedule_takes_the_clocks_of_the_processes(operation: RowOperation) -> None:
    """And the stages of pipelines, of which this simulation has none: those of both loops in each group, those of an
    operation, and before operations that wait for results."""
    config = replace(ROWS, columns=6, row_columns=6, activation_words=2048, parameter_rows=256)
    kernel = CSimulation(config, flags=COUNTING_FLAGS)
    kernel.count_clocks()
    for channels, pixels in ((200, 18), (32, 60)):
        setup, launch = program_of(operation, channels, pixels, config)
        kernel.run_operations(setup.operations, {})
        zeros = np.zeros((1, 1, pixels, channels), np.int8)
        tensors = {name: BlockTensor(zeros.copy(), np.zeros(1, np.int64)) for name in ("x", "y")}
        kernel.run_operations(launch.operations, tensors)
        clocks, _ = kernel.clocks(len(launch.operations))
        exchanged = 0 if operation is RowOperation.PRODUCT else EXCHANGE_STAGES * -(-pixels // config.row_columns)
        found = schedule(config, launch.operations).clocks - exchanged - STAGES - OPENING_CLOCKS - END
        assert abs(found - clocks) <= 0.01 * clocks + 20


def test_rows_longer_than_the_memory_of_parameters_are_refused() -> None:
    """A row reads a place of it for each channel, whether anything is there or not."""
    for operation in (RowOperation.SOFTMAX, RowOperation.RMS_NORM):
        assert len(program_of(operation, ROWS.parameter_rows)) == 2
        with pytest.raises(ModelError, match="64 rows of parameters do not hold those of rows"):
            program_of(operation, ROWS.parameter_rows + 1)


def test_words_of_rows_are_words_of_fields_that_rows_do_not_use() -> None:
    """They come back out of a descriptor's words, and other fields keep theirs."""
    operations = [item.descriptor for item in program_of(RowOperation.SOFTMAX, 24)[1].operations]
    found = next(item for item in operations if item.operation == Operation.ROWS)
    assert Descriptor.from_words(found.to_words()) == found
    assert (found.row_operation, found.row_exponent, found.blocks) == (RowOperation.SOFTMAX, SOFTMAX_EXPONENT, 3)
    assert not set(ROW_WORDS.values()) & set(word_names(Operation.ROWS))


def test_commands_are_in_the_order_in_which_both_loops_take_them() -> None:
    """processes/rows/row_process.hpp and factor_process.hpp: by number, since they stand alone in other tests."""
    assert [command.fields for command in ROW_COMMANDS] == [
        ("operation", "output_rows", "row_operation", "groups"),
        (
            "operation", "output_rows", "row_inverse", "row_magnitude", "row_operation", "row_epsilon",
            "row_epsilon_exponent", "groups",
        ),
    ]  # fmt: skip


def test_other_kernels_have_no_trace_of_rows() -> None:
    """Issue 37: neither in their identity nor in their layout, and what is rendered for them includes nothing of it."""
    without = replace(ROWS, row_columns=0)
    identities = [json.dumps(kernel_identity(config)) for config in (ROWS, without)]
    texts = [json.dumps(render_kernel("rows", "0" * 8, config)) for config in (ROWS, without)]
    assert [len(re.findall(r"row_(?:operation|columns|factors)", text)) > 3 for text in identities] == [True, False]
    assert "row" not in identities[1].replace("rows", "").replace("row_exponents", "").lower()
    assert [len(re.findall(r"row_operation|row_factors|rows/", text)) > 20 for text in texts] == [True, False]
    assert not re.search(r"row_operation|row_factors|rows/", texts[1])


def test_products_find_room_behind_the_parameters_of_rows() -> None:
    """A network for which they leave no block of a layer of products is refused, not cut into nothing."""
    window, gains = Window(output_height=1, output_width=4), np.ones(1, np.int32)
    for channels, fits in ((ROWS.parameter_rows - ROWS.rows, True), (ROWS.parameter_rows - ROWS.rows + 1, False)):
        norm = ArrayNode("norm", "rows", ("x",), "y", channels, window)
        norm.rows = RowWork(RowOperation.RMS_NORM, gains=np.repeat(gains, channels))
        weights = np.ones((16, 1, 1, channels), np.int32)
        product = ArrayNode("product", "gemm", ("y",), "z", 16, window, weights=weights)
        if fits:
            tiles = plan_weights([norm, product], ROWS)["product"].tiles
            assert all(tile.parameter_base >= channels and tile.rows == ROWS.rows for tile in tiles)
            assert [(tile.m0, tile.m1) for tile in tiles] == [(0, 8), (8, 16)]
        else:
            with pytest.raises(ModelError, match="rows of parameters do not hold those of rows"):
                plan_weights([norm, product], ROWS)


def row_program() -> Program:
    """A random program with an operation of rows."""
    programs = (random_program(np.random.default_rng(seed), ROWS) for seed in range(100))
    return next(item for item in programs if any(kind.normalizes for kind in of_rows(item)))


def test_a_program_file_keeps_what_layers_do_with_rows(tmp_path: Path) -> None:
    program = row_program()
    save_program(program, tmp_path / "program.zip")
    loaded = load_program(tmp_path / "program.zip")
    inputs = random_inputs(np.random.default_rng(1), program)
    expected, found = (Emulator(item, NUMPY).run(inputs, trace=True) for item in (program, loaded))
    assert first_mismatch(program, expected, found) is None
    assert [step.operations for step in loaded.steps] == [step.operations for step in program.steps]
    assert " norm " in listing(loaded)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"operation": RowOperation.PRODUCT}, "1 inputs of PRODUCT"),
        ({"gains": None}, "it has no gains"),
        ({"epsilon": (1 << 16, 0)}, "its epsilon is 65536"),
        ({"exponent": 1 << 20}, "exponent"),
    ],
)
def test_rows_that_do_not_fit_a_program_are_refused(changes: dict[str, Any], said: str) -> None:
    program = row_program()
    node = next(
        node for node in program.nodes
        if isinstance(node, ArrayNode) and node.rows is not None and node.rows.operation.normalizes
    )  # fmt: skip
    assert node.rows is not None
    check_parts(program)
    node.rows = replace(node.rows, **changes)
    with pytest.raises(ProgramError, match=said):
        check_parts(program)


def test_rows_are_refused_on_a_kernel_without_their_process() -> None:
    program = row_program()
    program.config = replace(program.config, row_columns=0)
    with pytest.raises(ProgramError, match="its kernel has no process of rows"):
        check_parts(program)
