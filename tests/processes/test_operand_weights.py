"""Products of two tensors without the host: bits and work, attention by hand, who refuses what, what others see."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cut_starts import stopped_starts
from drawn_kernels import drawn_kernels
from effort import drawn, some_of
from operand_kernels import OPERANDS, WITH_ROWS
from project_bench import compiled_bench, said_by_bench
from two_arrays import TWO_ARRAYS

from bfpga.accelerator.constraints import config_findings
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.weight_plan import factor_reserve, plan_weights, setup_launch
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import SECOND_WEIGHS, Descriptor, Operation, Policy
from bfpga.contract.kernel_numbers import kernel_identity
from bfpga.contract.process_stream import LONGEST_PIPELINE
from bfpga.contract.processes import process_streams
from bfpga.contract.program import ArrayNode, BlockTensor, OperandWeights, PolicySpec, Program, TensorSpec, Window
from bfpga.contract.rows import SOFTMAX_EXPONENT, RowOperation, RowWork
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import COUNTING_FLAGS, CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.configurations import check_config
from bfpga.engines.kernel.order import FILLS, READS, RESULTS, start_counts
from bfpga.errors import ConfigurationError, ModelError, ProgramError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat
from bfpga.program.checks import check_parts
from bfpga.program.file import load_program, save_program
from bfpga.program.listing import listing
from bfpga.program.schedule import schedule
from bfpga.vendor.render import render_kernel, write_project
from bfpga.verify.check import random_inputs, verify
from bfpga.verify.random_network import random_program
from bfpga.verify.vectors import kernel_vectors

#: Clocks that the stages of pipelines take before an operation that waits for results, and at the end of a start.
STAGES, END = 45, 53
OTHERS = {
    "one lane": replace(OPERANDS, rows=5, lanes=1, multiplier="dsp"),
    "wide mantissas": replace(OPERANDS, format=BlockFormat(12), multiplier="dsp", accumulator_bits=40),
    "kept in memory": replace(OPERANDS, lanes=4, wide_memory=True, wide_words=64),
    "compressed": replace(WITH_ROWS, compressed_maps=True, lanes=1),
    "a group larger than the array's": replace(
        OPERANDS, columns=8, shift_columns=6, shift=ShiftFormat(x_width=8, exp_width=3, d=1), activation_words=64
    ),
    "shift columns": replace(load_accelerator("pynq_z2_mixed").config, operand_weights=True, activation_words=512),
}


def products(program: Program) -> list[ArrayNode]:
    """Layers of a program that multiply two tensors."""
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.operand is not None]


@pytest.mark.parametrize("config", some_of((OPERANDS, WITH_ROWS), WITH_ROWS), ids=["alone", "beside rows"])
@pytest.mark.parametrize(
    "target",
    ["csim", "csim:ap_int", "csim:exact", "csim:stalled", "virtual", pytest.param("rtl", marks=pytest.mark.slow)],
)
def test_random_networks(config: KernelConfig, target: str) -> None:
    """Both kinds of products, slices, columns of images, any policy: in C++, on the virtual board, in Verilog."""
    report = verify([config], [target], drawn(25))
    assert report.mismatch is None, report.mismatch
    assert report.cases == drawn(25)


@pytest.mark.parametrize("name", some_of(OTHERS, "compressed"))
def test_random_networks_of_other_kernels(name: str) -> None:
    assert list(config_findings(OTHERS[name])) == []
    report = verify([OTHERS[name]], ["csim:stalled"], drawn(15))
    assert report.mismatch is None, report.mismatch


def test_random_kernels_and_networks_have_all_that_products_may_have() -> None:
    """Otherwise the tests above would show little."""
    configs = drawn_kernels()
    assert sum(config.operand_weights for config in configs) > 10
    assert sum(config.operand_weights and config.row_columns > 0 for config in configs) > 5
    nodes = [node for seed in range(80) for node in products(random_program(np.random.default_rng(seed), OPERANDS))]
    found: Counter[str] = Counter()
    for node in nodes:
        assert node.operand is not None
        found["scores" if node.operand.by_pixels else "values"] += 1
        found["slice of the first"] += node.operand.first_input > 0
        found["slice of the second"] += node.operand.first_weight > 0
        found["column that is read"] += node.window.pad_left < 0
        found["column that is written"] += node.window.first_x > 0
        found["channels beside others"] += node.channel_offset > 0
        found["measured"] += node.policy.policy == Policy.MAX
        found["predicted"] += node.policy.policy > Policy.MAX
        found["with itself"] += node.inputs[0] == node.inputs[1]
        found["part of a word"] += node.operand.terms % OPERANDS.lanes > 0
    assert len(found) == 11
    assert min(found.values()) > 3, found


@pytest.mark.parametrize("config", some_of((OPERANDS, WITH_ROWS), WITH_ROWS), ids=["alone", "beside rows"])
def test_top_functions_side_by_side_pass_the_test_bench(config: KernelConfig, tmp_path: Path) -> None:
    """The IPs as they are synthesized, with the streams between them."""
    project = write_project("operands", "00000000", config, tmp_path / "project", kernel_vectors)
    said = said_by_bench(compiled_bench(project, config), project)
    assert "PASS" in said, said


# Attention by hand

TOKENS, HEADS, INNER = 11, 2, 4
CHANNELS = HEADS * INNER


def attention(config: KernelConfig, softmax: bool) -> Program:
    """Scores of all heads as columns of an image, one Softmax over its pixels, values side by side."""
    sizes = {"q": (1, CHANNELS), "k": (1, CHANNELS), "v": (1, CHANNELS), "s": (HEADS, TOKENS), "p": (HEADS, TOKENS)}
    sizes["y"] = (1, CHANNELS)
    tensors = {
        name: TensorSpec(name, TOKENS, width, channels, None, (channels, TOKENS, width), (1, 2, 0))
        for name, (width, channels) in sizes.items()
    }
    one = Window(output_height=TOKENS)
    nodes = [
        ArrayNode(f"scores{head}", "gemm", ("q", "k"), "s", TOKENS, replace(one, first_x=head), policy=static(-4),
                  operand=OperandWeights(True, INNER, head * INNER, head * INNER))
        for head in range(HEADS)
    ]  # fmt: skip
    if softmax:
        whole = Window(output_height=TOKENS, output_width=HEADS)
        work = RowWork(RowOperation.SOFTMAX, (0, 0), SOFTMAX_EXPONENT)
        nodes.append(ArrayNode("softmax", "rows", ("s",), "p", TOKENS, whole, policy=static(-7), rows=work))
    nodes += [
        ArrayNode(f"values{head}", "gemm", ("p" if softmax else "s", "v"), "y", INNER, replace(one, pad_left=-head),
                  head * INNER, policy=static(-6), operand=OperandWeights(False, TOKENS, 0, head * INNER))
        for head in range(HEADS)
    ]  # fmt: skip
    used = {name: spec for name, spec in tensors.items() if softmax or name != "p"}
    return program_of(config, used, nodes, ["q", "k", "v"], {"s", "y"})


def static(exponent: int) -> PolicySpec:
    return PolicySpec(exponent=exponent)


def program_of(
    config: KernelConfig, tensors: dict[str, TensorSpec], nodes: list[ArrayNode], inputs: list[str], leaving: set[str]
) -> Program:
    plans = plan_weights(nodes, config, factor_reserve(nodes, config))
    steps = Scheduler(config, tensors, nodes, plans, leaving).run()
    outputs = {name: tensors[name].onnx_shape for name in sorted(leaving)}
    return Program(
        "attention", "random", "0" * 64, config, 100.0, tensors, list(nodes), setup_launch(nodes, plans, config),
        list(steps), {name: tensors[name].onnx_shape for name in inputs}, outputs,
    )  # fmt: skip


def rounded(sums: Any, shift: int) -> Any:
    """Sums / 2**shift, to the nearest and of two to the even one, within 8 bits; integers of Python alone."""
    quotient, rest = divmod(int(sums), 1 << shift)
    half = 1 << (shift - 1)
    quotient += rest > half or (rest == half and quotient % 2 == 1)
    return max(-127, min(127, quotient))


@pytest.mark.parametrize("target", ["emulator", "csim"])
def test_attention_of_two_heads_is_that_of_plain_integers(target: str) -> None:
    """Scores, then what they weigh, computed by loops over Python's integers that share no code with the package."""
    program, rng = attention(WITH_ROWS, softmax=False), np.random.default_rng(7)
    check_parts(program)
    mantissas = {name: rng.integers(-127, 128, (TOKENS, CHANNELS)) for name in ("q", "k", "v")}
    for values in mantissas.values():
        values[0, 0] = 127  # so the exponents are those given
    inputs = {name: (values / 128.0).T[None, :, :, None].astype(np.float32) for name, values in mantissas.items()}
    if target == "emulator":
        found = Emulator(program, NUMPY).run(inputs).outputs
    else:
        found = StreamingDevice(program, CSimulation(WITH_ROWS), target).run(inputs).outputs
    q, k, v = (mantissas[name].tolist() for name in ("q", "k", "v"))
    for head in range(HEADS):
        inner = range(head * INNER, (head + 1) * INNER)
        scores = [[rounded(sum(a[c] * b[c] for c in inner), 10) for b in k] for a in q]  # exponents -7 - 7 to -4
        values = [[rounded(sum(p * v[t][c] for t, p in enumerate(row)), 5) for c in inner] for row in scores]
        assert (found["s"][0, :, :, head].T * 2**4).tolist() == scores
        assert (found["y"][0, inner, :, 0].T * 2**6).tolist() == values


@pytest.mark.parametrize("target", ["csim", "csim:stalled"])
def test_a_softmax_over_the_scores_of_all_heads(target: str) -> None:
    program = attention(WITH_ROWS, softmax=True)
    check_parts(program)
    inputs = random_inputs(np.random.default_rng(3), program)
    expected = Emulator(program, NUMPY).run(inputs)
    found = StreamingDevice(program, CSimulation(WITH_ROWS), target).run(inputs)
    assert first_mismatch(program, expected, found) is None
    assert len(program.steps) == 1, "nothing leaves the chip between"


def test_what_does_not_fit_beside_the_tensor_that_weighs_passes_in_strips() -> None:
    """The second tensor is loaded once and weighs once, rows of the first and of the result come and go."""
    config = replace(OPERANDS, activation_words=56)
    tensors = {
        name: TensorSpec(name, height, 1, channels, None, (channels, height, 1), (1, 2, 0))
        for name, height, channels in (("a", 150, 8), ("b", 20, 8), ("s", 150, 20))
    }
    node = ArrayNode("scores", "gemm", ("a", "b"), "s", 20, Window(output_height=150), policy=static(-5),
                     operand=OperandWeights(True, 8))  # fmt: skip
    program = program_of(config, tensors, [node], ["a", "b"], {"s"})
    kinds = Counter(item.descriptor.operation for item in program.steps[0].operations)  # type: ignore[union-attr]
    assert kinds[Operation.WEIGH] == 1
    assert kinds[Operation.LOAD] == 1 + kinds[Operation.STORE] == 1 + kinds[Operation.GEMM] > 2
    inputs = random_inputs(np.random.default_rng(3), program)
    expected = Emulator(program, NUMPY).run(inputs)
    found = StreamingDevice(program, CSimulation(config), "csim").run(inputs)
    assert first_mismatch(program, expected, found) is None


# Order

def test_a_tensor_weighs_when_it_is_computed_and_overwrites_what_has_been_read() -> None:
    """WEIGH waits for the results that it reads and for the GEMM that read its words; the GEMM waits for it."""
    config = replace(OPERANDS, weight_words=2 * -(-TOKENS // OPERANDS.rows) * INNER // OPERANDS.lanes)
    operations = attention(config, softmax=False).steps[0].operations  # type: ignore[union-attr]
    counts, kinds = start_counts(operations, config)[0], [item.descriptor.operation for item in operations]
    weigh = [index for index, kind in enumerate(kinds) if kind == Operation.WEIGH]
    gemm = [index for index, kind in enumerate(kinds) if kind == Operation.GEMM]
    assert len(weigh) == len(gemm) == 2 * HEADS
    assert [counts[index][FILLS] for index in gemm] == [1, 2, 3, 4]
    assert all(counts[index][READS] <= number for number, index in enumerate(weigh))
    assert counts[weigh[3]][READS] > 0, "its words were those of others"
    assert counts[gemm[2]][RESULTS] == 4, "both heads' scores, of four operations that the scratchpad counts"


def test_a_start_after_one_that_stopped_gives_the_same_bits() -> None:
    """Wherever it stopped: no word of a tensor that was to weigh is left."""
    assert stopped_starts(WITH_ROWS, range(drawn(30)), lambda program: bool(products(program))) > 2


def test_a_schedule_takes_the_clocks_of_the_processes() -> None:
    """And the stages of pipelines, of which this simulation has none, before operations that wait for results."""
    tokens, inner = 60, 8
    config = replace(OPERANDS, activation_words=2048)
    tensors = {name: TensorSpec(name, tokens, 1, channels) for name, channels in (("a", inner), ("s", tokens))}
    tensors["y"] = TensorSpec("y", tokens, 1, inner)
    window = Window(output_height=tokens)
    nodes = [
        ArrayNode("scores", "gemm", ("a", "a"), "s", tokens, window, operand=OperandWeights(True, inner)),
        ArrayNode("values", "gemm", ("s", "a"), "y", inner, window, operand=OperandWeights(False, tokens)),
    ]
    program = program_of(config, tensors, nodes, ["a"], {"y"})
    (step,) = program.steps
    kernel = CSimulation(config, flags=COUNTING_FLAGS)
    kernel.count_clocks()
    operations = step.operations  # type: ignore[union-attr]
    zeros = {name: BlockTensor(np.zeros((1, spec.height, 1, spec.channels), np.int8), np.zeros(1, np.int64))
             for name, spec in tensors.items()}  # fmt: skip
    kernel.run_operations(operations, zeros)
    clocks, _ = kernel.clocks(len(operations))
    waits = 2  # the values' scores, the store's values
    found = schedule(config, operations).clocks - STAGES * waits - END
    assert abs(found - clocks) <= 0.02 * clocks + 40, (found, clocks)


# Who refuses what

@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": 10}, "rows = 10 pixels are read at once: must be at most columns = 9"),
        ({"format": BlockFormat(saturation="full")}, "saturation must be sym, not full"),
        ({"array": TWO_ARRAYS.array}, "only a systolic array of linear weights"),
        ({"count_registers": 2}, "a kernel with count_registers multiplies no two tensors"),
    ],
)
def test_kernels_that_cannot_have_it_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"operand_weights .*{said}"):
        check_config(replace(OPERANDS, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"terms": INNER + 1}, "are no whole words"),
        ({"first_input": 1}, "are no whole words"),
        ({"first_weight": CHANNELS}, "are no whole words"),
        ({"terms": 1 << 20}, "terms"),
        ({"first_pixel": 1}, "pixels 1 to 12 are not among the 11 of k"),
    ],
)
def test_products_that_do_not_fit_a_program_are_refused(changes: dict[str, Any], said: str) -> None:
    program = attention(OPERANDS, softmax=False)
    node = products(program)[0]
    assert node.operand is not None
    node.operand = replace(node.operand, **changes)
    with pytest.raises(ProgramError, match=said):
        check_parts(program)


def test_products_are_refused_on_a_kernel_without_them() -> None:
    program = attention(OPERANDS, softmax=False)
    program.config = replace(program.config, operand_weights=False)
    with pytest.raises(ProgramError, match="its kernel multiplies no two tensors"):
        check_parts(program)


def test_products_whose_tensors_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ModelError, match="scores0: its second tensor does not fit 4 words of activation memory"):
        attention(replace(OPERANDS, activation_words=4), softmax=False)


def test_products_whose_words_do_not_fit_are_refused() -> None:
    with pytest.raises(ModelError, match="no weight memory is left for its second tensor"):
        attention(replace(OPERANDS, weight_words=1), softmax=False)


# What others see of it

def test_a_program_file_keeps_products(tmp_path: Path) -> None:
    program = attention(WITH_ROWS, softmax=True)
    save_program(program, tmp_path / "program.zip")
    loaded = load_program(tmp_path / "program.zip")
    inputs = random_inputs(np.random.default_rng(1), program)
    expected, found = (Emulator(item, NUMPY).run(inputs, trace=True) for item in (program, loaded))
    assert first_mismatch(program, expected, found) is None
    assert [step.operations for step in loaded.steps] == [step.operations for step in program.steps]  # type: ignore[union-attr]
    text = listing(loaded)
    assert " scores " in text
    assert "from k" in text
    assert "1 weigh" in text


def test_a_descriptor_of_weigh_comes_back_out_of_its_words() -> None:
    operations = attention(OPERANDS, softmax=False).steps[0].operations  # type: ignore[union-attr]
    kinds = {Operation(item.descriptor.operation): item.descriptor for item in operations}
    assert Descriptor.from_words(kinds[Operation.WEIGH].to_words()) == kinds[Operation.WEIGH]
    assert kinds[Operation.GEMM].flags & SECOND_WEIGHS
    assert kinds[Operation.GEMM].second_slot == kinds[Operation.WEIGH].input_slot


def test_other_kernels_have_no_trace_of_it_in_their_identity() -> None:
    """Issue 37: nor in what is rendered for them but the number that says that it is not there."""
    without, texts = replace(OPERANDS, operand_weights=False), []
    for config in (OPERANDS, without):
        texts.append(json.dumps(kernel_identity(config)))
    assert ["operand_w" in text for text in texts] == [True, False]
    headers = [text for path, text in render_kernel("k", "0" * 8, without).items() if path.endswith("config.hpp")]
    assert all("operand_weights = false;" in text for text in headers)
    assert headers


def test_words_of_a_tensor_have_room_for_a_pipeline() -> None:
    """What frees their place may need operands that are behind them in the same loop; the order needs one word."""
    (stream,) = (item for item in process_streams(OPERANDS) if item.name == "operand_words")
    assert (stream.needed, stream.depth) == (1, 1 + LONGEST_PIPELINE)
    assert stream.bits == OPERANDS.rows * OPERANDS.lanes * OPERANDS.format.mantissa_bits
