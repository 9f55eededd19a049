"""Several boards as one device: each takes the next samples when it is free, and answers keep their order.

A board that fails, does not answer in time or was reprogrammed is taken out, its samples go to another one, and it
comes back when its self-test passes: the overlay is loaded again with all checks, and known samples give the bits of
the emulator. Boards are held by the workers of a Dask cluster, one each (``station``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bfpga.board.many.station import BOARD_WORK, Arrays, BoardTask, KnownAnswer, Opener
from bfpga.board.overlay import open_program
from bfpga.contract.program import Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.emulator import Emulator
from bfpga.devices.health import BoardHealth
from bfpga.devices.part_queue import PartQueue
from bfpga.devices.parts import joined
from bfpga.devices.values import check_inputs
from bfpga.devices.vectors import random_inputs
from bfpga.errors import DeviceError, ScaleError
from bfpga.program.learning import learns

if TYPE_CHECKING:
    from bfpga.scale.cluster import Cluster, Station

#: Samples that a board gets at once, at most; and parts that each board has of a run, at least where there are samples.
PART_SAMPLES, PARTS_A_BOARD = 64, 4
#: Samples of a self-test.
TEST_SAMPLES = 2
#: Seconds after which a board that does not answer is taken for hung; the driver's own limits are shorter.
ANSWER_SECONDS = 120.0
#: The same for a self-test: it may compile a kernel, load an overlay, or wait for a new process of its worker.
TEST_SECONDS = 600.0
#: Boards on which one part may fail before it is the part's fault.
MOST_FAILURES = 8
#: Failed self-tests of every board after which a run is given up, and seconds before the second and the later ones.
MOST_TESTS, TEST_PAUSES = 3, (0.1, 1.0, 5.0, 15.0)
#: What takes a board out of service; other errors are the program's or the user's.
FAILURES = (DeviceError, ScaleError, OSError, TimeoutError)


class BoardPool:
    """A device of several boards for one program. ``boards``: what became of each so far."""

    #: Takes all samples of a run at once and spreads them itself.
    spreads = True

    def __init__(
        self,
        program: Program,
        names: Sequence[str],
        cluster: Cluster | None = None,
        *,
        opener: Opener = open_program,
        seconds: float = ANSWER_SECONDS,
        part_samples: int = PART_SAMPLES,
    ) -> None:
        """names: of targets, as for `open_target`. cluster: whose workers hold the boards; None: processes here.

        opener: opens the program on a board, in its worker. seconds: for an answer to one part.

        DeviceError for a program that learns from sample to sample, whose answers depend on their order; ScaleError if
        the cluster has fewer workers with `board` than there are names.
        """
        if learns(program):
            raise DeviceError(
                f"the exponents of program {program.name} follow the samples in their order; it runs on one board only"
            )
        self.name = ",".join(names)
        self.boards = [
            BoardHealth(name if names.count(name) == 1 else f"{name}#{number}") for number, name in enumerate(names, 1)
        ]
        self.progress: Callable[[int, int], None] | None = None
        self._program, self._names, self._seconds, self._part = program, list(names), seconds, part_samples
        self._threads: list[threading.Thread] = []
        self._tests_failed = [0] * len(names)
        inputs = random_inputs(program, TEST_SAMPLES, seed=1)
        known = KnownAnswer(inputs, Emulator(program).run(inputs).outputs)
        shared = {"program": program, "known": known, "opener": opener}
        with ExitStack() as opened:
            if cluster is None:
                cluster = _own_cluster(opened, len(names))
            self._stations: list[Station] = cluster.stations("board", len(names), BOARD_WORK, shared)
            self._release = opened.pop_all()

    def run(self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False) -> DeviceResult:
        """Samples through all boards; see ``Device.run``. DeviceError with every board's reason if none is left."""
        checked = check_inputs(self._program, inputs)
        samples = len(next(iter(checked.values())))
        size = max(1, min(self._part, -(-samples // (PARTS_A_BOARD * len(self.boards)))))
        parts = [
            {name: value[first : first + size] for name, value in checked.items()} for first in range(0, samples, size)
        ]
        self._join()
        queue: PartQueue[DeviceResult] = PartQueue(len(parts), MOST_FAILURES)
        self._tests_failed = [0] * len(self.boards)
        self._threads = [
            threading.Thread(target=self._serve, args=(number, queue, parts, trace), name=board.name, daemon=True)
            for number, board in enumerate(self.boards)
        ]
        for thread in self._threads:
            thread.start()
        try:
            result = joined(queue.results(lambda done: self._report(min(done * size, samples), samples)))
        except BaseException as error:
            queue.give_up(error)
            raise
        result.cores = []  # those of one board say nothing of the others
        result.boards = [BoardHealth(**vars(board)) for board in self.boards]
        return result

    def reset(self) -> None:
        """Programs that learn are refused: there is nothing to forget."""

    def close(self) -> None:
        """Release the boards and the processes that were started for them."""
        self._release.close()
        self._join()

    # One board

    def _serve(self, number: int, queue: PartQueue[DeviceResult], parts: Sequence[Arrays], trace: bool) -> None:
        """The thread of one board: parts while it works, self-tests until it works again."""
        try:
            while self._in_service(number, queue):
                part = queue.take()
                if part is None:
                    return
                self._run_part(number, queue, part, BoardTask(self._names[number], parts[part], trace))
        except BaseException as error:
            queue.give_up(error)

    def _run_part(self, number: int, queue: PartQueue[DeviceResult], part: int, task: BoardTask) -> None:
        board, begun = self.boards[number], perf_counter()
        try:
            result = self._stations[number].call(task, self._seconds)
        except FAILURES as error:
            board.taken_out += 1
            self._failed(number, error)
            queue.give_back(part, error)
            return
        board.seconds += perf_counter() - begun
        board.parts += 1
        board.samples += result.samples
        queue.answer(part, result)

    def _in_service(self, number: int, queue: PartQueue[DeviceResult]) -> bool:
        """Whether the board works; a board that does not is tested until it does. False when the run is over."""
        board, tests = self.boards[number], 0
        while not board.in_service:
            if tests and not queue.rest(TEST_PAUSES[min(tests, len(TEST_PAUSES)) - 1]):
                return False
            tests += 1
            try:
                self._stations[number].call(BoardTask(self._names[number]), TEST_SECONDS)
            except FAILURES as error:
                self._failed(number, error)
                self._tests_failed[number] = tests
                if min(self._tests_failed) >= MOST_TESTS:
                    queue.give_up(self._nobody_left())
            else:
                board.in_service = True
                board.returned = board.taken_out
                self._tests_failed[number] = 0
        return not queue.over

    def _failed(self, number: int, error: BaseException) -> None:
        board = self.boards[number]
        board.in_service = False
        board.failures.append((str(error) or type(error).__name__).splitlines()[0])

    def _nobody_left(self) -> DeviceError:
        reasons = "\n".join(f"  {board.name}: {board.failures[-1]}" for board in self.boards)
        return DeviceError(f"no board works any more; the self-test of each failed {MOST_TESTS} times:\n{reasons}")

    def _report(self, done: int, samples: int) -> None:
        if self.progress is not None:
            self.progress(done, samples)

    def _join(self) -> None:
        """Threads of the run before may be in a call; each ends within its time limit."""
        for thread in self._threads:
            thread.join()
        self._threads = []


def _own_cluster(opened: ExitStack, boards: int) -> Cluster:
    """A process of this machine for each board."""
    from bfpga.scale.choice import open_workers
    from bfpga.scale.cluster import Cluster

    cluster = opened.enter_context(open_workers(boards))
    assert isinstance(cluster, Cluster)
    return cluster
