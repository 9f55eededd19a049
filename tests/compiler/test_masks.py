"""Constant masks in front of a Softmax are part of the chip (issue 37, item 3)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from effort import each_once, some_of
from row_kernels import WHOLE as KERNEL
from small_networks import Network, compiled, float_outputs, largest_error

from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower import expand, masks
from bfpga.compiler.lower.layers import ArrayTensor, Layer, RowMask, positions
from bfpga.compiler.numbers import masks as placed_masks
from bfpga.compiler.numbers.masks import MaskedSum, PlacedMask, SeenRange, placed_mask
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import HostNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import sqnr_db
from bfpga.engines.rows.arithmetic import softmax
from bfpga.formats.block_format import BlockFormat
from bfpga.runtime import open_device

TOKENS, HEADS = 9, 2
#: Largest error of a few layers with mantissas of 8 bits, over the largest result.
CLOSE = 0.06
LOWEST = float(np.finfo(np.float32).min)
LATER = np.triu(np.ones((TOKENS, TOKENS), bool), 1)
Floats = npt.NDArray[np.floating]


def causal(low: float) -> Floats:
    return np.where(LATER, low, 0).astype(np.float32)


def distances(slope: float) -> Floats:
    """What ALiBi adds: the further away, the less."""
    return (slope * np.minimum(np.arange(TOKENS) - np.arange(TOKENS)[:, None], 0)).astype(np.float32)


def on_host(program: Program) -> set[str]:
    return {kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators}


def attention(mask: Floats | str, how: str = "Add", scale: float = 0.5, reshaped: bool = False) -> Network:
    """Attention of two heads; ``how``: the mask is added, subtracted, or selects."""
    network, size = Network(TOKENS, 16), 16 // HEADS
    parts = [network.add("MatMul", "x", network.weights(16, 16, scale=scale)) for _ in range(3)]
    apart = network.constant(np.array([0, TOKENS, HEADS, size]))
    query, key, value = (
        network.add("Transpose", network.add("Reshape", part, apart), perm=[0, 2, 1, 3]) for part in parts
    )
    scores = network.add("MatMul", query, network.add("Transpose", key, perm=[0, 1, 3, 2]))
    if isinstance(mask, str):
        scores = network.add("Add", scores, padding(network, mask))
    else:
        scores = written(network, scores, mask, how)
    if reshaped:
        scores = network.add("Reshape", scores, network.constant(np.array([0, HEADS * TOKENS, TOKENS])))
    scores = network.add("Softmax", scores, axis=-1)
    if reshaped:
        scores = network.add("Reshape", scores, network.constant(np.array([0, HEADS, TOKENS, TOKENS])))
    seen = network.add("MatMul", scores, value)
    together = network.constant(np.array([0, TOKENS, 16]))
    network.add("Reshape", network.add("Transpose", seen, perm=[0, 2, 1, 3]), together)
    network.add("MatMul", network.last, network.weights(16, 16))
    return network


def padding(network: Network, name: str) -> str:
    """A mask of an input that is 1 for each token that is seen, and 0 for others; or `mask`, as it is added."""
    if name == "mask":
        network.inputs[name] = (HEADS, TOKENS, TOKENS)
        return name
    network.inputs[name] = (TOKENS,)
    away = network.add("Sub", network.constant(np.float32(1)), name)
    low = network.add("Mul", away, network.constant(np.float32(-1e4)))
    return network.add("Unsqueeze", low, network.constant(np.array([1, 2])))


def written(network: Network, scores: str, mask: Floats, how: str) -> str:
    if how in ("Add", "Sub"):
        return network.add(how, scores, network.constant(mask if how == "Add" else -mask))
    low = network.constant(np.array(mask.min(), np.float32))
    if how == "Where":  # what is seen is selected
        return network.add("Where", network.constant(mask == 0), scores, low)
    return network.add("Where", network.constant(mask != 0), low, scores)


#: Masks, and how they are written.
MASKS = {
    "infinite": (causal(-np.inf), "Add"),
    "lowest": (causal(LOWEST), "Add"),
    "subtracted": (causal(-1e9), "Sub"),
    "1e4": (causal(-1e4), "Add"),
    "100": (causal(-100), "Add"),
    "where": (causal(-np.inf), "Where"),
    "masked_fill": (causal(LOWEST), "masked_fill"),
    "padding": (np.where(np.arange(TOKENS) < 5, 0, -1e4).astype(np.float32), "Add"),
    "padding_of_rank_4": (np.where(np.arange(TOKENS) < 5, 0, -np.inf).astype(np.float32)[None, None, None], "Add"),
    "a_mask_a_head": (np.stack([causal(-np.inf), np.where(LATER.T, -np.inf, 0).astype(np.float32)])[None], "Add"),
    "alibi": (np.stack([causal(-np.inf) + distances(slope) for slope in (0.5, 0.125)])[None], "Add"),
}


@pytest.mark.parametrize(("name", "reshaped"), each_once(list(MASKS), [False, True]))
def test_a_constant_mask_is_added_on_the_chip(name: str, reshaped: bool, tmp_path: Path) -> None:
    mask, how = MASKS[name]
    network = attention(mask, how, reshaped=reshaped)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == set()
    assert len(program.steps) == 1
    assert largest_error(network, program) < CLOSE


def test_an_ordinary_constant_of_this_size_would_leave_nothing_of_the_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without masks, -10,000 takes up the mantissas of the sum."""
    network = attention(causal(-1e4))
    assert largest_error(network, compiled(network, tmp_path, KERNEL)) < CLOSE
    monkeypatch.setattr(masks, "BELOW", np.inf)
    assert on_host(compiled(network, tmp_path, KERNEL)) == {"Add", "Softmax"}
    monkeypatch.setattr(placed_masks, "FARTHEST_SCORE", np.inf)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == set()
    assert largest_error(network, program) > 5 * CLOSE


@pytest.mark.parametrize("scale", some_of([0.5, 0.9, 1.5, 3.0], 0.5, 3.0))
def test_the_chip_loses_no_decibel_to_a_host_that_adds_the_mask(
    scale: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = attention(causal(-np.inf), scale=scale)
    samples = network.samples(16)
    (wanted,) = float_outputs(network, samples)
    found = {}
    for place in ("chip", "host"):
        if place == "host":
            monkeypatch.setattr(expand, "RULES", {})
        program = compiled(network, tmp_path, KERNEL)
        assert on_host(program) == (set() if place == "chip" else {"Add", "Softmax"})
        found[place] = sqnr_db(wanted, Emulator(program).run(samples).outputs[network.last])
    assert found["chip"] > found["host"] - 1


def test_the_kernel_gives_the_bits_of_the_emulator(tmp_path: Path) -> None:
    network = attention(causal(-np.inf) + distances(0.25))
    program, samples = compiled(network, tmp_path, KERNEL), network.samples(3)
    device = open_device("csim", program)
    assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
    device.close()


def masked_sum(rows: Floats) -> MaskedSum:
    """Sums with a mask that is infinite where it hides."""
    masked = np.isinf(rows)
    mask = RowMask(masked, positions(rows.shape), np.inf)
    seen = np.where(masked, 0, rows).astype(np.float64)
    first = ArrayTensor("mask", rows.shape, positions((*rows.shape, 1)), constant=seen, mask=mask)
    second = first if not seen.any() else replace(first, name="again", constant=0 * seen)
    layers = Layer("first", "sum", ("scores", "mask"), "once", 1), Layer("second", "sum", ("once", "again"), "sum", 1)
    return MaskedSum(layers, (first, second), mask)


def rounded(values: Floats, exponent: int) -> Floats:
    """Values of 8-bit mantissas."""
    return np.ldexp(np.clip(np.rint(np.ldexp(values, -exponent)), -127, 127), exponent)


def summed(scores: Floats, placed: PlacedMask, own: int) -> npt.NDArray[np.int64]:
    """Both sums as the array computes them: operands are aligned to the larger exponent; mantissas of the result."""
    for constant, exponent in zip(placed.constants, (own, placed.exponent), strict=True):
        aligned = rounded(scores, max(exponent, placed.constant_exponent))
        scores = rounded(aligned + rounded(constant, placed.constant_exponent), placed.exponent)
    return np.ldexp(scores, -placed.exponent).astype(np.int64)


@pytest.mark.parametrize(("own", "bias"), each_once([-13, -5, -3, 2], [0.0, 0.3]))
def test_masked_elements_are_zero_whatever_the_scores_are(own: int, bias: float) -> None:
    """Scores of every mantissa; what is seen may be as low, and what is masked as high as scores are."""
    form, generator, largest = BlockFormat(mantissa_bits=8), np.random.default_rng(3), 127 * 2.0**own
    rows = (causal(-np.inf) + distances(bias)).astype(np.float64)
    scores = generator.uniform(-largest, largest, (300, *rows.shape))
    scores[:100] = np.where(LATER, largest, -0.5 * largest)
    scores[100:120] = np.where(LATER, -largest, largest)
    scores[:, 0, 0] = generator.uniform(-largest, largest, 300)  # alone in its row
    scores = rounded(scores, own)
    maxima = np.where(LATER, -np.inf, scores + np.where(LATER, 0, rows)).max(axis=2)[:, 1:]
    seen = SeenRange(own, float(maxima.min()), float(maxima.max()))
    placed = placed_mask(masked_sum(rows), seen, form)
    assert placed is not None
    for sample in summed(scores, placed, own):
        results = softmax(sample, placed.exponent).accumulators
        assert (results[LATER] == 0).all()
        for row in range(TOKENS):
            alone = softmax(sample[row : row + 1, : row + 1], placed.exponent).accumulators
            # What the masked elements add to the sum of a row is no step of a mantissa.
            assert np.abs(results[row, : row + 1] - alone).max() <= 2.0 ** (22 - 8)


def test_one_sum_would_leave_masked_elements_to_be_seen() -> None:
    """The lowest number of one constant is not low enough beside scores as large as that."""
    own, rows = -4, causal(-np.inf).astype(np.float64)
    placed = placed_mask(masked_sum(rows), SeenRange(own, -1.0, 3.0), BlockFormat(mantissa_bits=8))
    assert placed is not None
    scores = rounded(np.where(LATER, 7.9, -1.0), own)
    once = np.ldexp(rounded(scores + placed.constants[0], placed.exponent), -placed.exponent).astype(np.int64)
    assert softmax(once, placed.exponent).accumulators[LATER].any()
    assert not softmax(summed(scores, placed, own), placed.exponent).accumulators[LATER].any()


@pytest.mark.parametrize(("least", "most", "exponent"), [(-1, 3, -4), (-3, 4, -3), (-9, 12, -3), (-30, 20, -2)])
def test_a_mask_takes_no_more_bits_than_its_distance_asks_for(least: int, most: int, exponent: int) -> None:
    """From the lowest mantissa to the highest there is room for the distance and for what maxima differ by, no less."""
    placed = placed_mask(masked_sum(causal(-np.inf)), SeenRange(-5, least, most), BlockFormat(mantissa_bits=8))
    assert placed is not None
    assert placed.exponent == exponent
    needed = 14 * np.log(2) + most - least
    assert 254 * 2.0**exponent >= needed > 254 * 2.0 ** (exponent - 1) - 4 * 2.0 ** (exponent - 1)


def test_a_row_of_which_nothing_is_left_stays_on_the_host(tmp_path: Path) -> None:
    """A finite mask leaves a row of its scores, as far as float32 holds them beside it."""
    mask = causal(-1e4)
    mask[4] = -1e4
    network = attention(mask)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == {"Add", "Softmax"}
    assert any("leaves nothing of a row" in note for note in program.notes)
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize(
    ("kernel", "calibrate"), [(replace(KERNEL, row_columns=0), True), (KERNEL, False)], ids=["no rows", "no samples"]
)
@pytest.mark.parametrize("low", [-np.inf, -1e9])
def test_without_rows_or_without_samples_the_host_masks(
    low: float, kernel: KernelConfig, calibrate: bool, tmp_path: Path
) -> None:
    network = attention(causal(low))
    program = compiled(network, tmp_path, kernel, calibrate=calibrate)
    assert {"Add", "Softmax"} <= on_host(program)
    assert largest_error(network, program) < CLOSE




@pytest.mark.parametrize("name", ["seen", "mask"])
def test_a_mask_of_an_input_stays_on_the_host(name: str, tmp_path: Path) -> None:
    """Tokens that are padding, 0 or 1 for each of them, made a mask by the network; or a mask as the caller has it."""
    network = attention(name)
    path = tmp_path / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    samples = network.samples(16)
    seen = (np.arange(TOKENS) < np.arange(1, 17)[:, None]).astype(np.float32)
    samples[name] = seen
    if name == "mask":
        samples[name] = np.tile(-1e4 * (1 - seen)[:, None, None], (1, HEADS, TOKENS, 1)).astype(np.float32)
    program = compile_network(path, accelerator_around(KERNEL, "test"), samples)
    assert {"Add", "Softmax"} <= on_host(program)
    (wanted,) = float_outputs(network, samples)
    found = Emulator(program).run(samples).outputs[network.last]
    assert np.abs(found - wanted).max() < CLOSE * np.abs(wanted).max()


def test_scores_that_reach_over_a_finite_mask_are_the_hosts(tmp_path: Path) -> None:
    """-100 masks nothing where scores differ by more."""
    network = attention(causal(-100), scale=12)
    program = compiled(network, tmp_path, KERNEL)
    assert on_host(program) == {"Add"}
    assert any("may reach over the mask" in note for note in program.notes)


def test_low_numbers_that_mask_nothing_are_constants_as_any(tmp_path: Path) -> None:
    """A shift of channels, and one of all elements of every row."""
    for shift, last in ((np.where(np.arange(16) < 5, -90, 0), "Relu"), (np.full(16, -90), "Softmax")):
        network = Network(TOKENS, 12)
        network.add("MatMul", "x", network.weights(12, 16, scale=4))
        network.add("Add", network.last, network.constant(shift.astype(np.float32)))
        network.add(last, **({"axis": -1} if last == "Softmax" else {}))
        network.add("MatMul", network.last, network.weights(16, 6))
        program = compiled(network, tmp_path, KERNEL)
        assert on_host(program) == set()
        assert not any(spec.constant is not None for spec in program.tensors.values())
