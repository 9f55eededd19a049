"""Every ready accelerator, and `pynq_z2_dense` with 1 to 12 columns a hop, with stages in its pipelines: none waits.

    python -m benchmarks.verify.stalled [--accelerator NAME ...] [--hops] [--stages 8 --stages 40] [--scheduled]
        [--cases 40] [--seed 0] [--markdown FILE]

A word leaves its process as many iterations later as its loop has stages, and a loop that waits moves nothing
(docs/kernel.md). Each kernel runs its random networks with a draw of 0 to 40 stages for each loop of each process and
of the pauses of its streams, a new one for each network, and again with each number of `--stages` in all loops;
`--scheduled`: and with the stages of its schedule, and drawn around these, with pauses. Those of a hop are scheduled
first, a minute each. Values, counters and clocks are those of the emulator. `bfpga verify random --arrays 200 --against
csim:stalled` does the same on random arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter

from benchmarks.common.command import command
from benchmarks.common.report import finish, table
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.configuration import KernelConfig
from bfpga.verify.check import verify
from bfpga.verify.stalled import AROUND, PAUSES, SCHEDULED, STALLED

#: Whose columns form blocks of any size.
HOPS_OF = "pynq_z2_dense"


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--accelerator", action="append", choices=accelerator_names(), help="default: all, and hops")
    parser.add_argument("--hops", action="store_true", help=f"1 to 12 `hop_columns` of {HOPS_OF}")
    parser.add_argument("--stages", action="append", type=int, help="in all loops (8 and 40)")
    parser.add_argument("--scheduled", action="store_true", help="as they are scheduled, and drawn around that")
    parser.add_argument("--cases", type=int, default=40, help="random networks of each row (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the networks and, with them, the draws (%(default)s)")
    arguments = parser.parse_args(given)
    names = arguments.accelerator or ([] if arguments.hops else accelerator_names())
    hops = arguments.hops or not arguments.accelerator
    targets = [STALLED, *(f"{STALLED}:{stages}" for stages in arguments.stages or (8, 40))]
    targets += [f"{STALLED}:{SCHEDULED},{PAUSES}", f"{STALLED}:{AROUND}"] * arguments.scheduled
    rows, failures = [], []
    for name, config in kernels(names, hops):
        begin, found = perf_counter(), []
        for target in targets:
            report = verify([config], [target], arguments.cases, arguments.seed)
            found.append("same" if report.mismatch is None else f"case {report.seed}")
            if report.mismatch is not None:
                failures.append(f"{name}, {target}, case {report.seed}: {report.mismatch}")
        rows.append((name, *found, f"{perf_counter() - begin:.0f}"))
        print(f"{name}: {', '.join(found)}", *failures[-1:], flush=True)
    return finish(table(("kernel", *targets, "s"), rows), arguments.markdown, failures)


def kernels(names: Sequence[str], hops: bool) -> Iterator[tuple[str, KernelConfig]]:
    """Kernels by what a row calls them."""
    for name in names:
        yield name, load_accelerator(name).config
    config = load_accelerator(HOPS_OF).config
    for columns in range(1, config.columns + 1) if hops else ():
        yield f"{HOPS_OF}, hop_columns: {columns}", replace(config, array=SystolicArray(columns))


if __name__ == "__main__":
    sys.exit(main())
