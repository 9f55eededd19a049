"""Pairs whose main side converts the accumulators of the preceding one and computes the rest: FP 3.7, R39 to R44."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import drawn, each_once
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_pairs import WIDE_MEMORY
from position_pairs import BATCH, KIND, WEIGHTS, Machine, X, network, on_plain_integers, same, small_model, turns
from position_programs import POSITIONS, compiled, dynamic

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.schedule.given_exponents import (
    with_given_accumulators,
    with_given_exponents,
    with_kept_accumulators,
    with_policies,
)
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.layer_kernels import EmulatedLayers, KernelLayers, LayerMachine, LayerStarts, complete_inputs
from bfpga.devices.position_pair import PairRun, PositionPair
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.engines.positions.closure import batch_sample
from bfpga.engines.positions.pipeline_run import Pipeline, PipelineLayer
from bfpga.engines.positions.sampling import SampleFraction, Sampling
from bfpga.errors import ConfigurationError
from bfpga.formats.block_float import encode_samples
from bfpga.formats.fixed_point import FixedPointFormat
from bfpga.formats.position_rules import PositionRule
from bfpga.program.moved_accumulators import moved_rows, of_words, to_words
from bfpga.runtime_pair import PairSide, open_pair

#: Words of 64 and of 32 bits, in kernels of three columns and of one.
FORMAT = replace(POSITIONS.format, mantissa_bits=16)
LARGE = replace(POSITIONS, format=FORMAT, lanes=4, wide_words=0, wide_memory=True, functions=("none", "relu"))
SMALL = replace(LARGE, columns=1, lanes=2)
QUARTER, MOST, ALL = SampleFraction(1, 4), SampleFraction(3, 4), SampleFraction(1, 1)


def moving(
    preceding: KernelConfig, main: KernelConfig, fraction: SampleFraction, batch: int = BATCH,
    make: Machine = EmulatedLayers, kernels: tuple[int, int] = (1, 1), **network_of: Any,
) -> PositionPair:  # fmt: skip
    """A pair with the network split evenly over the kernels of each side."""
    sampled = len(batch_sample(Sampling.along("B", fraction), batch))
    finding = with_kept_accumulators(network(sampled // kernels[0], preceding, **network_of))
    following = with_given_accumulators(network(batch // kernels[1], main, **network_of), sampled // kernels[1])
    sides = zip((finding, following), kernels, strict=True)
    first, second = ([make(program) for _ in range(count)] for program, count in sides)
    return PositionPair(first, second, Sampling.along("B", fraction))


def modelled(
    x: Any, weights: Sequence[Any], fraction: SampleFraction, rule: Any, seed: int = 0
) -> tuple[Any, list[int]]:
    """Values and positions of the numpy model of embodiments 8 and 9."""
    layers = [PipelineLayer(lambda x, w=w: x @ w.T, 0) for w in weights]  # type: ignore[misc]
    model = Pipeline(
        layers, FixedPointFormat(out_width=FORMAT.mantissa_bits), rule=PositionRule(rule), kind=KIND, keeps=True
    )
    mantissa, exponent = encode_samples(x[None], FORMAT)
    sample = batch_sample(Sampling.along("B", fraction), len(x))
    narrow, positions = model.run(mantissa[0].astype(np.int64), -int(exponent[0]), sample, turns(seed))
    return narrow * 2.0 ** -positions[-1], positions


def positions_of(run: PairRun) -> list[int]:
    return [-exponent for exponent in run.batches[0].exponents]


# ---------------------------------------------------------------- the bits


@pytest.mark.parametrize(
    ("rule", "fraction"), each_once(["max", "rate", "lsb", "window"], [QUARTER, MOST, ALL]), ids=str
)
def test_a_pair_that_moves_accumulators_computes_what_the_model_does(rule: str, fraction: SampleFraction) -> None:
    """FP R39, R40, R43, R44, R47: emulated and in plain integers, between kernels whose words differ, in any turns."""
    values, positions = modelled(X, WEIGHTS, fraction, rule)
    for sides in ((LARGE, SMALL), (SMALL, LARGE)):
        runs = []
        for make in (EmulatedLayers, on_plain_integers):
            opened = moving(*sides, fraction, make=make, rule=rule)
            runs.append(opened.run(X, turns(1)))
            assert positions_of(runs[-1]) == positions
            np.testing.assert_array_equal(runs[-1].outputs["t3"], values)
            own = np.concatenate([machine.outputs()["t3"][0] for machine in opened.preceding])
            np.testing.assert_array_equal(own, values[opened.sample], "the preceding side narrows its items itself")
        assert same(*runs)


@pytest.mark.parametrize(("fraction", "flow"), [(QUARTER, "keep_sampled"), (ALL, "keep")], ids=["flow 4", "flow 3"])
def test_a_pair_that_moves_accumulators_gives_the_bits_of_one_kernel(fraction: SampleFraction, flow: str) -> None:
    """FP R43, R44: with biases, functions and row exponents; flow 4 with the same sample, flow 3 with everything."""
    policy = dynamic(flow, fraction.period)
    alone = with_policies(network(BATCH, LARGE, rich=True), lambda node: replace(policy, base=node.policy.base))
    run = moving(LARGE, SMALL, fraction, rich=True, make=on_plain_integers).run(X)
    for found in (Emulator(alone).run({"t0": X[None]}), compiled(alone, {"t0": X[None]}, trace=False)):
        np.testing.assert_array_equal(found.outputs["t3"][0], run.outputs["t3"])


@settings(max_examples=drawn(40))
@given(st.integers(0, 1 << 30))
def test_random_networks_and_splits(seed: int) -> None:
    """FP R39, R40, R43, R44: any widths and batches, memories that hold no layer whole, accumulators in many pieces."""
    rng = np.random.default_rng(seed)
    fraction = SampleFraction(*[(1, 4), (1, 2), (3, 4), (1, 1)][rng.integers(4)])
    kernels, batch = (1, int(rng.integers(1, 3))), 8 * int(rng.integers(1, 4))
    sizes = rng.integers(1, 14, 4)
    weights = [rng.integers(-127, 128, (rows, terms)) for terms, rows in pairwise(sizes)]
    x = rng.normal(size=(batch, sizes[0])) * np.exp2(rng.integers(-3, 4, (batch, 1)))
    x, rule = x.astype(np.float32), str(rng.choice(["max", "rate"]))
    sides = [
        replace(side, columns=int(rng.integers(1, 4)), activation_words=int(rng.choice([64, 128, 1024])))
        for side in rng.permutation([LARGE, SMALL])  # type: ignore[arg-type]
    ]
    values, positions = modelled(x, weights, fraction, rule, seed)
    network_of = {"rule": rule, "weights": weights}
    runs = [
        moving(sides[0], sides[1], fraction, batch, make, kernels, **network_of).run(x, turns(seed))
        for make in (EmulatedLayers, on_plain_integers)
    ]
    assert positions_of(runs[0]) == positions
    np.testing.assert_array_equal(runs[0].outputs["t3"], values)
    assert same(*runs)


@given(st.integers(0, 1 << 30))
def test_words_hold_accumulators(seed: int) -> None:
    """FP R43: any accumulator of a kernel, over the lanes of another one; beyond its bits a word has the sign."""
    rng = np.random.default_rng(seed)
    for config in (LARGE, SMALL, WIDE_MEMORY):
        most = 1 << (config.accumulator_bits - 1)
        values = rng.integers(-most, most, (2, 3, 5)) >> rng.integers(0, config.accumulator_bits, (2, 3, 5))
        words = to_words(values, config)
        assert words.shape == (2, 3, 5 * config.lanes)
        np.testing.assert_array_equal(of_words(words, config), values)
        bits = config.format.mantissa_bits
        unsigned = [sum(int(v) % (1 << bits) << bits * n for n, v in enumerate(word))
                    for word in words.reshape(-1, config.lanes)]  # fmt: skip
        assert unsigned == [int(value) % (1 << bits * config.lanes) for value in values.reshape(-1)]


# ---------------------------------------------------------------- what each side does


def computing(program: Program) -> list[Any]:
    """Descriptors of the main pass, layer by layer."""
    starts = LayerStarts(program)
    operations = [item.descriptor for index in range(len(starts.nodes)) for item in starts.with_exponent(index, 0)]
    return [item for item in operations if item.operation in ARRAY_OPERATIONS]


@pytest.mark.parametrize("fraction", [QUARTER, MOST, ALL], ids=str)
def test_nothing_is_multiplied_twice_and_with_everything_sampled_the_main_side_only_converts(
    fraction: SampleFraction,
) -> None:
    """FP R39, R44: items that are multiplied on the main side are those that are not sampled, and of the input it loads
    their rows, of nothing else one, for the exponent."""
    opened = moving(LARGE, SMALL, fraction)
    program, sampled = opened.main[0].program, len(opened.sample)
    assert moved_rows(program) == moved_rows(opened.preceding[0].program) == [sampled] * 3
    made = computing(program)
    assert sum(d.output_pixels * d.output_rows for d in made if d.flags & Flag.KEPT) == sampled * (9 + 7 + 4)
    multiplied = sum(d.output_pixels * d.output_rows for d in made if not d.flags & Flag.KEPT)
    assert multiplied == (BATCH - sampled) * (9 + 7 + 4)
    loads = [item for item in LayerStarts(program).with_exponent(0, 0) if item.descriptor.operation == Operation.LOAD]
    rows = [item.transfer.y1 for item in loads if item.transfer is not None and item.transfer.tensor == "t0"]
    assert rows == [max(1, BATCH - sampled)]


def test_moved_bytes_are_those_of_the_narrowest_integers() -> None:
    """FP R43: of the first layer every accumulator of the sample, in as many bytes as its largest one needs."""
    run = moving(LARGE, SMALL, ALL).run(X)
    mantissa = encode_samples(X[None], FORMAT)[0][0].astype(np.int64)
    wide = mantissa @ WEIGHTS[0].T
    size = next(n for n in range(1, 9) if (abs(2 * wide + 1) < 1 << 8 * n).all())
    assert run.batches[0].moved_bytes[0] == size * wide.size
    still = PositionPair(
        [EmulatedLayers(network(BATCH, LARGE))], [EmulatedLayers(with_given_exponents(network(BATCH, SMALL)))],
        Sampling.along("B", ALL),
    )  # fmt: skip
    assert still.run(X).batches[0].moved_bytes == (0, 0, 0)


# ---------------------------------------------------------------- from an ONNX file, on compiled kernels


def accelerator(name: str, **changes: Any) -> Accelerator:
    """The tiny accelerator with accumulators in memory."""
    fields = {"lanes": 4, "wide_memory": True, "wide_words": 0, "functions": ("none", "relu"), **changes}
    return accelerator_around(replace(load_accelerator("tiny").config, **fields), name)


BIG, LITTLE = accelerator("big"), accelerator("little", columns=1)


def opened(
    path: Path, device: str, preceding: tuple[Accelerator, int], main: tuple[Accelerator, int],
    fraction: SampleFraction, batch: int,
) -> PositionPair:  # fmt: skip
    return open_pair(
        path, PairSide(*preceding, device), PairSide(*main, device), batch, Sampling.along("B", fraction), rule="lead",
        moves_wide=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("preceding", "main", "fraction", "batch"),
    [((BIG, 2), (LITTLE, 1), ALL, 24), ((LITTLE, 2), (BIG, 2), MOST, 192)],
    ids=["9", "in pieces"],
)
def test_compiled_kernels_move_accumulators_as_the_emulator_does(
    tmp_path: Path, preceding: tuple[Accelerator, int], main: tuple[Accelerator, int], fraction: SampleFraction,
    batch: int,
) -> None:  # fmt: skip
    """FP R39, R40, R43, R44: bits, exponents and clocks; the bits are those of a pair that moves nothing."""
    path, x = small_model(tmp_path), np.resize(X, (batch + 5, 6)) * np.linspace(1, 9, batch + 5)[:, None]
    runs = []
    for device in ("emulator", "csim"):
        pair = opened(path, device, preceding, main, fraction, batch)
        runs.append(pair.run(x))
        starts = LayerStarts(pair.preceding[0].program)
        assert (len(complete_inputs(starts.found(0))) > 1) == (batch == 192), "more than memory holds is loaded again"
        pair.close()
    assert same(*runs)
    still = open_pair(
        path, PairSide(BIG, preceding[1]), PairSide(BIG), batch, Sampling.along("B", fraction), rule="lead"
    )
    assert same(still.run(x), runs[0], clocks=False)


@pytest.mark.board
def test_accumulators_move_between_virtual_boards(tmp_path: Path) -> None:
    """FP R1, R40, R43: bits, exponents and clocks of the emulator."""
    pytest.importorskip("pynq")
    from bfpga.verify.virtual_boards import VirtualBoards

    pair = opened(small_model(tmp_path), "emulator", (BIG, 1), (LITTLE, 1), MOST, 24)
    expected = pair.run(np.resize(X, (24, 6)))
    with ExitStack() as stack:

        def on_board(machine: LayerMachine) -> LayerMachine:
            boards = VirtualBoards()
            stack.callback(boards.close)
            device = boards.open(machine.program)
            assert isinstance(device, StreamingDevice)
            return KernelLayers(machine.program, device.kernel)

        pair.preceding, pair.main = ([on_board(machine) for machine in side] for side in (pair.preceding, pair.main))
        assert same(pair.run(np.resize(X, (24, 6))), expected)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("sides", [("tiny", LITTLE), (BIG, "tiny")], ids=["preceding", "main"])
def test_an_accelerator_without_wide_memory_is_refused(tmp_path: Path, sides: tuple[Any, Any]) -> None:
    """FP R39, BFP R81."""
    with pytest.raises(ConfigurationError, match=r"^accelerator tiny: wide_memory is false.*wide_memory: true on both"):
        open_pair(small_model(tmp_path), *map(PairSide, sides), 8, rule="lead", moves_wide=True)


def test_accumulators_of_another_width_are_refused(tmp_path: Path) -> None:
    """FP R43, BFP R81."""
    other = accelerator("other", accumulator_bits=26)
    with pytest.raises(ConfigurationError, match="accumulator_bits of other is 26, of big 24; both sides need"):
        open_pair(small_model(tmp_path), PairSide(BIG), PairSide(other), 8, rule="lead", moves_wide=True)


def test_sides_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """FP R39, BFP R81: what the main side takes must be what the other one keeps, and belong to whole kernels."""
    pair = moving(LARGE, SMALL, QUARTER)
    plain = EmulatedLayers(network(len(pair.sample), LARGE))
    with pytest.raises(ConfigurationError, match=r"layer fc0: .* accumulators of 4 items, .* keeps those of 0"):
        PositionPair([plain], pair.main, Sampling.along("B", QUARTER))
    path = small_model(tmp_path)
    with pytest.raises(ConfigurationError, match="3 items cannot be split evenly over 2 kernels of the main side"):
        open_pair(path, PairSide(BIG), PairSide(BIG, 2), 12, Sampling.along("B", QUARTER), rule="lead", moves_wide=True)
    with pytest.raises(ConfigurationError, match="once leaves the sampled items to the preceding side"):
        open_pair(path, PairSide(BIG), PairSide(BIG), 8, rule="lead", once=True, moves_wide=True)
