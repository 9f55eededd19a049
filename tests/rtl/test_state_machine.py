"""Code between the loops of a process as hardware: a small process against its meaning in Python."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from ip_simulation import SimulatedIp
from process_designs import TINY

from bfpga.accelerator.loader import load_accelerator
from bfpga.rtl.ip import IpVerilog, ip_verilog
from bfpga.vendor.kernel_ips import KernelIp, StreamPort
from bfpga.vendor.render import kernel_sources

SOURCE = Path(__file__).with_name("commanded.cpp")
PORTS = (StreamPort("commands", False, 32, False), StreamPort("words", False, 32, False),
         StreamPort("results", True, 32, False))  # fmt: skip
IP = KernelIp("commanded", "commanded", "commanded", "src/commanded.cpp", False, PORTS)
WORD = (1 << 32) - 1


@functools.cache
def verilog() -> IpVerilog:
    files = kernel_sources({IP.source: SOURCE.read_text()})
    return ip_verilog(load_accelerator(TINY), IP, files)


@functools.cache
def simulated() -> SimulatedIp:
    with tempfile.TemporaryDirectory() as directory:
        return SimulatedIp(verilog(), Path(directory))


def meaning(commands: Sequence[int], words: Sequence[int]) -> list[int]:
    """What the process writes."""
    left, results = list(words), []
    sums, starts, stored = [0, 100, 200, 300], 7, [0] * 64
    histories, lanes = [[0] * 8 for _ in range(16)], [[(0, 0), (0, 0)], [(0, 0), (0, 0)]]
    counts, older = [0] * 16, (0, 0)
    line, cuts = [0] * 5, [[0] * 5 for _ in range(4)]
    for command in commands:
        count, slot, largest, chosen = command & 31, command >> 5 & 3, 0, 0
        for n in range(count):
            word = left.pop(0)
            stored[n + slot] = word & 0xFFFF
            sums[slot] = (sums[slot] + 3 * word) & WORD
            largest = max(largest, word)
            for k in range(2):
                chosen += next((value for there, value in lanes[k] if there), 0) << k
                lanes[k] = [(word >> 2 * k + lane & 1, word >> 8 * (k + lane) & 255) for lane in range(2)]
        results.append(((sums[slot] >> 4 * (command >> 8 & 7) & 15) + 1000 * starts) & WORD)
        results.append(sums[slot] // (largest + 1) if command >> 30 & 1 and largest < WORD else stored[slot])
        number = command >> 12 & 15
        histories[number][counts[number] & 7] = sums[slot]
        counts[number] += 1
        mark = (sums[slot] & 15, sums[slot])
        recent = older if slot == 2 else mark
        older = mark if slot == 1 else older
        results += [sum(recent) & WORD, histories[number][command >> 16 & 7], chosen]
        cut, limit = line if command >> 25 & 1 else cuts[command >> 20 & 3], command >> 22 & 7
        results.append(cut[limit - 1])
        cut[limit] = sums[slot] & 0xFFFF
        starts += command >> 31
    return results


COMMANDS = st.builds(
    lambda count, slot, digit, history, back, band, limit, along, divides, ends: (
        count | slot << 5 | digit << 8 | history << 12 | back << 16 | band << 20 | limit << 22 | along << 25
        | divides << 30 | ends << 31
    ),
    st.integers(0, 31), st.integers(0, 3), st.integers(0, 7), st.sampled_from((0, 15)), st.integers(0, 7),
    st.integers(0, 3), st.integers(1, 4), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1),
)  # fmt: skip


@settings(max_examples=drawn(60), deadline=None)
@given(st.lists(COMMANDS, min_size=1, max_size=12), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.5]))
def test_a_process_means_in_verilog_what_it_means_in_python(commands, random, waits) -> None:  # type: ignore[no-untyped-def]
    words = [random.choice((random.randrange(1 << 31), random.randrange(50))) for c in commands for _ in range(c & 31)]
    expected = meaning(commands, words)
    done = simulated().run(
        {"commands": commands, "words": words}, {"results": len(expected)}, random.randrange(1000), waits, waits
    )
    assert done.beats["results"] == expected
    assert done.taken == {"commands": len(commands), "words": len(words)}
    assert done.faults == 0


def test_a_constructor_is_words_at_power_on_and_no_hardware() -> None:
    text = verilog().text
    assert "32'h64;" in text  # 100, the first word of a sum
    assert "_ZGV" not in text


def small(name: str) -> IpVerilog:
    """A process from ``words`` to ``results``."""
    source = SOURCE.with_name(f"{name}.cpp").read_text()
    ports = (StreamPort("words", False, 32, False), StreamPort("results", True, 32, False))
    ip = KernelIp(name, name, name, f"src/{name}.cpp", False, ports)
    return ip_verilog(load_accelerator(TINY), ip, kernel_sources({ip.source: source}))


def test_beats_of_a_stream_keep_their_order_however_long_each_takes(tmp_path: Path) -> None:
    """Two writes of which an iteration makes one: that of the next iteration has its word many clocks earlier."""
    words = [3, 5, 8, 2, 9, 7, 0, 1 << 31 | 1, 4, 6, 0]
    expected = []
    for word in words:
        expected += [(word * word + 7) * (word | 1) & WORD, *([word] if word & 1 else [])]
    done = SimulatedIp(small("alternating"), tmp_path).run({"words": words}, {"results": len(expected)})
    assert done.beats["results"] == expected


def test_lanes_of_a_word_that_are_stored_under_different_conditions_are_stored_together(tmp_path: Path) -> None:
    """clang makes a branch of a choice between two values; a word takes the lanes of all its ways at once."""
    random = Random(1)
    words = [random.getrandbits(29) & ~15 | random.randrange(2) | random.choice((0, 1, 1, 1)) << 29 for _ in range(200)]
    words = [*words, 1 << 31]
    sums, expected = [[0] * 3 for _ in range(16)], []
    for word in words:
        lanes = sums[word & 15]
        expected.append(lanes[0] | lanes[1] << 8 | lanes[2] << 16)
        if word >> 28 & 1:
            sums[word & 15] = [0] * 3
        elif word >> 29 & 1:
            sums[word & 15] = [lane + (word >> 4 + 8 * k) & 255 for k, lane in enumerate(lanes)]
    assert len(set(expected)) > 50
    made = small("lanes")
    assert SimulatedIp(made, tmp_path).run({"words": words}, {"results": len(expected)}).beats["results"] == expected
