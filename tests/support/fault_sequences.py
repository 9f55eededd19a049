"""Random sequences of faults on virtual boards: no run may hang or give a wrong answer, and the board must come back.

A seed decides everything: the board, the network, the faults with their places and times, the runs between them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from unittest.mock import patch

from board_fixtures import compiled_program, expected, overlay_directory
from board_targets import check_clean, same, target_of

from bfpga.board.load import BoardError, BoardOverlay
from bfpga.board.overlays import load_overlay
from bfpga.board.virtual.faults import (
    CorruptedMemory,
    CorruptedTransfer,
    DmaError,
    DroppedInterrupt,
    Fault,
    KernelNeverDone,
    LostFlush,
    MissingLast,
    ShortPacket,
    StuckStream,
    WrongClock,
)
from bfpga.devices.streaming_device import StreamingDevice

#: Seconds that a run may take, failures and recovery included.
RUN_SECONDS = 30.0
#: Networks on accelerator `tiny`: one streams its weights, the other keeps them and learns exponents.
CASES = ("lenet_tiny", "digits_tiny_learning")
#: Ways to reach a board and how often: poll, a board that runs by itself, interrupts, PYNQ.remote.
WAYS = {"poll": 6, "threaded": 2, "interrupt": 1, "remote": 1}
CHANNELS = (("tensor_dma", "mm2s"), ("tensor_dma", "s2mm"), ("weight_dma", "mm2s"))
STREAMS = ("tensor_dma/M_AXIS_MM2S", "weight_dma/M_AXIS_MM2S", "tensor_dma/S_AXIS_S2MM")
KINDS = ("internal", "slave", "decode")
STEPS = ("_launch", "_complete", "_unpack")


@dataclass
class Tally:
    """What happened. fired, told: faults that took effect, and errors by their first words."""

    sequences: int = 0
    runs: int = 0
    right: int = 0
    errors: int = 0
    longest_run: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)


@dataclass
class OpenBoard:
    """A board that serves one sequence after the other, with the program that is open on it."""

    overlay: BoardOverlay
    case: str = ""
    device: StreamingDevice | None = None

    @property
    def model(self) -> Any:
        """The virtual board."""
        return self.overlay.target.board  # type: ignore[attr-defined]

    def opened(self, case: str) -> StreamingDevice:
        """The device of a case; opening it loads its weights, which may fail."""
        if self.case != case or self.device is None:
            self.case = ""
            self.device = self.overlay.open(compiled_program(case))
            self.case = case
        return self.device


class Boards:
    """Boards by the way they are reached, opened when they are needed first. A context manager."""

    def __init__(self, ways: dict[str, int]) -> None:
        self.ways = ways
        self._open: dict[str, OpenBoard] = {}
        self._release = ExitStack()

    def __enter__(self) -> Boards:
        return self

    def __exit__(self, *error: object) -> None:
        self._release.close()

    @property
    def opened(self) -> set[str]:
        """The ways that were taken."""
        return set(self._open)

    def board(self, way: str) -> OpenBoard:
        """The board of a way."""
        if way not in self._open:
            files = load_overlay(overlay_directory("tiny"))
            arguments = {"threaded": True, "latency": 0.0002} if way == "threaded" else {}
            target = target_of("virtual:remote" if way == "remote" else "virtual", "zynq7", **arguments)
            wait = "interrupt" if way == "interrupt" else "poll"
            self._open[way] = OpenBoard(self._release.enter_context(BoardOverlay(files, target, wait, 0.3)))
        return self._open[way]


def random_fault(rng: random.Random, board: Any) -> Fault:
    """A fault of any kind, anywhere, at any time."""
    when: dict[str, Any] = {"after": rng.choice((0, 0, 0, 1, 2, 5)), "sticky": rng.random() < 0.1}
    dma, channel = rng.choice(CHANNELS)
    stream = rng.choice(STREAMS)
    place = rng.choice((0, rng.randrange(512), rng.randrange(1 << 16)))
    buffers = list(board.memory.buffers.items()) or [(board.memory.base, 4096)]
    base, size = rng.choice(buffers)
    kinds: list[Callable[[], Fault]] = [
        lambda: DmaError(
            dma=dma, channel=channel, kind=rng.choice(("internal", "slave", "decode")), at_byte=place, **when
        ),  # type: ignore[arg-type]
        lambda: CorruptedTransfer(dma=dma, channel=channel, byte=place, bit=rng.randrange(8), **when),  # type: ignore[arg-type]
        lambda: CorruptedMemory(physical=base + place % size, bit=rng.randrange(8), **when),
        lambda: LostFlush(**when),
        lambda: ShortPacket(stream=stream, beats=rng.randint(1, 8), **when),
        lambda: MissingLast(stream=stream, **when),
        lambda: StuckStream(stream=stream, after_bytes=place, **when),
        lambda: KernelNeverDone(kernel="accelerator", stage=rng.choice(("start", "end")), **when),  # type: ignore[arg-type]
        lambda: DroppedInterrupt(source=f"{dma}/{channel}_introut", **when),
        lambda: WrongClock(divisor_change=rng.randint(1, 3), **when),
    ]
    return rng.choice(kinds)()


def play(seed: int, boards: Boards, tally: Tally) -> None:
    """One sequence. AssertionError for a wrong answer, a run without end, or a board that does not come back."""
    rng = random.Random(seed)
    way = rng.choices(list(boards.ways), list(boards.ways.values()))[0]
    board = boards.board(way)
    case = rng.choice(CASES)
    for slave in board.model.fabric.kernels:
        slave.kernel.disturb(seed % 2 * seed)  # every other sequence in a random order of streams and processes
    board.model.faults.inject(*(random_fault(rng, board.model) for _ in range(rng.randint(1, 3))))
    for _ in range(rng.randint(1, 3)):
        cut = (rng.choice(STEPS), rng.randrange(4)) if way == "remote" and rng.random() < 0.3 else None
        with _cut_cable(board, cut) if cut else ExitStack():
            run(board, case, rng.randint(1, 2), tally)
    fired = [type(fault).__name__ for fault in board.model.faults.fired]
    board.model.faults.clear()
    # A stream that stops later, or an interrupt that is held back, outlives the list of faults; a failure ends it.
    may_linger = {"StuckStream", "DroppedInterrupt"} & set(fired)
    right = run(board, case, 2, tally) or (bool(may_linger or board.case == "") and run(board, case, 2, tally))
    assert right or run(board, case, 2, tally), f"seed {seed}: the board on {way} did not come back after {fired}"
    check_clean(board.overlay)
    tally.fired.update(fired)
    tally.sequences += 1


def run(board: OpenBoard, case: str, samples: int, tally: Tally) -> bool:
    """A run from a fresh state: True if it gave the right outputs, False if it ended in an error that says why."""
    reference, begun = expected(case, samples), perf_counter()
    tally.runs += 1
    try:
        device = board.opened(case)
        device.reset()
        result = device.run(reference.inputs)
    except BoardError as error:
        tally.errors += 1
        tally.reported[_first_words(error)] += 1
        return False
    else:
        assert same(result, reference), f"{case}: wrong outputs without an error"
        tally.right += 1
        return True
    finally:
        seconds = perf_counter() - begun
        tally.longest_run = max(tally.longest_run, seconds)
        assert seconds < RUN_SECONDS, f"{case}: a run took {seconds:.1f} s"


def _first_words(error: BoardError) -> str:
    cause = next((line for line in str(error).splitlines() if line.startswith("likely cause: ")), str(error))
    return cause.removeprefix("likely cause: ").split(":")[0].split(",")[0][:70]


@contextmanager
def _cut_cable(board: OpenBoard, cut: tuple[str, int]) -> Iterator[None]:
    """The connection is lost before the n-th call of a step, and is there again after the run."""
    step, count = cut
    server = board.overlay.target.server  # type: ignore[attr-defined]
    if board.device is None:
        yield
        return
    kernel = board.device.streaming
    original, calls = getattr(kernel, step), iter(range(1 << 20))

    def cutting(*arguments: Any) -> Any:
        if next(calls) == count:
            server.drop_connections()
        return original(*arguments)

    with patch.object(kernel, step, cutting):
        yield
    server.resume()
