"""Which outputs are sampled for a position (FP 3.5), and which samples are closed over layers (FP R46)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import load_vectors

from bfpga.engines.positions.closure import AxisWindow, batch_sample, check_ahead, closed_slabs, is_closed
from bfpga.engines.positions.sampling import AXES, Axis, SampleFraction, Sampling
from bfpga.errors import ConfigurationError

CASES: list[dict[str, Any]] = load_vectors("fixed_point_control.json")["sampling"]
FRACTIONS = st.integers(1, 12).flatmap(
    lambda period: st.builds(SampleFraction, st.integers(1, period), st.just(period))
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_vectors(case: dict[str, Any]) -> None:
    """FP R28, R30: index sets of blocks with a period and an offset."""
    assert SampleFraction(case["a"], case["b"]).indices(case["n"], case["offset"]).tolist() == case["index"]


@given(FRACTIONS, st.integers(1, 40), st.integers(0, 30))
def test_indices_are_those_of_the_rule(fraction: SampleFraction, size: int, offset: int) -> None:
    """FP R28: every i with (i - offset) mod b < a, item by item; equal spacing, so a of any b neighbours."""
    a, b = fraction.thickness, fraction.period
    index = fraction.indices(size, offset)
    assert index.tolist() == [i for i in range(size) if (i - offset) % b < a]
    sampled = np.isin(np.arange(size), index)
    assert all(sampled[first : first + b].sum() == a for first in range(size - b + 1))


@given(FRACTIONS, st.integers(1, 40), st.integers(0, 100))
def test_the_offset_advances_and_something_is_always_sampled(fraction: SampleFraction, size: int, layer: int) -> None:
    """FP R28, R30, FP 6: a block further each layer; on short axes at least one output of a block."""
    offset = fraction.offset(layer, size)
    assert len(fraction.indices(size, offset)) >= 1
    if size >= fraction.period:
        assert (offset - layer * fraction.thickness) % fraction.period == 0


def test_the_default_is_every_eighth_row() -> None:
    """FP R23, R30: axis H, a = 1, b = 8, another row in the next layer; eight layers see every row."""
    sampling = Sampling()
    assert (sampling.axes, sampling.fraction) == ((("H", SampleFraction(1, 8)),), Fraction(1, 8))
    sizes: dict[Axis, int] = {"B": 2, "C": 3, "H": 16, "W": 5}
    rows = [sampling.indices(sizes, layer)["H"].tolist() for layer in range(8)]
    assert rows[:2] == [[0, 8], [1, 9]]
    assert sorted(row for layer in rows for row in layer) == list(range(16))
    assert sampling.sampled_fraction(sizes) == Fraction(1, 8)


@pytest.mark.parametrize("axis", AXES)
def test_any_axis_can_be_sampled(axis: Axis) -> None:
    """FP R28, R30: channel, height, width and batch item; values are those at the indices and no others."""
    outputs = np.arange(8 * 8 * 8 * 8).reshape(8, 8, 8, 8)
    selected = Sampling.along(axis, SampleFraction(2, 8)).select(outputs, layer=1)
    assert np.array_equal(selected, np.take(outputs, [2, 3], axis=AXES.index(axis)))


@given(st.integers(0, 1000), FRACTIONS)
def test_sampled_outputs_are_complete_sums(seed: int, fraction: SampleFraction) -> None:
    """FP R29: computing the sampled rows alone gives the rows of the full result; all terms of each sum are in it."""
    generator = np.random.default_rng(seed)
    rows, terms, channels = generator.integers(1, 30, 3)
    x, weights = generator.integers(-128, 128, (rows, terms)), generator.integers(-127, 128, (terms, channels))
    sampling = Sampling.along("H", fraction)
    alone = sampling.select(x, layer=3, axes=("H", "C")) @ weights
    assert np.array_equal(alone, sampling.select(x @ weights, layer=3, axes=("H", "C")))


def test_terms_of_a_sum_cannot_be_sampled() -> None:
    """FP R29: K is no axis of outputs."""
    with pytest.raises(ConfigurationError, match="every sampled output is a complete sum"):
        Sampling.along("K")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SampleFraction(0, 8), "a block of 1 to 8 of every 8"),
        (lambda: SampleFraction(9, 8), "the sample is 9/8"),
        (lambda: SampleFraction(1, 0), "the sample is 1/0"),
        (lambda: SampleFraction.parse("12.5 %"), "a fraction like 1/8"),
        (lambda: Sampling(()), "one or more"),
        (lambda: Sampling((("H", SampleFraction()), ("H", SampleFraction()))), "one or more different"),
        (lambda: Sampling().select(np.zeros((4, 4)), axes=("B", "C")), "no axis H; theirs are B, C"),
        (lambda: Sampling().select(np.zeros((4, 4))), "other axes than"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    """FP R28: without a sample there are no statistics (FP 6: f = 0 is not allowed)."""
    with pytest.raises(ConfigurationError, match=message):
        make()


# ---------------------------------------------------------------- closed under the layers

CHAIN = (
    AxisWindow(32, (-1,), kernel=3, pad=1),
    AxisWindow(32, (0,), kernel=3, pad=1),
    AxisWindow(16, (1,), kernel=2, stride=2),
    AxisWindow(16, (2,), kernel=5, pad=2),
)


@pytest.mark.parametrize("axis", ["H", "W", "C"])
def test_ahead_only_batch_items(axis: Axis) -> None:
    """FP R46: other axes are rejected for pipelines, with what would be right."""
    with pytest.raises(ConfigurationError, match=rf"sampling axis is {axis}.*\bB\b"):
        check_ahead(Sampling.along(axis))
    assert check_ahead(Sampling.along("B")) == "B"


@pytest.mark.parametrize(("batch", "items"), [(16, [0, 8]), (8, [0]), (3, [0]), (1, [0])])
def test_whole_items_of_a_batch(batch: int, items: list[int]) -> None:
    """FP R46: with axis B the share is 1 / B at least, and the items are the same in every layer."""
    assert batch_sample(Sampling.along("B"), batch).tolist() == items
    with pytest.raises(ConfigurationError, match="along B"):
        batch_sample(Sampling(), batch)


def test_slabs_without_a_halo_lack_their_inputs() -> None:
    """FP R46: the same rows in every layer are not enough, with the halo they are."""
    sample = SampleFraction(4, 16)
    bare = [sample.indices(layer.outputs) for layer in CHAIN]
    assert not is_closed(CHAIN, bare)
    closed = closed_slabs(CHAIN, sample)
    assert is_closed(CHAIN, closed)
    # By hand: the block of layer 3 begins at row 12, three blocks further; windows of 5 around its rows read 10..15.
    assert closed[3].tolist() == [12, 13, 14, 15]
    assert set(range(10, 16)) <= set(closed[2].tolist())
    assert set(range(20, 32)) <= set(closed[1].tolist())


@given(st.integers(0, 10_000), FRACTIONS)
def test_samples_with_a_halo_are_closed(seed: int, fraction: SampleFraction) -> None:
    """FP R46: on random graphs with branches all that is read is sampled, and the layer's own sample too."""
    generator = np.random.default_rng(seed)
    layers: list[AxisWindow] = []
    for number in range(int(generator.integers(1, 7))):
        sources = tuple(generator.integers(-1, number, size=generator.integers(1, 3)).tolist()) if number else (-1,)
        kernel, stride = generator.integers(1, 6), generator.integers(1, 3)
        layers.append(
            AxisWindow(
                int(generator.integers(1, 30)),
                sources,
                int(kernel),
                int(stride),
                int(kernel // 2),
                generator.random() < 0.1,
            )
        )
    samples = closed_slabs(layers, fraction)
    for number, layer in enumerate(layers):
        rows = set(samples[number].tolist())
        assert rows >= set(fraction.indices(layer.outputs, fraction.offset(number, layer.outputs)).tolist())
        for source in {source for source in layer.inputs if source >= 0}:
            have = set(samples[source].tolist())
            for row in rows:
                first = row * layer.stride - layer.pad
                read = range(layers[source].outputs) if layer.whole else range(first, first + layer.kernel)
                assert {r for r in read if 0 <= r < layers[source].outputs} <= have
    assert is_closed(layers, samples)


def test_layers_run_in_their_order() -> None:
    """FP R46: a layer cannot read one that runs later."""
    with pytest.raises(ConfigurationError, match="layer 0 reads layer 1"):
        closed_slabs([AxisWindow(4, (1,)), AxisWindow(4, (-1,))], SampleFraction())
