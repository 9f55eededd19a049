"""How long a layer takes under each flow (FP 5.1, FP 6): published times, vectors, and what must hold for any layer."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import load_vectors

from bfpga.engines.positions.times import FLOWS, FlowTimes, LayerTimes, TimeModel, wide_buffer_bytes
from bfpga.errors import ConfigurationError

CASES: list[dict[str, Any]] = load_vectors("fixed_point_times.json")["cases"]
SOURCE: dict[str, Any] = load_vectors("fixed_point_times.json")["source"]

TIMES = st.floats(0.01, 30)
RATIOS = st.sampled_from([1.0, 2.0, 3.0, 4.0, 6.0])
SHARES = st.floats(0.01, 1)
LAYERS = st.builds(LayerTimes, TIMES, TIMES, TIMES)
MODELS = st.builds(TimeModel, RATIOS, st.booleans(), st.booleans(), st.sampled_from([0.0, 0.1]))


def numbered(times: FlowTimes) -> list[float]:
    """Times of flows 0 to 4."""
    return [float(times.of(flow)) for flow in FLOWS[:5]]


def of_case(case: dict[str, Any]) -> FlowTimes:
    model = TimeModel(case["q"], case.get("duplex", False), case.get("onchip", False))
    return model.flow_times(LayerTimes(case["tc"], case["tr"], case["tw"]), case["f"])


@pytest.mark.parametrize("case", [*CASES, SOURCE], ids=str)
def test_vectors(case: dict[str, Any]) -> None:
    """FP R48: every setting of the specification, plain, duplex and on chip."""
    assert numbered(of_case(case)) == pytest.approx(case["T"], rel=1e-12)


def test_published_times_follow_from_component_times() -> None:
    """FP R36, R48: 2.1, 4.1, 2.35, 15.7 and 3.8 ms from 2.0 ms of computing, 0.4 of reading and 1.7 of writing."""
    times = TimeModel(wide_ratio=4).flow_times(LayerTimes(2.0, 0.4, 1.7), Fraction(1, 8))
    assert numbered(times) == pytest.approx([2.1, 4.1, 2.35, 15.7, 3.8], rel=1e-12)
    assert times.static == times.delayed


@given(LAYERS, MODELS, SHARES)
def test_the_gain_of_keeping_is_in_proportion_to_the_sample(layer: LayerTimes, model: TimeModel, share: float) -> None:
    """FP R36: T4 - T2 = f * (T3 - T1), so the sample decides how much is gained and never which one is faster."""
    delayed, two_pass, two_pass_sampled, keep, keep_sampled = numbered(model.flow_times(layer, share))
    assert keep_sampled - two_pass_sampled == pytest.approx(share * (keep - two_pass), abs=1e-9)
    assert delayed <= min(two_pass, two_pass_sampled, keep, keep_sampled) + 1e-9


@given(st.floats(0.01, 3), st.floats(0.01, 3), RATIOS, st.floats(0, 30), SHARES)
def test_a_compute_bound_layer_keeps_beyond_the_limit(
    read: float, write: float, ratio: float, more: float, share: float
) -> None:
    """FP R36: if t_c >= t_r + q * t_w, keeping wins iff t_c > (q + 1) * t_w, by exactly the difference."""
    compute = read + ratio * write + more
    times = TimeModel(ratio).flow_times(LayerTimes(compute, read, write), share)
    assert times.keep - times.two_pass == pytest.approx((ratio + 1) * write - compute, abs=1e-9)


@given(LAYERS, MODELS)
def test_everything_sampled_is_no_sampling(layer: LayerTimes, model: TimeModel) -> None:
    """FP R26: at f = 1 flow 2 is flow 1 and flow 4 is flow 3; at its limit of 0 both are flow 0."""
    whole, none = model.flow_times(layer, 1), model.flow_times(layer, 0)
    assert (whole.two_pass_sampled, whole.keep_sampled) == pytest.approx((whole.two_pass, whole.keep))
    start = none.delayed + model.launch
    assert (none.two_pass_sampled, none.keep_sampled) == pytest.approx((start, start))


@pytest.mark.parametrize(
    ("outputs", "fraction", "size"),
    [(32 * 32 * 64, 1, 262_144), (112 * 112 * 64, 1, 3_211_264), (112 * 112 * 64, Fraction(1, 8), 401_408)],
)
def test_wide_buffers(outputs: int, fraction: Fraction, size: int) -> None:
    """FP R24, R25: 4 bytes a result, of everything or of the sample."""
    assert wide_buffer_bytes(outputs, fraction) == size
    assert wide_buffer_bytes(outputs, fraction, wide_bits=24) == size * 3 // 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LayerTimes(-1.0, 0, 0), "layer.compute is -1.0"),
        (lambda: LayerTimes(1.0, 0, math.nan), "layer.write is nan"),
        (lambda: TimeModel(wide_ratio=0.5), "wide_ratio is 0.5"),
        (lambda: TimeModel(launch=-1), "launch is -1"),
        (lambda: TimeModel().flow_times(LayerTimes(1, 1, 1), 1.5), "from 0 to 1"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
