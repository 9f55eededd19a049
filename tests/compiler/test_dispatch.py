"""The dispatcher: which engine computes which layer and why (docs/dispatch.md; SC 3.2, ZS R53)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from small_networks import Network, float_outputs

from bfpga.accelerator.variants import accelerator_around
from bfpga.cli import main
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.dispatch.choice import class_of, decide
from bfpga.compiler.numbers.sampled_inputs import ZeroCount, count_zeros
from bfpga.compiler.options import CompileOptions, LayerOptions
from bfpga.compiler.recipes import load_recipe
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import ArrayNode, EngineFigures, Program
from bfpga.devices.emulator import Emulator
from bfpga.engines import registry
from bfpga.engines.registry import engine_named
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.errors import ConfigurationError
from bfpga.formats.compressed.maps import Payload
from bfpga.formats.compressed.payloads import decode_pieces, encode_piece, smallest_format
from bfpga.formats.compressed.pieces import PieceDescriptor
from bfpga.program.explanation import engine_choices
from bfpga.program.explanation_picture import draw_engines
from bfpga.program.file import load_program, save_program

#: A small array, so that the engines beside it are the faster ones of layers with many zeros.
CONFIG = SystolicConfig(
    columns=9, rows=4, lanes=2, stream_bits=64, weight_stream_bits=64, activation_words=4096,
    beside=(
        ZeroSkipNumbers(16, 16, lanes=16, rows_parallel=2, kernels_in_flight=8, load_pixels=8),
        ClusterNumbers(2, 4, kernel=3, kernels_in_flight=8, load_pixels=8),
    ),
)  # fmt: skip
ENGINES: tuple[EngineName, ...] = CONFIG.engines
ALONE = replace(CONFIG, beside=())


class SparseNetwork(Network):
    """A network of convolutions whose weights and samples have a wanted share of zeros."""

    def pruned(self, channels: int, inputs: int, zeros: float, kernel: int = 3, relu: bool = True) -> str:
        """A convolution that keeps the size of its image; of its weights the share ``zeros`` is zero."""
        weights = self.generator.uniform(0.5, 1.0, (channels, inputs, kernel, kernel)) / inputs
        weights *= self.generator.choice([-1, 1], weights.shape) * (self.generator.random(weights.shape) >= zeros)
        pads = [kernel // 2] * 4
        name = self.add("Conv", self.last, self.constant(weights.astype(np.float32)), pads=pads)
        return self.add("Relu") if relu else name

    def sparse_samples(self, zeros: float, count: int = 8) -> np.ndarray:
        """Samples (count, ...) of which the share ``zeros`` is zero and no other value is near zero."""
        rng = np.random.default_rng(7)
        shape = (count, *self.inputs["x"])
        values = rng.uniform(0.5, 1.0, shape) * rng.choice([-1, 1], shape)
        return (values * (rng.random(shape) >= zeros)).astype(np.float32)


def three_layers() -> SparseNetwork:
    """Weights without zeros, with many zeros, without zeros."""
    network = SparseNetwork(4, 16, 16)
    network.pruned(8, 4, 0.0)
    network.pruned(8, 8, 0.92, relu=False)
    network.pruned(8, 8, 0.0, relu=False)
    return network


def compiled(
    network: Network,
    samples: np.ndarray | None,
    options: CompileOptions | None = None,
    config: SystolicConfig = CONFIG,
) -> Program:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "small.onnx"
        path.write_bytes(network.model().SerializeToString())
        return compile_network(path, accelerator_around(config), samples, options)


@cache
def dispatched(zeros: float = 0.95, engine: str = "auto") -> Program:
    """``three_layers``, calibrated with samples of which the share ``zeros`` is zero."""
    network = three_layers()
    return compiled(network, network.sparse_samples(zeros), CompileOptions(engine=engine))  # type: ignore[arg-type]


def matrix_layers(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.kind == "gemm"]


def engines_of(program: Program) -> list[EngineName]:
    return [node.engine for node in matrix_layers(program)]


def clocks_of(program: Program, layer: int) -> dict[str, int]:
    """Predicted clocks of a layer by engine, with all transfers."""
    return {item["engine"]: item["cycles"] for item in engine_choices(program)[layer]["engines"]}


def assert_same_bits(found: Program, expected: Program, samples: np.ndarray) -> None:
    """Every tensor of two programs of one network agrees, mantissas and exponents."""
    got, wanted = (Emulator(program).run({"x": samples}, trace=True) for program in (found, expected))
    assert set(got.tensors) == set(wanted.tensors)
    for name, tensor in wanted.tensors.items():
        np.testing.assert_array_equal(got.tensors[name].mantissa, tensor.mantissa, err_msg=name)
        np.testing.assert_array_equal(got.tensors[name].exponent, tensor.exponent, err_msg=name)
    for name, values in wanted.outputs.items():
        np.testing.assert_array_equal(got.outputs[name], values)


# Zeros (SC R10, R144)


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


def test_every_layer_keeps_the_zeros_that_its_input_had_on_the_samples() -> None:
    """SC R10, R139: each map is counted anew; those of the network's input exactly, later ones as float has them."""
    network = three_layers()
    samples = network.sparse_samples(0.95)
    first, *later = matrix_layers(dispatched())
    assert first.input_density == pytest.approx(np.count_nonzero(samples) / samples.size)
    read = tuple(node.input[0] for node in network.nodes if node.op_type == "Conv")[1:]
    for node, values in zip(later, float_outputs(network, {"x": samples}, read), strict=True):
        # Values next to zero become zero mantissas; exponents leave room for the tail, so a few more than they must.
        assert node.input_density == pytest.approx(np.count_nonzero(values) / values.size, abs=0.03)


# Rules (SC R11, R12, R13, R15)


@pytest.mark.parametrize(("zeros", "expected"), [(49, "dense"), (50, "sparse"), (51, "sparse")])
def test_the_majority_of_a_maps_elements_decides_and_a_tie_is_sparse(zeros: int, expected: str) -> None:
    """SC R11"""
    assert class_of(ZeroCount(zeros, 100), LayerOptions(dispatch="majority")) == expected


@pytest.mark.parametrize(
    ("percent", "limits", "expected"),
    [
        (80, {}, "sparse"), (79.9, {}, "cost"), (60, {}, "cost"), (40.1, {}, "cost"), (40, {}, "dense"),
        (60, {"band_sparse": 60}, "sparse"), (60, {"band_dense": 60}, "dense"), (0, {"band_dense": 0}, "dense"),
    ],
)  # fmt: skip
def test_two_limits_make_a_band_in_which_clocks_decide(percent: float, limits: dict[str, Any], expected: str) -> None:
    """SC R12: sparse from 80 % zeros, dense up to 40 %, both can be set."""
    assert class_of(ZeroCount(round(10 * percent), 1000), LayerOptions(dispatch="band", **limits)) == expected


@pytest.mark.parametrize("percent", [0, 50, 100])
def test_by_cost_no_map_has_a_class(percent: int) -> None:
    assert class_of(ZeroCount(percent, 100), LayerOptions()) == "cost"


def figures(array: int, zero_skip: int | str = 0, cluster: int | str = 0) -> list[EngineFigures]:
    """Clocks of each engine, or a refusal."""
    return [
        EngineFigures(engine, 0, item) if isinstance(item, str) else EngineFigures(engine, item)
        for engine, item in zip(ENGINES, (array, zero_skip, cluster), strict=True)
    ]


HALF, MANY, FEW = ZeroCount(60, 100), ZeroCount(90, 100), ZeroCount(10, 100)


@pytest.mark.parametrize(
    ("clocks", "rule", "zeros", "engine", "reason"),
    [
        ((9, 8, 7), "cost", MANY, "sparse_cluster", "fewest cycles"),
        ((7, 8, 9), "cost", MANY, "systolic_array", "fewest cycles"),
        ((9, 7, 8), "cost", FEW, "zero_skip", "fewest cycles"),
        ((9, "too large", 8), "cost", FEW, "sparse_cluster", "fewest cycles"),
        ((9, "too large", "too large"), "cost", MANY, "systolic_array", "no other engine takes it"),
        ((1, 1, 9), "majority", HALF, "sparse_cluster", "60 % zeros, sparse"),
        ((2, 1, 0), "majority", FEW, "zero_skip", "10 % zeros, dense: fewest cycles"),
        ((2, 3, "no"), "majority", MANY, "systolic_array", "90 % zeros, sparse, but no engine for them takes it"),
        ((1, 2, 9), "band", MANY, "sparse_cluster", "90 % zeros, sparse"),
        ((2, 1, 0), "band", FEW, "zero_skip", "10 % zeros, dense: fewest cycles"),
        ((2, 1, 0), "band", HALF, "sparse_cluster", "60 % zeros, between the limits: fewest cycles"),
        ((0, 2, 1), "band", HALF, "systolic_array", "60 % zeros, between the limits: fewest cycles"),
    ],
)
def test_rules_choose_among_the_engines_that_take_a_layer(
    clocks: tuple[int, int | str, int | str], rule: str, zeros: ZeroCount, engine: str, reason: str
) -> None:
    """SC R11-R13: sparse maps go to the cluster, dense ones to the array or to the engine that skips weights."""
    decision = decide(figures(*clocks), LayerOptions(dispatch=rule), zeros)  # type: ignore[arg-type]
    assert decision.engine == engine
    assert reason in decision.reason


@pytest.mark.parametrize(
    ("clocks", "engine", "reason"),
    [
        ((5, 5, 5), "systolic_array", "as few cycles as zero_skip and sparse_cluster"),
        ((6, 5, 5), "zero_skip", "as few cycles as sparse_cluster"),
    ],
)
def test_of_equal_clocks_the_engine_whose_time_does_not_depend_on_data(
    clocks: tuple[int, int, int], engine: str, reason: str
) -> None:
    decision = decide(figures(*clocks), LayerOptions(), HALF)
    assert (decision.engine, decision.reason) == (engine, reason)


@pytest.mark.parametrize("rule", ["cost", "majority", "band"])
def test_without_samples_no_rule_takes_the_engine_that_needs_them(rule: str) -> None:
    """Clocks of the cluster and the class of a map rest on zeros that nobody counted."""
    decision = decide(figures(9, 8, 1), LayerOptions(dispatch=rule), None)  # type: ignore[arg-type]
    assert (decision.engine, decision.reason) == ("zero_skip", "fewest cycles; zeros of its input are not known")


def test_an_engine_that_is_asked_for_is_taken_unless_it_refuses() -> None:
    """SC R15: with zeros or without, whatever the clocks."""
    asking = LayerOptions(engine="sparse_cluster")
    assert decide(figures(1, 2, 3), asking, FEW).engine == "sparse_cluster"
    refused = decide(figures(9, 2, "its kernel is 7x7"), asking, MANY)
    assert refused.engine == "systolic_array"
    assert refused.reason == "sparse_cluster was asked for, but its kernel is 7x7"


# Predictions (SC R13, ZS R53)


def test_every_layer_gets_the_engine_that_suits_its_zeros() -> None:
    """Zero activations: the cluster; zero weights: the engine that skips them; neither: the array."""
    assert engines_of(dispatched()) == ["sparse_cluster", "zero_skip", "systolic_array"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_engine_that_was_chosen_is_the_fastest_that_a_kernel_counts(number: int) -> None:
    """SC R13, ZS R53: one layer on each engine, the others on theirs; predictions are what the emulator counts."""
    samples = three_layers().sparse_samples(0.95)
    nodes, predicted = matrix_layers(dispatched()), clocks_of(dispatched(), number)
    counted = {}
    for engine in ENGINES:
        layers = {node.name: {"engine": node.engine} for node in nodes} | {nodes[number].name: {"engine": engine}}
        result = Emulator(compiled(three_layers(), samples, CompileOptions(layers=layers))).run({"x": samples})
        assert result.layers[number].engine == engine
        counted[engine] = result.layers[number].cycles / len(samples)
    assert nodes[number].engine == min(ENGINES, key=counted.__getitem__)
    assert predicted["systolic_array"] == counted["systolic_array"]
    assert predicted["zero_skip"] == counted["zero_skip"]
    # The first layer reads the samples; what others read is predicted in float, where no layer before it has rounded.
    error = 0.02 if number else 0.0
    assert predicted["sparse_cluster"] == pytest.approx(counted["sparse_cluster"], rel=error, abs=1)


def test_a_dispatched_network_takes_fewer_clocks_than_on_any_engine_alone() -> None:
    samples = {"x": three_layers().sparse_samples(0.95)}
    mixed = Emulator(dispatched()).run(samples).cycles
    assert mixed < min(Emulator(dispatched(engine=engine)).run(samples).cycles for engine in ENGINES)


def test_zeros_of_activations_count_for_the_cluster_only() -> None:
    """SC R13: the same network, calibrated with dense samples, leaves the cluster."""
    sparse, dense = clocks_of(dispatched(0.95), 0), clocks_of(dispatched(0.0), 0)
    assert 2 * sparse["sparse_cluster"] < dense["sparse_cluster"]
    assert {**sparse, "sparse_cluster": 0} == {**dense, "sparse_cluster": 0}
    assert engines_of(dispatched(0.0))[0] == "systolic_array"


def test_zeros_of_weights_count_for_the_engine_that_skips_them() -> None:
    """ZS R53: a coefficient that is not zero takes a clock for each step of the tile, whatever the input."""
    clocks, choices = [], []
    for zeros in (0.0, 0.96):
        network = SparseNetwork(8, 16, 16)
        network.pruned(8, 8, zeros, relu=False)
        program = compiled(network, network.sparse_samples(0.0))
        clocks.append(clocks_of(program, 0))
        choices.append(engine_choices(program)[0])
    assert clocks[0]["systolic_array"] == clocks[1]["systolic_array"]
    assert [choice["weight_zeros"] / choice["weights"] for choice in choices] == pytest.approx([0, 0.96], abs=0.02)
    # 16 rows two at a time, 16 columns at once: 8 steps; images are loaded and decoded meanwhile.
    skipped = choices[1]["weight_zeros"]
    assert 0.8 * 8 * skipped < clocks[0]["zero_skip"] - clocks[1]["zero_skip"] <= 8 * skipped
    assert [choice["chosen"] for choice in choices] == ["systolic_array", "zero_skip"]


def test_depthwise_separable_layers_are_decided_one_by_one() -> None:
    """SC R139: the intermediate map has few zeros, so its 1x1 part is the array's, wherever the depthwise part is."""
    network = SparseNetwork(8, 16, 16)
    weights = network.constant(network.generator.uniform(0.5, 1, (8, 1, 3, 3)).astype(np.float32))
    network.add("Conv", "x", weights, pads=[1, 1, 1, 1], group=8)
    network.pruned(8, 8, 0.0, kernel=1)
    samples = network.sparse_samples(0.8)
    decisions = engine_choices(compiled(network, samples))
    intermediate = float_outputs(network, {"x": samples}, (network.nodes[0].output[0],))[0]
    assert decisions[0]["input_density"] == pytest.approx(0.2, abs=0.02)
    assert decisions[1]["input_density"] == pytest.approx(np.count_nonzero(intermediate) / intermediate.size, abs=0.02)
    assert decisions[1]["input_density"] > 0.8
    assert decisions[1]["chosen"] == "systolic_array"
    everywhere = compiled(network, samples, CompileOptions(engine="sparse_cluster"))
    assert engines_of(everywhere) == ["sparse_cluster", "sparse_cluster"]
    assert_same_bits(everywhere, compiled(network, samples, config=ALONE), samples)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"dispatch": "majority"}, ["sparse_cluster", "sparse_cluster", "systolic_array"]),
        (
            {"dispatch": "band", "band_sparse": 99.0, "band_dense": 98.0},
            ["systolic_array", "zero_skip", "systolic_array"],
        ),
    ],
)
def test_rules_of_a_recipe_reach_the_network(rule: dict[str, Any], expected: list[str]) -> None:
    """SC R11, R12"""
    network = three_layers()
    program = compiled(network, network.sparse_samples(0.95), CompileOptions(**rule))
    assert engines_of(program) == expected
    assert matrix_layers(program)[0].engine_reason.startswith("95 % zeros, ")


# Results (SC R9, R14, R15)


def test_a_network_that_crosses_all_engines_gives_the_bits_of_the_array() -> None:
    """SC R15, ZS R50: array -> zero-skip -> cluster -> array, and nothing is converted between."""
    network = SparseNetwork(4, 16, 16)
    for inputs, zeros in ((4, 0.0), (8, 0.8), (8, 0.3), (8, 0.0)):
        network.pruned(8, inputs, zeros)
    samples = network.sparse_samples(0.5)
    crossing: list[EngineName] = ["systolic_array", "zero_skip", "sparse_cluster", "systolic_array"]
    names = [node.output for node in matrix_layers(compiled(network, samples, config=ALONE))]
    layers: Mapping[str, Mapping[str, Any]] = {
        name: {"engine": engine} for name, engine in zip(names, crossing, strict=True)
    }
    program = compiled(network, samples, CompileOptions(layers=layers))
    assert engines_of(program) == crossing
    assert [node.engine_reason for node in matrix_layers(program)] == ["asked for"] * 4
    assert len(program.steps) == 1
    assert_same_bits(program, compiled(network, samples, config=ALONE), samples)


@pytest.mark.parametrize("engine", ["auto", "zero_skip", "sparse_cluster"])
def test_what_no_engine_takes_runs_elsewhere_with_the_same_bits(engine: Any) -> None:
    """SC R9, R14: pooling stays on the array, an operator that no engine publishes goes to the host."""
    network = SparseNetwork(4, 16, 16)
    network.pruned(8, 4, 0.0)
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.add("HardSwish")
    network.pruned(8, 8, 0.5)
    samples = network.sparse_samples(0.9)
    program = compiled(network, samples, CompileOptions(engine=engine))
    kinds = {node.kind: node.engine for node in program.nodes if isinstance(node, ArrayNode)}
    assert kinds["max"] == "systolic_array"
    assert any(not isinstance(node, ArrayNode) for node in program.nodes)
    assert engine == "auto" or kinds["gemm"] == engine
    assert_same_bits(program, compiled(network, samples, config=ALONE), samples)


def test_every_engine_publishes_what_it_computes() -> None:
    """SC R14"""
    assert tuple(engine.name for engine in registry.ENGINES) == ENGINES
    for engine in ENGINES[1:]:
        assert set(engine_named(engine).supported) < set(engine_named("systolic_array").supported)


# Determinism


def test_decisions_are_the_same_at_every_run_and_kept_in_program_files(tmp_path: Path) -> None:
    """SC R16: software decides once, when the network is compiled; the program has the log."""
    network = three_layers()
    for name in ("first", "second"):
        save_program(compiled(network, network.sparse_samples(0.95)), tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    loaded = load_program(tmp_path / "first", "digest")
    assert engines_of(loaded) == engines_of(dispatched())
    assert engine_choices(loaded) == engine_choices(dispatched())
    assert [node.engine_reason for node in matrix_layers(loaded)] == ["fewest cycles"] * 3


def test_an_array_alone_leaves_nothing_to_choose() -> None:
    network = three_layers()
    program = compiled(network, network.sparse_samples(0.95), config=ALONE)
    assert engine_choices(program) == []
    assert {node.engine_reason for node in matrix_layers(program)} == {""}


# Mistakes


@pytest.mark.parametrize(
    ("options", "config", "message"),
    [
        ({"engine": "zero_skip"}, ALONE, r"^the accelerator has no engine zero_skip; it has systolic_array"),
        ({"layers": {"a": {"engine": "zero_skip"}}}, ALONE, r"^layer a: the accelerator has no engine zero_skip"),
        ({"layers": {"Conv_9": {"engine": "zero_skip"}}}, CONFIG, r"layer Conv_9: no layer of this name.*Conv_0"),
        ({"layers": {"Conv_0": {"engine": "zero_skip"}}}, CONFIG, r"Conv_0: zero_skip cannot .* kernel is 5x5"),
        ({"engine": "sparse_cluster"}, CONFIG, r"sparse_cluster can compute no layer.*Conv_0.*: its kernel is 5x5"),
    ],
)
def test_engines_that_cannot_be_had_are_told_with_the_reason(
    options: dict[str, Any], config: SystolicConfig, message: str
) -> None:
    network = SparseNetwork(4, 16, 16)
    network.pruned(8, 4, 0.0, kernel=5)
    with pytest.raises(ConfigurationError, match=message):
        compiled(network, network.sparse_samples(0.5), CompileOptions(**options), config)


def test_a_network_without_products_has_no_layer_for_an_engine() -> None:
    network = SparseNetwork(4, 16, 16)
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    with pytest.raises(ConfigurationError, match="there is no convolution and no fully connected layer"):
        compiled(network, network.sparse_samples(0.5), CompileOptions(engine="zero_skip"))


def test_a_network_that_asks_for_an_engine_keeps_refused_layers_on_the_array() -> None:
    """One layer that the engine takes is enough; of the others the reason is kept."""
    network = SparseNetwork(4, 16, 16)
    network.pruned(8, 4, 0.0, kernel=5)
    network.pruned(8, 8, 0.0)
    program = compiled(network, network.sparse_samples(0.5), CompileOptions(engine="zero_skip"))
    assert engines_of(program) == ["systolic_array", "zero_skip"]
    first = matrix_layers(program)[0]
    assert first.engine_reason == "zero_skip was asked for, but its kernel is 5x5, the engine's largest is 3x3"


# Command line

ACCELERATOR = """
name: tests
description: a small array with both engines
board: pynq_z2
clock_mhz: 100
engines:
  - kind: systolic_array
    format: {profile: bfp8}
    columns: 9
    rows: 2
    lanes: 2
    multiplier: dsp_packed
    accumulator_bits: 32
    activation_words: 4096
    weight_words: 1024
    parameter_rows: 512
    stream_bits: 64
    weight_stream_bits: 64
    functions: [none, relu]
  - kind: zero_skip
    tile: [16, 16]
    lanes: 16
    rows_parallel: 2
    kernels_in_flight: 8
    kernel: [3, 3]
    stride: 1
    multiplier: dsp_packed
    load_pixels: 8
  - kind: sparse_cluster
    variant: E
    grid: [2, 2]
    kernel: 3
    kernels_in_flight: 8
    accumulator_words: 64
    memory_words: 128
    multiplier: dsp
    load_pixels: 8
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An accelerator, a network whose first kernel no engine takes, and sparse samples."""
    folder = tmp_path_factory.mktemp("dispatch")
    network = SparseNetwork(4, 16, 16)
    network.pruned(8, 4, 0.0, kernel=5)
    network.add("MaxPool", kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1])
    network.pruned(8, 8, 0.96)
    network.pruned(8, 8, 0.0)
    (folder / "net.onnx").write_bytes(network.model().SerializeToString())
    np.savez(folder / "samples.npz", x=network.sparse_samples(0.95))
    (folder / "accelerator.yaml").write_text(ACCELERATOR)
    return folder


def arguments(files: Path, command: str, *more: str) -> list[str]:
    """A command on the network, the accelerator and the samples."""
    model, accelerator, samples = (str(files / name) for name in ("net.onnx", "accelerator.yaml", "samples.npz"))
    words = {
        "compile": [model, "-a", accelerator, "-o", str(files / "net.bfpga"), "-c", samples],
        "estimate": [accelerator, model, "-c", samples],
        "run": [model, "-a", accelerator, "-d", samples, "-n", "2"],
        "evaluate": [model, "-a", accelerator, "-d", samples, "-n", "2"],
    }
    return [command, *words[command], *more]


def test_explain_prints_every_alternative_with_its_clocks_and_reason(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SC R10, R13, R14, ZS R53: the log of decisions, for people and for machines."""
    target = tmp_path / "report.json"
    assert main(arguments(files, "compile", "--explain", "--json", str(target))) == 0
    printed, content = capsys.readouterr().out, json.loads(target.read_text())
    explained = printed[printed.index("Engines: zeros of weights and inputs") :]
    assert all(word in explained for word in ("array", "zero-skip", "sparse cluster", "chosen", "because"))
    cycles = {layer["name"]: layer["cycles"] for layer in content["layers"]}
    assert len(content["engine_choices"]) == 3
    for choice in content["engine_choices"]:
        line = next(line for line in explained.splitlines() if line.split()[:1] == [choice["layer"]])
        for item in choice["engines"]:
            assert (item["cycles"] is None) == (item["refused"] is not None)
            assert (f"{item['cycles']:,}" if item["cycles"] else " - ") in line
            if item["engine"] == choice["chosen"]:
                # What the explanation says is what the listing and a run say.
                assert item["cycles"] == cycles[choice["layer"]]
        assert f"{100 * choice['weight_zeros'] / choice['weights']:.1f} %" in line
        assert f"{100 * choice['input_zeros'] / choice['inputs']:.1f} %" in line
        assert choice["because"] in line
    assert "zero-skip not for Conv_0: its kernel is 5x5, the engine's largest is 3x3" in explained
    assert "sparse cluster not for Conv_0: its kernel is 5x5, the engine's largest is 3x3" in explained
    assert "only the array: MaxPool_2" in explained
    assert "3 layers with weights (" in explained


def test_explain_compares_with_the_array_alone(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(files, "compile", "--explain")) == 0
    program = load_program(files / "net.bfpga")
    chosen = alone = 0
    for choice in engine_choices(program):
        clocks = {item["engine"]: item["cycles"] for item in choice["engines"]}
        chosen, alone = chosen + clocks[choice["chosen"]], alone + clocks["systolic_array"]
    assert chosen < alone
    assert f"{chosen:,} cycles, {alone:,} on the array alone" in capsys.readouterr().out


def test_explain_without_samples_says_what_it_does_not_know(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = arguments(files, "compile", "--explain")
    assert main([*words[: words.index("-c")], "--explain"]) == 0
    printed = capsys.readouterr().out
    assert "zeros of inputs are not known" in printed
    assert "calibration samples (-c) tell more" in printed


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_explanation_is_drawn(suffix: str, files: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"engines{suffix}"
    assert main(arguments(files, "compile", "--picture", str(picture))) == 0
    assert picture.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert list(tmp_path.iterdir()) == [picture]


def test_the_picture_has_a_bar_for_every_engine_that_takes_a_layer() -> None:
    """ZS R53: as long as its clocks, solid if it was chosen."""
    pytest.importorskip("matplotlib")
    program = dispatched()
    clocks, zeros = draw_engines(program).axes
    widths = sorted((bar.get_width(), bar.get_alpha() == 1) for bar in clocks.patches)
    assert widths == sorted(
        (item["cycles"], item["engine"] == choice["chosen"])
        for choice in engine_choices(program)
        for item in choice["engines"]
    )
    inputs = {line.get_label(): list(line.get_xdata()) for line in zeros.lines}["inputs"]
    assert inputs == [100 * (1 - (node.input_density or 0)) for node in matrix_layers(program)]


def test_what_cannot_be_drawn_is_one_message(tmp_path: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", str(files / "net.onnx"), "-a", "tiny", "-o", str(tmp_path / "net.bfpga"), "--picture"]
    for picture, message in (("a.png", "nothing to draw: no layer of net had a choice"), ("a.txt", "must end with")):
        assert main([*words, str(tmp_path / picture)]) == 2
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_explain_of_an_array_alone(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", str(files / "net.onnx"), "-a", "tiny", "-o", str(files / "tiny.bfpga"), "--explain"]
    assert main(words) == 0
    assert "nothing to choose: tiny has the systolic array only" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["compile", "estimate", "run", "evaluate"])
@pytest.mark.parametrize("engine", ENGINES)
def test_commands_give_all_layers_to_an_engine(command: str, engine: str, files: Path, tmp_path: Path) -> None:
    """SC R15: even those that would be faster elsewhere; the one it refuses stays on the array."""
    target = tmp_path / "report.json"
    assert main(arguments(files, command, "--engine", engine, "--json", str(target))) == 0
    content = json.loads(target.read_text())
    choices = content.get("program", content)["engine_choices"]
    assert [choice["chosen"] for choice in choices] == ["systolic_array", engine, engine]


@pytest.mark.parametrize("command", ["compile", "estimate", "run", "evaluate"])
def test_commands_take_a_rule(command: str, files: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    assert main(arguments(files, command, "--dispatch", "majority", "--json", str(target))) == 0
    content = json.loads(target.read_text())
    reasons = [choice["because"] for choice in content.get("program", content)["engine_choices"]]
    assert all("% zeros, " in reason for reason in reasons)


def test_options_of_the_command_line_go_before_the_recipes(files: Path, tmp_path: Path) -> None:
    recipe, target = tmp_path / "recipe.yaml", tmp_path / "report.json"
    recipe.write_text("engine: zero_skip\nlayers:\n  Conv_5: {engine: systolic_array}\n")
    for more, middle in (([], "zero_skip"), (["--engine", "sparse_cluster"], "sparse_cluster")):
        assert main(arguments(files, "compile", "-r", str(recipe), "--json", str(target), *more)) == 0
        choices = json.loads(target.read_text())["engine_choices"]
        assert [choice["chosen"] for choice in choices] == ["systolic_array", middle, "systolic_array"]
    assert load_recipe(recipe).engine == "zero_skip"


def test_reports_name_the_engine_and_the_zeros_of_each_layer(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(files, "run")) == 0
    printed = capsys.readouterr().out
    assert "input zeros" in printed
    line = next(line for line in printed.splitlines() if line.split()[:1] == ["Conv_3"])
    assert "zero_skip" in line


def test_an_estimate_sums_up_the_choice(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(files, "estimate")) == 0
    assert "3 layers with weights (" in capsys.readouterr().out


def test_accelerators_say_which_engines_stand_beside_the_array(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SC R14: with what each of them computes."""
    target = tmp_path / "report.json"
    assert main(["accelerators", "--json", str(target)]) == 0
    assert "zero-skip" in capsys.readouterr().out
    engines = {item["name"]: item["engines"] for item in json.loads(target.read_text())["accelerators"]}
    assert set(engines["pynq_z2_dense"]) == {"systolic_array"}
    assert engines["pynq_z2_sparse_loop"]["sparse_cluster"] == ["convolution", "fully connected"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--engine", "gpu"], "engine 'gpu' is unknown; known are auto, systolic_array, zero_skip, sparse_cluster"),
        (["--dispatch", "luck"], "dispatch 'luck' is unknown; known are cost, majority, band"),
        (["--engine", "zero_skip", "-a", "tiny"], "the accelerator has no engine zero_skip; it has systolic_array"),
    ],
)
def test_wrong_engines_are_one_message(
    more: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(files, "compile", *more)) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"bfpga: {message}")
    assert "Traceback" not in printed
    assert printed.count("\n") == 1


def test_a_network_without_a_layer_for_the_engine_is_one_message(
    tmp_path: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = SparseNetwork(4, 16, 16)
    network.pruned(8, 4, 0.0, kernel=5)
    (tmp_path / "net.onnx").write_bytes(network.model().SerializeToString())
    words = ["estimate", str(files / "accelerator.yaml"), str(tmp_path / "net.onnx"), "--engine", "zero_skip"]
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert "zero_skip can compute no layer of this network (Conv_0: its kernel is 5x5" in printed
    assert printed.rstrip().endswith("engine auto chooses for each layer")


@pytest.mark.parametrize("command", ["compile", "estimate", "run", "evaluate"])
def test_help_says_what_the_engines_are_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for text in ("--engine", "--dispatch", "weights that are zero", "activations that are zero", "majority", "band"):
        assert text in printed
