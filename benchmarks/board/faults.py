"""Random sequences of faults on virtual boards, through PYNQ: how many, which, and that none hangs or gives nonsense.

    python -m benchmarks.board.faults [--sequences 1000] [--first SEED] [--markdown FILE]

A sequence injects one to three faults (DMA errors, flipped bits, lost flushes, short packets, missing TLAST, stuck
streams, kernels that never end, dropped interrupts, wrong clocks, a lost network connection), runs a network one to
three times, then checks that the board gives right answers again. Ends with an error at the first wrong answer, at the
first run over 30 s and at the first board that does not come back.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import perf_counter

from benchmarks.common.command import TEST_SUPPORT, command
from benchmarks.common.report import finish

sys.path.insert(0, str(TEST_SUPPORT))

from fault_sequences import WAYS, Boards, Tally, play


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--sequences", type=int, default=1000, help="how many sequences (1000)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one (0)")
    arguments = parser.parse_args(given)
    tally, begun = Tally(), perf_counter()
    with Boards(WAYS) as boards:
        for seed in range(arguments.first, arguments.first + arguments.sequences):
            play(seed, boards, tally)
            if tally.sequences % 100 == 0:
                print(f"{tally.sequences} sequences, {tally.errors} errors, {perf_counter() - begun:.0f} s", flush=True)
    text = report(tally, perf_counter() - begun)
    return finish(text + "\n", arguments.markdown)


def report(tally: Tally, seconds: float) -> str:
    """The figures as Markdown."""
    lines = [
        f"{tally.sequences} sequences, {tally.runs} runs: {tally.right} right, {tally.errors} ended in an error, "
        f"{tally.runs - tally.right - tally.errors} wrong; longest run {tally.longest_run:.2f} s; "
        f"{seconds:.0f} s in all",
        "",
        "| fault | took effect |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in tally.fired.most_common()),
        "",
        "| what the error says | times |",
        "|---|---|",
        *(f"| {words} | {count} |" for words, count in tally.reported.most_common()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
