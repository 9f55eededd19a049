"""Devices with several engines: names and clocks of layers, and what a board tells that counts only totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from array_layers import PlainKernel, gemm, image

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Operation, Policy
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import BlockTensor, KernelOperation, LaunchStep, PolicySpec, Program, Window
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.devices.kernel_start import KernelResult, KernelStart
from bfpga.devices.native.library import NUMPY
from bfpga.devices.shared_cycles import shared_cycles
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.program.cycles import program_cycles, started_clocks
from bfpga.program.packets import SamplePackets
from bfpga.runtime import joined
from bfpga.verify.random_network import NetworkBuilder, schedule

CONFIG = SystolicConfig(
    columns=9, rows=4, lanes=2, stream_bits=64, activation_words=4096,
    beside=(
        ZeroSkipNumbers(4, 5, lanes=9, kernels_in_flight=4, load_pixels=4),
        ClusterNumbers(2, 2, kernel=3, kernels_in_flight=4, load_pixels=4),
    ),
)  # fmt: skip
ENGINES: tuple[EngineName, ...] = CONFIG.engines


def program(*engines: EngineName, policy: Policy = Policy.STATIC, density: float | None = 0.2) -> Program:
    """Convolutions of 9 x 9, one on each engine; half of their weights are zero."""
    rng = np.random.default_rng(3)
    builder = NetworkBuilder(rng, CONFIG)
    names = [f"t{step}" for step in range(len(engines) + 1)]
    channels = [3, 6, 5, 4][: len(names)]
    for name, count in zip(names, channels, strict=True):
        builder.tensors[name] = image(name, 9, 9, count, -4 if name == "t0" else None)
    for step, engine in enumerate(engines):
        weights = rng.integers(-40, 41, (channels[step + 1], 3, 3, channels[step]))
        weights[rng.random(weights.shape) < 0.5] = 0
        node = gemm(
            weights, Window(3, 3, 1, 1, 1, 1, 1, 1, 9, 9), name=f"layer{step}", inputs=(names[step],),
            output=names[step + 1], weight_exponents=np.full(channels[step + 1], -8, np.int32),
            policy=PolicySpec(policy, -3, step, window=2, factor=12), macs=weights.size * 81, engine=engine,
            input_density=density,
        )  # fmt: skip
        builder.nodes.append(node)
    return schedule(builder, names[-1])


def samples(count: int = 4) -> dict[str, np.ndarray]:
    """Maps with non-zero values in one corner, in another one for each sample."""
    rng = np.random.default_rng(5)
    x = np.zeros((count, 3, 9, 9), np.float32)
    for number in range(count):
        row, column = 3 * (number % 2), 3 * (number // 2 % 2)
        x[number, :, row : row + 6, column : column + 5] = rng.normal(0, 2, (3, 6, 5))
    return {"t0": x}


class TotalsOnly(PlainKernel):
    """A kernel of plain integers that tells the clocks of a start in all, as a board does."""

    def run_operations(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int = 0,
        clear_policies: bool = False,
    ) -> KernelResult:
        counted = super().run_operations(operations, tensors, sample, clear_policies)
        model = [started_clocks(self.config, operation) for operation in operations]
        return shared_cycles(replace(counted, operation_cycles=None), operations, model)


# Emulator


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("policy", [Policy.STATIC, Policy.MAX, Policy.ROLLING_MAX])
def test_an_engine_changes_clocks_and_names_only(engine: EngineName, policy: Policy) -> None:
    """SC R5, R34; ZS R15, R39, R50: every bit is that of the array; clocks are those of a kernel of plain integers."""
    on_array = Emulator(program("systolic_array", "systolic_array", policy=policy))
    on_engine = program("systolic_array", engine, policy=policy)
    expected, found = on_array.run(samples(), trace=True), Emulator(on_engine).run(samples(), trace=True)
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[name].mantissa, tensor.mantissa)
        np.testing.assert_array_equal(found.tensors[name].exponent, tensor.exponent)
    assert found.counters == expected.counters
    assert [layer.engine for layer in found.layers] == ["systolic_array", engine]
    counted = KernelDevice(on_engine, PlainKernel(CONFIG), "plain").run(samples(), trace=True)
    assert [(layer.engine, layer.cycles) for layer in counted.layers] == [
        (layer.engine, layer.cycles) for layer in found.layers
    ]
    assert first_mismatch(on_engine, found, counted) is None


def test_clocks_of_the_sparse_cluster_follow_the_samples() -> None:
    """SC R22, R131: zeros cost nothing, and a batch takes what its samples take."""
    emulator = Emulator(program("sparse_cluster", "systolic_array"))
    x = samples()
    one_by_one = [emulator.run({"t0": x["t0"][i : i + 1]}).layers[0].cycles for i in range(4)]
    assert emulator.run(x).layers[0].cycles == sum(one_by_one)
    assert emulator.run({"t0": 0 * x["t0"][:1]}).layers[0].cycles < min(one_by_one)
    assert emulator.run({"t0": 1 + 0 * x["t0"][:1]}).layers[0].cycles > max(one_by_one)


def test_clocks_of_the_zero_skip_engine_do_not_depend_on_samples() -> None:
    """ZS R51."""
    on_engine = program("zero_skip", "systolic_array")
    x = samples()
    taken = [Emulator(on_engine).run({"t0": x["t0"][i : i + 1] * i}).cycles for i in range(4)]
    assert taken == [program_cycles(on_engine).dma_inclusive] * 4


def test_layers_of_every_engine_are_compiled() -> None:
    """SC R131: what the sparse cluster reads leaves the compiled layers, since its clocks follow from that."""
    mixed = program("zero_skip", "sparse_cluster", "systolic_array")
    native = Emulator(mixed, probe=False)
    assert native.native is not None
    assert native.native.covered == {0, 1, 2}
    assert list(native.native.segments) == [0]
    exact, fast = Emulator(mixed, NUMPY).run(samples()), native.run(samples())
    np.testing.assert_array_equal(exact.outputs["t3"], fast.outputs["t3"])
    assert exact.layers == fast.layers


def test_a_programs_figures_expect_the_density_of_a_layers_input() -> None:
    """SC R13: without a measured density nothing is expected to be zero."""
    clocks = [program_cycles(program("sparse_cluster", density=density)).compute_bound for density in (0.0, 0.5, None)]
    assert clocks == sorted(set(clocks))
    assert clocks[2] == program_cycles(program("sparse_cluster", density=1.0)).compute_bound


# Kernels that tell totals only


def operation(kind: Operation, layer: str, clocks: int = 0) -> KernelOperation:
    return KernelOperation(layer, Descriptor(kind), clocks=clocks)


def test_clocks_of_operations_add_up_to_what_the_kernel_counted() -> None:
    """Without the sparse cluster a difference from the model stays with the last operation, where it is seen."""
    result = KernelResult(b"", 105, None, 0, 0, 0)
    operations = [operation(Operation.GEMM, "a"), operation(Operation.STORE, "a")]
    assert shared_cycles(result, operations, [60, 40]).operation_cycles == [60, 45]
    assert shared_cycles(result, [], []).operation_cycles == []
    counted = replace(result, operation_cycles=[50, 55])
    assert shared_cycles(counted, operations, [60, 40]) == counted


def test_a_single_sparse_layer_takes_what_the_others_leave() -> None:
    """SC R131: its tiles share it in proportion to what was expected; the layer's sum is exact."""
    operations = [
        operation(Operation.LOAD, "a"), operation(Operation.SPARSE, "a"), operation(Operation.SPARSE, "a"),
        operation(Operation.ZERO_SKIP, "b"),
    ]  # fmt: skip
    shared = shared_cycles(KernelResult(b"", 200, None, 0, 0, 0), operations, [10, 30, 60, 20])
    assert shared.operation_cycles == [10, 56, 114, 20]
    assert not shared.cycles_shared


def test_several_sparse_layers_share_what_the_others_leave_and_the_result_says_so() -> None:
    operations = [operation(Operation.SPARSE, name) for name in "ab"]
    shared = shared_cycles(KernelResult(b"", 31, None, 0, 0, 0), operations, [20, 20])
    assert shared.operation_cycles == [15, 16]
    assert shared.cycles_shared


def test_totals_of_shared_clocks_are_compared() -> None:
    """Layers on the array and on the zero-skip engine one by one, those of the sparse cluster together."""
    mixed = program("sparse_cluster", "zero_skip", "sparse_cluster")
    expected = Emulator(mixed).run(samples())
    got = KernelDevice(mixed, TotalsOnly(CONFIG), "totals").run(samples())
    assert got.cycles_shared
    assert got.cycles == expected.cycles
    assert [layer.cycles for layer in got.layers] != [layer.cycles for layer in expected.layers]
    assert first_mismatch(mixed, expected, got) is None
    assert joined([expected, got]).cycles_shared
    found = first_mismatch(mixed, expected, replace(got, cycles=got.cycles + 1))
    assert found is not None
    assert str(found) == f"cycles: expected {expected.cycles}, got {expected.cycles + 1}"
    got.layers[1].cycles += 1
    found = first_mismatch(mixed, expected, got)
    assert found is not None
    assert found.layer == "layer1"


def test_a_single_sparse_layer_is_compared_exactly() -> None:
    mixed = program("zero_skip", "sparse_cluster")
    expected = Emulator(mixed).run(samples())
    got = KernelDevice(mixed, TotalsOnly(CONFIG), "totals").run(samples())
    assert not got.cycles_shared
    assert [layer.cycles for layer in got.layers] == [layer.cycles for layer in expected.layers]


class ZerosKernel:
    """Answers every start with zeros, and remembers what it was told to expect."""

    depth = 1

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.starts: list[KernelStart] = []

    def begin(self, start: KernelStart) -> None:
        self.starts.append(start)

    def finish(self) -> KernelResult:
        return KernelResult(bytes(self.starts[-1].output_bytes), 0, None, 0, 0, 0)

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_board_waits_as_long_as_samples_without_a_zero_take() -> None:
    """Clocks of the sparse cluster depend on the data: the limit of a start must not rest on what is expected."""
    on_cluster = program("sparse_cluster", "zero_skip", density=0.01)
    (launch,) = on_cluster.steps
    assert isinstance(launch, LaunchStep)
    kernel = ZerosKernel()
    device = StreamingDevice(on_cluster, kernel, "zeros")
    result = device.run(samples())
    dense = {"t0": 1 + 0 * samples()["t0"]}
    slowest = Emulator(on_cluster).run(dense).cycles
    assert kernel.starts[-1].predicted_cycles >= slowest > 4 * program_cycles(on_cluster).dma_inclusive
    assert SamplePackets(launch.operations, CONFIG).longest * 4 == kernel.starts[-1].predicted_cycles
    device.run(samples(1), trace=True)
    assert sum(start.predicted_cycles for start in kernel.starts[2:]) >= slowest / 4
    assert [layer.engine for layer in result.layers] == ["sparse_cluster", "zero_skip"]
