"""One network on two groups of kernels: exponents found on a sample by one side, told to the other (FP 3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from position_pairs import (
    BATCH,
    FRACTION,
    KIND,
    SAMPLE,
    SMALL,
    WEIGHTS,
    Machine,
    X,
    network,
    on_csim,
    on_plain_integers,
    same,
    small_model,
    turns,
)
from position_programs import POSITIONS, compiled, dynamic
from small_networks import Network

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.schedule.given_exponents import with_given_exponents, with_policies
from bfpga.contract.program import BlockTensor, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.layer_kernels import EmulatedLayers, LayerMachine, LayerRun
from bfpga.devices.position_pair import PositionPair
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.positions.pipeline_picture import timeline_table
from bfpga.engines.positions.pipeline_run import Pipeline, PipelineLayer
from bfpga.engines.positions.sampling import SampleFraction, Sampling
from bfpga.errors import ConfigurationError, DataError, DeviceError, ModelError, ProgramError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.position_rules import PositionRule
from bfpga.runtime import open_device
from bfpga.runtime_pair import PairSide, open_layers, open_pair


def pair(
    make: Machine = EmulatedLayers, preceding: int = 1, main: int = 1, depth: int = 2, **changes: Any
) -> PositionPair:
    """Kernels of both sides with the network split evenly over them."""
    finding = network(len(SAMPLE) // preceding, SMALL, **{"flow": "keep"} | changes)
    fields = {key: value for key, value in changes.items() if key in ("rich", "weights")}
    following = with_given_exponents(network(BATCH // main, **fields))
    return PositionPair(
        [make(finding) for _ in range(preceding)],
        [make(following) for _ in range(main)],
        Sampling.along("B", FRACTION),
        depth,
    )


def once(make: Machine = EmulatedLayers, preceding: int = 1, **changes: Any) -> PositionPair:
    """The same pair whose main side leaves the sampled items to the other one."""
    opened = pair(make, preceding, **changes)
    rest = make(with_given_exponents(network(BATCH - len(SAMPLE), rich=bool(changes.get("rich")))))
    return PositionPair(opened.preceding, [rest], Sampling.along("B", FRACTION), once=True)


# ---------------------------------------------------------------- the bits


@pytest.mark.parametrize("rule", ["max", "rate", "lsb", "window"])
def test_a_pair_computes_what_the_model_of_the_specification_does(rule: Any) -> None:
    """FP R37, R38, R42, R47: positions and narrow results of three layers, with stalls on both sides."""
    model = Pipeline([PipelineLayer(lambda x, w=w: x @ w.T, 0) for w in WEIGHTS], rule=PositionRule(rule), kind=KIND)  # type: ignore[misc]
    mantissas, positions = model.run(X.astype(np.int64), 0, SAMPLE, turns(1))
    for seed in range(3):
        run = pair(rule=rule).run(X, turns(seed))
        assert [-exponent for exponent in run.batches[0].exponents] == positions
        np.testing.assert_array_equal(run.outputs["t3"], mantissas * 2.0 ** -positions[-1])


@pytest.mark.parametrize("rule", ["rate", "lead"])
def test_a_pair_gives_the_bits_of_flow_2_with_the_same_sample_on_one_kernel(rule: str) -> None:
    """FP R37, R38, R47: biases, functions and row exponents included; emulated, and on the compiled kernel."""
    policy = dynamic("two_pass_sampled", FRACTION.period, rule=rule)
    alone = with_policies(network(BATCH, rich=True, rule=rule), lambda node: replace(policy, base=node.policy.base))
    run = pair(rich=True, rule=rule).run(X)
    for found in (Emulator(alone).run({"t0": X[None]}), compiled(alone, {"t0": X[None]}, trace=False)):
        np.testing.assert_array_equal(found.outputs["t3"][0], run.outputs["t3"])
    everything = with_policies(alone, lambda node: replace(node.policy, sample_period=1))
    assert len({tuple(run.batches[0].exponents), tuple(_exponents(everything))}) == 2, "the sample must matter"


def _exponents(program: Program) -> list[int]:
    tensors = Emulator(program).run({"t0": X[None]}, trace=True).tensors
    return [int(tensors[f"t{number}"].exponent[0]) for number in (1, 2, 3)]


def test_compiled_kernels_on_both_sides_agree_with_the_emulator() -> None:
    """FP R37, R38, R45: 2 preceding small kernels and 2 main ones; bits, exponents and the counted clocks."""
    expected = pair(preceding=2, main=2, rich=True, rule="lead", flow="keep").run(X)
    for make in (on_plain_integers, on_csim):
        opened = pair(make, 2, 2, rich=True, rule="lead", flow="keep")
        assert same(opened.run(X), expected)
        assert same(opened.run(X), expected), "kernels keep nothing from one batch to the next"
        opened.close()


@pytest.mark.parametrize("case", ["random", "scales", "zeros", "two batches"])
def test_several_preceding_kernels_are_one(case: str) -> None:
    """FP R45: the merged exponent is that of one kernel with all of the sample; a part may be nothing but zeros. All of
    them narrow with it, also those that found a smaller one."""
    x = np.concatenate([X, 100 * X[::-1]]) if case == "two batches" else X.copy()
    if case == "zeros":
        x[SAMPLE[:2]] = 0
    if case == "scales":
        x[SAMPLE[1:]] /= 8
    runs = []
    for count in (1, 2, 4):
        opened = pair(preceding=count, rich=case in ("random", "two batches"), rule="lead")
        runs.append(opened.run(x))
        narrowed = np.concatenate([machine.outputs()["t3"][0] for machine in opened.preceding])
        np.testing.assert_array_equal(narrowed, runs[-1].outputs["t3"][-BATCH:][SAMPLE])
        assert same(runs[0], runs[-1], clocks=False)


# ---------------------------------------------------------------- the sample


@dataclass
class Spy:
    """A machine that records what is run on it."""

    inner: LayerMachine
    side: str
    record: list[tuple[str, int, int | None]] = field(default_factory=list)

    @property
    def program(self) -> Program:
        return self.inner.program

    def begin(self, inputs: Mapping[str, BlockTensor]) -> None:
        self.inner.begin(inputs)

    def run(self, index: int, exponent: int | None = None) -> LayerRun:
        self.record.append((self.side, index, exponent))
        return self.inner.run(index, exponent)

    def outputs(self) -> dict[str, Any]:
        return self.inner.outputs()

    def close(self) -> None:
        self.inner.close()


def spied(depth: int) -> tuple[PositionPair, list[tuple[str, int, int | None]]]:
    """A pair and the order in which layers run on it."""
    opened, record = pair(depth=depth, rich=True), []
    opened.preceding = [Spy(machine, "preceding", record) for machine in opened.preceding]
    opened.main = [Spy(machine, "main", record) for machine in opened.main]
    return opened, record


def test_the_preceding_side_lives_on_its_own_sample() -> None:
    """FP R46, R47: items that are not sampled change nothing on it; its narrow results are the main side's."""
    others = np.setdiff1d(np.arange(BATCH), SAMPLE)
    changed = X.copy()
    changed[others] = np.roll(X[others], 1, axis=1) * 0.5
    changed[others[0], 0] = 127  # the exponent of the input is that of the whole batch
    opened = pair(rich=True)
    first, second = opened.run(X), opened.run(changed)
    assert first.batches == second.batches
    assert not np.array_equal(first.outputs["t3"], second.outputs["t3"])
    np.testing.assert_array_equal(opened.preceding[0].outputs()["t3"][0], second.outputs["t3"][SAMPLE])


@pytest.mark.parametrize("axis", ["H", "W", "C"])
def test_other_samples_than_items_are_refused(axis: Any) -> None:
    """FP R46: the sample must be closed under the layers."""
    opened = pair()
    with pytest.raises(ConfigurationError, match=r"items of a batch|every output reads all channels"):
        PositionPair(opened.preceding, opened.main, Sampling.along(axis, FRACTION))


# ---------------------------------------------------------------- order and times


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_main_side_waits_and_the_preceding_side_stays_within_the_queue(depth: int) -> None:
    """FP R41, R42: whoever gets the turn, layers run in order, behind their position, with the exponent found."""
    expected, largest = pair(rich=True).run(X), 0
    for seed in range(20):
        opened, record = spied(depth)
        run = opened.run(X, turns(seed))
        assert same(run, expected)
        largest = max(largest, run.largest_ahead)
        done = {"preceding": 0, "main": 0}
        for side, layer, exponent in record:
            assert layer == done[side]
            done[side] += 1
            assert done["main"] <= done["preceding"] <= done["main"] + depth + 1
            assert exponent == (None if side == "preceding" else run.batches[0].exponents[layer])
    assert largest == depth


def test_pipelined_pairs_take_no_longer_than_one_layer_more() -> None:
    """FP R41: counted clocks of a small sample; the queue, event by event, ends when the formula says."""
    opened = PositionPair(
        [on_csim(network(2, SMALL, flow="keep"))], [on_csim(with_given_exponents(network(64)))],
        Sampling.along("B", SampleFraction(1, 32)), depth=3,
    )  # fmt: skip
    run = opened.run(np.tile(X, (4, 1)))
    opened.close()
    times, main = run.times(), run.batches[0].main_clocks
    assert times.main == tuple(clocks / 100 for clocks in main)
    assert run.timeline().makespan == pytest.approx(times.makespan)
    assert times.hidden
    assert times.overhead == pytest.approx(times.preceding[0])
    assert times.overhead <= max(times.main)
    table = timeline_table(run.layers, times, run.timeline()).splitlines()
    assert [line.split(" | ")[0] for line in table[2:5]] == ["| fc0", "| fc1", "| fc2"]
    assert f"{times.makespan:.2f}" in table[-1]


# ---------------------------------------------------------------- from an ONNX file


def test_a_network_from_its_file(tmp_path: Path) -> None:
    """FP R37, R46: compiled for both sides; with everything sampled the results are those of flow 1 on one kernel."""
    path, tiny = small_model(tmp_path), load_accelerator("tiny")
    opened = open_pair(
        path, PairSide(tiny), PairSide("tiny", 2), 8, Sampling.along("B", SampleFraction(1, 1)), rule="lead"
    )
    run = opened.run(X)
    assert opened.main[0].program.inputs == {"x": (4, 6)}
    whole = Emulator(opened.preceding[0].program).run({"x": X.reshape(2, 8, 6)})
    (name,) = run.outputs
    np.testing.assert_array_equal(run.outputs[name], whole.outputs[name].reshape(BATCH, 4))
    np.testing.assert_allclose(run.outputs[name].sum(axis=1), 1, rtol=1e-6)


@pytest.mark.board
def test_three_virtual_boards_in_one_process(tmp_path: Path) -> None:
    """FP R1, R37, R38: positions go from one board to two others; bits and clocks are the emulator's."""
    pytest.importorskip("pynq")
    path, runs = small_model(tmp_path), []
    for device in ("emulator", "virtual"):
        opened = open_pair(
            path,
            PairSide("tiny", 1, device),
            PairSide("tiny", 2, device),
            8,
            Sampling.along("B", FRACTION),
            rule="lead",
        )
        runs.append(opened.run(X))
        opened.close()
    assert same(*runs)


@pytest.mark.board
def test_a_board_finds_its_exponents_without_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FP R1, R2: two layers with what precedes them are a list of descriptors that one control write starts."""
    pytest.importorskip("pynq")
    tiny = load_accelerator("tiny")
    options = CompileOptions(policy="dynamic", flow="two_pass", rule="lead")
    program = compile_network(small_model(tmp_path, softmax=False), tiny, None, options, items=8)
    device = open_device("virtual", program)
    assert isinstance(device, StreamingDevice)
    starts, begin = [], device.streaming.begin
    monkeypatch.setattr(device.streaming, "begin", lambda start: starts.append(start) or begin(start))
    found = device.run({"x": X[None, :8]})
    device.close()
    expected = Emulator(program).run({"x": X[None, :8]})
    assert len(starts) == 1
    assert starts[0].descriptors >= 6  # load, each layer measured and computed, store
    assert found.cycles == expected.cycles
    for name, output in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], output)


# ---------------------------------------------------------------- what is refused


def test_all_that_does_not_fit_is_one_error() -> None:
    """FP R45, R46, BFP R81: format, weights, number of items and rule in one message."""
    other = replace(POSITIONS, format=BlockFormat(mantissa_bits=8, rounding="half_up", saturation="full"))
    weights = [WEIGHTS[0], WEIGHTS[1] + 1, WEIGHTS[2]]
    finding = EmulatedLayers(network(3, other, weights=weights))
    given = [EmulatedLayers(with_given_exponents(network(BATCH)))]
    with pytest.raises(ConfigurationError) as caught:
        PositionPair([finding, finding], given, Sampling.along("B", FRACTION))
    for part in ("format of", "layer fc1 differs in weights", "4 of 16 items are sampled, but", "take 6", "rule rate"):
        assert part in str(caught.value)
    assert "fc0 differs" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"preceding": PairSide("tiny", 3)}, "2 items cannot be split evenly over 3 kernels of the preceding side"),
        ({"main": PairSide("tiny", 0)}, "over 0 kernels of the main side"),
        (
            {"sampling": Sampling.along("B", SampleFraction(1, 1)), "once": True},
            "0 items cannot be split evenly over 1",
        ),
        ({"depth": 0}, "fifo_depth is 0"),
        ({"sampling": Sampling.along("C")}, "every output reads all channels"),
    ],
)
def test_numbers_that_cannot_be(tmp_path: Path, arguments: dict[str, Any], match: str) -> None:
    """FP R42, R46."""
    usual = {"preceding": PairSide("tiny"), "main": PairSide("tiny"), "batch": 16, "rule": "lead"}
    with pytest.raises(ConfigurationError, match=match):
        open_pair(small_model(tmp_path), **usual | arguments)


def test_networks_whose_items_are_not_rows_are_refused(tmp_path: Path) -> None:
    """FP R46: a convolution's items have an exponent each on a kernel."""
    model = Network(2, 5, 5)
    model.conv(3, 2, 3)
    path = tmp_path / "convolution.onnx"
    path.write_bytes(model.model().SerializeToString())
    with pytest.raises(ModelError, match="none of their kind"):
        open_pair(path, PairSide("tiny"), PairSide("tiny"), 8, rule="lead")


def test_operators_of_the_host_between_layers_are_refused(tmp_path: Path) -> None:
    """FP R41: the host would have to be on both sides."""
    model = Network(6)
    model.add("Gemm", model.last, model.weights(6, 9))
    model.add("Softmax", axis=1)
    model.add("Gemm", model.last, model.weights(9, 4))
    path = tmp_path / "between.onnx"
    path.write_bytes(model.model().SerializeToString())
    with pytest.raises(ProgramError, match="may only follow the last layer"):
        open_pair(path, PairSide("tiny"), PairSide("tiny"), 8, rule="lead")


def test_samples_that_do_not_fit() -> None:
    """BFP R81: one clear error."""
    for wrong in (X[:, :5], X[:0], X[None]):
        with pytest.raises(DataError, match=r"6.*is needed"):
            pair().run(wrong)


def test_a_kernel_that_failed_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """FP R37: the next batch does not see what a failure has left."""
    opened = pair(on_plain_integers, rich=True)
    kernel = opened.main[0].kernel  # type: ignore[attr-defined]
    with monkeypatch.context() as patched:

        def fail(*_: Any, **__: Any) -> Any:
            raise DeviceError("lost")

        patched.setattr(kernel, "run_operations", fail)
        with pytest.raises(DeviceError, match="lost"):
            opened.run(X)
    starts = []
    run = kernel.run_operations
    monkeypatch.setattr(kernel, "run_operations", lambda *a, **k: starts.append(k) or run(*a, **k))
    assert same(opened.run(X), pair(rich=True).run(X))
    assert starts[0] == {"clear_policies": True}


def test_several_preceding_kernels_need_a_rule_that_merges() -> None:
    """FP R45: histograms stay on the kernels."""
    with pytest.raises(ConfigurationError, match=r"needs their histograms.*choose rule lead, or one kernel"):
        pair(preceding=2, rule="rate")


def test_devices_by_name() -> None:
    """BFP R81: names of the runtime."""
    with pytest.raises(DeviceError, match="known are"):
        open_layers(network(4), "abacus")
