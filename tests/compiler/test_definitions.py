"""Operators that ONNX defines by others are the array's where all of their parts are (issue 37, item 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from row_kernels import WHOLE as KERNEL
from small_networks import Network, compiled

from bfpga.compiler.lower import expand
from bfpga.contract.program import HostNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.runtime import open_device

TOKENS, HEADS, SIZE = 9, 2, 8
#: Largest error of a few layers with mantissas of 8 bits, over the largest result.
CLOSE = 0.06
SEEN = np.tril(np.ones((TOKENS, TOKENS), bool))
NEWEST = onnx.defs.onnx_opset_version()
pytestmark = pytest.mark.skipif(NEWEST < 23, reason="this onnx does not know attention")


def on_host(program: Program) -> set[str]:
    return {kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators}


def error(network: Network, program: Program) -> float:
    """The largest difference to the reference of ONNX, over the largest value."""
    samples = network.samples(16)
    (wanted,) = ReferenceEvaluator(network.model()).run(None, samples)
    found = Emulator(program).run(samples).outputs[network.last]
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def projected(network: Network, channels: int) -> str:
    return network.add("MatMul", "x", network.weights(16, channels, scale=0.5))


def attention(*more: np.ndarray | str, q: int = 2, kv: int = 2, opset: int = 23, **attributes: object) -> Network:
    """Attention of q heads whose keys and values kv heads have. more: further inputs."""
    network, size = Network(TOKENS, 16, opset=opset), 16 // q
    parts = [projected(network, count * size) for count in (q, kv, kv)]
    given = [item if isinstance(item, str) else network.constant(item) for item in more]
    network.add("Attention", *parts, *given, q_num_heads=q, kv_num_heads=kv, **attributes)
    network.add("MatMul", network.last, network.weights(16, 16))
    return network


def crossed() -> Network:
    """Queries of one sequence, keys and values of another one, the end of which is padding."""
    network = Network(TOKENS, 16, opset=23)
    network.inputs["other"] = (5, 16)
    parts = [network.add("MatMul", name, network.weights(16, 16, scale=0.5)) for name in ("x", "other", "other")]
    network.add("Attention", *parts, network.constant(np.arange(5) < 3), q_num_heads=HEADS, kv_num_heads=HEADS)
    network.add("MatMul", network.last, network.weights(16, 16))
    return network


def angles(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of every token."""
    turned = np.arange(TOKENS)[:, None] * 10.0 ** (-np.arange(pairs) / 2)
    return np.cos(turned)[None].astype(np.float32), np.sin(turned)[None].astype(np.float32)


def heads(network: Network, x: str) -> str:
    apart = network.add("Reshape", x, network.constant(np.array([0, TOKENS, HEADS, SIZE])))
    return network.add("Transpose", apart, perm=[0, 2, 1, 3])


def joined(network: Network, x: str) -> str:
    together = network.add("Transpose", x, perm=[0, 2, 1, 3])
    return network.add("Reshape", together, network.constant(np.array([0, TOKENS, HEADS * SIZE])))


def rotary(pairs: int = SIZE // 2, axes: int = 4, opset: int = 23, **attributes: object) -> Network:
    network = Network(TOKENS, 16, opset=opset)
    x, caches = projected(network, HEADS * SIZE), [network.constant(item) for item in angles(pairs)]
    if pairs < SIZE // 2:
        attributes["rotary_embedding_dim"] = 2 * pairs
    if axes == 4:
        joined(network, network.add("RotaryEmbedding", heads(network, x), *caches, **attributes))
    else:
        network.add("RotaryEmbedding", x, *caches, num_heads=HEADS, **attributes)
    network.add("MatMul", network.last, network.weights(16, 16))
    return network


def halves(network: Network, x: str, axis: int, split: bool) -> tuple[str, str]:
    if split:
        first = network.add("Split", x, outputs=2, axis=axis)
        return first, f"{first}_1"
    bounds = ((0, SIZE // 2, axis), (SIZE // 2, 2**63 - 1, axis))
    first, second = (network.add("Slice", x, *(network.constant(np.array([n])) for n in item)) for item in bounds)
    return first, second


def turned_in_parts(split: bool, heads_first: bool = True) -> Network:
    """As language models are exported: x * cos + concat(-x2, x1) * sin."""
    network = Network(TOKENS, 16)
    x = projected(network, HEADS * SIZE)
    apart = network.constant(np.array([0, TOKENS, HEADS, SIZE]))
    x = heads(network, x) if heads_first else network.add("Reshape", x, apart)
    cos, sin = (np.concatenate([item, item], axis=-1) for item in angles(SIZE // 2))
    if not heads_first:
        cos, sin = (item[:, :, None] for item in (cos, sin))
    first, second = halves(network, x, 3, split)
    away = network.add("Concat", network.add("Neg", second), first, axis=3)
    terms = [network.add("Mul", value, network.constant(item)) for value, item in ((x, cos), (away, sin))]
    total = network.add("Add", *terms)
    if heads_first:
        joined(network, total)
    else:
        network.add("Reshape", total, network.constant(np.array([0, TOKENS, HEADS * SIZE])))
    network.add("MatMul", network.last, network.weights(16, 16))
    return network


def block() -> Network:
    """Attention as language models have it: queries and keys are turned, tokens see those before."""
    network = Network(TOKENS, 16, opset=23)
    parts = [heads(network, projected(network, HEADS * SIZE)) for _ in range(3)]
    caches = [network.constant(item) for item in angles(SIZE // 2)]
    turned = [network.add("RotaryEmbedding", part, *caches) for part in parts[:2]]
    joined(network, network.add("Attention", *turned, parts[2], is_causal=1))
    network.add("MatMul", network.last, network.weights(16, 16))
    return network


def between(kind: str, opset: int = 17, **attributes: object) -> Network:
    """An operator between two products."""
    network = Network(TOKENS, 12, opset=opset)
    network.add(kind, network.add("MatMul", "x", network.weights(12, 16, scale=4)), **attributes)
    network.add("MatMul", network.last, network.weights(16, 6))
    return network


ON_CHIP: dict[str, Callable[[], Network]] = {
    "attention": attention,
    "causal": lambda: attention(is_causal=1),
    "scaled": lambda: attention(scale=0.2),
    "softcap": lambda: attention(softcap=2.0),
    "grouped queries": lambda: attention(q=4, kv=2),
    "one head of keys": lambda: attention(q=4, kv=1, is_causal=1),
    "mask": lambda: attention(SEEN),
    "added mask": lambda: attention(np.where(SEEN, 0, -np.inf).astype(np.float32)),
    "two sequences": crossed,
    "rotary": rotary,
    "rotary interleaved": lambda: rotary(interleaved=1),
    "rotary of three axes": lambda: rotary(axes=3),
    "rotary of three axes interleaved": lambda: rotary(axes=3, interleaved=1),
    "rotary of a part": lambda: rotary(pairs=2),
    "rotary of a part interleaved": lambda: rotary(pairs=2, interleaved=1),
    "turned slices": lambda: turned_in_parts(split=False),
    "turned parts of a split": lambda: turned_in_parts(split=True),
    "turned with tokens first": lambda: turned_in_parts(split=False, heads_first=False),
    "block": block,
    "mean and variance": lambda: between("MeanVarianceNormalization", axes=[2]),
    "celu": lambda: between("Celu", alpha=2.0),
    "attention of opset 24": lambda: attention(is_causal=1, opset=min(24, NEWEST)),
    "rotary of opset 24": lambda: rotary(opset=min(24, NEWEST)),
}


@pytest.mark.parametrize("name", ON_CHIP)
def test_an_operator_whose_parts_are_the_arrays_leaves_nothing_on_the_host(name: str, tmp_path: Path) -> None:
    network = ON_CHIP[name]()
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == set()
    assert len(program.steps) == 1
    assert error(network, program) < CLOSE


@pytest.mark.parametrize("name", ["causal", "mean and variance", "celu", "turned slices"])
def test_without_definitions_the_host_has_the_operators(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand, "DEFINITIONS", {})
    network = ON_CHIP[name]()
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) & {"Attention", "MeanVarianceNormalization", "Celu", "Neg"}
    assert len(program.steps) == 3
    assert error(network, program) < CLOSE


def test_the_kernel_gives_the_bits_of_the_emulator(tmp_path: Path) -> None:
    network = block()
    program, samples = compiled(network, tmp_path, KERNEL), network.samples(3)
    device = open_device("csim", program)
    assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
    device.close()


def with_input(network: Network, name: str, *shape: int) -> Network:
    network.inputs[name] = shape
    return network


def with_choice(network: Network) -> Network:
    """Whether a token is seen follows from a second input."""
    attention_node = next(node for node in network.nodes if node.op_type == "Attention")
    network.inputs["mask"] = (1, TOKENS, TOKENS)
    zero = network.constant(np.float32(0))
    network.nodes.insert(0, onnx.helper.make_node("Greater", ["mask", zero], ["some"], name="choice"))
    diagonal = network.constant(np.eye(TOKENS, dtype=bool))
    network.nodes.insert(1, onnx.helper.make_node("Or", ["some", diagonal], ["chosen"], name="own"))
    assert attention_node.input[3] == "chosen"
    return network


KEPT: dict[str, Callable[[], Network]] = {
    "computed choice": lambda: with_choice(attention("chosen")),
    "computed mask": lambda: with_input(attention("mask"), "mask", 1, TOKENS, TOKENS),
    "nothing of a row": lambda: attention(np.where(SEEN.T, -1e4, 0).astype(np.float32)),
}


@pytest.mark.parametrize("kernel", [replace(KERNEL, row_columns=0), replace(KERNEL, operand_weights=False)])
def test_where_the_kernel_lacks_a_part_the_operator_stays_whole(kernel: object, tmp_path: Path) -> None:
    """Parts would cross between host and array."""
    network = attention(is_causal=1)
    program = compiled(network, tmp_path, kernel)
    assert on_host(program) == {"Attention"}
    assert any("would not compute all of the operators that define it" in note for note in program.notes)
    assert len(program.steps) == 3
    assert error(network, program) < CLOSE


def test_without_samples_the_operator_stays_whole(tmp_path: Path) -> None:
    network = attention()
    program = compiled(network, tmp_path, KERNEL, calibrate=False)
    assert on_host(program) == {"Attention"}
    assert error(network, program) < CLOSE


@pytest.mark.parametrize("name", KEPT)
def test_an_operator_of_which_the_host_would_have_parts_stays_whole(name: str, tmp_path: Path) -> None:
    network = KEPT[name]()
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) - {"Greater", "Or"} == {"Attention"}
    assert error(network, program) < CLOSE


def test_statistics_of_an_image_and_logarithms_stay_whole(tmp_path: Path) -> None:
    for kind, attributes in (("MeanVarianceNormalization", {"axes": [1]}), ("LogSoftmax", {"axis": -1})):
        network = between(kind, **attributes)
        program = compiled(network, tmp_path, KERNEL)
        assert on_host(program) == {kind}
        assert error(network, program) < CLOSE


def test_a_concatenation_of_two_values_is_no_turning(tmp_path: Path) -> None:
    network = Network(TOKENS, 16)
    first, second = projected(network, 8), projected(network, 8)
    network.add("Concat", network.add("Neg", second), first, axis=2)
    network.add("MatMul", network.last, network.weights(16, 16))
    program = compiled(network, tmp_path, KERNEL)
    assert "Neg" in on_host(program)
    assert error(network, program) < CLOSE


def test_angles_that_are_an_input_stay_with_their_operator(tmp_path: Path) -> None:
    network = with_input(with_input(Network(TOKENS, 16, opset=23), "cos", TOKENS, 4), "sin", TOKENS, 4)
    network.add("RotaryEmbedding", projected(network, 16), "cos", "sin", num_heads=HEADS)
    network.add("MatMul", network.last, network.weights(16, 16))
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == {"RotaryEmbedding"}
    assert error(network, program) < CLOSE
