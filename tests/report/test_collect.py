"""What a report tells of time, memory and pieces of maps (issue 18: timeline, memory map, partition)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import with_cores
from bfpga.compiler.read.network import read_network
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import LaunchStep, Program
from bfpga.data import load_inputs
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.engines.kernel.order import in_stream
from bfpga.estimate.program import estimate_program
from bfpga.estimate.sample import estimate_sample
from bfpga.program.schedule import schedule
from bfpga.report.memory import memory_map, written_words
from bfpga.report.model import short_labels
from bfpga.report.partition import partitions
from bfpga.report.timeline import (
    HOST,
    MOST_BARS,
    SHOWN_SAMPLES,
    Bar,
    cores_timeline,
    merged,
    overlap_timeline,
    sample_timeline,
)
from bfpga.report.timing import kernel_operations, sample_times
from bfpga.runtime import compile as compile_model
from bfpga.synthesis.resources import board_use

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples" / "models"
CLUSTER, ARRAY = "zcu104_cluster", "tiny"


@cache
def compiled(model: str, accelerator: str) -> tuple[Accelerator, Program]:
    described = load_accelerator(accelerator)
    network = read_network(MODELS / f"{model}.onnx", {})
    data = "mnist" if "mnist" in model else "digits"
    samples = load_inputs(MODELS / f"{data}_calibration.npz", network.inputs, 16).inputs
    return described, compile_model(network, described, samples)


@pytest.mark.parametrize(("model", "accelerator"), [("lenet_mnist", CLUSTER), ("lenet_mnist", ARRAY)])
def test_timelines_take_the_time_of_the_estimate(model: str, accelerator: str) -> None:
    described, program = compiled(model, accelerator)
    work, cycles = sample_times(described, program)
    estimate = estimate_program(described, program)
    timeline = sample_timeline(work, cycles)
    host = timeline.busy.get(HOST, 0.0)
    assert cycles - host == pytest.approx(estimate.seconds * described.clock_mhz * 1e6, abs=1)
    assert all(0 <= bar.begin < bar.end <= cycles for bar in timeline.bars)
    assert {bar.layer for bar in timeline.bars} >= {layer.name for layer in estimate.layers if layer.macs}


def test_operations_overlap() -> None:
    work, _ = sample_times(*compiled("lenet_mnist", ARRAY))
    assert any(one.end > other.begin for one, other in pairwise(work))


@pytest.mark.parametrize("before_last", [0, 1, 2])
def test_samples_of_one_start_overlap_in_the_order_of_the_stream(before_last: int) -> None:
    """Also where the loads of the next sample are sent before the last operations of this one."""
    described, program = compiled("mlp_digits", ARRAY)
    [step] = [step for step in program.steps if isinstance(step, LaunchStep)]
    step = replace(step, ahead=len(step.operations) - before_last if before_last else 0)
    timeline = overlap_timeline(described, replace(program, steps=[step]))
    assert timeline is not None
    rate = described.board.assumed_gb_s * 1e9 / (described.clock_mhz * 1e6)
    stream = in_stream(step.operations, SHOWN_SAMPLES, step.ahead)
    assert timeline.cycles == schedule(program.config, stream, 1, rate).clocks
    by_sample = [[bar.layer for bar in timeline.bars if bar.sample == n] for n in range(SHOWN_SAMPLES)]
    assert all(sorted(layers) == sorted(by_sample[0]) and layers for layers in by_sample)


@pytest.mark.parametrize("cores", [2, 3])
def test_several_cores_have_a_row_each_and_share_the_host(cores: int) -> None:
    one, program = compiled("lenet_mnist", ARRAY)
    described = with_cores(one, cores)
    found = estimate_sample(described, program, board_use(described).total)
    timeline = cores_timeline(described, program, found)
    assert timeline is not None
    assert [lane for lane in timeline.lanes if lane != HOST] == [f"core {number}" for number in range(cores)]
    for lane in timeline.lanes:
        bars = sorted((bar for bar in timeline.bars if bar.lane == lane), key=lambda bar: bar.begin)
        assert all(first.end <= second.begin for first, second in pairwise(bars))
    # All cores at once: the first starts begin together.
    assert [bar.begin for bar in timeline.bars if bar.sample < cores and bar.lane != HOST] == [0.0] * cores
    assert sorted({bar.sample for bar in timeline.bars}) == list(range(SHOWN_SAMPLES * cores))
    assert cores_timeline(one, program, found) is None


def test_long_timelines_become_one_bar_for_neighbours_of_a_layer() -> None:
    bars = [Bar("array", f"layer {n // 100}", "gemm", n, n + 1) for n in range(MOST_BARS)]
    found = merged(bars)
    assert [(bar.layer, bar.begin, bar.end) for bar in found[:2]] == [("layer 0", 0, 100), ("layer 1", 100, 200)]
    assert len(found) == MOST_BARS // 100


def test_words_that_operations_write_are_those_that_the_compiler_gave_them() -> None:
    """Descriptors tell the same."""
    described, program = compiled("lenet_mnist", ARRAY)
    work, _ = sample_times(described, program)
    regions: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for operation, _ in kernel_operations(work):
        words = written_words(program.config, operation.descriptor)
        assert (words is not None) == bool(operation.memory is not None and operation.memory.writes)
        if words is not None and operation.memory is not None:
            [region] = operation.memory.writes
            regions.setdefault(region, []).append(words)
    assert len(regions) > 5
    overshoot = program.config.accumulator_rows // program.config.lanes
    for (first, last), written in regions.items():
        assert min(words[0] for words in written) == first
        assert last - overshoot <= max(words[1] for words in written) <= last


@pytest.mark.parametrize("accelerator", [CLUSTER, ARRAY])
def test_tensors_are_apart_in_memory_while_they_are_needed(accelerator: str) -> None:
    described, program = compiled("lenet_mnist", accelerator)
    work, _ = sample_times(described, program)
    memory = memory_map(program, work)
    assert 0 < memory.highest <= memory.words
    read = {name for node in program.nodes for name in node.inputs}
    for number, one in enumerate(memory.allocations):
        assert 0 <= one.first < one.last <= memory.words
        assert one.tensor in program.tensors
        for other in memory.allocations[number + 1 :]:
            together = one.start == other.start and one.begin < other.end and other.begin < one.end
            assert not (together and one.first < other.last and other.first < one.last), (one, other)
    inputs = {node.name: node.inputs for node in program.nodes}
    for operation, timed in kernel_operations(work):
        for tensor in inputs[operation.layer] if Operation(operation.descriptor.operation) in ARRAY_OPERATIONS else ():
            places = [item for item in memory.allocations if (item.tensor, item.start) == (tensor, timed.start)]
            assert any(item.begin <= timed.begin and timed.end <= item.end for item in places), (tensor, timed)
    assert {item.tensor for item in memory.allocations} >= read & set(program.tensors)


def test_partitions_share_all_work_before_and_after() -> None:
    """Units may share a piece: what they have of it adds up."""
    _, program = compiled("lenet_mnist_pruned90", CLUSTER)
    network = read_network(MODELS / "lenet_mnist_pruned90.onnx", {})
    samples = load_inputs(MODELS / "mnist_test.npz", network.inputs, 1).inputs
    found = partitions(program, samples)
    assert found
    first = found[0]
    for item in found:
        for shares in (item.equal, item.balanced):
            cells, loads = np.zeros(item.counts.shape, np.int64), Counter[tuple[int, ...]]()
            for piece, load in zip(shares.pieces, shares.loads, strict=True):
                loads[piece] += load
            for top, bottom, left, right in loads:
                cells[top:bottom, left:right] += 1
                assert loads[top, bottom, left, right] == item.counts[top:bottom, left:right].sum()
            assert (cells == 1).all()
    assert max(first.balanced.loads) < max(first.equal.loads)
    assert partitions(compiled("lenet_mnist", ARRAY)[1], samples) == []


def test_labels_are_short_and_different() -> None:
    names = ["model/conv2d/BiasAdd", "model/conv2d_1/BiasAdd", "model/pool/AvgPool/columns", "model/pool/AvgPool"]
    assert short_labels(names) == ["conv2d", "conv2d_1", "pool/AvgPool/columns", "pool"]
    assert short_labels(["a/Conv", "a/Gemm"]) == ["Conv", "Gemm"]
    assert short_labels(["x/Conv", "y/a/Conv", "x/Gemm"]) == ["x/Conv", "y/a", "x/Gemm"]
