"""Statistics and main pass as a pipeline (FP 3.7, FP 6): how long it takes, and that no position is lost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import load_vectors

from bfpga.engines.positions.fifo import PositionEntry, PositionFifo
from bfpga.engines.positions.pipeline import EMBODIMENTS, StageTimes
from bfpga.engines.positions.pipeline_events import simulate
from bfpga.errors import ConfigurationError, DeviceError

VECTORS: dict[str, Any] = load_vectors("fixed_point_times.json")
CLOCKS = st.integers(0, 60)
STAGES = st.lists(st.tuples(CLOCKS, CLOCKS), min_size=1, max_size=8).map(
    lambda pairs: StageTimes(tuple(p for p, _ in pairs), tuple(m for _, m in pairs))
)


def slow_makespan(times: StageTimes) -> float:
    """The end of the main side, layer by layer (FP 6)."""
    preceding_end = main_end = 0.0
    for preceding, main in zip(times.preceding, times.main, strict=True):
        preceding_end += preceding
        main_end = max(main_end, preceding_end) + main
    return main_end


def positions_of(times: StageTimes) -> list[int]:
    """A different position for each layer."""
    return [layer - 3 for layer in range(len(times.main))]


@pytest.mark.parametrize("case", VECTORS["pipelines"], ids=str)
def test_vectors(case: dict[str, Any]) -> None:
    """FP R41: six pipelines of the specification, by the formula and event by event."""
    times = StageTimes(tuple(case["p"]), tuple(case["m"]))
    assert (times.makespan, times.overhead) == pytest.approx((case["makespan"], case["overhead"]))
    assert simulate(times, positions_of(times), depth=8).makespan == pytest.approx(case["makespan"])


@pytest.mark.parametrize("case", VECTORS["balance"], ids=lambda case: f"embodiment {case['embodiment']}")
def test_balanced_samples(case: dict[str, Any]) -> None:
    """FP R37-R40: 1/3, 1/8, 3/4 and 8/9, for which both sides need the same time in every layer."""
    embodiment = EMBODIMENTS[case["embodiment"]]
    assert (embodiment.preceding, embodiment.main) == (
        Fraction(case["capacity_prelim"]), Fraction(case["capacity_main"])
    )  # fmt: skip
    assert embodiment.keeps == (case["form"] == "main on the rest")
    assert float(embodiment.balanced_fraction) == pytest.approx(case["balanced_fraction"])
    times = embodiment.stage_times([4.0, 1.0, 7.0], embodiment.balanced_fraction)
    assert times.preceding == pytest.approx(times.main)


@given(STAGES)
def test_the_formula_is_the_recurrence(times: StageTimes) -> None:
    """FP R41: the largest sum over k is the end of the last layer; never longer than in sequence or in lockstep."""
    assert times.makespan == slow_makespan(times)
    assert sum(times.main) <= times.makespan <= min(times.sequential, times.lockstep)


@given(STAGES, st.integers(1, 3))
def test_events_agree_with_the_formula(times: StageTimes, iterations: int) -> None:
    """FP R41, R42: with room for all positions, over several iterations; every layer counted anew in each."""
    run = simulate(times, positions_of(times), depth=len(times.main) * iterations, iterations=iterations)
    assert run.makespan == slow_makespan(times.repeated(iterations))
    main = [(span.iteration, span.layer) for span in run.spans if span.side == "main"]
    assert main == [(iteration, layer) for iteration in range(iterations) for layer in range(len(times.main))]


@given(STAGES, st.integers(1, 9), st.integers(1, 3), st.integers(0, 10_000))
def test_stalls_lose_and_reorder_nothing(times: StageTimes, depth: int, iterations: int, seed: int) -> None:
    """FP R42: any stalls on either side, any depth: every position arrives once, in order, and is waited for."""
    generator = np.random.default_rng(seed)
    run = simulate(
        times, positions_of(times), depth, iterations, lambda _side: int(generator.integers(0, 50)) * (seed % 3)
    )
    entries = [PositionEntry(layer, position) for layer, position in enumerate(positions_of(times))]
    assert list(run.delivered) == entries * iterations
    assert run.largest_ahead <= depth
    begins = {(s.side, s.iteration, s.layer): s for s in run.spans}
    assert len(begins) == len(run.spans) == 2 * len(entries) * iterations
    for (side, iteration, layer), span in begins.items():
        if side == "main":
            assert span.begin >= begins["preceding", iteration, layer].end


@given(STAGES, st.integers(1, 4), st.integers(0, 10_000))
def test_the_preceding_side_waits_for_room(times: StageTimes, depth: int, seed: int) -> None:
    """FP R42: it begins no layer before the main side has taken the one ``depth`` + 1 layers earlier."""
    generator = np.random.default_rng(seed)
    spans = simulate(times, positions_of(times), depth, stall=lambda _side: int(generator.integers(0, 20))).spans
    preceding = [span for span in spans if span.side == "preceding"]
    main = [span for span in spans if span.side == "main"]
    for layer in range(depth + 1, len(preceding)):
        assert preceding[layer].begin >= main[layer - depth - 1].begin


@pytest.mark.parametrize("number", [8, 9])
def test_everything_sampled_leaves_only_conversion(number: int) -> None:
    """FP R44: at f = 100 % the main side converts and computes nothing."""
    times = EMBODIMENTS[number].stage_times([12.0, 6.0], 1, conversion=[1.5, 0.5])
    assert times.main == (1.5, 0.5)
    half = EMBODIMENTS[number].stage_times([12.0, 6.0], Fraction(1, 2), conversion=[1.5, 0.5])
    free = EMBODIMENTS[number].stage_times([12.0, 6.0], Fraction(1, 2))
    assert np.subtract(half.main, free.main) == pytest.approx([0.75, 0.25])


@given(st.integers(0, 255), st.integers(-32, 47))
def test_an_entry_is_a_word_of_16_bits(layer: int, position: int) -> None:
    """FP R42: layer and position, and both back again."""
    word = PositionEntry(layer, position).word
    assert 0 <= word < 1 << 16
    assert (word >> 8, word & 0xFF) == (layer, position % 256)
    assert PositionEntry.from_word(word) == PositionEntry(layer, position)


def test_a_lost_or_early_position_is_noticed() -> None:
    """FP R42: the main side takes no other layer's position."""
    fifo = PositionFifo(2)
    assert fifo.pop(0) is None
    assert fifo.push(PositionEntry(1, 5))
    with pytest.raises(DeviceError, match="layer 1 came where that of layer 0 was due"):
        fifo.pop(0)
    assert fifo.push(PositionEntry(2, 6))
    assert not fifo.push(PositionEntry(3, 7))
    assert [fifo.pop(1), fifo.pop(2), fifo.pop(3)] == [PositionEntry(1, 5), PositionEntry(2, 6), None]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StageTimes((), ()), "every layer needs one of both"),
        (lambda: StageTimes((1,), (1, 2)), "1 preceding and 2 main times"),
        (lambda: StageTimes((-1,), (1,)), "0 or more"),
        (lambda: PositionFifo(0), "fifo_depth is 0"),
        (lambda: PositionEntry(256, 0), "layer 256"),
        (lambda: PositionEntry(0, 48), "position of layer 0 is 48; a whole number from -32 to 47"),
        (lambda: simulate(StageTimes((1,), (1,)), [1, 2], 1), "2 positions for 1 layers"),
        (lambda: EMBODIMENTS[6].stage_times([1.0], 0), "above 0"),
        (lambda: EMBODIMENTS[8].stage_times([1.0, 2.0], 0.5, [1.0]), "2 layers, but 1 times"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    """FP R41, R42."""
    with pytest.raises(ConfigurationError, match=message):
        make()
