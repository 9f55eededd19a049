"""From registers to causes: what a user reads when a start fails."""

from __future__ import annotations

import pytest

from bfpga.board.axi_dma_registers import Control as DmaControl
from bfpga.board.axi_dma_registers import Status
from bfpga.board.diagnosis import Moved, Snapshot, of_channel, of_checksum, of_timeout
from bfpga.board.dma import ChannelState
from bfpga.board.errors import BoardDiagnosis, BoardError
from bfpga.board.registers import control_sentence
from bfpga.contract.registers import Control

ALL, NOTHING = Moved(64, 64), Moved(0, 64)


def state(name: str, status: Status) -> ChannelState:
    return ChannelState(name, DmaControl.RUN, status, 0)


@pytest.mark.parametrize(
    ("status", "name", "cause"),
    [
        (Status.DECODE_ERROR, "tensor_dma MM2S", "address without memory"),
        (Status.SLAVE_ERROR, "tensor_dma MM2S", "memory refused"),
        (Status.INTERNAL_ERROR, "tensor_dma S2MM", "more bytes than the program's stores say"),
        (Status.INTERNAL_ERROR, "weight_dma MM2S", "length 0"),
        (Status.HALTED, "weight_dma MM2S", "something else reset the DMA"),
    ],
)
def test_each_error_of_a_channel_has_its_cause(status: Status, name: str, cause: str) -> None:
    finding = of_channel(state(name, status))
    assert cause in finding.cause
    assert finding.remedy


@pytest.mark.parametrize(
    ("control", "moved", "cause"),
    [
        (Control.IDLE, {"input": NOTHING, "output": NOTHING}, "not running although it was started"),
        (Control.IDLE, {"input": ALL, "output": NOTHING}, "a beat with TLAST is missing"),
        (Control(0), {"input": ALL, "weights": NOTHING, "output": NOTHING}, "stream `weights` is stuck"),
        (
            Control(0),
            {"input": ALL, "weights": ALL, "output": NOTHING},
            "never finished although all its data",
        ),
        (Control.IDLE, {"input": ALL, "output": ALL}, "longer than its time limit"),
        (None, {}, "cannot be read"),
    ],
)
def test_a_start_without_end_has_a_cause(control: Control | None, moved: dict[str, Moved], cause: str) -> None:
    assert cause in of_timeout(Snapshot({}, moved, control)).cause


@pytest.mark.parametrize(
    ("control", "words"),
    [
        (Control.IDLE, "idle, not started"),
        (Control.IDLE | Control.START, "about to start"),
        (Control.START, "running"),
        (Control.DONE | Control.IDLE, "finished"),
        (None, "cannot be read"),
    ],
)
def test_the_control_register_is_told_in_words(control: Control | None, words: str) -> None:
    assert words in control_sentence(control)


def test_a_snapshot_tells_channels_that_could_not_be_read() -> None:
    lines = Snapshot({"input": None}, {"input": Moved(8, 64)}, None).lines()
    assert lines[0] == "input channel: its registers cannot be read; 8 of 64 bytes of `input` seen to move"


def test_checksums_have_another_cause_on_the_way_back() -> None:
    assert "not flushed" in of_checksum("weights").cause
    assert "not invalidated" in of_checksum("output").cause


def test_the_text_of_an_error_holds_everything() -> None:
    diagnosis = BoardDiagnosis("it failed", "a cause", "a remedy", ("dma line",), ("stuck stream",), "all clean")
    error = BoardError(diagnosis)
    assert error.diagnosis is diagnosis
    assert str(error).splitlines() == [
        "it failed",
        "likely cause: a cause",
        "try: a remedy",
        "  dma line",
        "  virtual board: stuck stream",
        "all clean",
    ]
