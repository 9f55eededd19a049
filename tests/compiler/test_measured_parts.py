"""How a sample is measured: rows together or one by one, averages that keep their sums (kernel-positions.md, 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_layers import gemm, image
from position_programs import (
    POSITIONS,
    computing,
    dynamic,
    everywhere,
    one_convolution,
    same_bits,
    samples,
    scheduled,
)

from bfpga.compiler.schedule import node_operations
from bfpga.compiler.schedule.measuring import sampled_parts
from bfpga.contract.descriptor import Flag
from bfpga.contract.flows import samples_of
from bfpga.contract.program import ArrayNode, Program, Tile, Window
from bfpga.engines.kernel.cycles import operation_cycles


def node_of(program: Program) -> ArrayNode:
    return next(node for node in program.nodes if isinstance(node, ArrayNode))


def measuring_clocks(program: Program) -> int:
    measured = [d for d in computing(program) if d.flags & Flag.MEASURE]
    return sum(operation_cycles(POSITIONS, d) for d in measured)


def forced(monkeypatch: pytest.MonkeyPatch, apart: bool, fields: dict[str, Any]) -> Program:
    """The program that measures rows one by one, or together."""
    usual = node_operations.node_samples
    with monkeypatch.context() as patch:
        patch.setattr(
            node_operations,
            "node_samples",
            lambda *given: [replace(sample, apart=apart) for sample in usual(*given)[:1]],
        )
        return one_convolution(dynamic("two_pass_sampled", 8), **fields)


@pytest.mark.parametrize(("inputs", "width"), [(5, 4), (30, 4), (30, 5)])
def test_rows_are_measured_in_the_way_that_takes_fewer_clocks(
    monkeypatch: pytest.MonkeyPatch, inputs: int, width: int
) -> None:
    """FP R28, R30: the rows are the same, only their operations differ."""
    fields: dict[str, Any] = {"inputs": inputs, "size": (17, width)}
    chosen = one_convolution(dynamic("two_pass_sampled", 8), **fields)
    ways = [forced(monkeypatch, apart, fields) for apart in (False, True)]
    assert measuring_clocks(chosen) == min(measuring_clocks(way) for way in ways)
    rows = [list(node_of(program).policy.sample.rows(17)) for program in (chosen, *ways)]  # type: ignore[union-attr]
    assert rows == [[0, 8, 16]] * 3
    together, apart = (everywhere(program, samples(program), kernel=False) for program in ways)
    assert same_bits(together, apart)


@pytest.mark.parametrize(("channels", "offset", "first"), [(10, 1, 0), (10, 3, 0), (20, 3, 8), (64, 2, 16)])
def test_a_sample_of_blocks_has_a_whole_one(channels: int, offset: int, first: int) -> None:
    """FP R30: LeNet lost 5.5 points when the scores of two of its ten classes were the sample."""
    (sample,) = samples_of(1, channels, 8, 8, offset)
    assert sample.blocks == ((first, first + 8),)


def test_both_ways_are_taken() -> None:
    """Neighbouring columns that meet in a bank take a clock each; rows of 5 pixels fill passes of 6 less alone."""
    found = set()
    for width in (4, 5):
        sample = node_of(one_convolution(dynamic("two_pass_sampled", 8), size=(17, width))).policy.sample
        assert sample is not None
        parts = sampled_parts(sample, Tile(0, 17, 0, 9))
        assert len(parts) == (3 if sample.apart else 1)
        found.add(sample.apart)
    assert found == {False, True}


def test_averages_keep_their_sums() -> None:
    """FP R24: what is kept is converted, and the bits are those of flow 1."""
    weights = np.full((6, 4, 4, 1), 37)
    programs = []
    for flow in ("two_pass", "keep"):
        node = gemm(
            weights, Window(4, 4, 4, 4, 0, 0, 1, 1, 2, 2), name="y", inputs=("t0",), output="y", groups=6,
            uniform_weights=True, policy=dynamic(flow),
        )  # fmt: skip
        programs.append(scheduled(POSITIONS, [image("t0", 8, 8, 6, 0), image("y", 2, 2, 6)], [node]))
    twice, kept = (everywhere(program, samples(program)) for program in programs)
    assert same_bits(twice, kept)
    assert any(d.flags & Flag.KEPT for d in computing(programs[1]))


def test_auto_keeps_everything_where_that_is_fastest() -> None:
    """FP R33, R36: a layer with long sums converts all of them in fewer clocks than it computes a sample again."""
    program = one_convolution(dynamic("auto", 2), inputs=60, size=(8, 4))
    node = node_of(program)
    assert node.policy.flow == "keep"
    assert node.flow_clocks["keep"] == min(node.flow_clocks.values())
    assert len(node.flow_clocks) == 3
    everywhere(program, samples(program), kernel=False)
