"""How long a layer takes under each flow (FP 5.1, FP 6): published times, vectors, and what must hold for any layer."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
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


def test_published_times_leave_one_set_of_component_times() -> None:
    """FP R48: written down as equations (FP 5.1), the five times give the components back."""
    t0, t1, t2, t3, t4 = 2.1, 4.1, 2.35, 15.7, 3.8
    compute = t1 - t0
    write = (t3 - t0) / 8  # t3 - t0 = 4 writes wide, 4 reads them back, the narrow write is in both
    assert (compute, write, t0 - write) == pytest.approx((2.0, 1.7, 0.4))
    assert (t2, t4) == pytest.approx((compute / 8 + t0, t3 / 8 + 7 * t0 / 8))


def test_on_chip_buffers_make_keeping_the_faster_one() -> None:
    """FP R36: with wide results on chip 3.7 and 2.3 ms, against 2.35 ms of two passes."""
    times = TimeModel(on_chip=True).flow_times(LayerTimes(2.0, 0.4, 1.7), Fraction(1, 8))
    assert (times.keep, times.keep_sampled) == pytest.approx((3.7, 2.3))
    assert times.keep_sampled < times.two_pass_sampled


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


@given(TIMES, TIMES, MODELS, st.floats(0, 60))
def test_above_the_break_even_keeping_wins(read: float, write: float, model: TimeModel, compute: float) -> None:
    """FP R36: the limit holds for every memory and every layer."""
    limit = model.break_even_compute(read, write)
    times = model.flow_times(LayerTimes(compute, read, write), 0.25)
    if compute > limit + 1e-6:
        assert times.keep_sampled < times.two_pass_sampled
    elif compute < limit - 1e-6:
        assert times.two_pass_sampled <= times.keep_sampled + 1e-12


def test_break_even_of_the_source() -> None:
    """FP R36: 8.5 ms, where both take the same; at 8 and 10 ms one and the other is faster."""
    model = TimeModel(4)
    assert model.break_even_compute(0.4, 1.7) == pytest.approx(8.5)
    assert TimeModel(4, on_chip=True).break_even_compute(0.4, 1.7) == 0


@given(LAYERS, MODELS)
def test_everything_sampled_is_no_sampling(layer: LayerTimes, model: TimeModel) -> None:
    """FP R26: at f = 1 flow 2 is flow 1 and flow 4 is flow 3; at its limit of 0 both are flow 0."""
    whole, none = model.flow_times(layer, 1), model.flow_times(layer, 0)
    assert (whole.two_pass_sampled, whole.keep_sampled) == pytest.approx((whole.two_pass, whole.keep))
    start = none.delayed + model.launch
    assert (none.two_pass_sampled, none.keep_sampled) == pytest.approx((start, start))


def test_a_launch_is_paid_once_by_every_flow_of_two_passes() -> None:
    """FP R36, FP 6: 0.1 ms for a second start by the host; one start with a loop inside pays nothing."""
    layer = LayerTimes(2.0, 0.4, 1.7)
    inside, by_host = TimeModel().flow_times(layer, 0.125), TimeModel(launch=0.1).flow_times(layer, 0.125)
    more = np.array(numbered(by_host)) - numbered(inside)
    assert more == pytest.approx([0, 0.1, 0.1, 0.1, 0.1])


def test_many_layers_at_once() -> None:
    """FP R48: arrays of times give what each layer gives alone."""
    settings = [
        case for case in CASES if case["q"] == 4 and case["f"] == 0.125 and not {"duplex", "onchip"} & set(case)
    ]
    compute, read, write = (np.array([case[name] for case in settings], float) for name in ("tc", "tr", "tw"))
    times = TimeModel(4).flow_times(LayerTimes(compute, read, write), 0.125)
    together = np.stack([np.asarray(times.of(flow)) for flow in FLOWS[:5]], axis=1)
    assert together == pytest.approx(np.array([case["T"] for case in settings]))


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
