"""5,000 random networks over random kernels: emulator == C simulation in all integers == virtual board.

    python -m benchmarks.verify.random_networks FILE [--arrays 20] [--cases 5000] [--seed 0] [--minutes 60]
        [--of quad|skip_weights|skip_activations|two_arrays|cluster|tile] [--against virtual:cores=3]

Values, exponents, status, counters and work of every layer are compared; half of the networks meet an order of streams
and processes drawn by chance, with random back-pressure. FILE keeps what is done, a line for each part; the same
command goes on where it was left, if no source has changed. Ends with an error at the first difference, which the two
numbers of its seed repeat: `numpy.random.default_rng([seed, case])` draws its network.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.common.command import ROOT, command
from benchmarks.common.report import finish, table
from bfpga.contract.configuration import KernelConfig
from bfpga.errors import DeviceError
from bfpga.verify.check import TARGETS, VerifyReport
from bfpga.verify.parts import CaseRange, Verification, case_ranges, verify_range
from bfpga.verify.random_accelerator import random_config
from bfpga.verify.virtual_boards import is_virtual, named_cores

#: Which kernels are drawn.
KINDS: dict[str, Callable[[KernelConfig], bool]] = {
    "any": lambda config: True,
    "quad": lambda config: config.multiplier == "dsp_quad",
    "skip_weights": lambda config: config.array.stores_entries,
    "skip_activations": lambda config: config.array.kind == "sparse_array",
    "two_arrays": lambda config: config.array.has_both,
    "cluster": lambda config: config.array.cuts_maps,
    "tile": lambda config: config.array.stores_blocks,
}
#: What tells a part of the file: its device, array, first and last case.
Key = tuple[str, int, int, int]


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="lines of JSON: what is done")
    parser.add_argument("--arrays", type=int, default=20, help="random arrays (%(default)s)")
    parser.add_argument("--cases", type=int, default=5000, help="random networks on each device (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of arrays and networks (%(default)s)")
    parser.add_argument(
        "--against", action="append", type=device, metavar="DEVICE",
        help=f"one of {', '.join(TARGETS)}, virtual:cores=N; repeatable; default: all but cores",
    )  # fmt: skip
    parser.add_argument("--of", choices=list(KINDS), default="any", help="which arrays (%(default)s)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no part after so many")
    arguments = parser.parse_args(given)
    configs = random_configs(arguments.arrays, arguments.seed, arguments.of)
    targets = arguments.against or list(TARGETS)
    settings = {
        "arrays": arguments.arrays, "of": arguments.of, "seed": arguments.seed, "sources": sources_digest()
    }  # fmt: skip
    done = read(arguments.file, settings)
    parts = [(part, target) for part in case_ranges(len(configs), arguments.cases) for target in targets]
    left = [(part, target) for part, target in parts if key(part, target) not in done]
    end = perf_counter() + 60 * arguments.minutes
    for number, (part, target) in enumerate(left):
        if perf_counter() > end:
            break
        line = verified(Verification(configs, [target], arguments.seed), part, target)
        done[key(part, target)] = line
        with arguments.file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{number + 1} of {len(left)} parts: array {part.array} on {target}", flush=True)
        if line["mismatch"]:
            break
    wanted = [done[key(part, target)] for part, target in parts if key(part, target) in done]
    missed = [f"seed {line['seed']} on {line['target']}: {line['mismatch']}" for line in wanted if line["mismatch"]]
    missed += [f"{len(parts) - len(wanted)} of {len(parts)} parts are left"] * (len(wanted) < len(parts))
    return finish(report(wanted, targets), missed=missed)


def device(name: str) -> str:
    """A device by its name, for argparse."""
    try:
        known = named_cores(name) > 0 if is_virtual(name) else name in TARGETS
    except DeviceError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not known:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(TARGETS)}, virtual:cores=N")
    return name


def random_configs(count: int, seed: int, kind: str = "any") -> list[KernelConfig]:
    """The first random arrays of a seed that are of a kind of ``KINDS``."""
    drawn = (random_config(np.random.default_rng([seed, 1 << 20, number])) for number in itertools.count())
    wanted = (config for config in drawn if KINDS[kind](config))
    return list(itertools.islice(wanted, count))


def verified(task: Verification, part: CaseRange, target: str) -> dict[str, Any]:
    """A line of the file."""
    begin = perf_counter()
    report: VerifyReport = verify_range(task, part)
    return {
        "target": target, "array": part.array, "first": part.first, "last": part.last, "cases": report.cases,
        "layers": report.layers, "values": report.values, "seconds": round(perf_counter() - begin, 2),
        "seed": report.seed, "mismatch": str(report.mismatch) if report.mismatch else "",
    }  # fmt: skip


def key(part: CaseRange, target: str) -> Key:
    return target, part.array, part.first, part.last


def sources_digest() -> str:
    """Of everything that a result depends on: the toolkit and the sources of its kernels."""
    content = hashlib.sha256()
    for path in sorted([*(ROOT / "host").rglob("*.[ph]*"), *(ROOT / "hls").rglob("*.*")]):
        if path.suffix in (".py", ".hpp", ".h", ".cpp", ".j2"):
            content.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return content.hexdigest()[:16]


def read(path: Path, settings: dict[str, Any]) -> dict[Key, dict[str, Any]]:
    """What a file holds already; a new file is begun with the settings. Ends with status 2 for a file of others."""
    if not path.exists():
        path.write_text(json.dumps(settings) + "\n")
    first, *lines = (json.loads(line) for line in lines_of(path))
    if first != settings:
        print(f"{path} is of {first}, this run is of {settings}: name another file", file=sys.stderr)
        raise SystemExit(2)
    return {(line["target"], line["array"], line["first"], line["last"]): line for line in lines}


def lines_of(path: Path) -> Iterator[str]:
    """Whole lines: one that was interrupted is dropped from the file."""
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    yield from whole.splitlines()


def report(lines: Sequence[dict[str, Any]], targets: Sequence[str]) -> str:
    """A row for each device."""
    rows = []
    for target in targets:
        own = [line for line in lines if line["target"] == target]
        total = {name: sum(line[name] for line in own) for name in ("cases", "layers", "values", "seconds")}
        wrong = sum(bool(line["mismatch"]) for line in own)
        arrays = len({line["array"] for line in own})
        counts = [f"{total[name]:,}" for name in ("cases", "layers", "values")]
        rows.append((target, str(arrays), *counts, str(wrong), f"{total['seconds']:,.0f}"))
    return table(("device", "arrays", "networks", "layers", "values", "differences", "s"), rows)


if __name__ == "__main__":
    sys.exit(main())
