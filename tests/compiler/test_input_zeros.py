"""Zeros of what layers read: how they are counted, and what the compiler does with them (SC 3.2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cluster_configs import CLUSTER
from small_networks import WIDE, Network, compiled, float_outputs, nodes_of

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.numbers.sampled_inputs import ZeroCount, count_zeros
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.formats.compressed.maps import Payload
from bfpga.formats.compressed.payloads import decode_pieces, encode_piece, smallest_format
from bfpga.formats.compressed.pieces import PieceDescriptor
from bfpga.program.choices import program_operations
from bfpga.program.file import load_program, save_program


def layers() -> Network:
    """Two convolutions with ReLU between."""
    network = Network(4, 12, 12)
    network.add("Relu", network.conv(8, 4, 3, pads=[1, 1, 1, 1]))
    network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    return network


def sparse_samples(network: Network, zeros: float, count: int = 8) -> np.ndarray:
    """Samples (count, ...) of which the share ``zeros`` is zero and no other value is near zero."""
    rng = np.random.default_rng(7)
    shape = (count, *network.inputs["x"])
    values = rng.uniform(0.5, 1.0, shape) * rng.choice([-1, 1], shape)
    return (values * (rng.random(shape) >= zeros)).astype(np.float32)


def with_samples(network: Network, samples: np.ndarray, folder: Path) -> Program:
    (folder / "small.onnx").write_bytes(network.model().SerializeToString())
    return compile_network(folder / "small.onnx", accelerator_around(CLUSTER), samples)


@pytest.mark.parametrize("shape", [(7,), (3, 5, 6), (2, 4, 4, 3)])
def test_zeros_of_a_map_are_counted_as_number_and_share(shape: tuple[int, ...]) -> None:
    """SC R10: against a count in plain Python."""
    values = np.random.default_rng(1).integers(-1, 2, shape)
    flat = values.reshape(-1).tolist()
    found = count_zeros(values)
    assert (found.zeros, found.elements) == (flat.count(0), len(flat))
    assert found.percent == pytest.approx(100 * flat.count(0) / len(flat))
    assert found.density == pytest.approx(1 - flat.count(0) / len(flat))


def test_of_an_empty_map_nothing_is_zero() -> None:
    assert (ZeroCount(0, 0).percent, ZeroCount(0, 0).density) == (0, 1)


@pytest.mark.parametrize("payload", list(Payload))
def test_compressed_maps_count_as_many_zeros_as_plain_ones(payload: Payload) -> None:
    """SC R144: whether a map is compressed before or after it is dispatched changes no decision."""
    rng = np.random.default_rng(2)
    for zeros in (0.1, 0.5, 0.9):
        cells = rng.integers(1, 100, (20, 20)) * (rng.random((20, 20)) >= zeros)
        words = encode_piece(cells, PieceDescriptor(payload, 20, 20), smallest_format(cells, payloads=[payload]))
        ((descriptor, values),) = decode_pieces(words)
        assert count_zeros(values) == count_zeros(cells) == ZeroCount(400 - descriptor.non_zeros, 400)


def test_every_layer_keeps_the_zeros_that_its_input_had_on_the_samples(tmp_path: Path) -> None:
    """SC R10, R139: each map is counted anew; those of the network's input exactly, later ones as float has them."""
    network = layers()
    samples = sparse_samples(network, 0.95)
    first, second = nodes_of(with_samples(network, samples, tmp_path))
    assert first.input_density == pytest.approx(np.count_nonzero(samples) / samples.size)
    (between,) = float_outputs(network, {"x": samples}, (network.nodes[1].output[0],))
    # Values next to zero become zero mantissas; exponents leave room for the tail, so a few more than they must.
    assert second.input_density == pytest.approx(np.count_nonzero(between) / between.size, abs=0.03)


def test_zeros_of_samples_change_what_a_layer_is_expected_to_take(tmp_path: Path) -> None:
    """SC R13: clocks of a layer are those of the values that are not zero, of the unit that has most of them."""
    network = layers()
    dense, sparse = (nodes_of(with_samples(network, sparse_samples(network, zeros), tmp_path)) for zeros in (0.0, 0.9))
    assert dense[0].input_share > 0.9
    assert sparse[0].input_share < 0.25


def test_a_cluster_computes_maps_without_a_zero_too(tmp_path: Path) -> None:
    """SC R15: no other array is in the kernel, so every product of a dense network is the cluster's."""
    network = layers()
    program = with_samples(network, sparse_samples(network, 0.0), tmp_path)
    assert program.notes == []
    products = [item.descriptor for item in program_operations(program) if item.layer.startswith("Conv")]
    gemms = [each for each in products if each.operation == Operation.GEMM]
    assert {node.name for node in nodes_of(program)} == {"Conv_0", "Conv_2"}
    assert all(each.flags & Flag.CLUSTER for each in gemms)
    assert nodes_of(program)[0].input_density == 1.0


def test_what_a_cluster_does_not_compute_runs_elsewhere(tmp_path: Path) -> None:
    """SC R9, R14: pooling passes the output stage, an operator that no kernel publishes goes to the host, with a note.

    Values are those of ONNX Runtime as far as mantissas of 8 bits are."""
    network = Network(4, 12, 12)
    network.conv(8, 4, 3, pads=[1, 1, 1, 1])
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.add("HardSwish")
    network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path, CLUSTER)
    kinds = {node.kind for node in program.nodes if isinstance(node, ArrayNode)}
    assert {"gemm", "max"} <= kinds
    assert [type(node) for node in program.nodes if not isinstance(node, ArrayNode)] == [HostNode]
    assert any("HardSwish" in note for note in program.notes)
    samples = network.samples(4)
    (found,), (exact,) = Emulator(program).run(samples).outputs.values(), float_outputs(network, samples)
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()


def test_a_product_of_activations_is_the_systolic_arrays(tmp_path: Path) -> None:
    """SC R9, R14: a cluster takes weights that the compiler stores; such a product is the host's there."""
    network = Network(6, 8)
    query, key = (network.add("MatMul", "x", network.weights(8, 6)) for _ in range(2))
    network.add("MatMul", query, network.add("Transpose", key, perm=[0, 2, 1]))
    dense, cluster = (compiled(network, tmp_path, config) for config in (WIDE, CLUSTER))
    assert not any("second operand is computed" in note for note in dense.notes)
    assert any("takes weights that the compiler stores" in note for note in cluster.notes)


def test_decisions_are_the_same_at_every_run_and_kept_in_program_files(tmp_path: Path) -> None:
    """SC R16: software decides once, when the network is compiled; the program has what it decided and why."""
    network = layers()
    samples = sparse_samples(network, 0.9)
    for name in ("first", "second"):
        save_program(with_samples(network, samples, tmp_path), tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    loaded = load_program(tmp_path / "first", accelerator_around(CLUSTER).digest)
    for before, behind in zip(nodes_of(with_samples(network, samples, tmp_path)), nodes_of(loaded), strict=True):
        assert (before.input_density, before.joined_pieces) == (behind.input_density, behind.joined_pieces)


def test_without_samples_no_input_counts_as_sparse(tmp_path: Path) -> None:
    """SC R13: nothing is expected to be zero that nobody has counted."""
    program = compiled(layers(), tmp_path, replace(CLUSTER, cluster_moves=0), calibrate=False)
    assert [node.input_density for node in nodes_of(program)] == [None, None]
    assert {node.input_share for node in nodes_of(program)} == {1.0}
