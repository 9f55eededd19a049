"""The emulator against a kernel of plain Python integers, and the behaviour of policies over sequences of samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from array_layers import WIDE, PlainKernel, chain, gemm, image, static, vector
from effort import drawn

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Function, Operation, Policy
from bfpga.contract.program import ArrayNode, LaunchStep, PolicySpec, Window
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.errors import DataError
from bfpga.formats.block_format import Status
from bfpga.verify.check import random_inputs
from bfpga.verify.random_accelerator import random_config
from bfpga.verify.random_network import NetworkBuilder, random_program, schedule


@pytest.mark.parametrize("seed", range(drawn(60)))
def test_emulator_equals_plain_integers_on_random_programs(seed: int) -> None:
    """R1, R3-R11, R13-R16, R23, R24, R26-R29, R33, R37, R38, R46, R56, R57, R63, R64, R68, R71, R74, R81, R82."""
    rng = np.random.default_rng([7, seed])
    config = random_config(rng)
    # A plain kernel, which keeps accumulators in its buffer alone.
    config = replace(config, count_registers=0, row_columns=0, function_tables=0, wide_memory=False)
    program = random_program(rng, config)
    while sum(node.macs for node in program.nodes) > 40_000:
        program = random_program(rng, config)
    inputs = random_inputs(rng, program)
    expected = KernelDevice(program, PlainKernel(config), "plain").run(inputs, trace=True)
    found = Emulator(program).run(inputs, trace=True)
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(tensor.exponent, found.tensors[name].exponent, name)
        np.testing.assert_array_equal(tensor.mantissa, found.tensors[name].mantissa, name)
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(value, found.outputs[name])
    for ours, theirs in zip(found.layers, expected.layers, strict=True):
        assert ours.counters == theirs.counters
        assert ours.cycles == theirs.cycles


@pytest.mark.parametrize("policy", list(Policy))
def test_a_batch_equals_its_samples_one_by_one(policy: Policy) -> None:
    """R44, R81: chunks and batches are no part of the arithmetic, also where policies learn."""
    rng = np.random.default_rng(3)
    node = gemm(
        rng.integers(-127, 128, (5, 3, 3, 4)), Window(3, 3, 1, 1, 1, 1, 1, 1, 6, 6),
        policy=PolicySpec(policy, -3, 1, window=3, factor=12), function=Function.RELU,
    )  # fmt: skip
    program = chain(KernelConfig(), [image("x", 6, 6, 4), image("y", 6, 6, 5)], [node])
    x = rng.normal(size=(40, 4, 6, 6)) * np.exp2(rng.integers(-3, 4, (40, 1, 1, 1)))
    together, one_by_one = Emulator(program), Emulator(program)
    expected = together.run({"x": x}, trace=True)
    parts = [one_by_one.run({"x": x[i : i + 1]}, trace=True) for i in range(40)]
    assert (expected.outputs["y"] == np.concatenate([part.outputs["y"] for part in parts])).all()
    assert expected.tensors["y"].exponent.tolist() == [int(part.tensors["y"].exponent[0]) for part in parts]
    assert expected.counters.overflows == sum(part.counters.overflows for part in parts)


def exponents_of(program_policy: PolicySpec, values: list[float], config: KernelConfig = WIDE) -> list[int]:
    """Exponents that a copying layer chooses for a sequence of one-element samples."""
    node = ArrayNode("copy", "sum", ("x",), "y", 1, Window(), policy=program_policy)
    program = chain(config, [vector("x", 1), vector("y", 1)], [node])
    return Emulator(program).run({"x": np.array(values)[:, None]}, trace=True).tensors["y"].exponent.tolist()


def test_max_follows_every_sample() -> None:
    """R24, R37."""
    assert exponents_of(PolicySpec(Policy.MAX), [1.0, 255.0, 0.125, 0.0]) == [-14, -7, -17, -128]


def test_a_prediction_starts_from_the_first_result() -> None:
    """R26, R38: the first sample is measured; a window of one value predicts the next."""
    spec = PolicySpec(Policy.STATISTICS, window=0, factor=12)
    assert exponents_of(spec, [1.0, 4.0, 1.0]) == [-14, -14, -12]


def test_a_prediction_may_start_from_a_preset() -> None:
    """R31."""
    spec = PolicySpec(Policy.STATISTICS, -5, window=0, factor=12, preset=True)
    assert exponents_of(spec, [1.0, 4.0])[0] == -5


def test_rolling_maximum_remembers_its_window() -> None:
    """R29: after two samples the large one is forgotten."""
    spec = PolicySpec(Policy.ROLLING_MAX, window=2)
    assert exponents_of(spec, [8.0, 1.0, 1.0, 1.0, 1.0]) == [-11, -11, -11, -14, -14]


def test_three_layers_choose_three_exponents() -> None:
    """R19, R37: results are the next layer's operands without the host; each layer selects its own exponent."""
    nodes = [
        gemm([[2 ** (4 * step)]], inputs=(f"t{step}",), output=f"t{step + 1}", name=f"layer{step}",
             policy=PolicySpec(Policy.MAX))
        for step in range(3)
    ]  # fmt: skip
    program = chain(WIDE, [vector(f"t{step}", 1) for step in range(4)], nodes)
    result = Emulator(program).run({"t0": np.ones((1, 1))}, trace=True)
    assert [int(result.tensors[f"t{step}"].exponent[0]) for step in (1, 2, 3)] == [-14, -10, -2]
    assert result.outputs["t3"].item() == 2.0**12


@pytest.mark.parametrize(("negate", "exponent"), [(False, -13), (True, -17)])
def test_the_exponent_of_a_sum_follows_from_the_sum(negate: bool, exponent: int) -> None:
    """R46-R48: a carry raises it, cancellation lowers it; the operands alone would give -14."""
    policy = PolicySpec(Policy.MAX)
    node = ArrayNode("sum", "sum", ("x", "z"), "y", 1, Window(), negate_second=negate, policy=policy)
    program = chain(WIDE, [vector("x", 1), vector("z", 1), vector("y", 1)], [node])
    program.inputs["z"] = program.inputs["x"]
    result = Emulator(program).run({"x": np.array([[1.0]]), "z": np.array([[1.125]])}, trace=True)
    assert int(result.tensors["y"].exponent[0]) == exponent
    assert result.outputs["y"].item() == (-0.125 if negate else 2.125)


def test_counters_and_status_name_what_happened() -> None:
    """R16: one overflow, one underflow; R6: exponents are readable."""
    node = gemm([[1], [0]], bias=np.array([0, 1]), bias_exponent=-9, policy=static(0))
    program = chain(KernelConfig(), [vector("x", 1, 1), vector("y", 2)], [node])
    result = Emulator(program).run({"x": np.array([[254.0]])}, trace=True)
    assert result.counters.overflows == 1
    assert result.counters.status & Status.OVERFLOW
    assert result.tensors["y"].mantissa.ravel().tolist() == [127, 0]


def test_layers_of_one_kernel_start_recirculate() -> None:
    """R68: two convolutions in a start; nothing is loaded or stored between them, and plain integers agree."""
    config = KernelConfig(activation_words=4096, weight_words=1 << 14)
    for seed in range(11, 50):  # a drawn convolution may be a concatenation of several
        builder = NetworkBuilder(np.random.default_rng(seed), config)
        last = builder.convolution(builder.convolution(builder.tensor(7, 7, 3, -5)))
        if len(builder.nodes) == 2:
            break
    program = schedule(builder, last)
    (launch,) = program.steps
    assert isinstance(launch, LaunchStep)
    kinds = [operation.descriptor.operation for operation in launch.operations]
    computing = [position for position, kind in enumerate(kinds) if kind == Operation.GEMM]
    between = kinds[computing[0] : computing[-1]]
    assert len({operation.layer for operation in launch.operations}) == 2
    assert not {Operation.LOAD, Operation.STORE} & set(between)
    inputs = random_inputs(np.random.default_rng(0), program)
    expected = KernelDevice(program, PlainKernel(program.config), "plain").run(inputs)
    np.testing.assert_array_equal(Emulator(program).run(inputs).outputs[last], expected.outputs[last])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 3)), "takes"),
        (np.zeros((0, 1)), "samples"),
        (np.array([["a"]]), "numbers"),
        (np.array([[np.nan]]), "finite"),
    ],
)
def test_wrong_inputs_are_named(x: np.ndarray, message: str) -> None:
    program = chain(WIDE, [vector("x", 1), vector("y", 1)], [gemm([[1]])])
    with pytest.raises(DataError, match=message):
        Emulator(program).run({"x": x})


def test_inputs_are_asked_for_by_name() -> None:
    program = chain(WIDE, [vector("x", 1), vector("y", 1)], [gemm([[1]])])
    with pytest.raises(DataError, match="'x' is missing"):
        Emulator(program).run({"z": np.zeros((1, 1))})
