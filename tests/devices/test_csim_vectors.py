"""The specification's vectors on the compiled kernel: weights, tensors and exponents go in, tensors come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_programs import Place, Program, empty
from kernel_pairs import small
from reference import load_vectors, vector_format

from bfpga.contract.descriptor import Flag, Function, Operation, Policy
from bfpga.contract.program import BlockTensor
from bfpga.devices.csim import CSimulation
from bfpga.devices.kernel_start import KernelResult
from bfpga.formats.block_format import Status

STATUS = {"ok": Status.NONE, "given": Status.NONE, "zero": Status.ZERO_BLOCK,
          "exp_low": Status.EXPONENT_LOW, "exp_high": Status.EXPONENT_HIGH}  # fmt: skip


#: A small array with the format of nearly all vectors and their accumulators; the others are cases of the output stage
#: (tests/hls/test_cpp_stage.py), and test_csim_layers.py has kernels of other formats.
ARRAY = small(mantissa_bits=16, accumulator_bits=48)
VECTORS = [case for case in load_vectors("bfp_matvec.json")["cases"] if vector_format(case["format"]) == ARRAY.format]


def tensor(values: Any, exponent: int) -> BlockTensor:
    """One sample of pixels x channels, in a row."""
    return BlockTensor(np.array(values, np.int32)[None, None], np.array([exponent], np.int32))


def finish(
    program: Program, tensors: dict[str, BlockTensor], place: Place, exponent: int | None, *operands: Any, **fields: int
) -> tuple[list[list[int]], int, KernelResult]:
    """Compute with a given exponent, or with that of the maximum; mantissas (pixels, channels), exponent, result."""
    policy = Policy.MAX if exponent is None else Policy.STATIC
    flags = fields.pop("flags") | Flag.FIRST
    for phase in (Flag.MEASURE, Flag.LAST) if exponent is None else (Flag.LAST,):
        fields |= {"flags": flags | phase, "policy": policy, "output_exponent": exponent or 0}
        program.compute(*operands, **fields)
    program.store("y", place)
    tensors["y"] = empty(place)
    result = CSimulation(program.config).run_operations(program.operations, tensors)
    return tensors["y"].mantissa[0, 0].tolist(), int(tensors["y"].exponent[0]), result


def check(shown: tuple[list[list[int]], int, KernelResult], mantissas: list[list[int]], expected: Any) -> None:
    """Mantissas, exponent, counters and status bits are those of the vector."""
    assert shown[0] == mantissas
    result = shown[2]
    assert (shown[1], result.overflow, result.underflow) == (expected["e"], expected["overflow"], expected["underflow"])
    counted = (Status.OVERFLOW if result.overflow else 0) | (Status.UNDERFLOW if result.underflow else 0)
    assert result.status == counted | STATUS[expected["status"]]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_matrix_vector_vectors(case: dict[str, Any]) -> None:
    """R1, R3, R5-R18, R23, R24: one weight exponent is one that all rows share"""
    inputs, expected = case["inputs"], case["expect"]
    program, rows = Program(ARRAY), len(inputs["M"])
    x, y = program.tensor(1, 1, len(inputs["v"])), program.tensor(1, 1, rows)
    program.load("x", x)
    bias = np.array(inputs["bias"]) if "bias" in inputs else None
    layer = program.weights(np.array(inputs["M"])[:, None, None], bias, np.broadcast_to(inputs["e1"], rows))
    layer["flags"] |= Flag.FUNCTION_FIRST if inputs.get("order") == "act_bias" else 0
    layer |= {"function": int(Function.RELU if "act" in inputs else 0), "bias_exponent": inputs.get("e5", 0)}
    tensors = {"x": tensor([inputs["v"]], inputs["e2"])}
    check(finish(program, tensors, y, inputs.get("e4"), Operation.GEMM, x, y, **layer), [expected["m"]], expected)


@pytest.mark.parametrize(
    "case",
    [case for case in load_vectors("bfp_elementwise.json")["cases"] if case["op"] in ("add", "sub")],
    ids=lambda case: case["id"],
)
def test_sums_and_differences_of_blocks(case: dict[str, Any]) -> None:
    """R46, R47: aligned to the larger exponent, exponent of the result from its maximum"""
    program, count = Program(ARRAY), len(case["a"]["m"])
    a, b, y = (program.tensor(1, count, 1) for _ in range(3))
    program.load("a", a)
    program.load("b", b)
    tensors = {name: tensor(np.array(case[name]["m"])[:, None], case[name]["e"]) for name in ("a", "b")}
    flags = Flag.NEGATE_SECOND if case["op"] == "sub" else Flag.NONE
    shown = finish(program, tensors, y, None, Operation.SUM, a, y, second=b, flags=flags)
    check(shown, [[m] for m in case["expect"]["m"]], case["expect"])


def test_systolic_example_of_the_source() -> None:
    """BFP 5.2: C = W I + b, the columns of I are pixels"""
    case = load_vectors("bfp_systolic.json")
    program = Program(ARRAY)
    x, y = program.tensor(1, 3, 3), program.tensor(1, 3, 2)
    program.load("x", x)
    layer = program.weights(np.array(case["W"])[:, None, None], np.array(case["bias"]), None)
    tensors = {"x": tensor(np.array(case["I"]).T, 0)}
    mantissas, exponent, result = finish(program, tensors, y, 0, Operation.GEMM, x, y, **layer)
    assert (np.array(mantissas).T.tolist(), exponent, result.status) == (case["C"], 0, Status.NONE)
