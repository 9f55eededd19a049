"""BFP R11: functions whose tables come with the program. One bitstream computes any of them, with the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from effort import drawn, some_of
from small_networks import Network, compiled

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.contract import functions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.functions import ACTIVATION_EXPONENT, GRID_BITS, LARGEST_LIMIT, TABLE_STEPS, Function, Table
from bfpga.contract.kernel_numbers import kernel_identity
from bfpga.contract.limits import problems
from bfpga.contract.loaded_tables import (
    FIELDS_OF_WORDS,
    SLOPE_BITS,
    TABLE_USE,
    table_descriptors,
    table_use,
    table_words,
)
from bfpga.contract.program import ArrayNode, BlockTensor, KernelOperation, LaunchStep, PolicySpec, Program, Window
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import COUNTING_FLAGS, CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_start import KernelResult, Octets
from bfpga.devices.native.library import NUMPY
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.configurations import check_config
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.errors import ConfigurationError, DeviceError
from bfpga.formats.block_format import BlockFormat
from bfpga.program.file import load_program, save_program
from bfpga.program.layout import encode_tensor
from bfpga.program.schedule import schedule
from bfpga.verify.check import verify
from bfpga.verify.random_network import NetworkBuilder
from bfpga.verify.random_network import schedule as program_of

#: All of its numbers differ.
LOADING = KernelConfig(
    columns=5, rows=8, lanes=2, multiplier="dsp_packed", accumulator_bits=28, activation_words=256, weight_words=128,
    parameter_rows=64, position_bins=11, function_tables=2,
)  # fmt: skip
#: The same with all tables in the bitstream.
BUILT_IN = replace(LOADING, function_tables=0, functions=functions.FUNCTION_NAMES)
#: Of one column and slot, with all else that shares the output stage.
OTHERS = {
    "one": replace(LOADING, columns=1, lanes=1, function_tables=1),
    "wide": replace(LOADING, lanes=4, wide_memory=True, wide_words=64, count_registers=3, function_tables=8),
    "rows": replace(LOADING, row_columns=3, function_tables=3),
    "slices": replace(LOADING, columns=6, post_columns=3),
    "columns one by one": replace(LOADING, columns=3, post_columns=1),
}
BY_TABLE = tuple(function for function in Function if function.row.table is not None)
PIXELS, CHANNELS = 40, 4


def network(
    config: KernelConfig, used: Sequence[Function], seed: int = 1, units: Sequence[int] = ()
) -> Program:
    """Layers side by side of one input, each with a function; its values reach beyond the ends of all tables.

    units: the layers give their input, its channels in other units.
    """
    builder = NetworkBuilder(np.random.default_rng(seed), config)
    source = builder.tensor(1, PIXELS, CHANNELS)
    window = Window(output_height=1, output_width=PIXELS)
    for number, function in enumerate(used):
        weights = builder.rng.integers(-60, 60, (CHANNELS, 1, 1, CHANNELS)).astype(np.int32)
        bias = builder.rng.integers(-99, 99, CHANNELS).astype(np.int32)
        node = ArrayNode(f"n{number}", "gemm", (source,), builder.tensor(1, PIXELS, CHANNELS), CHANNELS, window)
        node.weights, node.weight_exponents, node.bias = weights, np.full(CHANNELS, -6, np.int32), bias
        if units:
            node.weights = np.eye(CHANNELS, dtype=np.int32).reshape(CHANNELS, 1, 1, CHANNELS)
            node.weight_exponents, node.bias = np.array(units, np.int32), None
        node.bias_exponent, node.function, node.policy = -7, function, PolicySpec(exponent=-3)
        node.function_first = number % 2 == 1
        builder.nodes.append(node)
    return program_of(builder, f"t{len(used)}")


def samples() -> dict[str, npt.NDArray[np.float32]]:
    """Three, each of another size."""
    spread = np.linspace(-1, 1, PIXELS * CHANNELS, dtype=np.float32).reshape(1, CHANNELS, 1, PIXELS)
    return {"t0": np.concatenate([spread * size for size in (2, 12, 90)]).astype(np.float32)}


def simulated(program: Program, runs: int = 1) -> DeviceResult:
    """The last of some runs on the C simulation of the program's kernel."""
    device = StreamingDevice(program, CSimulation(program.config), "csim")
    for _ in range(runs):
        result = device.run(samples())
    return result


def same(program: Program, found: DeviceResult) -> bool:
    """Whether a device gave the bits of the emulator."""
    return first_mismatch(program, Emulator(program, NUMPY).run(samples()), found) is None


def brought(operations: Sequence[KernelOperation]) -> list[KernelOperation]:
    """Operations that bring words of tables."""
    return [operation for operation in operations if operation.descriptor.operation == Operation.TABLE]


def in_starts(program: Program) -> list[KernelOperation]:
    """Those of a program that every run brings again."""
    launches = (step for step in program.steps if isinstance(step, LaunchStep))
    return [operation for launch in launches for operation in brought(launch.operations)]


@pytest.mark.parametrize("function", BY_TABLE, ids=lambda function: function.key)
def test_every_function_has_the_bits_of_a_built_in_table(function: Function) -> None:
    """Of the emulator, and of a kernel in whose bitstream the table is: before the bias and behind it."""
    loaded, built_in = network(LOADING, [function, function]), network(BUILT_IN, [function, function])
    assert same(loaded, simulated(loaded))
    assert same(loaded, simulated(built_in))
    assert brought(loaded.setup.operations)
    assert not brought(built_in.setup.operations)


def test_the_smallest_values_of_coarse_units_are_beyond_the_ends_of_a_table() -> None:
    """-1 in a unit of more than 2**10 left the range of the shifter without a trace: tanh(-2048) was 0."""
    used = [Function.TANH, Function.SILU, Function.SIGMOID, Function.SOFTPLUS]
    program = network(LOADING, used, units=[8, 20, 20, 20])
    given = encode_tensor(samples()["t0"], program.tensors["t0"], LOADING.format)
    assert -1 in given.mantissa[..., 1]
    assert same(program, simulated(program))


@pytest.mark.parametrize(
    "target",
    ["csim", "csim:ap_int", "csim:exact", "csim:stalled", "virtual", pytest.param("rtl", marks=pytest.mark.slow)],
)
def test_random_networks(target: str) -> None:
    """Functions of all kinds and in any order: in C++, on the virtual board, in Verilog."""
    report = verify([LOADING], [target], drawn(30))
    assert report.mismatch is None, report.mismatch


@pytest.mark.parametrize("name", some_of(OTHERS))
def test_random_networks_of_other_kernels(name: str) -> None:
    report = verify([OTHERS[name]], ["csim:stalled"], drawn(20))
    assert report.mismatch is None, report.mismatch


def test_tables_that_fit_are_brought_once() -> None:
    """With the resident weights, whatever number of starts and samples follows."""
    program = network(LOADING, [Function.SILU, Function.GELU, Function.SILU])
    assert len(brought(program.setup.operations)) == 2 * len(list(table_descriptors(Function.SILU, 0)))
    assert not in_starts(program)
    assert same(program, simulated(program, 3))


def test_more_functions_than_slots_take_turns_in_the_last_one() -> None:
    """Those that most layers use stay; a start brings what it needs of the others, and brings it again."""
    used = [Function.ELU, Function.SILU, Function.MISH, Function.SILU, Function.ELU, Function.SILU, Function.ERF]
    program = network(LOADING, used)
    once = len(list(table_descriptors(Function.SILU, 0)))
    assert len(brought(program.setup.operations)) == once
    assert len(in_starts(program)) == 4 * once  # elu, mish, elu, erf
    assert same(program, simulated(program, 2))


class _Cut(CSimulation):
    """A kernel whose next start lacks the end of its input."""

    cut = False

    def run_packet(
        self, descriptors: int, packet: Octets, weights: Octets = b"", capacity: int = 0, clear_policies: bool = False
    ) -> KernelResult:
        packet = packet[: len(packet) // 32 * 16] if self.cut else packet
        self.cut = False
        return super().run_packet(descriptors, packet, weights, capacity, clear_policies)


def test_a_start_after_one_that_stopped_gives_the_same_bits() -> None:
    """Wherever it stopped: its tables are brought again."""
    program = network(LOADING, [Function.ELU, Function.SILU, Function.MISH])
    kernel = _Cut(LOADING)
    device = StreamingDevice(program, kernel, "csim")
    kernel.cut = True
    with pytest.raises(DeviceError):
        device.run(samples())
    assert same(program, device.run(samples()))


def test_two_programs_take_turns_on_a_kernel() -> None:
    """Each brings its own tables when it is opened."""
    kernel = CSimulation(LOADING)
    for used in ([Function.GELU], [Function.TANH, Function.SOFTPLUS], [Function.GELU]):
        program = network(LOADING, used)
        assert same(program, StreamingDevice(program, kernel, "csim").run(samples()))


def test_an_onnx_network_stays_on_the_array(tmp_path: Path) -> None:
    """Functions that the file of the accelerator does not name: more than slots, whole starts of several samples."""
    config = replace(LOADING, activation_words=512, weight_words=512, parameter_rows=128)
    net = Network(3, 9, 10)
    for kind in ("HardSwish", "Elu", "Softplus", "Tanh"):
        net.add(kind, net.conv(6, 6 if net.nodes else 3, 3, pads=[1, 1, 1, 1]))
    net.add("Mul", net.conv(6, 6, 1), net.add("Sigmoid"))
    for known, on_array in ((config, True), (replace(config, function_tables=0, functions=("none", "relu")), False)):
        program = compiled(net, tmp_path, known)
        assert all(isinstance(node, ArrayNode) for node in program.nodes) == on_array
    program = compiled(net, tmp_path, config)
    inputs = net.samples(5)
    expected = Emulator(program, NUMPY).run(inputs)
    kernel = CSimulation(config, "native", program.accelerator, program.digest)
    assert first_mismatch(program, expected, StreamingDevice(program, kernel, "csim").run(inputs)) is None


def test_operations_of_a_session_bring_their_tables() -> None:
    """One by one, in any order, beside operations whose weights stay: the bits and clocks of the emulator."""
    accelerator = accelerator_around(LOADING)
    x, w = np.linspace(-9, 9, 24, dtype=np.float32).reshape(4, 6), np.ones((6, 3), np.float32) / 4
    with bfpga.eager(accelerator, "emulator") as expected, bfpga.eager(accelerator, "csim") as found:
        for name in ("silu", "relu", "gelu", "silu", "gelu", "gelu", "mish"):
            results = [(run.function(run.linear(x, w), name), run.linear(x, w)) for run in (expected, found)]
            for theirs, ours in zip(*results, strict=True):
                assert (ours.exponent, ours.mantissa.tolist()) == (theirs.exponent, theirs.mantissa.tolist())
        assert [record.cycles for record in found.trace] == [record.cycles for record in expected.trace]


def test_a_program_keeps_its_tables_in_a_file(tmp_path: Path) -> None:
    program = network(LOADING, [Function.ELU, Function.SILU, Function.MISH])
    save_program(program, tmp_path / "program")
    assert same(program, simulated(load_program(tmp_path / "program")))


def test_a_kernel_is_the_same_whatever_functions_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither names in a file nor rows of functions by tables are part of its identity, of none of its numbers."""
    others = replace(LOADING, functions=(*LOADING.functions, "gelu", "erf"))
    before = kernel_identity(LOADING)
    assert kernel_identity(others) == before != kernel_identity(BUILT_IN)
    assert set(functions.FUNCTION_NAMES) == set(others.known_functions)
    rows = functions.ROWS
    steeper = replace(rows[Function.ELU], unit="table", method=Table(lambda x: x / 7, 4, symmetry="odd"))
    monkeypatch.setitem(rows, Function.ELU, steeper)
    assert kernel_identity(LOADING) == before
    program = network(LOADING, [Function.ELU])
    assert same(program, simulated(program))


def test_functions_that_an_accumulator_does_not_hold_are_not_known() -> None:
    narrow = replace(LOADING, accumulator_bits=20, multiplier="dsp", lanes=1)
    assert {"sigmoid", "tanh", "erf"} < set(narrow.known_functions)
    assert not {"silu", "gelu", "elu"} & set(narrow.known_functions)
    with pytest.raises(ConfigurationError, match=r"function_tables .*accumulators of 16 bits, not 15"):
        check_config(replace(narrow, format=BlockFormat(4), accumulator_bits=15, functions=("none",), bias_bits=8))


@pytest.mark.parametrize("function", BY_TABLE, ids=lambda function: function.key)
def test_words_of_a_table_are_its_points(function: Function) -> None:
    """A step's first point and the way to the next one; arguments move so that every table ends at one place."""
    table = function.row.table
    assert table is not None
    words = np.array(table_words(table), np.int64)
    starts, slopes = (words & 0xFFFF ^ 0x8000) - 0x8000, words >> 16
    assert [*starts] == [*table.points[:-1]]
    assert [*(starts + slopes)] == [*table.points[1:]]
    assert np.abs(slopes).max() < 1 << (SLOPE_BITS - 1)
    moved = table.limit << GRID_BITS << (table_use(function.row, 0) >> TABLE_USE["raised"].first & 3)
    assert moved * (2 if table.symmetry == "none" else 1) == LARGEST_LIMIT << GRID_BITS == TABLE_STEPS << 6
    assert ACTIVATION_EXPONENT == -14


def test_words_come_to_their_places() -> None:
    """All of a slot and none of another one; the last operation brings some again."""
    held: dict[int, int] = {}
    for descriptor in table_descriptors(Function.MISH, 1):
        assert list(problems(LOADING, descriptor)) == []
        for place, name in enumerate(FIELDS_OF_WORDS):
            held[descriptor.input_slot + place] = getattr(descriptor, name)
    table = Function.MISH.row.table
    assert table is not None
    assert [held[place] for place in sorted(held)] == table_words(table)
    assert (min(held), max(held)) == (TABLE_STEPS, 2 * TABLE_STEPS - 1)
    assert list(problems(replace(LOADING, function_tables=1), descriptor))
    assert list(problems(LOADING, Descriptor(operation=Operation.TABLE, flags=1)))


@pytest.mark.parametrize(("bits", "counted"), [(24, 4724), (32, 6143)])
def test_units_of_tables_are_counted(bits: int, counted: int) -> None:
    """Look-up tables that `bfpga synthesize --loop Rows` counts more of pynq_z2_dense with tables than without."""
    config = replace(load_accelerator("pynq_z2_dense").config, accumulator_bits=bits, function_tables=0)
    without = estimate_resources(config).parts["post"]
    two, three = (estimate_resources(replace(config, function_tables=slots)).parts["post"] for slots in (2, 3))
    assert two.lut - without.lut == pytest.approx(counted, rel=0.05)
    assert (two.dsp - without.dsp, two.bram36 - without.bram36, three.bram36 - without.bram36) == (7, 4, 7)


def test_a_row_takes_two_cycles() -> None:
    """Of an operation with a loaded table, as the schedule has it: columns share units. Others take one as before."""
    config = replace(LOADING, columns=6, activation_words=1024)
    kernel = CSimulation(config, flags=COUNTING_FLAGS)
    kernel.count_clocks()
    clocks, timed = [], []
    for function in (Function.RELU, Function.SILU):
        builder = NetworkBuilder(np.random.default_rng(1), config)
        source, target = builder.tensor(1, 600, CHANNELS), builder.tensor(1, 600, CHANNELS)
        window = Window(output_height=1, output_width=600)
        node = ArrayNode("n", "gemm", (source,), target, CHANNELS, window, function=function)
        node.weights = np.ones((CHANNELS, 1, 1, CHANNELS), np.int32)
        builder.nodes += [node, replace(node, name="m", output=builder.tensor(1, 600, CHANNELS))]
        program = program_of(builder, "t2")
        (launch,) = (step for step in program.steps if isinstance(step, LaunchStep))
        zeros = BlockTensor(np.zeros((1, 1, 600, CHANNELS), np.int8), np.zeros(1, np.int64))
        kernel.run_operations(program.setup.operations, {})
        kernel.run_operations(launch.operations, {name: deepcopy(zeros) for name in program.tensors})
        clocks.append(kernel.clocks(len(launch.operations))[0])
        timed.append(schedule(config, launch.operations).clocks)
    rows = 2 * 600 // config.columns * config.rows
    assert clocks[1] - clocks[0] == pytest.approx(rows, rel=0.02)
    assert timed[1] - timed[0] == pytest.approx(rows, rel=0.02)
