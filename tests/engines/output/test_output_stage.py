"""The output stage (BFP R5-R18, R24, 4.4) in numpy against the vectors and an exact reference of every value."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    clamp,
    load_vectors,
    packed_dot,
    reference_mantissa,
    reference_value,
    select_exponent,
    shift,
    vector_format,
)
from strategies import FORMATS

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Function
from bfpga.contract.functions import Table
from bfpga.engines.output.functions import interpolate
from bfpga.engines.output.stage import Added, StageResult, block_lead, evaluate, exponent_from_lead, requantize
from bfpga.engines.systolic.constraints import PACKED_TERMS
from bfpga.formats.block_float import decode, encode_rows, encode_samples
from bfpga.formats.block_format import BlockFormat, Status

STATUS = {"ok": Status.NONE, "given": Status.NONE, "zero": Status.ZERO_BLOCK,
          "exp_low": Status.EXPONENT_LOW, "exp_high": Status.EXPONENT_HIGH}  # fmt: skip


def accumulators(inputs: dict[str, Any]) -> tuple[np.ndarray[Any, Any], int]:
    """(1, 1, rows) exact products and the exponent they share."""
    acc = np.array(inputs["M"]) @ np.array(inputs["v"])
    e1 = inputs["e1"]
    return acc[None, None], inputs["e2"] + (0 if isinstance(e1, list) else e1)


def run_case(case: dict[str, Any]) -> tuple[StageResult, KernelConfig]:
    inputs = case["inputs"]
    cfg = KernelConfig(format=vector_format(case["format"]), accumulator_bits=48)
    acc, e_acc = accumulators(inputs)
    result = evaluate(
        acc,
        [e_acc],
        cfg,
        row_exponents=inputs["e1"] if isinstance(inputs["e1"], list) else None,
        bias=inputs.get("bias"),
        bias_exponent=inputs.get("e5", 0),
        function=Function.RELU if inputs.get("act") == "relu" else Function.NONE,
        function_first=inputs.get("order") == "act_bias",
    )
    return result, cfg


@pytest.mark.parametrize("case", load_vectors("bfp_matvec.json")["cases"], ids=lambda case: case["id"])
def test_matrix_vector_vectors(case: dict[str, Any]) -> None:
    """R1, R3, R5, R7-R18, R23, R24"""
    result, cfg = run_case(case)
    trace, expected = case["trace"], case["expect"]
    acc, _ = accumulators(case["inputs"])
    assert acc.ravel().tolist() == trace["acc"]
    assert result.v.ravel().tolist() == trace["after"]
    assert np.broadcast_to(result.e3, result.v.shape).ravel().tolist() == trace["e3"]
    assert result.status.tolist() == [0]
    e4, status = exponent_from_lead(*block_lead(result.v, result.e3, cfg.format.log), cfg.format)
    if "e4" in case["inputs"]:
        e4, status = np.array([case["inputs"]["e4"]]), np.zeros(1, np.int64)
    mantissa, overflow, underflow = requantize(result.v, result.e3, e4, cfg.format)
    assert (int(e4[0]), mantissa.ravel().tolist()) == (expected["e"], expected["m"])
    assert (int(overflow[0]), int(underflow[0])) == (expected["overflow"], expected["underflow"])
    assert int(status[0]) == STATUS[expected["status"]]


def test_systolic_example_of_the_source() -> None:
    """BFP 5.2: C = W I + b, columns as pixels."""
    case = load_vectors("bfp_systolic.json")
    acc = (np.array(case["W"]) @ np.array(case["I"])).T[None]
    result = evaluate(acc, [0], KernelConfig(), bias=case["bias"], bias_exponent=0)
    assert result.v[0].T.tolist() == case["C"]


def table_of(name: str) -> Table:
    method = Function.named(name).row.method
    assert isinstance(method, Table)
    return method


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_activation_tables_equal_the_vectors(name: str) -> None:
    """R11, BFP 4.4"""
    expected, table = load_vectors("bfp_activation.json")["tables"][name], table_of(name)
    assert (table.limit, list(table.points)) == (expected["limit"], expected["table"])


@pytest.mark.parametrize("case", load_vectors("bfp_activation.json")["cases"], ids=str)
def test_activation_vectors(case: dict[str, Any]) -> None:
    """R11, BFP 4.4"""
    assert interpolate(table_of(case["fn"]), np.array([case["acc"]]), np.array([case["e3"]])).tolist() == [case["m"]]
    function = Function[case["fn"].upper()]
    result = evaluate(np.array([[[case["acc"]]]]), [case["e3"]], KernelConfig(), function=function)
    assert (result.v.ravel().tolist(), result.e3.ravel().tolist()) == ([case["m"]], [case["e"]])


@pytest.mark.parametrize(("name", "worst"), [("sigmoid", 2.6e-4), ("tanh", 6.7e-4)])
def test_activation_error_is_what_the_specification_says(name: str, worst: float) -> None:
    """BFP 4.4"""
    x = np.arange(-10240, 10241)
    exact = 1 / (1 + np.exp(-x / 1024)) if name == "sigmoid" else np.tanh(x / 1024)
    assert np.abs(interpolate(table_of(name), x, -10) / 16384 - exact).max() < worst * 1.15


def stage_options(fmt: BlockFormat, bits: int, channels: int) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of ``evaluate`` beyond the accumulators."""
    exponents = st.integers(-40, 40)
    return st.fixed_dictionaries(
        {
            "row_exponents": st.none() | st.lists(exponents, min_size=channels, max_size=channels),
            "bias": st.none() | st.lists(st.integers(-(2**17), 2**17 - 1), min_size=channels, max_size=channels),
            "bias_exponent": exponents,
            "function": st.sampled_from(list(Function)),
            "function_argument": st.integers(0, 20),
            "function_exponent": exponents,
            "function_first": st.booleans(),
        }
    )


@settings(deadline=None, max_examples=drawn(400))
@given(fmt=FORMATS, bits=st.integers(24, 58), data=st.data())
def test_stage_equals_the_exact_reference(fmt: BlockFormat, bits: int, data: st.DataObject) -> None:
    """R5, R7-R17, R24: any format, accumulator width, bias, function and order; no rounding beyond one a stage."""
    samples, pixels, channels = 2, 2, 3
    cfg = KernelConfig(format=fmt, accumulator_bits=bits)
    width = data.draw(st.integers(1, bits))
    value = st.integers(-(1 << (width - 1)), (1 << (width - 1)) - 1) | st.just(0)
    acc = data.draw(st.lists(value, min_size=12, max_size=12))
    e_acc = data.draw(st.lists(st.integers(-40, 40), min_size=2, max_size=2))
    options = data.draw(stage_options(fmt, bits, channels))
    array = np.array(acc).reshape(samples, pixels, channels)
    v, e3, status = evaluate(array, e_acc, cfg, **options)
    per_row = {key: options.pop(key) for key in ("row_exponents", "bias")}
    full_e3 = np.broadcast_to(e3, v.shape)
    leads, nonzero = block_lead(v, e3, fmt.log)
    e4, block_status = exponent_from_lead(leads, nonzero, fmt)
    mantissa, overflow, underflow = requantize(v, e3, e4, fmt)
    for sample in range(samples):
        exact = [
            reference_value(
                int(array[sample, pixel, channel]),
                e_acc[sample],
                cfg,
                row_exponent=per_row["row_exponents"][channel] if per_row["row_exponents"] else 0,
                bias=per_row["bias"][channel] if per_row["bias"] else None,
                **options,
            )
            for pixel in range(pixels)
            for channel in range(channels)
        ]
        assert v[sample].ravel().tolist() == [value for value, _, _ in exact]
        assert full_e3[sample].ravel().tolist() == [exponent for _, exponent, _ in exact]
        assert int(status[sample]) == int(np.bitwise_or.reduce([int(bits) for _, _, bits in exact]))
        reals = [Fraction(value) * Fraction(2) ** exponent for value, exponent, _ in exact]
        exponent, bits_expected = select_exponent(max(abs(x) for x in reals), fmt)
        assert (int(e4[sample]), int(block_status[sample])) == (exponent, bits_expected)
        results = [reference_mantissa(x, exponent, fmt) for x in reals]
        assert mantissa[sample].ravel().tolist() == [m for m, _, _ in results]
        assert int(overflow[sample]) == sum(o for _, o, _ in results)
        assert int(underflow[sample]) == sum(u for _, _, u in results)


@settings(deadline=None, max_examples=drawn(200))
@given(fmt=FORMATS, bits=st.integers(24, 58), data=st.data())
def test_what_is_added_is_aligned_and_clamped_with_the_sums(fmt: BlockFormat, bits: int, data: st.DataObject) -> None:
    """Before bias and function: from there on the sums are all that counts."""
    cfg = KernelConfig(format=fmt, accumulator_bits=bits)
    numbers = st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    acc = data.draw(st.lists(numbers, min_size=12, max_size=12))
    mantissas = st.integers(fmt.mantissa_min, fmt.mantissa_max)
    added = data.draw(st.lists(mantissas, min_size=12, max_size=12))
    exponents = st.lists(st.integers(-40, 40), min_size=2, max_size=2)
    e_acc, e_added = data.draw(exponents), data.draw(exponents)
    options = data.draw(stage_options(fmt, bits, 3)) | {"function_first": False}
    shape = (2, 2, 3)
    v, e3, status = evaluate(np.array(acc).reshape(shape), e_acc, cfg, **options,
                             added=Added(np.array(added).reshape(shape), e_added))  # fmt: skip
    rows, biases = options.pop("row_exponents") or [0] * 3, options.pop("bias") or [None] * 3
    for sample in range(2):
        exact = []
        for index in range(6 * sample, 6 * sample + 6):
            channel = index % 3
            aligned = shift(added[index], e_acc[sample] + rows[channel] - e_added[sample], fmt.rounding)
            total = acc[index] + clamp(aligned, bits)
            clamped = clamp(aligned, bits) != aligned or clamp(total, bits) != total
            value, exponent, found = reference_value(
                clamp(total, bits), e_acc[sample], cfg, row_exponent=rows[channel], bias=biases[channel], **options
            )
            exact.append((value, exponent, found | (Status.ACCUMULATOR_SATURATED if clamped else 0)))
        assert v[sample].ravel().tolist() == [value for value, _, _ in exact]
        assert np.broadcast_to(e3, v.shape)[sample].ravel().tolist() == [exponent for _, exponent, _ in exact]
        assert int(status[sample]) == int(np.bitwise_or.reduce([int(found) for _, _, found in exact]))


@settings(deadline=None, max_examples=drawn(150))
@given(fmt=FORMATS, acc=st.lists(st.integers(-(2**57), 2**57 - 1), min_size=1, max_size=5), e4=st.integers(-300, 300))
def test_requantizer_is_exact_at_any_given_exponent(fmt: BlockFormat, acc: list[int], e4: int) -> None:
    """R16, R23: accumulators of 58 bits, shifts of any amount in both directions."""
    mantissa, overflow, underflow = requantize(np.array([[acc]]), np.array([[[-7]]]), [e4], fmt)
    exact = [reference_mantissa(Fraction(value) * Fraction(2) ** -7, e4, fmt) for value in acc]
    assert mantissa.ravel().tolist() == [m for m, _, _ in exact]
    assert (int(overflow[0]), int(underflow[0])) == (sum(o for _, o, _ in exact), sum(u for _, _, u in exact))


def test_a_chain_of_layers_stays_in_block_floating_point() -> None:
    """R14, R19, R37: three layers, three exponents, no conversion between them, close to the real product."""
    rng = np.random.default_rng(6)
    cfg = KernelConfig(format=BlockFormat(16), accumulator_bits=48)
    x = rng.normal(size=(2, 4, 8))
    mantissa, exponent = encode_samples(x, cfg.format)
    chosen = []
    for scale in (1.0, 40.0, 0.01):
        w = rng.normal(size=(8, 8)) * scale
        weights, rows = encode_rows(w, cfg.format)
        acc = mantissa.astype(np.int64) @ weights.T.astype(np.int64)
        stage = evaluate(acc, exponent, cfg, row_exponents=rows, function=Function.RELU)
        e4, _ = exponent_from_lead(*block_lead(stage.v, stage.e3, "floor"), cfg.format)
        mantissa, _, _ = requantize(stage.v, stage.e3, e4, cfg.format)
        exponent, x = e4, np.maximum(x @ w.T, 0)
        chosen.append(int(e4[0]))
    assert len(set(chosen)) == 3
    assert np.abs(decode(mantissa, exponent, np.float64) - x).max() < 1e-3 * np.abs(x).max()


def test_bias_saturates_with_a_flag_only_beside_a_value() -> None:
    """R9: a bias too large for the accumulator's unit; where the accumulator is zero it keeps its own unit."""
    cfg = KernelConfig(accumulator_bits=24)
    acc = np.array([[[1, 0]], [[0, 0]]])
    result = evaluate(acc, [-30, -30], cfg, bias=[3, -5], bias_exponent=0)
    assert result.status.tolist() == [Status.BIAS_SATURATED | Status.ACCUMULATOR_SATURATED, 0]
    assert result.v.tolist() == [[[2**23 - 1, -5]], [[3, -5]]]
    assert result.e3.tolist() == [[[-30, 0]], [[0, 0]]]
    saturated = evaluate(np.array([[[-1]]]), [-30], cfg, bias=[3], bias_exponent=0)
    assert saturated.status.tolist() == [Status.BIAS_SATURATED]


def test_accumulator_saturates_with_a_flag() -> None:
    """R10"""
    result = evaluate(np.array([[[2**23 - 1, -(2**23)]]]), [0], KernelConfig(accumulator_bits=24), bias=[1, 0])
    assert result.v.tolist() == [[[2**23 - 1, -(2**23)]]]
    assert result.status.tolist() == [Status.ACCUMULATOR_SATURATED]


def test_what_is_added_saturates_with_a_flag_even_where_the_sum_does_not() -> None:
    """A sum that would be out of range, which the other sign brings back: what was clamped is lost."""
    added = Added(np.array([[[100]], [[1]]]), [30, 0])
    result = evaluate(np.array([[[-5]], [[-5]]]), [0, 0], KernelConfig(accumulator_bits=24), added=added)
    assert result.v.tolist() == [[[2**23 - 6]], [[-4]]]
    assert result.status.tolist() == [Status.ACCUMULATOR_SATURATED, 0]


def test_equal_exponents_pass_values_unchanged() -> None:
    """R17"""
    v = np.arange(-127, 128).reshape(1, 5, 51)
    mantissa, overflow, underflow = requantize(v, np.array([[[-4]]]), [-4], BlockFormat())
    assert np.array_equal(mantissa, v)
    assert (overflow.tolist(), underflow.tolist()) == ([0], [0])


def test_blocks_without_pixels_are_zero_blocks() -> None:
    lead, nonzero = block_lead(np.zeros((2, 0, 3), np.int64), np.zeros((2, 1, 1), np.int64), "floor")
    e4, status = exponent_from_lead(lead, nonzero, BlockFormat())
    assert (e4.tolist(), status.tolist()) == ([-128, -128], [Status.ZERO_BLOCK] * 2)


PACKING = load_vectors("bfp_dsp_packing.json")


@pytest.mark.parametrize("case", PACKING["examples"], ids=lambda case: f"{case['dsp']}-{case['shift']}")
def test_packed_products_come_apart_again(case: dict[str, Any]) -> None:
    """BFP 7: the formula of the packed tile."""
    terms = [tuple(term) for term in case["terms_list"]]
    assert packed_dot(terms, case["shift"]) == (case["hi"], case["lo"])
    assert (case["hi"], case["lo"]) == (sum(a * x for a, _, x in terms), sum(b * x for _, b, x in terms))


@pytest.mark.parametrize("dsp", ["DSP48E1", "DSP48E2"])
def test_chosen_packing_lies_within_the_limits(dsp: str) -> None:
    """BFP 7: distance and number of terms of the array are a row of the table; one term more corrupts a sum."""
    distance = KernelConfig(dsp=dsp).packing_shift  # type: ignore[arg-type]
    limits = [row for row in PACKING["limits"] if row["dsp"] == dsp and row["weights"] == "sym"]
    row = next(row for row in limits if row["shift"] == distance)
    assert PACKED_TERMS[dsp] == row["terms"]
    worst = [(-127, -127, -128)] * row["terms"]
    assert packed_dot(worst, distance) == (127 * 128 * row["terms"],) * 2
    assert packed_dot([*worst, worst[0]], distance)[1] != 127 * 128 * (row["terms"] + 1)


@pytest.mark.parametrize("limit", PACKING["limits"], ids=lambda row: f"{row['dsp']}-{row['weights']}-{row['shift']}")
def test_packing_limits_hold_for_extreme_operands(limit: dict[str, Any]) -> None:
    """BFP 7"""
    low = -127 if limit["weights"] == "sym" else -128
    for w1 in (low, 127):
        for w0 in (low, 127):
            for x in (-128, 127):
                terms = [(w1, w0, x)] * limit["terms"]
                assert packed_dot(terms, limit["shift"]) == (w1 * x * limit["terms"], w0 * x * limit["terms"])
    operand = 25 if limit["dsp"] == "DSP48E1" else 27
    assert (127 << limit["shift"]) + 127 < 1 << (operand - 1)
    assert limit["upper_bits"] == 48 - limit["shift"]


@pytest.mark.parametrize("row", PACKING["accumulator_capacity"], ids=lambda row: f"{row['MW']}-{row['sat']}")
@pytest.mark.parametrize("bits", [32, 48, 58])
def test_accumulator_capacity(row: dict[str, Any], bits: int) -> None:
    """R3, BFP 7: one bit is kept for the bias; weights are symmetric in every format."""
    cfg = KernelConfig(format=BlockFormat(row["MW"], saturation=row["sat"]), accumulator_bits=bits + 1)
    if row["sat"] == "sym":
        assert cfg.largest_product == row["max_product"]
        assert cfg.terms_limit() == row[f"K{bits}"]
    else:
        assert cfg.terms_limit() >= row[f"K{bits}"]
    assert cfg.terms_limit() * cfg.largest_product < 1 << (bits - 1)
