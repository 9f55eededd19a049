"""Softmax, normalizations and products of two tensors become layers of the process of rows (issue 37, item 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from row_kernels import ROWS
from row_kernels import WHOLE as KERNEL
from small_networks import Network, compiled, float_outputs, largest_error

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.contract.rows import RowOperation
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.runtime import open_device

#: Largest error of a network of a few layers with mantissas of 8 bits, over its largest result.
CLOSE = 0.06

Write = Callable[[Network, str], str]


def of_rows(program: Program) -> list[RowOperation]:
    return [node.rows.operation for node in program.nodes if isinstance(node, ArrayNode) and node.rows is not None]


def on_host(program: Program) -> set[str]:
    return {kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators}


def tokens(write: Write, opset: int = 17) -> Network:
    """A product for each of nine vectors, an operation over them, another product."""
    network = Network(9, 12, opset=opset)
    first = network.add("MatMul", "x", network.weights(12, 16, scale=4))
    network.add("MatMul", write(network, first), network.weights(16, 6, scale=4))
    return network


def number(network: Network, value: float) -> str:
    return network.constant(np.float32(value))


def softmax(network: Network, x: str) -> str:
    return network.add("Softmax", x, axis=-1)


def softmax_in_parts(network: Network, x: str) -> str:
    """As written for numerical safety: the largest element is subtracted first."""
    powers = network.add("Exp", network.add("Sub", x, network.add("ReduceMax", x, axes=[-1], keepdims=1)))
    axes = network.constant(np.array([-1]))
    return network.add("Div", powers, network.add("ReduceSum", powers, axes, keepdims=1))


def constants(network: Network) -> tuple[str, str]:
    drawn = network.generator.uniform(0.5, 1.5, 16), network.generator.normal(0, 0.3, 16)
    scale, shift = (network.constant(values.astype(np.float32)) for values in drawn)
    return scale, shift


def layer_norm(network: Network, x: str) -> str:
    return network.add("LayerNormalization", x, *constants(network), axis=-1, epsilon=1e-3)


def layer_norm_without_shift(network: Network, x: str) -> str:
    return network.add("LayerNormalization", x, constants(network)[0])


def layer_norm_in_parts(network: Network, x: str) -> str:
    """As PyTorch's exporter writes it below opset 17."""
    moved = network.add("Sub", x, network.add("ReduceMean", x, axes=[-1]))
    variance = network.add("ReduceMean", network.add("Pow", moved, number(network, 2)), axes=[-1])
    deviation = network.add("Sqrt", network.add("Add", variance, number(network, 1e-3)))
    scale, shift = constants(network)
    return network.add("Add", network.add("Mul", network.add("Div", moved, deviation), scale), shift)


def rms_norm_in_parts(network: Network, x: str) -> str:
    """As language models write it: x * (1 / sqrt(mean(x * x) + epsilon)) * scale."""
    mean = network.add("ReduceMean", network.add("Mul", x, x), axes=[-1])
    root = network.add("Sqrt", network.add("Add", mean, number(network, 1e-5)))
    factor = network.add("Reciprocal", root)
    return network.add("Mul", network.add("Mul", x, factor), constants(network)[0])


def product(network: Network, x: str) -> str:
    """A gate: the product of two layers."""
    return network.add("Mul", x, network.add("MatMul", "x", network.weights(12, 16, scale=4)))


WRITTEN: dict[Write, RowOperation] = {
    softmax: RowOperation.SOFTMAX,
    softmax_in_parts: RowOperation.SOFTMAX,
    layer_norm: RowOperation.LAYER_NORM,
    layer_norm_without_shift: RowOperation.LAYER_NORM,
    layer_norm_in_parts: RowOperation.LAYER_NORM,
    rms_norm_in_parts: RowOperation.RMS_NORM,
    product: RowOperation.PRODUCT,
}


@pytest.mark.parametrize("write", WRITTEN, ids=lambda write: write.__name__)
def test_an_operation_over_rows_is_a_layer_however_it_is_written(write: Write, tmp_path: Path) -> None:
    network = tokens(write)
    program = compiled(network, tmp_path, KERNEL)
    assert of_rows(program) == [WRITTEN[write]]
    assert on_host(program) == set()
    assert len(program.steps) == 1
    assert largest_error(network, program) < CLOSE


def test_rms_normalization_of_opset_23_is_read(tmp_path: Path) -> None:
    """ONNX Runtime may not have it yet, so the error is against its definition."""
    network = tokens(lambda network, x: network.add("RMSNormalization", x, constants(network)[0]), opset=23)
    program = compiled(network, tmp_path, KERNEL, calibrate=False)
    assert of_rows(program) == [RowOperation.RMS_NORM]
    assert on_host(program) == set()


@pytest.mark.parametrize("write", [softmax, layer_norm_in_parts, product], ids=lambda write: write.__name__)
def test_the_kernel_gives_the_bits_of_the_emulator(write: Write, tmp_path: Path) -> None:
    network = tokens(write)
    program = compiled(network, tmp_path, KERNEL)
    samples = network.samples(3)
    device = open_device("csim", program)
    assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
    device.close()


def test_scale_and_shift_behind_a_normalization_are_its_own(tmp_path: Path) -> None:
    program = compiled(tokens(layer_norm_in_parts), tmp_path, KERNEL)
    assert len(program.nodes) == 3
    (layer,) = [node for node in program.nodes if isinstance(node, ArrayNode) and node.rows is not None]
    assert layer.bias is not None


def test_channels_of_an_image_are_rows(tmp_path: Path) -> None:
    """Softmax over the classes of every pixel, as in segmentation; as the last layer too."""
    network = Network(3, 6, 5)
    network.conv(7, 3, 3, pads=[1, 1, 1, 1])
    network.add("Softmax", axis=1)
    program = compiled(network, tmp_path, KERNEL)
    assert of_rows(program) == [RowOperation.SOFTMAX]
    assert on_host(program) == set()
    assert largest_error(network, program) < CLOSE


def test_without_a_process_of_rows_the_host_computes_them_and_says_so(tmp_path: Path) -> None:
    plain = replace(KERNEL, row_columns=0)
    for write, kind in ((softmax, "Softmax"), (layer_norm, "LayerNormalization"), (product, "Mul")):
        program = compiled(tokens(write), tmp_path, plain)
        assert on_host(program) == {kind}
        assert any("row_columns" in note for note in program.notes)


@pytest.mark.parametrize(
    ("write", "kernel", "said"),
    [
        (softmax, replace(KERNEL, parameter_rows=8), "its rows have 16 elements; the process of rows takes 8"),
        (lambda network, x: network.add("LayerNormalization", x, network.add("ReduceMean", "x", axes=[1])),
         KERNEL, "its scale is computed"),
    ],
)  # fmt: skip
def test_what_the_process_cannot_do_stays_on_the_host_with_the_reason(
    write: Write, kernel: KernelConfig, said: str, tmp_path: Path
) -> None:
    network = tokens(write) if "scale" not in said else square(write)
    program = compiled(network, tmp_path, kernel)
    assert of_rows(program) == []
    assert any(said in note for note in program.notes), program.notes
    assert largest_error(network, program) < CLOSE


def square(write: Write) -> Network:
    """Vectors as long as the results, so that their mean may be a scale."""
    network = Network(9, 16)
    first = network.add("MatMul", "x", network.weights(16, 16, scale=4))
    network.add("MatMul", write(network, first), network.weights(16, 6, scale=4))
    return network


def test_what_only_comes_close_to_an_operation_is_none(tmp_path: Path) -> None:
    """A deviation with one element less, and powers of two in the place of powers of e."""

    def corrected(network: Network, x: str) -> str:
        moved = network.add("Sub", x, network.add("ReduceMean", x, axes=[-1]))
        axes = network.constant(np.array([-1]))
        squares = network.add("ReduceSum", network.add("Mul", moved, moved), axes)
        variance = network.add("Div", squares, number(network, 15))
        return network.add("Div", moved, network.add("Sqrt", network.add("Add", variance, number(network, 1e-5))))

    def of_two(network: Network, x: str) -> str:
        return softmax_in_parts(network, network.add("Mul", x, number(network, 0.7)))

    for write in (corrected, of_two):
        network = tokens(write)
        program = compiled(network, tmp_path, KERNEL)
        assert RowOperation.LAYER_NORM not in of_rows(program)
        assert largest_error(network, program) < 3 * CLOSE  # parts have 8 bits each


def test_gates_of_recurrent_networks_stay_on_the_chip(tmp_path: Path) -> None:
    """Every step in one start; before, each took several (issue 37, item 4)."""
    network = Network(6, 8)
    turned = network.add("Transpose", perm=[1, 0, 2])
    tensors = [network.weights(1, 24, 8), network.weights(1, 24, 8)]
    states = network.add("GRU", turned, *tensors, hidden_size=8)
    last = network.add("Gather", states, network.constant(np.int64(-1)), axis=0)
    network.add("Gemm", network.add("Squeeze", last, network.constant(np.array([0]))), network.weights(3, 8), transB=1)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == set()
    assert len(program.steps) == 1
    assert set(of_rows(program)) == {RowOperation.PRODUCT}
    assert largest_error(network, program) < 2 * CLOSE


def test_ready_accelerators_with_rows_are_named(tmp_path: Path) -> None:
    """Rendered from the files: whichever there are."""
    names = [name for name in accelerator_names() if load_accelerator(name).config.has_rows]
    program = compiled(tokens(softmax), tmp_path, replace(KERNEL, row_columns=0))
    note = next(note for note in program.notes if "row_columns" in note)
    assert all(name in note for name in names)


def test_results_of_the_float_network_are_those_of_its_parts() -> None:
    """The networks above mean what their names say: ONNX Runtime gives rows that sum to one, or of mean zero."""
    network = Network(4, 16)
    softmax_in_parts(network, "x")
    found = float_outputs(network, network.samples(3))[0]
    assert np.allclose(found.sum(axis=-1), 1, atol=1e-5)


def test_a_normalization_that_mantissas_are_too_coarse_for_is_the_host_s(tmp_path: Path) -> None:
    """One channel a hundred times the others, and a scale that takes it back: what counts are the small ones."""

    def lopsided(network: Network, x: str) -> str:
        large = np.where(np.arange(16) == 3, 100.0, 1.0).astype(np.float32)
        x = network.add("Mul", x, network.constant(large))
        return network.add("LayerNormalization", x, network.constant(1 / large), axis=-1)

    network = tokens(lopsided)
    program = compiled(network, tmp_path, replace(ROWS, activation_words=2048, weight_words=2048, parameter_rows=512))
    assert on_host(program) == {"LayerNormalization"}
    assert any("mantissas of 8 bits leave its rows" in note for note in program.notes)
    assert largest_error(network, program) < 3 * CLOSE  # its input has mantissas of 8 bits too
    # Without samples nothing is known of its channels.
    assert on_host(compiled(network, tmp_path, KERNEL, calibrate=False)) == set()
