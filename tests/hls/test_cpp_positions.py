"""position_*.hpp against the vectors and against numpy, with native integers and with ap_int."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cpp_units import BUILDS, compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from position_cases import DETERMINE, FLOWS, POSITIONS, RULES, case_rule, case_values, wide_values
from position_cpp import BUILD_COUNTS, SimulationError, bits, build, find, run_network, statistics
from position_cpp import convert as cpp_convert
from reference import load_vectors

from bfpga.devices import toolchain
from bfpga.devices.csim import Integers
from bfpga.formats.fixed_point import convert
from bfpga.formats.position_rules import PositionRule, select_shift
from bfpga.formats.rounding import shift_to_bits
from bfpga.formats.wide_statistics import collect, lsb_positions, nsb_positions
from bfpga.vendor import lint
from bfpga.vendor.render import library_directory

CONVERSIONS = load_vectors("fixed_point_primitives.json")["convert"]
#: Every build of the library.
INSTANTIATIONS = [(integers, number) for integers in BUILDS for number in range(BUILD_COUNTS[integers])]


@pytest.mark.parametrize("integers", BUILDS)
def test_position_vectors(integers: Integers) -> None:
    """FP R10, FP R48"""
    expected = [case["nsb"] for case in POSITIONS], [case["lsb"] for case in POSITIONS]
    assert bits(integers, find(integers, acc_width=32), [case["v"] for case in POSITIONS]) == expected


@pytest.mark.parametrize("integers", BUILDS)
def test_positions_of_every_number_of_sixteen_bits(integers: Integers) -> None:
    """FP R10, exhaustive"""
    values = np.arange(-(1 << 15), 1 << 15)
    found = bits(integers, find(integers, acc_width=16), values.tolist())
    assert found == (nsb_positions(values).tolist(), lsb_positions(values).tolist())


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("case", CONVERSIONS, ids=lambda case: case["id"])
def test_conversion_vectors(integers: Integers, case: dict[str, Any]) -> None:
    """FP R12, FP R48"""
    which = find(integers, acc_width=32, out_width=case["OW"], rounding=case["round"], saturation=case["sat"])
    assert cpp_convert(integers, which, [case["v"]], [case["shift"]]) == ([case["out"]], [case["saturated"]])


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("case", DETERMINE, ids=lambda case: case["id"])
def test_selection_vectors(integers: Integers, case: dict[str, Any]) -> None:
    """FP R10, FP R14, FP R17, FP R48: three units, merged; all histograms; the shift"""
    values, which = case_values(case), find(integers, acc_width=32, nsb="histogram", lsb="histogram")
    known, shift = statistics(integers, which, values, (1, len(values) // 2), case_rule(case["cfg"]))
    wanted = case["stats"]
    assert (known.count, known.nsb_max, known.lsb_min) == (wanted["count"], wanted["nsb_max"], wanted["lsb_min"])
    assert known.nsb_histogram.tolist() == wanted["nsb_hist"]
    assert known.lsb_histogram.tolist() == wanted["lsb_hist"]
    assert shift == case["shift"]
    narrow, saturated = cpp_convert(integers, which, values, [shift] * len(values))
    assert sum(saturated) == case["saturated"]
    assert narrow == case.get("out", narrow)


@pytest.mark.parametrize(("integers", "number"), INSTANTIATIONS)
@settings(max_examples=40)
@given(data=st.data(), rule=RULES)
def test_statistics_and_shift_are_those_of_numpy(
    integers: Integers, number: int, data: Any, rule: PositionRule
) -> None:
    """FP R6, FP R7, FP R10, FP R14, FP R15, FP R17: any split between lanes, a scalar unit, and a cleared unit"""
    which = build(integers, number)
    values = data.draw(wide_values(which.kind.acc_width, max_size=50))
    cuts = data.draw(st.tuples(st.integers(0, len(values)), st.integers(0, len(values))))
    expected = collect(np.array(values, np.int64), which.kind)
    if not which.serves(rule.rule):
        if expected.nsb_max >= 0:
            with pytest.raises(SimulationError, match="a build without"):
                statistics(integers, which, values, cuts, rule)
        rule = PositionRule("max", margin=rule.margin)
    known, shift = statistics(integers, which, values, cuts, rule)
    for name in ("count", "nsb_max", "lsb_min", "nsb_histogram", "lsb_histogram"):
        np.testing.assert_array_equal(getattr(known, name), getattr(expected, name), err_msg=name)
    assert shift == select_shift(expected, rule, which.format.out_width)


@pytest.mark.parametrize(("integers", "number"), INSTANTIATIONS)
@settings(max_examples=40)
@given(data=st.data())
def test_narrow_results_are_those_of_numpy(integers: Integers, number: int, data: Any) -> None:
    """FP R12: every rounding and saturation of the builds, every shift"""
    which = build(integers, number)
    values = data.draw(wide_values(which.format.acc_width, min_size=1, max_size=40))
    shifts = data.draw(st.lists(st.integers(-8, 31), min_size=len(values), max_size=len(values)))
    fmt = which.format
    narrow, changed = shift_to_bits(values, shifts, fmt.out_width, fmt.rounding, fmt.saturation)  # type: ignore[arg-type]
    assert cpp_convert(integers, which, values, shifts) == (narrow.tolist(), changed.tolist())
    assert convert(values, np.array(shifts), fmt).saturated == np.count_nonzero(changed)


@pytest.mark.parametrize("flow", range(5))
@pytest.mark.parametrize("integers", BUILDS)
def test_flow_vectors(integers: Integers, flow: int) -> None:
    """FP R22-R25, FP R27, FP R48: two layers of 16 items; shifts, saturated values, rows computed and kept"""
    thickness, period = FLOWS["sample"]
    sampled = np.arange(16) % period < thickness
    which = find(integers, acc_width=32, rounding="rne", saturation="full")
    weights = [np.array(weight) for weight in FLOWS["weights"]]
    output, layers = run_network(
        integers, which, flow, np.array(FLOWS["x"]), weights, sampled, case_rule(FLOWS["cfg"]), initial_shift=6
    )
    wanted = FLOWS["flows"][str(flow)]
    assert output.tolist() == wanted["out"]
    for layer, trace in zip(layers, wanted["trace"], strict=True):
        assert (layer.shift, layer.saturated) == (trace["shift"], trace["saturated"])
        rows = layer.computed_rows, layer.written_rows, layer.read_rows
        assert rows == tuple(trace["cost"][name] for name in ("mac_rows", "wide_rows_written", "wide_rows_read"))


def test_a_rate_that_the_register_does_not_hold_stops_the_simulation() -> None:
    """FP R17"""
    rule = PositionRule()
    object.__setattr__(rule, "rate_log2", 32)
    with pytest.raises(SimulationError, match="the register rate_log2 holds 0 to 31, not 32"):
        statistics("native", build("native", 0), [1, 2, 3], (1, 2), rule)


#: A unit of 16 lanes as a kernel: a statistics pass, the selection, a main pass.
TOP = """
#include <hls_stream.h>

#include "bfpga/output/positions/converter.hpp"
#include "bfpga/output/positions/selector.hpp"

struct Unit : bfpga::PositionDefaults {{
    static constexpr bfpga::NsbKept nsb = bfpga::NsbKept::{nsb};
    static constexpr bfpga::LsbKept lsb = bfpga::LsbKept::{lsb};
}};
using wide_t = bfpga::PositionTypes<Unit>::wide_t;
using narrow_t = bfpga::PositionTypes<Unit>::narrow_t;

void top(hls::stream<ap_uint<512> >& input, hls::stream<ap_uint<128> >& output, bfpga::RuleRegisters rule) {{
#pragma HLS INTERFACE axis port=input
#pragma HLS INTERFACE axis port=output
    static bfpga::PositionStatistics<Unit> statistics;
    static bfpga::PositionConverter<Unit> converter;
    wide_t wide[16];
    bool valid[16];
    narrow_t narrow[16];
#pragma HLS ARRAY_PARTITION variable=wide complete dim=0
#pragma HLS ARRAY_PARTITION variable=valid complete dim=0
#pragma HLS ARRAY_PARTITION variable=narrow complete dim=0
    statistics.clear();
Pass_Statistics:
    for (int beat = 0; beat < 64; ++beat) {{
// II=1: a beat is read and counted a clock
#pragma HLS PIPELINE II=1
        const ap_uint<512> word = input.read();
    Lanes_Read:
        for (int lane = 0; lane < 16; ++lane) {{
#pragma HLS UNROLL
            wide[lane] = static_cast<wide_t>(bfpga::get_signed<32>(word, 32 * lane));
            valid[lane] = true;
        }}
        statistics.collect(wide, valid);
    }}
    converter.start(bfpga::select_shift<Unit>(statistics, rule));
    converter.convert(wide, valid, narrow);
    ap_uint<128> result = 0;
Lanes_Write:
    for (int lane = 0; lane < 16; ++lane) {{
#pragma HLS UNROLL
        bfpga::set_signed<8>(result, 8 * lane, static_cast<int64_t>(narrow[lane]));
    }}
    output.write(result);
}}
"""


@pytest.mark.parametrize(("nsb", "lsb"), [("Histogram", "Histogram"), ("Coarse", "Minimum"), ("Maximum", "None")])
def test_units_keep_the_rules_of_synthesis(nsb: str, lsb: str) -> None:
    """FP 7: every loop labelled and bound, every pragma legal, in a unit that is instantiated"""
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    text = TOP.format(nsb=nsb, lsb=lsb)
    assert lint.format_findings(lint.lint_sources({"top.cpp": text}, [library_directory()])) == "no findings"


ILLEGAL = {
    "acc_width = 15": "wide results have 16 to 48 bits",
    "acc_width = 49": "wide results have 16 to 48 bits",
    "out_width = 3": "narrow results have 4 to 16 bits",
    "out_width = 17": "narrow results have 4 to 16 bits",
    "lanes = 0": "1 to 64 results a clock",
    "count_bits = 33": "counters have 8 to 32 bits",
}


@pytest.mark.parametrize("assignment", ILLEGAL)
def test_widths_that_are_not_allowed_do_not_compile_and_say_why(assignment: str, tmp_path: Path) -> None:
    """FP 2.1"""
    source = tmp_path / "unit.cpp"
    source.write_text(
        '#include "bfpga/output/positions/types.hpp"\n'
        f"struct Illegal : bfpga::PositionDefaults {{ static constexpr int {assignment}; }};\n"
        "template struct bfpga::PositionTypes<Illegal>;\n"
    )
    flags = [*toolchain.WARNINGS, "-fsyntax-only", "-DBFPGA_NATIVE_INTEGERS", "-I", str(library_directory())]
    result = subprocess.run([compiler(), *flags, str(source)], capture_output=True, text=True, check=False)
    assert ILLEGAL[assignment] in result.stderr
