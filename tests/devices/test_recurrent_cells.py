"""Recurrent cells in emulation: chains of matrix-vector products, sigmoid and tanh, element-wise operations (R82).

The products, biases and functions are those of the array's output stage; the products of two vectors, element by
element, are host arithmetic: the array has no operation for them. ONNX Runtime's LSTM and GRU are the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Function
from bfpga.engines.output.stage import StageResult, evaluate
from bfpga.formats.block_arithmetic import add, subtract
from bfpga.formats.block_float import Encoded, decode, encode, encode_rows, requantize_block
from bfpga.formats.block_format import BlockFormat

STEPS, INPUTS, HIDDEN = 12, 9, 7
FORMAT = BlockFormat(mantissa_bits=16)
CONFIG = KernelConfig(FORMAT, accumulator_bits=48)
#: The tables err by 6.7e-4 at most (BFP 4.4); a cell state collects the errors of three gates over the steps.
TOLERANCE = 2e-3


def exponent_of(block: Encoded) -> int:
    return int(np.ravel(block.exponent)[0])


def joined(*blocks: Encoded) -> Encoded:
    """Vectors end to end, with one exponent."""
    mantissas = np.concatenate([block.mantissa for block in blocks])
    exponents = np.concatenate([np.full(block.mantissa.shape, exponent_of(block)) for block in blocks])
    return requantize_block(mantissas, exponents, FORMAT)


def multiplied(a: Encoded, b: Encoded) -> Encoded:
    """Element by element."""
    return requantize_block(a.mantissa.astype(np.int64) * b.mantissa, exponent_of(a) + exponent_of(b), FORMAT)


def combined(operation: Callable[..., Encoded], a: Encoded, b: Encoded) -> Encoded:
    """``add`` or ``subtract`` of two blocks."""
    return operation(a.mantissa, exponent_of(a), b.mantissa, exponent_of(b), FORMAT)


class Gate:
    """function(weights [x, h] + bias): a fully connected layer as the array computes it."""

    def __init__(self, weights: np.ndarray, bias: np.ndarray, function: Function) -> None:
        self.mantissa, self.row_exponents = encode_rows(weights, FORMAT)
        self.bias = encode(bias, BlockFormat(mantissa_bits=CONFIG.bias_bits))
        self.function = function

    def __call__(self, *operands: Encoded) -> Encoded:
        x = joined(*operands)
        sums = self.mantissa.astype(np.int64) @ x.mantissa
        result = evaluate(
            sums.reshape(1, 1, -1), [exponent_of(x)], CONFIG, row_exponents=self.row_exponents,
            bias=self.bias.mantissa, bias_exponent=exponent_of(self.bias), function=self.function,
        )  # fmt: skip
        assert not result.status.any()
        return one_block(result)


def one_block(result: StageResult) -> Encoded:
    """Results of the output stage at the exponent of their maximum."""
    exponents = np.broadcast_to(result.e3, result.v.shape)
    return requantize_block(result.v.ravel(), exponents.ravel(), FORMAT)


def tanh(block: Encoded) -> Encoded:
    """The function unit on a vector: on the array a copy with a function."""
    return one_block(evaluate(block.mantissa.reshape(1, 1, -1), [exponent_of(block)], CONFIG, function=Function.TANH))


class Weights(NamedTuple):
    """Of all gates, in ONNX' order: (gates, HIDDEN, INPUTS), (gates, HIDDEN, HIDDEN), twice (gates, HIDDEN)."""

    input: np.ndarray
    recurrent: np.ndarray
    input_bias: np.ndarray
    recurrent_bias: np.ndarray

    def gates(self, functions: Sequence[Function]) -> list[Gate]:
        matrices = np.concatenate([self.input, self.recurrent], axis=2)
        biases = self.input_bias + self.recurrent_bias
        return [Gate(*parts) for parts in zip(matrices, biases, functions, strict=True)]


def random_weights(gates: int) -> Weights:
    rng = np.random.default_rng(gates)
    shapes = [(gates, HIDDEN, INPUTS), (gates, HIDDEN, HIDDEN), (gates, HIDDEN), (gates, HIDDEN)]
    return Weights(*(rng.normal(0, 0.6, shape).astype(np.float32) for shape in shapes))


def lstm(weights: Weights, xs: list[Encoded]) -> list[Encoded]:
    sigmoid = Function.SIGMOID
    input_gate, output_gate, forget_gate, candidate = weights.gates([sigmoid, sigmoid, sigmoid, Function.TANH])
    hidden = cell = encode(np.zeros(HIDDEN), FORMAT)
    shown = []
    for x in xs:
        kept = multiplied(forget_gate(x, hidden), cell)
        cell = combined(add, kept, multiplied(input_gate(x, hidden), candidate(x, hidden)))
        hidden = multiplied(output_gate(x, hidden), tanh(cell))
        shown.append(hidden)
    return shown


def gru(weights: Weights, xs: list[Encoded]) -> list[Encoded]:
    update, reset, candidate = weights.gates([Function.SIGMOID, Function.SIGMOID, Function.TANH])
    hidden = encode(np.zeros(HIDDEN), FORMAT)
    shown = []
    for x in xs:
        proposed = candidate(x, multiplied(reset(x, hidden), hidden))
        change = multiplied(update(x, hidden), combined(subtract, hidden, proposed))
        hidden = combined(add, proposed, change)  # (1 - z) n + z h
        shown.append(hidden)
    return shown


def reference(kind: str, weights: Weights, x: np.ndarray) -> np.ndarray:
    """Hidden states (STEPS, HIDDEN) of ONNX Runtime's operator."""
    flat = [part.reshape(1, -1, part.shape[-1]) for part in weights[:2]]
    bias = np.concatenate([part.ravel() for part in weights[2:]])[None]
    constants = [numpy_helper.from_array(value, name) for name, value in zip("wrb", [*flat, bias], strict=True)]
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=HIDDEN)],
        "cell",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, 1, INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [STEPS, 1, 1, HIDDEN])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x[:, None].astype(np.float32)})[0]).reshape(STEPS, HIDDEN)


@pytest.mark.parametrize(("kind", "gates", "cell"), [("LSTM", 4, lstm), ("GRU", 3, gru)])
def test_a_cell_follows_the_float_operator_over_a_sequence(
    kind: str, gates: int, cell: Callable[[Weights, list[Encoded]], list[Encoded]]
) -> None:
    """R82: gates from the array's arithmetic with the tables of 4.4, the state stays in block floating point."""
    weights = random_weights(gates)
    x = np.random.default_rng(0).normal(size=(STEPS, INPUTS)).astype(np.float32)
    shown = cell(weights, [encode(step, FORMAT) for step in x])
    found = np.stack([decode(hidden.mantissa, hidden.exponent[None]) for hidden in shown])
    expected = reference(kind, weights, x)
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
