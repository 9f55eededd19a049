"""Random sequences of faults on virtual boards, through PYNQ: how many, which, and that none hangs or gives nonsense.

    python benchmarks/board_faults.py [--sequences 1000] [--first SEED] [--markdown FILE]

A sequence injects one to three faults (DMA errors, flipped bits, lost flushes, short packets, missing TLAST, stuck
streams, kernels that never end, dropped interrupts, wrong clocks, a lost network connection), runs a network one to
three times, then checks that the board gives right answers again. Ends with an error at the first wrong answer, at the
first run over 30 s and at the first board that does not come back.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from fault_sequences import WAYS, Boards, Tally, play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=1000, help="how many sequences (1000)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one (0)")
    parser.add_argument("--markdown", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    tally, begun = Tally(), perf_counter()
    with Boards(WAYS) as boards:
        for seed in range(options.first, options.first + options.sequences):
            play(seed, boards, tally)
            if tally.sequences % 100 == 0:
                print(f"{tally.sequences} sequences, {tally.errors} errors, {perf_counter() - begun:.0f} s", flush=True)
    text = report(tally, perf_counter() - begun)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")


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
        *(f"| {words} | {count} |" for words, count in tally.told.most_common()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
