"""Flows of the kernel: what is measured before a layer, what of it is kept, what it costs (kernel-positions.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_layers import gemm, image, vector
from effort import drawn, each_once
from hypothesis import given, settings
from hypothesis import strategies as st
from position_cases import expected_shift
from position_programs import (
    FLOWS,
    POSITIONS,
    compiled,
    compiled_kernel,
    computing,
    convolution,
    counted,
    dynamic,
    emulated,
    everywhere,
    histograms,
    multiplied,
    on_plain_integers,
    one_convolution,
    operations,
    random_flows,
    same_bits,
    samples,
    scheduled,
)
from small_networks import attention_network, small_network
from small_networks import compiled as compiled_network

from bfpga.compiler.numbers.shift_weights import representable_integers
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, LeadRule, Operation, Policy
from bfpga.contract.program import ArrayNode, BlockTensor, LaunchStep, MatMulNode, PolicySpec, Program, Window
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.kernel.cycles import operation_cycles
from bfpga.errors import ConfigurationError, DeviceError, ModelError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.position_rules import PositionRule
from bfpga.formats.shift_format import ShiftFormat
from bfpga.program.file import load_program, save_program
from bfpga.program.flow_listing import measured_share
from bfpga.verify.check import random_configs, random_inputs

ROW = {"rate": 3, "base": -8}
WIDE = replace(POSITIONS, activation_words=4096, weight_words=4096, wide_words=0)


def node_of(program: Program, name: str = "y") -> ArrayNode:
    return next(node for node in program.nodes if isinstance(node, ArrayNode) and node.name == name)


def covered(program: Program, name: str, *, with_kept: bool) -> np.ndarray:
    """How often each output (row, channel) of a layer is computed by its main pass."""
    node, times = node_of(program, name), np.zeros((17, 9), int)
    main = [d for d in computing(program, name) if not d.flags & Flag.MEASURE]
    for tile, descriptor in zip(node.tiles, main, strict=True):
        if with_kept or not descriptor.flags & Flag.KEPT:
            times[tile.y0 : tile.y1 : tile.step, tile.m0 : tile.m1] += 1
    return times


def in_sample(program: Program, name: str, height: int, channels: int) -> np.ndarray:
    """Whether an output (row, channel) is measured."""
    sample, taken = node_of(program, name).policy.sample, np.zeros((height, channels), bool)
    assert sample is not None
    for m0, m1 in sample.blocks:
        taken[list(sample.rows(height)), m0:m1] = True
    return taken


# Flows


@pytest.mark.parametrize(("flow", "period"), each_once(FLOWS, [1, 8, 2, 3]))
def test_flows_give_the_bits_of_plain_integers_and_of_the_compiled_kernel(flow: str, period: int) -> None:
    """FP R7, R22-R25, R48: bits, counters and clocks."""
    program = one_convolution(dynamic(flow, period, 1, **ROW))
    everywhere(program, samples(program))


@pytest.mark.parametrize("rule", [LeadRule.RATE, LeadRule.LEAD])
def test_keeping_gives_the_bits_of_computing_twice(rule: LeadRule) -> None:
    """FP R24, R25: keep as two_pass, keep_sampled as two_pass_sampled with the same sample, bit by bit."""
    found: dict[str, DeviceResult] = {}
    for flow in FLOWS:
        program = one_convolution(dynamic(flow, 3, 2, rule=rule.name, **ROW), size=(8, 3))
        found[flow] = everywhere(program, samples(program), kernel=False)
    assert same_bits(found["keep"], found["two_pass"])
    assert same_bits(found["keep_sampled"], found["two_pass_sampled"])


def test_all_flows_are_equal_when_everything_is_sampled() -> None:
    """FP R26: over several layers; random networks, of the first ones by the compiled kernel."""
    for seed in range(drawn(60)):
        rng = np.random.default_rng(seed)
        shape, rule = tuple(int(n) for n in rng.integers(1, 9, 2)), str(rng.choice(["max", "rate", "lsb", "window"]))
        channels = [int(n) for n in rng.integers(1, 12, 3)]
        tensors = [image(name, *shape, count) for name, count in zip(("t0", "a", "y"), channels, strict=True)]
        found = []
        for flow in FLOWS:
            nodes = [
                convolution(dynamic(flow, 1, rule=rule, **ROW), source, output, *sizes, shape, seed)
                for source, output, sizes in (("t0", "a", channels[:2]), ("a", "y", channels[1:]))
            ]
            program = scheduled(POSITIONS, tensors, nodes)
            runs = compiled if seed < 3 else emulated
            found.append(runs(program, samples(program, 1, seed)))
        assert all(same_bits(found[0], other) for other in found[1:])


def test_the_next_layer_takes_narrow_results_at_the_new_position() -> None:
    """FP R27: accumulators of the second layer have the exponent of the first one's result and its weights'."""
    tensors = [image("t0", 6, 5, 4), image("a", 6, 5, 6), image("y", 6, 5, 3)]
    for flow in FLOWS:
        first = convolution(dynamic(flow, 2, **ROW), "t0", "a", 4, 6, (6, 5))
        weights = np.random.default_rng(3).integers(-127, 128, (3, 6))
        window = Window(output_height=6, output_width=5)
        second = gemm(weights, window, name="y", inputs=("a",), output="y", policy=dynamic(flow, rule="max"))
        program = scheduled(POSITIONS, tensors, [first, second])
        result = everywhere(program, samples(program), kernel=flow == "keep")
        for sample in range(2):
            narrow = result.tensors["a"].mantissa[sample].astype(int)
            wide = [int(v) for v in (narrow @ weights.T).reshape(-1)]
            shift = expected_shift(wide, PositionRule("max", shift_min=-8), 8)
            assert result.tensors["y"].exponent[sample] == result.tensors["a"].exponent[sample] + shift


def test_the_order_is_measure_then_main_for_each_layer() -> None:
    """FP R16, R20: the preceding operation is the same operation, with the same operands."""
    tensors = [image("t0", 6, 5, 4), image("a", 6, 5, 6), image("y", 6, 5, 3)]
    nodes = [
        convolution(dynamic("two_pass"), "t0", "a", 4, 6, (6, 5)),
        convolution(dynamic("two_pass"), "a", "y", 6, 3, (6, 5)),
    ]
    program = scheduled(POSITIONS, tensors, nodes)
    order = [(o.layer, bool(o.descriptor.flags & Flag.MEASURE)) for o in operations(program)
             if o.descriptor.operation == Operation.GEMM]  # fmt: skip
    assert order == [("a", True), ("a", False), ("y", True), ("y", False)]
    for layer in ("a", "y"):
        measured, main = computing(program, layer)
        bits = int(Flag.MEASURE | Flag.FIRST | Flag.LAST)
        assert replace(measured, flags=measured.flags & ~bits) == replace(main, flags=main.flags & ~bits)


@pytest.mark.parametrize("flow", FLOWS)
def test_flows_multiply_as_often_as_the_specification_says(flow: str) -> None:
    """FP R22-R25: 2, 1 + f, 1 and 1 times the results; what was kept is taken, the rest is computed."""
    program = one_convolution(dynamic(flow, 3, 1))
    sampled = in_sample(program, "y", 17, 9)
    assert sampled.all() or flow.endswith("sampled")
    again = int(sampled.sum()) if flow.startswith("two_pass") else 0
    assert multiplied(program) == 4 * (17 * 9 + again)
    assert (covered(program, "y", with_kept=True) == 1).all()
    taken = covered(program, "y", with_kept=True) - covered(program, "y", with_kept=False)
    assert (taken == (sampled if flow.startswith("keep") else 0)).all()


@pytest.mark.parametrize(
    ("flow", "words", "mode"),
    [
        ("keep_sampled", {"weight_words": 40, "activation_words": 40, "lanes": 4}, "load"),
        ("keep", {"weight_words": 16}, "stream"),
    ],
)
def test_weights_may_be_loaded_or_streamed(flow: str, words: dict[str, int], mode: str) -> None:
    """FP R24, R25: kept accumulators need no weights; what is computed does."""
    config = replace(POSITIONS, parameter_rows=64, **words)
    fields: dict[str, Any] = {"size": (1, 1), "inputs": 30, "channels": 40} if mode == "stream" else {}
    if mode == "stream":
        node = gemm(
            np.random.default_rng(0).integers(-127, 128, (40, 30)), inputs=("t0",), name="y",
            policy=dynamic(flow, 2, **ROW),
        )  # fmt: skip
        program = scheduled(config, [vector("t0", 30), vector("y", 40)], [node])
    else:
        program = one_convolution(dynamic(flow, 3, **ROW), config, **fields)
    loads = [o for o in operations(program) if o.descriptor.operation == Operation.WEIGHTS]
    streams = [d for d in computing(program) if d.flags & Flag.STREAM_WEIGHTS]
    assert mode == ("stream" if streams else "load" if loads else "resident")
    assert not any(d.flags & Flag.KEPT for d in streams)
    everywhere(program, samples(program))


@pytest.mark.parametrize(("flow", "words"), each_once(FLOWS, [40, 64]))
def test_layers_in_strips_are_measured_and_kept_strip_by_strip(flow: str, words: int) -> None:
    """FP R14, R24, R25: rows of the sample go on across strips."""
    config = replace(POSITIONS, activation_words=words, wide_words=1024)
    program = one_convolution(dynamic(flow, 3, 1, **ROW), config)
    assert sum(o.descriptor.operation == Operation.LOAD for o in operations(program)) > 2
    assert (covered(program, "y", with_kept=True) == 1).all()
    result = everywhere(program, samples(program), words == 40)
    whole = one_convolution(dynamic(flow, 3, 1, **ROW), replace(config, activation_words=4096))
    assert same_bits(result, emulated(whole, samples(whole))) or flow.endswith("sampled")


PACKED = replace(POSITIONS, multiplier="dsp_packed", columns=4, position_bins=16)
SHIFT = KernelConfig(
    BlockFormat(mantissa_bits=8), columns=3, rows=4, lanes=2, multiplier="shift", shift=ShiftFormat(x_width=8),
    accumulator_bits=32, activation_words=512, weight_words=512, parameter_rows=64, position_bins=16, wide_words=512,
)  # fmt: skip
MIXED = replace(SHIFT, multiplier="dsp_packed", columns=5, shift_columns=2, shift=ShiftFormat(x_width=8))


@pytest.mark.parametrize(
    ("kind", "flow"),
    each_once(
        [(PACKED, "linear"), (SHIFT, "power_of_two"), (MIXED, "two_hot")],
        ["keep", "keep_sampled", "two_pass_sampled"],
    ),
)
def test_every_kind_of_multiplier_measures_and_keeps(kind: tuple[KernelConfig, str], flow: str) -> None:
    """FP R24, R25; SM R31: passes of power-of-two weights keep twice as many rows, mixed arrays fewer columns."""
    (config, weight_format), rng = kind, np.random.default_rng(4)
    node = convolution(dynamic(flow, 3, **ROW), bias=None)
    node.weight_format = weight_format  # type: ignore[assignment]
    node.weights = rng.choice(representable_integers(config, node.weight_format), (9, 3, 3, 5)).astype(np.int32)
    program = scheduled(config, [image("t0", 17, 4, 5), image("y", 17, 4, 9)], [node])
    assert any(d.flags & Flag.KEPT for d in computing(program)) == flow.startswith("keep")
    everywhere(program, samples(program))


# Samples


@settings(deadline=None, max_examples=drawn(60))
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(0, 30))
def test_samples_are_equally_spaced_and_never_empty(height: int, channels: int, period: int, offset: int) -> None:
    """FP R28, R30: rows at equal distances or blocks of channels, at least one of ``period`` outputs."""
    program = one_convolution(dynamic("two_pass_sampled", period, offset), WIDE, size=(height, 1), channels=channels,
                              inputs=2)  # fmt: skip
    taken = in_sample(program, "y", height, channels)
    assert taken.any()
    assert taken.all() or period > 1
    rows, columns = np.flatnonzero(taken.any(axis=1)), np.flatnonzero(taken.any(axis=0))
    assert (taken == np.outer(taken.any(axis=1), taken.any(axis=0))).all()
    assert len(set(np.diff(rows).tolist())) <= 1
    assert len(set(np.diff(np.unique(columns // WIDE.rows)).tolist())) <= 1
    assert len(rows) == height or len(columns) == channels
    if len(rows) < height:
        assert len(rows) in (height // period, -(-height // period))
    elif len(columns) < channels:
        blocks = -(-channels // WIDE.rows)
        assert len(np.unique(columns // WIDE.rows)) in (max(blocks // period, 1), -(-blocks // period))


@pytest.mark.parametrize(("size", "channels"), [((17, 4), 9), ((1, 1), 30)])
def test_sampled_statistics_are_those_of_the_subset_of_full_results(size: tuple[int, int], channels: int) -> None:
    """FP R29: sampled outputs are sums of all their terms."""
    for offset in range(3):
        policy = dynamic("two_pass_sampled", 3, offset, rule="max")
        node = convolution(policy, size=size, channels=channels, bias=None, weight_exponents=None)
        program = scheduled(POSITIONS, [image("t0", *size, 5, 0), image("y", *size, channels)], [node])
        x = np.random.default_rng(offset).integers(-20, 20, (1, 5, *size)).astype(np.float32)
        result = everywhere(program, {"t0": x}, kernel=False)
        padded = np.pad(x[0].transpose(1, 2, 0).astype(int), ((1, 1), (1, 1), (0, 0)))
        assert node.weights is not None
        full = np.array([[[(padded[y : y + 3, z : z + 3] * w).sum() for w in node.weights] for z in range(size[1])]
                         for y in range(size[0])])  # fmt: skip
        subset = full.transpose(0, 2, 1)[in_sample(program, "y", size[0], channels)]
        shift = expected_shift([int(v) for v in subset.reshape(-1)], PositionRule("max", shift_min=-8), 8)
        assert result.tensors["y"].exponent[0] == shift


# Layers without a preceding operation, and those that have one by another name


def test_layers_that_do_not_update_pass_their_position_through() -> None:
    """FP R35: no preceding operation."""
    pool = ArrayNode("y", "max", ("t0",), "y", 5, Window(2, 2, 2, 2, output_height=3, output_width=3),
                     policy=PolicySpec(inherit=True))  # fmt: skip
    program = scheduled(POSITIONS, [image("t0", 6, 6, 5), image("y", 3, 3, 5)], [pool])
    assert not any(d.flags & Flag.MEASURE for d in computing(program))
    result = everywhere(program, samples(program))
    assert result.tensors["y"].exponent.tolist() == encoded_exponents(program, samples(program)["t0"])


def encoded_exponents(program: Program, x: np.ndarray) -> list[int]:
    """Exponents that samples get when they are encoded by their largest magnitudes: 2^e * 64 <= |x| < 2^e * 128."""
    largest = np.abs(x.reshape(len(x), -1)).max(axis=1)
    return [int(np.floor(np.log2(value))) - 6 for value in largest]


def test_delayed_takes_the_position_of_the_run_before() -> None:
    """FP R21, flow 0: after the first run nothing is measured; the rule sees the main pass."""
    spec = PolicySpec(Policy.ROLLING_MAX, slot=1, window=1, rule=LeadRule.RATE, rate=4, base=-8)
    program = one_convolution(spec, size=(6, 5))
    inputs = samples(program, 6)
    delayed = everywhere(program, inputs).tensors["y"].exponent
    now = emulated(one_convolution(dynamic(rate=4, base=-8), size=(6, 5)), inputs).tensors["y"].exponent
    assert delayed[1:].tolist() == now[:-1].tolist()
    assert delayed[0] == now[0]
    assert all(o.first_only for o in operations(program) if o.descriptor.flags & Flag.MEASURE)


@pytest.mark.parametrize("kind", ["max", "average"])
def test_maxima_and_sums_do_not_keep(kind: str) -> None:
    """Section 4 of the contract: they take a sampled pass instead."""
    window = Window(output_height=17, output_width=4)
    fields: dict[str, Any] = {"policy": dynamic("keep_sampled", 3, **ROW)}
    if kind == "average":
        node = ArrayNode(
            "y", "gemm", ("t0",), "y", 5, window, groups=5, weights=np.full((5, 1, 1, 1), 9, np.int32),
            weight_exponents=np.full(5, -3, np.int32), uniform_weights=True, **fields,
        )  # fmt: skip
    else:
        node = ArrayNode("y", kind, ("t0",) if kind == "max" else ("t0", "t0"), "y", 5, window, **fields)
    program = scheduled(POSITIONS, [image("t0", 17, 4, 5), image("y", 17, 4, 5)], [node])
    assert kind == "average" or not any(d.flags & (Flag.KEEP | Flag.KEPT) for d in computing(program))
    assert not in_sample(program, "y", 17, 5).all()
    everywhere(program, samples(program))


# Clocks and the choice


def clocks(program: Program, layer: str = "y") -> int:
    return sum(operation_cycles(program.config, d) for d in computing(program, layer))


def test_auto_takes_the_flow_of_fewest_clocks_and_tells_what_it_compared() -> None:
    """FP R33, R36: here by exact clocks; between equals the one that keeps nothing."""
    chosen = set()
    for inputs, kernel_rows in ((30, 17), (2, 17), (1, 4)):
        fields = {"inputs": inputs, "size": (kernel_rows, 4)}
        automatic = one_convolution(dynamic("auto", 2, **ROW), **fields)
        node = node_of(automatic)
        alternatives = {flow: one_convolution(dynamic(flow, 2, **ROW), **fields) for flow in node.flow_clocks}
        for flow, program in alternatives.items():
            assert node.flow_clocks[flow] == clocks(program)
        assert node.flow_clocks[node.policy.flow] == min(node.flow_clocks.values())
        assert clocks(automatic) == clocks(alternatives[node.policy.flow])
        everywhere(automatic, samples(automatic), kernel=False)
        chosen.add(node.policy.flow)
    assert any(flow.startswith("keep") for flow in chosen)


@pytest.mark.parametrize("rule", ["rate", "max"])
def test_auto_samples_under_a_rule_that_bears_it_alone(rule: str) -> None:
    """FP R33, 2.3: a sample may miss the largest or smallest value, which no rule but rate forgives."""
    for inputs in (2, 30):
        node = node_of(one_convolution(dynamic("auto", 2, rule=rule, **ROW), inputs=inputs))
        flows = {"two_pass_sampled", "keep_sampled", "keep"} if rule == "rate" else {"two_pass", "keep"}
        assert set(node.flow_clocks) == flows
        assert node.policy.flow in flows
        assert (measured_share(node, node.policy.sample) < 1) == node.policy.flow.endswith("sampled")


# The buffer's limit


def test_more_than_the_buffer_holds_is_refused_with_a_remedy() -> None:
    """FP R24: groups of columns x channels of the layer are kept."""
    groups = -(-17 * 4 // 3)
    one_convolution(dynamic("keep"), replace(POSITIONS, wide_words=groups * 9))
    with pytest.raises(ModelError, match=r"layer y: flow keep keeps more than the 206 accumulators.*wide_words"):
        one_convolution(dynamic("keep"), replace(POSITIONS, wide_words=groups * 9 - 1))


def test_the_kernel_model_refuses_to_keep_beyond_its_buffer() -> None:
    """A check of the simulation; hardware has none."""
    program = one_convolution(dynamic("keep"))
    (step,) = (step for step in program.steps if isinstance(step, LaunchStep))
    next(o for o in step.operations if o.descriptor.flags & Flag.KEEP).descriptor.wide_word = 1020
    tensors = {
        name: BlockTensor(np.ones((1, spec.height, spec.width, spec.channels), np.int32), np.zeros(1, np.int32))
        for name, spec in program.tensors.items()
    }
    kernel = compiled_kernel(program.config)
    with pytest.raises(DeviceError, match="keeps beyond the buffer, word 1024"):
        kernel.run_operations(program.setup.operations + step.operations, tensors)


# From recipe to file


@pytest.mark.parametrize(("flow", "rule"), each_once(["auto", *FLOWS], ["rate", "max", "lsb", "window", "lead"]))
def test_recipes_choose_flow_rule_and_sample(flow: str, rule: str, tmp_path: Path) -> None:
    """FP R22-R26, R30, R35: the compiler's programs give the kernel's bits; offsets advance by layer."""
    options = CompileOptions(policy="dynamic", flow=flow, rule=rule, sample=3, rate=6, margin=1)  # type: ignore[arg-type]
    program = compiled_network(small_network(), tmp_path, POSITIONS, options, calibrate=False)
    nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
    measured = [node for node in nodes if not node.policy.inherit]
    assert [node.kind for node in nodes] == ["gemm", "max", "gemm"]
    assert [node.policy.sample_offset for node in measured] == [0, 1]
    assert [node.policy.rule.name.lower() for node in measured] == [rule] * 2
    inputs = small_network().samples(2)
    expected = emulated(program, inputs)
    assert first_mismatch(program, expected, on_plain_integers(program, inputs)) is None


def test_a_programs_flows_survive_its_file(tmp_path: Path) -> None:
    """Samples, rules, flows and what was compared are what they were, and so are bits and clocks."""
    options = CompileOptions(policy="dynamic", flow="auto", sample=2)
    program = compiled_network(small_network(), tmp_path, POSITIONS, options, calibrate=False)
    save_program(program, tmp_path / "program.bfpga")
    again = load_program(tmp_path / "program.bfpga")
    for node, read in zip(program.nodes, again.nodes, strict=True):
        assert isinstance(node, ArrayNode)
        assert isinstance(read, ArrayNode)
        assert (node.policy, node.flow_clocks, node.tiles) == (read.policy, read.flow_clocks, read.tiles)
    inputs = small_network().samples(2)
    assert first_mismatch(again, emulated(program, inputs), compiled(again, inputs)) is None


@pytest.mark.parametrize("rule", ["rate", "lsb"])
def test_products_of_activations_are_collected_with_the_exponents_of_both(rule: str, tmp_path: Path) -> None:
    """FP R10, R17: bins follow the second operand's exponent, which is known when it is packed."""
    options = CompileOptions(policy="dynamic", rule=rule, rate=3)  # type: ignore[arg-type]
    program = compiled_network(attention_network(), tmp_path, POSITIONS, options, calibrate=False)
    assert sum(isinstance(node, MatMulNode) for node in program.nodes) == 2
    for scale in (0.02, 1.0, 50.0):
        inputs = {name: scale * x for name, x in attention_network().samples(3).items()}
        expected = emulated(program, inputs)
        assert first_mismatch(program, expected, on_plain_integers(program, inputs)) is None
        run = compiled(program, inputs)
        assert first_mismatch(program, expected, run) is None
        assert histograms(run) == histograms(counted(program, inputs))  # FP R49
        assert {node.name for node in program.nodes if isinstance(node, MatMulNode)} <= histograms(run).keys()


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"position_bins": 0}, {"rule": "rate"}, "rule rate needs .* choose rule lead, or .* position_bins"),
        ({"position_bins": 0}, {"policy": "delayed", "rule": "rate"}, "rule rate needs a collector"),
        ({"wide_words": 0}, {"flow": "keep"}, "flow keep needs a place for accumulators; .* wide_words"),
        ({"wide_words": 64}, {"flow": "keep"}, "keeps more than the 64 accumulators a column"),
    ],
)
def test_what_the_accelerator_lacks_is_told_with_the_layer_and_a_remedy(
    changes: dict[str, int], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = replace(POSITIONS, **changes)
    with pytest.raises((ConfigurationError, ModelError), match=f"layer .*{message}"):
        compiled_network(
            small_network(), tmp_path, config, CompileOptions(**{"policy": "dynamic", **options}), calibrate=False
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flow": "thrice"}, "flow 'thrice' is unknown; known are auto, two_pass"),
        ({"rule": "best"}, "rule 'best' is unknown; known are rate, max, lsb, window, lead"),
        ({"sample": 0}, "sample = 0 is not between 1 and 64"),
        ({"rate": 17}, "rate = 17 is not between 0 and 16"),
        ({"margin": 16}, "margin = 16 is not between 0 and 15"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CompileOptions(policy="dynamic", **options)


# Anything


DRAWN = [
    # plain integers skip no operation, load no tables, make no weights of tensors and know no rows
    replace(config, count_registers=0, function_tables=0, operand_weights=False, row_columns=0)
    for config in random_configs(160, seed=2031)
    if config.position_bins and config.wide_words and not config.wide_memory
]
#: Arrays that every test run builds: one kind of multiplier each.
BUILT = [PACKED, SHIFT, MIXED]


def random_case(seed: int, config: KernelConfig) -> tuple[Program, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    program = random_flows(rng, config)
    return program, random_inputs(rng, program)


@settings(deadline=None, max_examples=drawn(24))
@given(st.integers(0, len(DRAWN) - 1), st.integers(0, 1 << 32))
def test_random_networks_give_the_same_bits_and_clocks_in_plain_integers(number: int, seed: int) -> None:
    """FP R10-R17, R22-R29, R48, R49: any array, any layers, rules, flows and samples."""
    program, inputs = random_case(seed, DRAWN[number])
    run = on_plain_integers(program, inputs)
    found = first_mismatch(program, emulated(program, inputs), run)
    assert found is None, str(found)
    assert histograms(run) == histograms(counted(program, inputs))


@settings(deadline=None, max_examples=drawn(60))
@given(st.integers(0, len(BUILT) - 1), st.integers(0, 1 << 32), st.booleans())
def test_random_networks_give_the_same_bits_and_clocks_in_c_simulation(number: int, seed: int, traced: bool) -> None:
    """FP R10-R17, R22-R29, R48, R49."""
    program, inputs = random_case(seed, BUILT[number])
    run = compiled(program, inputs, traced)
    found = first_mismatch(program, emulated(program, inputs), run)
    assert found is None, str(found)
    assert not traced or histograms(run) == histograms(counted(program, inputs))


@settings(deadline=None, max_examples=drawn(30))
@given(st.integers(0, len(BUILT) - 1), st.integers(1, 1 << 32))
def test_a_kernel_that_waits_tells_the_same_histograms(number: int, seed: int) -> None:
    """FP R49: loops with stages, streams that pause, processes in an order of chance."""
    program, inputs = random_case(seed, BUILT[number])
    kernel = compiled_kernel(program.config)
    device = StreamingDevice(program, kernel, "csim")
    try:
        kernel.disturb(seed)
        kernel.stall(seed)
        kernel.pause(seed)
        run = device.run(inputs, trace=True)
    finally:
        device.close()
    assert histograms(run) == histograms(counted(program, inputs))
