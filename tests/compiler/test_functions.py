"""Functions in the forms that exporters write: each is found by its values and computed on the array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effort import some_of
from small_networks import WIDE, Network, compiled, largest_error

from bfpga.contract.functions import FUNCTION_NAMES, Function
from bfpga.contract.program import ArrayNode, HostNode, Program

#: An array with every function there is.
FULL = replace(WIDE, functions=FUNCTION_NAMES)
#: 16-bit mantissas through a convolution and a function on the tables' grid.
CLOSE = 2e-3

Write = Callable[[Network, str], str]


def number(network: Network, value: float) -> str:
    return network.constant(np.float32(value))


def logistic(network: Network, x: str) -> str:
    """1 / (1 + e^-x)"""
    power = network.add("Exp", network.add("Neg", x))
    return network.add("Div", number(network, 1), network.add("Add", power, number(network, 1)))


def bounded(network: Network, x: str, high: float) -> str:
    """x between 0 and a bound, without Clip."""
    return network.add("Min", network.add("Max", x, number(network, 0)), number(network, high))


def hard_sigmoid(network: Network, x: str) -> str:
    """relu6(x + 3) / 6"""
    return network.add("Div", bounded(network, network.add("Add", x, number(network, 3)), 6), number(network, 6))


def hard_swish(network: Network, x: str) -> str:
    """x * relu6(x + 3) / 6"""
    inner = network.add("Clip", network.add("Add", x, number(network, 3)), number(network, 0), number(network, 6))
    return network.add("Div", network.add("Mul", x, inner), number(network, 6))


def gelu_by_erf(network: Network, x: str) -> str:
    """x (1 + erf(x / sqrt(2))) / 2, in the order of PyTorch's exporter."""
    error = network.add("Erf", network.add("Div", x, number(network, np.sqrt(2))))
    return network.add(
        "Mul", network.add("Mul", x, network.add("Add", error, number(network, 1))), number(network, 0.5)
    )


def gelu_half_first(network: Network, x: str) -> str:
    """(x / 2) (1 + erf(x sqrt(1/2))), in the order of Keras' exporter."""
    error = network.add("Erf", network.add("Mul", x, number(network, np.sqrt(0.5))))
    return network.add(
        "Mul", network.add("Mul", number(network, 0.5), x), network.add("Add", number(network, 1), error)
    )


def gelu_by_tanh(network: Network, x: str) -> str:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2"""
    cube = network.add("Mul", network.add("Pow", x, number(network, 3)), number(network, 0.044715))
    inner = network.add("Mul", network.add("Add", x, cube), number(network, np.sqrt(2 / np.pi)))
    return network.add(
        "Mul", network.add("Mul", x, number(network, 0.5)),
        network.add("Add", network.add("Tanh", inner), number(network, 1)),
    )  # fmt: skip


def tanh_by_sigmoid(network: Network, x: str) -> str:
    """2 sigmoid(2 x) - 1"""
    half = network.add("Sigmoid", network.add("Mul", x, number(network, 2)))
    return network.add("Sub", network.add("Mul", half, number(network, 2)), number(network, 1))


FORMS: dict[str, tuple[Write, Function]] = {
    "sigmoid, written out": (logistic, Function.SIGMOID),
    "tanh by sigmoid": (tanh_by_sigmoid, Function.TANH),
    "hard sigmoid": (lambda network, x: network.add("HardSigmoid", x, alpha=1 / 6, beta=0.5), Function.HARD_SIGMOID),
    "hard sigmoid by relu6": (hard_sigmoid, Function.HARD_SIGMOID),
    "hard swish": (lambda network, x: network.add("HardSwish", x), Function.HARD_SWISH),
    "hard swish by hard sigmoid": (
        lambda network, x: network.add("Mul", x, network.add("HardSigmoid", x, alpha=1 / 6, beta=0.5)),
        Function.HARD_SWISH,
    ),
    "hard swish by relu6": (hard_swish, Function.HARD_SWISH),
    "silu": (lambda network, x: network.add("Mul", x, network.add("Sigmoid", x)), Function.SILU),
    "silu, written out": (lambda network, x: network.add("Mul", logistic(network, x), x), Function.SILU),
    "gelu by erf": (gelu_by_erf, Function.GELU),
    "gelu by erf, half first": (gelu_half_first, Function.GELU),
    "gelu by tanh": (gelu_by_tanh, Function.GELU),
    "clip by minimum and maximum": (lambda network, x: bounded(network, x, 1.5), Function.CLIP),
    "relu by absolute value": (
        lambda network, x: network.add("Div", network.add("Add", x, network.add("Abs", x)), number(network, 2)),
        Function.RELU,
    ),
}


def written(write: Write, opset: int = 17) -> Network:
    """A convolution, the function, a convolution."""
    network = Network(3, 9, 10, opset=opset)
    write(network, network.conv(6, 3, 3, pads=[1, 1, 1, 1]))
    network.conv(4, 6, 1)
    return network


def functions_of(program: Program) -> list[Function]:
    return [node.function for node in program.nodes if isinstance(node, ArrayNode)]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_function_ends_the_layer_before(name: str, tmp_path: Path) -> None:
    write, function = FORMS[name]
    network = written(write)
    program = compiled(network, tmp_path, FULL)
    assert functions_of(program) == [function, Function.NONE]
    assert len(program.nodes) == 2
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("name", some_of(FORMS, *list(FORMS)[::4]))
def test_an_array_without_the_function_leaves_its_operators_to_the_host(name: str, tmp_path: Path) -> None:
    write, _ = FORMS[name]
    network = written(write)
    program = compiled(network, tmp_path, replace(WIDE, functions=("none",)))
    assert any(isinstance(node, HostNode) for node in program.nodes)
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_as_an_operator_is_found(approximate: str, tmp_path: Path) -> None:
    """Opset 20."""
    network = written(lambda net, x: net.add("Gelu", x, approximate=approximate), opset=20)
    program = compiled(network, tmp_path, FULL)
    assert functions_of(program) == [Function.GELU, Function.NONE]
    assert largest_error(network, program) < CLOSE


def test_an_inner_value_that_others_read_keeps_its_operators(tmp_path: Path) -> None:
    """2 sigmoid(2 x) - 1 is not tanh alone if somebody needs the sigmoid."""
    network = Network(3, 9, 10)
    half = network.add("Sigmoid", network.add("Mul", network.conv(6, 3, 3), number(network, 2)))
    network.add("Sub", network.add("Mul", half, number(network, 2)), number(network, 1))
    program = compiled(network, tmp_path, FULL, outputs=(half, network.last))
    assert Function.TANH not in functions_of(program)
    assert Function.SIGMOID in functions_of(program)


def test_what_only_comes_close_to_a_function_is_none(tmp_path: Path) -> None:
    """1 / (1.01 + e^-x) is no sigmoid, and a leaky slope of 0.126 is not one of 0.125."""

    def off(network: Network, x: str) -> str:
        power = network.add("Exp", network.add("Neg", x))
        return network.add("Div", number(network, 1), network.add("Add", power, number(network, 1.01)))

    leaky = {Function.NONE, Function.RELU}  # the sum of two layers
    for write, wanted in ((off, {Function.NONE}), (lambda network, x: network.add("LeakyRelu", x, alpha=0.126), leaky)):
        network = written(write)
        program = compiled(network, tmp_path, FULL)
        assert set(functions_of(program)) == wanted
        assert largest_error(network, program) < CLOSE
