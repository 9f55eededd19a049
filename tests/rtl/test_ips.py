"""The Verilog of an IP does what its C++ did in the C simulation: word for word, start after start, whatever waits."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest
from effort import each_once, some_of
from ip_simulation import SimulatedIp
from recorded_words import words
from tiny_verilog import ACCELERATOR, IPS, verilog

from bfpga.accelerator.loader import load_accelerator
from bfpga.synthesis.driver import clock_of
from bfpga.synthesis.frontend import kernel
from bfpga.synthesis.frontend.kernel import analyse_ip
from bfpga.synthesis.frontend.segments import Bodies
from bfpga.synthesis.kept import kernel_files
from bfpga.synthesis.schedule import schedule_loop
from bfpga.synthesis.traffic import Traffic
from bfpga.verify.traffic import kernel_traffic
from bfpga.verify.vectors import kernel_vectors

#: Chance in a clock that no word is there, and that there is no room.
DISTURBANCES = ((0.1, 0.9), (0.5, 0.0), (0.0, 0.5))
PARTS = ("store", "weights", "array")


@functools.cache
def traffic() -> dict[str, Traffic]:
    return dict(zip(IPS, kernel_traffic(ACCELERATOR, kernel_vectors(ACCELERATOR.config)), strict=True))


@functools.cache
def simulated(part: str) -> SimulatedIp:
    with tempfile.TemporaryDirectory() as directory:
        return SimulatedIp(verilog(part), Path(directory))


def assert_equal_words(part: str, gap: float, pressure: float, reset_at: int = 0) -> int:
    incoming, outgoing = words(traffic()[part].incoming), words(traffic()[part].outgoing)
    counts = {name: len(passed) for name, passed in outgoing.items()}
    done = simulated(part).run(incoming, counts, 7, gap, pressure, reset_at=reset_at)
    masks = {port.name: (1 << port.bits) - 1 for port in IPS[part].streams}
    assert {n: [w & masks[n] for w in beats] for n, beats in done.beats.items()} == {
        n: [w & masks[n] for w in passed] for n, passed in outgoing.items()
    }
    assert done.taken == {name: len(passed) for name, passed in incoming.items()}
    assert done.faults == 0
    return done.clocks


@pytest.mark.parametrize(("part", "waits"), each_once(PARTS, DISTURBANCES))
def test_an_ip_writes_the_words_of_all_starts_however_its_streams_wait(part: str, waits: tuple[float, float]) -> None:
    assert_equal_words(part, *waits)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("reset_at", some_of((100, 333), 333))
def test_an_ip_begins_anew_after_a_reset_amid_a_start(part: str, reset_at: int) -> None:
    assert_equal_words(part, 0.3, 0.3, reset_at)


def test_a_loop_of_interval_1_moves_a_word_a_clock() -> None:
    longest = max(len(passed) for passed in words(traffic()["array"].incoming).values())
    assert assert_equal_words("array", 0.0, 0.0) < 1.06 * longest


def test_a_constructor_is_words_at_power_on_and_no_logic() -> None:
    text = verilog("array").text
    assert "_ZGV" not in text
    assert "bfpga_array_segment_0" in text


@pytest.mark.slow
def test_a_loop_has_the_interval_that_synthesis_finds() -> None:
    """Pragmas of variables stand in constructors, which are no hardware: they count all the same."""
    dense = load_accelerator("pynq_z2_dense")
    code = analyse_ip(kernel_files(dense), "src/array.cpp").bodies
    (loop,) = (body for body, is_loop in zip(code.bodies, code.is_loop, strict=True) if is_loop)
    assert schedule_loop(loop, dense.board.part, clock_of(dense, "array")).interval == loop.stated_interval == 1


@pytest.mark.slow
def test_a_function_is_no_code_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its constructors alone run here. LLVM's compiler stops at the words of 576 bits of this output stage."""
    monkeypatch.setattr(kernel, "bodies_of", lambda *_: Bodies((), (), ()))
    wide = load_accelerator("kv260_dense")
    words = analyse_ip(kernel_files(wide), "src/post.cpp").power_on.words
    assert any(map(any, words.values()))
