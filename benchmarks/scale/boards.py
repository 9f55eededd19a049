"""Several boards that share samples: faults cost no sample, and two boards of fixed latency do twice the work of one.

    python -m benchmarks.scale.boards [--samples 10000] [--boards 4] [--chance 0.05] [--latency 0.2] [--markdown FILE]

Faults: a small network (digits) on virtual boards of accelerator `tiny`, on which random faults of the driver's tests
are injected before a part is run, with the given chance. Answers are compared with the emulator, bit by bit and in
their order. Throughput: boards whose time is ``--latency`` for each part of 64 samples. Ends with 1 for a wrong, lost
or doubled answer, and below 1.7 times the throughput.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from time import perf_counter

import numpy as np

from benchmarks.common.command import EXAMPLES, TEST_SUPPORT, command
from benchmarks.common.report import finish, table

sys.path.insert(0, str(TEST_SUPPORT))

from pool_boards import FaultyBoards, SlowBoards

import bfpga
from bfpga.board.many.pool import BoardPool
from bfpga.contract.program import Program
from bfpga.data import load_samples
from bfpga.devices.base import DeviceResult
from bfpga.devices.emulator import Emulator
from bfpga.runtime import run
from bfpga.scale.choice import open_workers
from bfpga.scale.cluster import Cluster

#: Throughput of two boards, at least, in that of one.
LEAST_GAIN = 1.7
#: Samples of a part, and parts of a measurement of throughput for each board.
PART, PARTS = 64, 20


def samples_of(count: int) -> dict[str, np.ndarray]:
    """So many samples of which no two are equal, by the name of the input."""
    base = load_samples(EXAMPLES / "digits_test.npz", (64,)).x
    scales = np.linspace(0.2, 1.0, -(-count // len(base)), dtype=np.float32)
    return {"input": np.concatenate([base * scale for scale in scales])[:count]}


def with_faults(program: Program, count: int, boards: int, chance: float) -> tuple[list[str], list[str]]:
    """Lines of the report, and what is wrong."""
    inputs = samples_of(count)
    reference = Emulator(program).run(inputs)
    names = ["virtual"] * boards
    begun = perf_counter()
    with open_workers(boards) as cluster:
        assert isinstance(cluster, Cluster)
        pool = BoardPool(program, names, cluster, opener=FaultyBoards("tiny", chance=chance), part_samples=PART)
        pool.progress = lambda done, whole: print(f"\r{done} of {whole}", end="", file=sys.stderr, flush=True)
        result = run(program, inputs, pool)
        seconds = perf_counter() - begun
        pool.close()
    return fault_lines(result, count, seconds), wrong_answers(result, reference, count)


def wrong_answers(result: DeviceResult, reference: DeviceResult, count: int) -> list[str]:
    """What is not as it must be."""
    missed = []
    for name, value in reference.outputs.items():
        found = result.outputs[name]
        if found.shape != value.shape:
            missed.append(f"output {name}: {len(found)} answers to {count} samples")
        elif wrong := int((found != value).reshape(count, -1).any(axis=1).sum()):
            missed.append(f"output {name}: {wrong} of {count} answers are wrong or in another place")
    answered = sum(board.samples for board in result.boards)
    return missed + ([] if answered == count else [f"{answered} answers were given to {count} samples"])


def fault_lines(result: DeviceResult, count: int, seconds: float) -> list[str]:
    """Each board in a line, and what they failed with."""
    words: Counter[str] = Counter()
    for board in result.boards:
        words.update(failure.split(":")[0][:60] for failure in board.failures)
    lines = [f"{count} samples, {len(result.boards)} virtual boards with faults, {seconds:.0f} s", ""]
    lines += ["| board | samples | taken out | came back | failures | now |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {board.name} | {board.samples} | {board.taken_out} | {board.returned} | {len(board.failures)} | "
        f"{'in service' if board.in_service else 'out'} |"
        for board in result.boards
    ]
    failures = [(name, str(times)) for name, times in words.most_common()]
    return [*lines, "", table(["what failed", "times"], failures)]


def throughput(program: Program, boards: int, latency: float) -> float:
    """Samples a second of boards of a fixed latency, when all of them are in service."""
    inputs = samples_of(PART * PARTS * boards)
    with open_workers(boards) as cluster:
        assert isinstance(cluster, Cluster)
        opener = SlowBoards(latency)
        pool = BoardPool(program, ["virtual"] * boards, cluster, opener=opener, part_samples=PART)
        run(program, samples_of(PART * boards), pool)
        begun = perf_counter()
        run(program, inputs, pool)
        rate = PART * PARTS * boards / (perf_counter() - begun)
        print(f"{boards} boards: {rate:.0f} samples/s", file=sys.stderr, flush=True)
        pool.close()
    return rate


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--boards", type=int, default=4)
    parser.add_argument("--chance", type=float, default=0.05, help="of a fault in a part (0.05)")
    parser.add_argument("--latency", type=float, default=0.2, help="seconds a part (0.2)")
    arguments = parser.parse_args(given)
    samples = samples_of(64)
    program = bfpga.compile(EXAMPLES / "mlp_digits.onnx", "tiny", samples["input"])
    rates = {boards: throughput(program, boards, arguments.latency) for boards in (1, 2)}
    gain = rates[2] / rates[1]
    lines, missed = with_faults(program, arguments.samples, arguments.boards, arguments.chance)
    missed += [f"two boards are {gain:.2f} times as fast as one"] if gain < LEAST_GAIN else []
    lines += ["", f"| boards of {arguments.latency:g} s a part | samples/s |", "|---|---|"]
    lines += [f"| {boards} | {rate:.0f} |" for boards, rate in rates.items()]
    lines += ["", f"two boards: {gain:.2f} times the throughput of one"]
    return finish("\n".join(lines) + "\n", arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
