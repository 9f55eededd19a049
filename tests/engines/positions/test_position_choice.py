"""Which flow each layer runs (FP 3.6): by measured clocks, by operation, by the time model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import load_vectors

from bfpga.engines.positions.choice import (
    CANDIDATES,
    FlowChooser,
    PositionLayer,
    choice_rows,
    loss_of_choice,
    modelled_choice,
)
from bfpga.engines.positions.times import Flow, LayerTimes, TimeModel
from bfpga.errors import ConfigurationError

SELECTIONS: list[dict[str, Any]] = load_vectors("fixed_point_control.json")["selection"]
CASES: list[dict[str, Any]] = load_vectors("fixed_point_times.json")["cases"]
#: Names of the vectors.
VECTOR_FLOW: dict[Flow, str] = {"two_pass_sampled": "two_pass", "keep_sampled": "keep"}
LAYERS = (PositionLayer("conv", "conv"), PositionLayer("relu", "relu", updates_position=False))


def measure(chooser: FlowChooser, clocks: dict[tuple[str, Flow], float]) -> None:
    """One iteration in which every layer takes the same clocks as ever."""
    for (name, flow), taken in clocks.items():
        chooser.record(name, flow, taken)
    chooser.finish_iteration()


@pytest.mark.parametrize("case", SELECTIONS, ids=lambda case: case["id"])
def test_vectors(case: dict[str, Any]) -> None:
    """FP R33, R34: means over two iterations, per layer and per type of operation, where `conv2` differs."""
    layers = [PositionLayer(layer["name"], layer["op"]) for layer in case["layers"]]
    chooser = FlowChooser(layers, iterations=2, by="operation" if case["by"] == "op" else "layer")
    for iteration in range(2):
        assert all(chooser.flows(layer.name) == CANDIDATES for layer in layers)
        for layer in case["layers"]:
            chooser.record(layer["name"], "two_pass_sampled", layer["two_pass_ms"][iteration])
            chooser.record(layer["name"], "keep_sampled", layer["keep_ms"][iteration])
        chooser.finish_iteration()
    chosen = {name: VECTOR_FLOW[flow] for name, flow in chooser.choices().items() if flow is not None}
    assert chosen == case["choice"]
    assert all(len(chooser.flows(layer.name)) == 1 for layer in layers)


def test_both_candidates_run_eight_iterations_then_one() -> None:
    """FP R33: A = 8 unless given; flow 2 comes first, its results are the ones that are used."""
    chooser = FlowChooser(LAYERS)
    for _ in range(8):
        assert chooser.flows("conv") == ("two_pass_sampled", "keep_sampled")
        measure(chooser, {("conv", "two_pass_sampled"): 100, ("conv", "keep_sampled"): 99})
    assert chooser.flows("conv") == ("keep_sampled",)


def test_a_tie_needs_no_buffer() -> None:
    """FP R33: equal means give flow 2, also where sums of floating point would differ in the last bit."""
    chooser = FlowChooser(LAYERS, iterations=3)
    for two_pass, keep in ((1, 3), (2, 2), (3, 1)):
        measure(chooser, {("conv", "two_pass_sampled"): two_pass, ("conv", "keep_sampled"): keep})
    assert chooser.choice("conv") == "two_pass_sampled"


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=8))
def test_the_smaller_mean_wins(clocks: list[tuple[int, int]]) -> None:
    """FP R33: exactly, whatever the clocks."""
    chooser = FlowChooser(LAYERS, iterations=len(clocks))
    for two_pass, keep in clocks:
        measure(chooser, {("conv", "two_pass_sampled"): two_pass, ("conv", "keep_sampled"): keep})
    sums = [sum(column) for column in zip(*clocks, strict=True)]
    assert chooser.choice("conv") == ("keep_sampled" if sums[1] < sums[0] else "two_pass_sampled")


def test_layers_of_a_type_share_one_choice() -> None:
    """FP R34: means of layers are averaged, each layer once however often it ran; other types have their own."""
    layers = [PositionLayer("a", "conv"), PositionLayer("b", "conv"), PositionLayer("n", "batch_norm")]
    chooser = FlowChooser(layers, iterations=1, by="operation")
    for _ in range(9):
        chooser.record("a", "two_pass_sampled", 10)
        chooser.record("a", "keep_sampled", 11)
    chooser.record("b", "two_pass_sampled", 10)
    chooser.record("b", "keep_sampled", 7)
    measure(chooser, {("n", "two_pass_sampled"): 5, ("n", "keep_sampled"): 6})
    assert chooser.choices() == {"a": "keep_sampled", "b": "keep_sampled", "n": "two_pass_sampled"}


def test_a_layer_may_pass_its_position_through() -> None:
    """FP R35: nothing precedes it, in no iteration, and nothing is measured."""
    chooser = FlowChooser(LAYERS, iterations=1)
    assert chooser.flows("relu") == ()
    measure(chooser, {("conv", "two_pass_sampled"): 1, ("conv", "keep_sampled"): 2})
    assert chooser.flows("relu") == ()
    assert chooser.choices()["relu"] is None
    with pytest.raises(ConfigurationError, match="passes its position through"):
        chooser.record("relu", "two_pass_sampled", 1)


def test_a_layer_that_never_ran_takes_the_default() -> None:
    """FP R33: in a graph that changes, a layer may appear after the measured iterations; its type may be known."""
    layers = [PositionLayer("a", "conv"), PositionLayer("late", "conv")]
    clocks: dict[tuple[str, Flow], float] = {("a", "two_pass_sampled"): 3, ("a", "keep_sampled"): 2}
    for by, expected in (("layer", "two_pass_sampled"), ("operation", "keep_sampled")):
        chooser = FlowChooser(layers, iterations=1, by=by)  # type: ignore[arg-type]
        measure(chooser, clocks)
        assert chooser.flows("late") == (expected,)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_model_chooses_as_the_vectors(case: dict[str, Any]) -> None:
    """FP R36: keep or two passes by computed times; ties, also by rounding of floating point, need no buffer."""
    model = TimeModel(case["q"], case.get("duplex", False), case.get("onchip", False))
    choice = modelled_choice(LayerTimes(case["tc"], case["tr"], case["tw"]), model, case["f"])
    assert VECTOR_FLOW[choice].replace("_", "-") == case["choice"].removeprefix("tie->")


def transferred(compute: float, read: float, write: float, duplex: bool, tiles: int) -> float:
    """Time of a pass, tile by tile: the next tile is read while one is computed; its results leave afterwards.

    Slow and plain: reading and writing share one bus, or have one each.
    """
    reading = writing = computing = ready = 0.0
    for tile in range(tiles + 1):
        before = ready
        if tile < tiles:
            reading = (reading if duplex else max(reading, writing)) + read / tiles
            ready = reading
        if tile:
            computing = max(computing, before) + compute / tiles
            writing = max(writing if duplex else max(reading, writing), computing) + write / tiles
    return max(reading, writing, computing)


def measured(layer: LayerTimes, model: TimeModel, eighths: int, tiles: int = 256) -> dict[Flow, float]:
    """Both candidates on the simulated memory, with a sample of so many eighths of the tiles."""
    compute, read, write, share = float(layer.compute), float(layer.read), float(layer.write), eighths / 8
    wide, some, rest = model.wide_ratio * write, tiles * eighths // 8, tiles - tiles * eighths // 8

    def part(share: float, tiles: int, compute: float, read: float, write: float) -> float:
        return transferred(share * compute, share * read, share * write, model.duplex, tiles) if tiles else 0.0

    kept = part(share, some, compute, read, wide) + part(share, some, 0, wide, write)
    if model.on_chip:
        kept = part(share, some, compute, read, 0) + part(share, some, 0, 0, write)
    return {
        "two_pass_sampled": part(share, some, compute, read, 0) + part(1, tiles, compute, read, write),
        "keep_sampled": kept + part(1 - share, rest, compute, read, write),
    }


@given(
    st.builds(LayerTimes, st.floats(0.1, 30), st.floats(0.1, 3), st.floats(0.1, 3)),
    st.builds(TimeModel, st.sampled_from([2.0, 3.0, 4.0, 6.0]), st.booleans(), st.booleans()),
    st.integers(1, 8),
)
def test_the_model_agrees_with_measurements(layer: LayerTimes, model: TimeModel, eighths: int) -> None:
    """FP R36: computed times are within 10 % of those of a simulated memory, and so is what the choice costs."""
    clocks = measured(layer, model, eighths)
    times = model.flow_times(layer, eighths / 8)
    assert [float(times.of(flow)) for flow in CANDIDATES] == pytest.approx(list(clocks.values()), rel=0.1)
    assert loss_of_choice(clocks, modelled_choice(layer, model, eighths / 8)) <= 0.1


def test_the_table_shows_what_was_measured() -> None:
    """FP R33, R35, R49: mean clocks of each candidate, the choice and what it saves; layers that pass through."""
    chooser = FlowChooser(LAYERS, iterations=2)
    for keep in (70, 80):
        measure(chooser, {("conv", "two_pass_sampled"): 100, ("conv", "keep_sampled"): keep})
    headings, rows = choice_rows(chooser)
    assert headings == ["layer", "operation", "two_pass_sampled", "keep_sampled", "choice", "saves"]
    assert rows[0] == ("conv", "conv", 100, 75, "keep_sampled", "25.0 %")
    assert rows[1] == ("relu", "relu", "-", "-", "passes through", "-")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FlowChooser([PositionLayer("a", "conv"), PositionLayer("a", "conv")]), "two layers are named 'a'"),
        (lambda: FlowChooser(LAYERS, iterations=0), "1 or more must be measured"),
        (lambda: FlowChooser(LAYERS, by="network"), "one of layer, operation"),  # type: ignore[arg-type]
        (lambda: FlowChooser(LAYERS, candidates=("flow_2",)), "some of delayed"),  # type: ignore[arg-type]
        (lambda: FlowChooser(LAYERS, candidates=()), "some of delayed"),
        (lambda: FlowChooser(LAYERS).record("conv2", "two_pass_sampled", 1), "no layer 'conv2'; layers are conv, relu"),
        (lambda: FlowChooser(LAYERS).record("conv", "keep", 1), "two_pass_sampled, keep_sampled are compared"),
        (lambda: FlowChooser(LAYERS).record("conv", "keep_sampled", -1), "0 or more"),
        (lambda: FlowChooser(LAYERS).record("conv", "keep_sampled", np.nan), "0 or more"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    """FP R33."""
    with pytest.raises(ConfigurationError, match=message):
        make()
