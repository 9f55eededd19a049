"""What both sides of a pipeline compute (FP R37-R47): the bits of one circuit that does all, in any order of turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from position_pairs import turns
from reference import load_vectors, saturate, shift

from bfpga.engines.positions.closure import batch_sample
from bfpga.engines.positions.pipeline_run import Pipeline, PipelineLayer
from bfpga.engines.positions.sampling import SampleFraction, Sampling
from bfpga.engines.positions.transfer import pack_wide, unpack_wide
from bfpga.formats.arrays import IntArray
from bfpga.formats.position_rules import PositionRule, Rule

WEIGHT_POSITION, INPUT_POSITION = 6, 4


def bits_of(wide: IntArray) -> list[int]:
    """Bits of every value without its sign."""
    return [(v if v >= 0 else ~v).bit_length() for v in wide.reshape(-1).tolist()]


def select_largest(wide: IntArray) -> int:
    """Rule `max` of the specification (FP 2.3), value by value: everything fits 8 bits."""
    bits = max(bits_of(wide))
    return max(-8, min(31, bits - 7)) if bits else 0


def select_rate(wide: IntArray) -> int:
    """Rule `rate` of the specification (FP 2.3), value by value: one of 4096 may saturate."""
    bits = bits_of(wide)
    return min(s for s in range(-6, 32) if sum(n > s + 7 for n in bits) << 12 <= len(bits)) if any(bits) else 0


SELECT: dict[Rule, Callable[[IntArray], int]] = {"max": select_largest, "rate": select_rate}


def convert(wide: IntArray, amount: int) -> IntArray:
    """FP R12, value by value: round half to even, saturate to 8 bits."""
    narrow = [saturate(shift(v, amount, "rne"), 8, "full")[0] for v in wide.reshape(-1).tolist()]
    return np.array(narrow, np.int64).reshape(wide.shape)


@dataclass(frozen=True)
class Case:
    """Three layers on a batch."""

    x: IntArray
    weights: tuple[IntArray, ...]

    def counted(self, rows: list[int]) -> list[PipelineLayer]:
        """The layers; each call appends how many items it computed."""

        def layer(weights: IntArray) -> PipelineLayer:
            def operate(x: IntArray) -> IntArray:
                rows.append(len(x))
                return x @ weights

            return PipelineLayer(operate, WEIGHT_POSITION)

        return [layer(weights) for weights in self.weights]

    def pipeline(self, layers: list[PipelineLayer] | None = None, rule: Rule = "rate", **settings: Any) -> Pipeline:
        return Pipeline(layers or self.counted([]), rule=PositionRule(rule), **settings)

    def alone(self, sample: IntArray, rule: Rule = "rate") -> tuple[IntArray, list[int]]:
        """Flow 2 on one circuit: statistics of the sampled items of the full result, then everything at that shift."""
        x, position, positions = self.x, INPUT_POSITION, []
        for weights in self.weights:
            wide = x @ weights
            amount = SELECT[rule](wide[sample])
            x, position = convert(wide, amount), position + WEIGHT_POSITION - amount
            positions.append(position)
        return x, positions


def random_case(seed: int, batch: int) -> Case:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 6, 4)
    scale = int(generator.integers(1, 128))
    weights = tuple(generator.integers(-scale, scale + 1, pair) for pair in pairwise(sizes))
    return Case(generator.integers(-128, 128, (batch, sizes[0])), weights)


SEEDS = st.integers(0, 10_000)
BATCHES = st.integers(1, 12)
SAMPLES = st.sampled_from([SampleFraction(1, 8), SampleFraction(1, 3), SampleFraction(3, 4), SampleFraction(1, 1)])


@given(SEEDS, BATCHES, SAMPLES, st.booleans(), st.integers(1, 4), st.integers(1, 4), st.sampled_from(list(SELECT)))
def test_a_pipeline_gives_the_bits_of_one_circuit(
    seed: int, batch: int, fraction: SampleFraction, keeps: bool, circuits: int, depth: int, rule: Rule
) -> None:
    """FP R37-R40, R42, R43, R46, R47: flow 2 and flow 4 in one; three layers, any queue, any stalls, any number of
    circuits; the preceding side knows its own sample only."""
    case = random_case(seed, batch)
    sample = batch_sample(Sampling.along("B", fraction), batch)
    pipeline = case.pipeline(rule=rule, keeps=keeps, circuits=circuits, depth=depth)
    result, positions = pipeline.run(case.x, INPUT_POSITION, sample, turns(seed))
    expected, expected_positions = case.alone(sample, rule)
    assert np.array_equal(result, expected)
    assert positions == expected_positions


@given(SEEDS, BATCHES, st.integers(2, 5))
def test_several_preceding_circuits_are_one(seed: int, batch: int, circuits: int) -> None:
    """FP R45: statistics of parts are merged before one selection; 3 circuits select what 1 does."""
    case, everything = random_case(seed, batch), np.arange(batch)
    one, many = (
        case.pipeline(circuits=count).run(case.x, INPUT_POSITION, everything, turns(seed)) for count in (1, circuits)
    )
    assert np.array_equal(one[0], many[0])
    assert one[1] == many[1]


@pytest.mark.parametrize(("keeps", "computed"), [(True, 1), (False, 2)])
def test_with_everything_sampled_the_main_side_only_converts(keeps: bool, computed: int) -> None:
    """FP R39, R40, R44: at f = 100 % every output is computed once, on the preceding side; else the main side repeats
    it, with the bits of flow 3."""
    case, rows = random_case(5, 6), []
    pipeline = case.pipeline(case.counted(rows), keeps=keeps)
    result, _ = pipeline.run(case.x, INPUT_POSITION, np.arange(6), turns(2))
    assert np.array_equal(result, case.alone(np.arange(6))[0])
    assert sum(rows) == computed * 3 * 6


@pytest.mark.parametrize(("keeps", "flow"), [(False, "2"), (True, "4")])
def test_the_published_network(keeps: bool, flow: str) -> None:
    """FP R37, R39, R43, R47: the specification's two layers of flows 2 and 4, as a pipeline over sampled items 0, 8."""
    vectors = load_vectors("fixed_point_flows.json")
    weights = tuple(np.array(matrix) for matrix in vectors["weights"])
    pipeline = Case(np.array(vectors["x"]), weights).pipeline(keeps=keeps)
    sample = SampleFraction(*vectors["sample"]).indices(16)
    result, positions = pipeline.run(np.array(vectors["x"]), vectors["p_in"], sample, turns(0))
    assert vectors["p_w"] == WEIGHT_POSITION
    assert result.tolist() == vectors["flows"][flow]["out"]
    assert positions == [layer["out_point"] for layer in vectors["flows"][flow]["trace"]]


# ---------------------------------------------------------------- wide results on their way


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300), max_size=20))
def test_wide_results_arrive_as_they_were(values: list[int]) -> None:
    """FP R43: in the narrowest integers that hold them all, no bit lost."""
    wide = np.array(values, np.int64)
    packed = pack_wide(wide)
    width = next(n for n in range(1, 9) if all(-(1 << 8 * n - 1) <= v < 1 << 8 * n - 1 for v in values))
    assert packed.shape == (len(values), width)
    assert unpack_wide(packed).tolist() == values
