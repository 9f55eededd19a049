"""Output exponents chosen by the compiled kernel, over several starts, against plain integers (R23-R38)."""

from __future__ import annotations

import numpy as np
import pytest
from array_programs import Place, Program, empty, random_tensor
from effort import each_once
from kernel_pairs import NIBBLES, SMALL, KernelPair

from bfpga.contract.descriptor import Flag, Operation, Policy
from bfpga.contract.program import BlockTensor
from bfpga.formats.block_format import Status


def layer_program(policy: Policy, measure: bool, **fields: int) -> tuple[Program, Place, Place]:
    """A 1x1 convolution in two descriptors (rows of the image), measured first if asked."""
    program = Program(SMALL)
    x, y = program.tensor(4, 5, 4), program.tensor(4, 5, 6)
    upper, lower = Place(x.base, x.slot, 2, 5, 4, 5), Place(y.base, y.slot, 2, 5, 6, 5)
    weights = np.random.default_rng(7).integers(-127, 128, (6, 1, 1, 4))
    program.load("x", x)
    layer = program.weights(weights, np.arange(6) * 50, np.zeros(6, int))
    bits = layer.pop("flags") | fields.pop("flags", 0)
    for phase in ([Flag.MEASURE] if measure else []) + [Flag.NONE]:
        for part, edge in ((0, Flag.FIRST), (1, Flag.LAST if phase == Flag.NONE else Flag.NONE)):
            d = program.compute(
                Operation.GEMM, upper, lower, flags=bits | phase | edge, policy=policy, policy_slot=3,
                bias_exponent=-9, **layer, **fields,
            )  # fmt: skip
            for side, pixel_words in (("input", 2), ("output", 3)):
                row, bank = divmod(part * 10, SMALL.banks)
                place = x if side == "input" else y
                setattr(d, f"{side}_word", place.base + row * pixel_words)
                setattr(d, f"{side}_bank", bank)
    program.store("y", y)
    return program, x, y


def scaled(x: Place, seed: int, scale: int) -> BlockTensor:
    tensor = random_tensor(np.random.default_rng(seed), x, SMALL)
    return BlockTensor(tensor.mantissa // scale, tensor.exponent)


@pytest.fixture
def pair() -> KernelPair:
    return KernelPair(SMALL)


@pytest.mark.parametrize("scale", [1, 9, 1000])
def test_the_maximum_policy_measures_the_whole_layer_first(pair: KernelPair, scale: int) -> None:
    """R24, R37: two measuring descriptors, then two that write with the exponent of the maximum."""
    program, x, y = layer_program(Policy.MAX, measure=True)
    tensors = {"x": scaled(x, 1, scale), "y": empty(y)}
    result = pair.run(program, tensors)
    assert result.overflow <= 1  # rounding may carry the maximum
    assert np.abs(tensors["y"].mantissa).max() >= 64


POLICIES = [
    (Policy.STATISTICS, {"policy_window": 2, "policy_factor": 12}),
    (Policy.STATISTICS, {"policy_window": 4, "policy_factor": 4}),
    (Policy.STATISTICS, {"policy_window": 7, "policy_factor": 9}),
    (Policy.ROLLING_MAX, {"policy_window": 1}),
    (Policy.ROLLING_MAX, {"policy_window": 3}),
    (Policy.ROLLING_MAX, {"policy_window": 8}),
    (Policy.FEEDBACK, {"policy_factor": 0}),
    (Policy.FEEDBACK, {"policy_factor": 20}),
]


@pytest.mark.parametrize(("kind", "preset"), each_once(POLICIES, [False, True]))
def test_predicting_policies_follow_a_series_of_inputs(
    pair: KernelPair, kind: tuple[Policy, dict[str, int]], preset: bool
) -> None:
    """R26-R29, R31, R33, R37, R38, R44: the first run measures or has a preset, the next predict; loud, quiet."""
    (policy, fields), exponents = kind, []
    for start, scale in enumerate((1, 1, 4, 60, 200, 200, 1, 1, 1, 1, 1)):
        measure = start == 0 and not preset
        flags = Flag.PRESET if preset else 0
        program, x, y = layer_program(policy, measure, flags=flags, output_exponent=1, **fields)
        tensors = {"x": scaled(x, start, scale), "y": empty(y)}
        pair.run(program, tensors)
        exponents.append(int(tensors["y"].exponent[0]))
    assert len(set(exponents)) > 1
    assert (exponents[0] == 1) == preset


def test_exponents_stop_at_the_ends_of_the_format() -> None:
    """R24: the status tells which end."""
    pair, statuses = KernelPair(NIBBLES), []
    for exponent in (-12, 12):
        program = Program(NIBBLES)
        x, y = program.tensor(1, 3, 4), program.tensor(1, 3, 4)
        program.load("x", x)
        for phase in (Flag.MEASURE, Flag.NONE):
            program.compute(Operation.SUM, x, y, flags=phase | Flag.FIRST | Flag.LAST * (not phase), policy=Policy.MAX)
        program.store("y", y)
        tensors = {"x": random_tensor(np.random.default_rng(0), x, NIBBLES, exponent), "y": empty(y)}
        statuses.append(pair.run(program, tensors).status)
    assert statuses[0] & Status.EXPONENT_LOW
    assert statuses[1] & Status.EXPONENT_HIGH


def test_clearing_makes_a_kernel_forget_what_its_policies_have_learned(pair: KernelPair) -> None:
    """R38: after a clear the first run measures again."""
    program, x, y = layer_program(Policy.ROLLING_MAX, measure=True, policy_window=2)
    first, second = {"x": scaled(x, 1, 1), "y": empty(y)}, {"x": scaled(x, 2, 30), "y": empty(y)}
    pair.kernel.run_operations(program.operations, first)
    pair.kernel.run_operations(program.operations, second)
    assert second["y"].exponent == first["y"].exponent
    pair.kernel.run_operations(program.operations, second, clear_policies=True)
    assert second["y"].exponent < first["y"].exponent
