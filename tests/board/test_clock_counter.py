"""Clocks that a board measures beside those that its schedule counts: what explains them, and what is reported."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("pynq")

from board_fixtures import expected
from board_targets import check_run, opened, same

from bfpga.board.virtual.clock_counter import BUFFERED_BEATS, FIRST_BEAT_CLOCKS, StreamPace, elapsed
from bfpga.board.virtual.faults import Fault, SlowKernel, SlowStream
from bfpga.board.virtual.kernel_model import OperationTime
from bfpga.contract.cores import CLOCK_COUNTER
from bfpga.contract.registers import counter_offset_of
from bfpga.devices.measured_clocks import BEGIN_WAITS, START_CLOCKS, UNEXPLAINED_SHARE, MeasuredClocks
from bfpga.errors import ClockWarning, DeviceError

pytestmark = pytest.mark.board
CASE = "lenet_tiny"


@contextmanager
def run_with(*faults: Fault) -> Iterator[tuple[Any, Any, list[str]]]:
    """The overlay, the result of four samples, and the warnings of the run."""
    with opened(CASE) as (overlay, device):
        reference = expected(CASE, 4)
        device.run(reference.inputs)  # what is learned and loaded once
        overlay.target.board.faults.inject(*faults)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = device.run(reference.inputs)
        assert same(result, reference)
        yield overlay, result, [str(item.message) for item in caught if item.category is ClockWarning]


def test_a_board_without_faults_takes_its_schedule_and_the_waits_of_its_streams() -> None:
    with run_with() as (_, result, warned):
        measured = result.measured
        assert measured.counted == result.cycles
        assert measured.clocks == measured.scheduled + measured.waits
        assert 0 < measured.waits <= FIRST_BEAT_CLOCKS * measured.starts
        assert (measured.unexplained, measured.warning, warned) == (0, None, [])


def test_a_kernel_that_misses_its_interval_is_reported_although_it_counts_the_same_cycles() -> None:
    with run_with(SlowKernel(kernel="accelerator", interval=1.5, sticky=True)) as (_, result, warned):
        measured = result.measured
        assert measured.counted == result.cycles, "the register `cycles` knows nothing of it"
        assert measured.unexplained == pytest.approx(0.5 * measured.scheduled, rel=0.01)
        assert warned == [measured.warning]
        assert f"{measured.clocks:,} clocks" in warned[0]
        assert "interval" in warned[0]


@pytest.mark.parametrize(
    ("stream", "waits"),
    [("tensor_dma/M_AXIS_MM2S", "input_waits"), ("tensor_dma/S_AXIS_S2MM", "output_waits")],
)
def test_a_slow_stream_is_reported_with_its_waits(stream: str, waits: str) -> None:
    with run_with(SlowStream(stream=stream, clocks_a_beat=200, sticky=True)) as (_, result, warned):
        measured = result.measured
        assert measured.clocks > 1.2 * measured.scheduled
        assert getattr(measured, waits) > 0.9 * measured.waits > 0
        assert warned == [measured.warning]
        assert f"streams waited in {measured.waits:,}" in warned[0]
        assert "memory does not keep up, or" in warned[0]


def test_waits_explain_no_more_than_the_begin_of_a_start() -> None:
    """Other processes work meanwhile."""
    measured = MeasuredClocks(clocks=150_000, counted=140_000, scheduled=100_000, waits=50_000, starts=1)
    assert measured.unexplained == 50_000 - BEGIN_WAITS
    assert "memory does not keep up, or" in str(measured.warning)


def test_faults_of_time_name_what_the_design_has_and_are_no_speed_up() -> None:
    with opened(CASE) as (overlay, _):
        faults = overlay.target.board.faults
        with pytest.raises(DeviceError, match="no kernel of the design"):
            faults.inject(SlowKernel(kernel="array"))
        with pytest.raises(DeviceError, match="no end of a stream"):
            faults.inject(SlowStream(stream="accelerator/input"))
    for wrong in (0.5, float("nan"), float("inf")):
        with pytest.raises(DeviceError, match="1 or more"):
            SlowKernel(kernel="accelerator", interval=wrong)


def test_a_counter_that_no_interrupt_stops_shows_its_largest_value_until_the_next_start() -> None:
    with opened(CASE) as (overlay, device):
        registers = overlay.hardware.registers
        registers.start({"descriptor_count": 0, "control": 0})
        assert registers.finished()
        ended = overlay.hardware.counter.read("clocks")
        registers.write("GIER", 0)
        registers.start({"descriptor_count": 0, "control": 0})
        assert overlay.hardware.counter.read("clocks") == 0xFFFFFFFF > ended
        registers.write("GIER", 1)
        check_run(device, CASE)


def test_writing_to_the_counter_changes_nothing() -> None:
    with opened(CASE) as (overlay, device):
        check_run(device, CASE)
        before = overlay.hardware.counter.read("clocks")
        base = overlay.manifest.cells[CLOCK_COUNTER].base
        overlay.target.board.write(base + counter_offset_of("clocks"), bytes(4))
        assert overlay.hardware.counter.read("clocks") == before > 0


# The model of time


def operations(*items: tuple[int, int, int]) -> list[OperationTime]:
    """Clocks, beats of input and of output."""
    return [OperationTime(clocks, (beats, out)) for clocks, beats, out in items]


def test_the_first_beats_are_awaited_and_the_buffer_hides_what_the_work_leaves_time_for() -> None:
    ready = [StreamPace(1, -FIRST_BEAT_CLOCKS), StreamPace(1, BUFFERED_BEATS)]
    first = elapsed(operations((20, 16, 0)), ready)
    assert (first.clocks, first.waits) == (FIRST_BEAT_CLOCKS + 16, FIRST_BEAT_CLOCKS - 4)
    slow = [StreamPace(4, BUFFERED_BEATS), StreamPace(1, BUFFERED_BEATS)]
    hidden = elapsed(operations((1000, BUFFERED_BEATS, 0), (10, BUFFERED_BEATS, 0), (10, 10, 0)), slow)
    # 2.5 of the last ten beats came while the buffer was emptied; the others come at the pace of the stream.
    assert hidden.waits == 7.5 * 4 - 10


def test_streams_that_wait_together_count_once() -> None:
    both = [StreamPace(10, 0), StreamPace(8, 0)]
    counted = elapsed(operations((30, 10, 10)), both)
    assert (counted.clocks, counted.waits, counted.stream_waits) == (100, 70, (70, 50))


# What is reported


@pytest.mark.parametrize("scheduled", [1000, 100_000])
def test_more_than_the_tolerance_is_reported(scheduled: int) -> None:
    tolerance, known = int(UNEXPLAINED_SHARE * scheduled) + START_CLOCKS, {"scheduled": scheduled, "starts": 1}
    for beyond in (0, 1):
        measured = MeasuredClocks(clocks=scheduled + 100 + tolerance + beyond, waits=100, **known)
        assert bool(measured.warning) == bool(beyond)
        assert measured.to_dict()["unexplained"] == tolerance + beyond
    few = MeasuredClocks(clocks=scheduled // 2 - 1, **known)
    assert "does not watch" in str(few.warning)
    assert MeasuredClocks(clocks=scheduled // 2, **known).warning is None


def test_a_report_says_what_was_measured_and_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    from bfpga.cli.reports import print_measured

    print_measured(MeasuredClocks(clocks=2000, counted=1200, scheduled=1000, waits=10, input_waits=10, starts=1))
    printed = capsys.readouterr().out
    assert "2,000 clocks measured, 1,000 of the schedule for 1,200 of work, 10 with a stream waiting (input" in printed
    assert "warning: the hardware took 2,000 clocks" in printed
    assert "990 are unexplained" in printed


def test_measurements_of_several_starts_add_up() -> None:
    one = MeasuredClocks(clocks=10, counted=6, waits=3, input_waits=2, weight_waits=1, output_waits=1, starts=1)
    assert one + one == MeasuredClocks(20, 12, 6, 4, 2, 2, 2)
