"""Histograms of what precedes a layer: `bfpga run --histograms`, records of define-by-run (FP R49)."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from math import frexp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager_cases import integers, tiny_with
from effort import each_once
from hypothesis import given
from hypothesis import strategies as st

import bfpga
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.api.position_histograms import position_histograms
from bfpga.cli import main
from bfpga.compiler.options import CompileOptions
from bfpga.engines.output.collector import PositionHistogram
from bfpga.formats.arrays import FloatArray
from bfpga.report.histograms import bars

MODELS = Path(__file__).parents[2] / "examples" / "models"
MODEL, DATA = str(MODELS / "lenet_mnist.onnx"), str(MODELS / "mnist_test.npz")
RUN = ["run", MODEL, "-a", "pynq_z2_flows", "-d", DATA]
#: Mantissas of eight bits: a result fits if its highest bit is at most six above the exponent.
FITS = 6


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Accelerator:
    return load_accelerator(tiny_with(tmp_path_factory.mktemp("accelerator"), "position_bins: 24", "wide_words: 512"))


def plain_counts(values: FloatArray) -> dict[int, int]:
    """Positions of the highest bits that differ from the sign, by the size of each value: -4 has its own at 1."""
    positions = Counter()
    for value in values.reshape(-1).tolist():
        mantissa, exponent = frexp(value)
        if value:
            positions[exponent - 1 - (mantissa == -0.5)] += 1
    return dict(positions)


@pytest.mark.parametrize(
    ("flow", "device"), each_once(["two_pass", "two_pass_sampled", "keep", "keep_sampled"], ["emulator", "csim"])
)
def test_records_hold_the_histogram_of_the_rows_that_were_measured(
    flow: Any, device: str, keeping: Accelerator
) -> None:
    """FP R49, R10, R28: exact sums of plain integers, counted value by value; clocks are those without reading."""
    x, w = integers(32, 5, largest=30), integers(5, 7, seed=1, largest=30)
    with bfpga.eager(keeping, device, flow=flow, sample=4, rule="rate", histograms=True) as run:
        run.linear(x, w)
        record = run.trace[-1]
    with bfpga.eager(keeping, flow=flow, sample=4, rule="rate") as run:
        run.linear(x, w)
        assert record.cycles == run.trace[-1].cycles
    measured, histogram = (x @ w)[:: 4 if "sampled" in flow else 1], record.histogram
    assert histogram is not None
    assert histogram.values == measured.size
    assert dict(histogram.counts) == plain_counts(measured)
    assert histogram.without_bit == np.count_nonzero(measured == 0)


def test_kernels_tell_their_histogram_to_those_who_ask(keeping: Accelerator) -> None:
    """FP R49: reading takes starts of its own, so nobody gets it unasked."""
    for rule, asked in (("rate", False), ("lead", True)):
        with bfpga.eager(keeping, "csim", rule=rule, histograms=asked) as run:
            run.linear(integers(8, 4), np.eye(4))
            assert run.trace[-1].histogram is None


def exponent_by(counts: dict[int, int], measured: int, rate: int) -> int:
    """The rule `rate`: the smallest exponent that lets no more than one of ``rate`` results exceed its range."""
    tolerated = Fraction(measured, rate)
    reach = min(p for p in counts if sum(n for position, n in counts.items() if position > p) <= tolerated)
    return reach - FITS


def test_a_run_shows_what_each_exponent_was_found_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FP R49, R17: the exponent of every layer of LeNet follows by its rule from the counts that are shown."""
    target = tmp_path / "run.json"
    arguments = ["--policy", "dynamic", "--histograms", "1", "-n", "2", "--json", str(target)]
    assert main([*RUN, *arguments]) == 0
    printed, content = capsys.readouterr().out, json.loads(target.read_text())
    assert "Highest bits of what preceded each layer, 1 samples, emulator" in printed
    assert content["histogram_samples"] == 1
    layers = content["histograms"]
    assert [layer["layer"] for layer in layers] == ["/c1/Conv", "/c2/Conv", "/f1/Gemm", "/f2/Gemm"]
    for layer in layers:
        counts = {int(position): count for position, count in layer["counts"].items()}
        assert layer["rule"] == "rate 1/4096"
        assert sum(counts.values()) + layer["without_bit"] == layer["measured"]
        assert layer["exponents"] == [exponent_by(counts, layer["measured"], 4096)] * 2
        assert bars(counts) in printed


DIGITS = ["run", str(MODELS / "mlp_digits.onnx"), "-a", "tiny", "-d", str(MODELS / "digits_test.npz"), "-n", "3"]


def histograms_of(device: str, target: Path, *more: str) -> dict[str, Any]:
    asked = ["--policy", "dynamic", "--flow", "auto", "--histograms", "2", "--device", device]
    assert main([*DIGITS, *asked, "--json", str(target), *more]) == 0
    return {name: value for name, value in json.loads(target.read_text()).items() if name.startswith("histogram")}


def test_a_kernel_shows_the_counts_of_its_own_collector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FP R49: on every device that is a kernel, of whatever flow; the report has them too."""
    expected = histograms_of("emulator", tmp_path / "emulator.json")
    assert len(expected["histograms"]) == 2
    assert "the emulator counts the same" not in capsys.readouterr().out
    page = tmp_path / "page.html"
    for device, more in (("csim", ["--report", str(page)]), ("virtual", ["--compare"])):
        if device == "virtual":
            pytest.importorskip("pynq")
        found = histograms_of(device, tmp_path / "kernel.json", *more)
        assert found == expected | {"histogram_device": device}
        printed = capsys.readouterr().out
        assert f"Highest bits of what preceded each layer, 2 samples, {device}" in printed
        assert "the emulator counts the same, bin by bin" in printed
    shown = page.read_text()
    assert "On 2 samples, as csim counts them." in shown
    for layer in expected["histograms"]:
        assert bars({int(position): count for position, count in layer["counts"].items()}) in shown


def test_counts_that_differ_are_an_error_that_names_the_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bfpga.devices.kernel_device.read_histogram", lambda *_: PositionHistogram(5, {-2: 4}))
    target = tmp_path / "run.json"
    arguments = [*DIGITS, "--policy", "dynamic", "--histograms", "1", "--device", "csim", "--json", str(target)]
    assert main(arguments) == 1
    content, printed = json.loads(target.read_text()), capsys.readouterr().out
    assert content["histogram_difference"].startswith(f"layer {content['histograms'][0]['layer']}: the emulator has ")
    assert "histograms differ: layer " in printed
    assert "the emulator counts the same" not in printed


def test_samples_add_up() -> None:
    """FP R49, R14: the histogram of three samples is the sum of theirs; there are no more samples than there are."""
    program = bfpga.compile(MODEL, "pynq_z2_flows", options=CompileOptions(policy="dynamic"))
    images = bfpga.load_samples(DATA).x[:3]
    [name] = program.inputs
    together = position_histograms(program, {name: images}, 9)
    alone = [position_histograms(program, {name: images[number:]}, 1) for number in range(3)]
    for layer, *parts in zip(together, *alone, strict=True):
        first, second, third = (part.histogram for part in parts)
        assert layer.histogram == first + second + third
        assert layer.saturated == sum(part.saturated for part in parts)
        assert layer.exponents == (min(p.exponents[0] for p in parts), max(p.exponents[1] for p in parts))


def test_the_page_shows_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/kernel-positions.md: the table of histograms."""
    monkeypatch.setenv("BFPGA_COLUMNS", "140")
    assert main([*RUN, "-n", "20", "--policy", "dynamic", "--histograms", "8"]) == 0
    printed = capsys.readouterr().out.partition("Highest bits")
    lines = [line.rstrip() for line in (printed[1] + printed[2]).splitlines() if line.strip()]
    shown = (MODELS.parents[1] / "docs" / "kernel-positions.md").read_text().splitlines()
    assert len(lines) == 7
    assert [line for line in lines if line not in shown] == []


@given(st.lists(st.dictionaries(st.integers(-9, 9), st.integers(1, 99)), min_size=1, max_size=5))
def test_histograms_add_by_position(parts: list[dict[int, int]]) -> None:
    """FP R14, R49: in any order; results without a bit are those that no position has."""
    made = [PositionHistogram(sum(part.values()) + 2, part) for part in parts]
    total: Counter[int] = sum((Counter(part) for part in parts), Counter())
    for order in (made, made[::-1]):
        found = order[0]
        for part in order[1:]:
            found = found + part
        assert dict(found.counts) == dict(total)
        assert found.without_bit == 2 * len(parts)


@pytest.mark.parametrize(
    ("counts", "line"), [({}, ""), ({3: 5}, "█"), ({-1: 8, 1: 1, 2: 4}, "█ ▁▄"), ({0: 1000, 1: 1}, "█▁")]
)
def test_bars_are_shares_of_the_fullest_bin(counts: dict[int, int], line: str) -> None:
    assert bars(counts) == line


def test_without_a_collectors_rule_there_is_nothing_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "-n", "2", "--histograms", "2"]) == 0
    assert "no layer has a histogram: exponents are found by rules on one with" in capsys.readouterr().out
