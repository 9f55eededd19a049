"""10,000 random depths of the streams between processes, at or above the stated ones: no start waits for ever.

    python -m benchmarks.verify.stream_depths [--draws 10000] [--scarce 4000] [--arrays 10] [--seed 0] [--markdown FILE]

A draw gives each of the 18 streams a depth, and half of the draws have an order of the processes drawn by chance and
random back-pressure too; a random network of several overlapped samples must give the emulator's values, exponents,
counters and work. In the scarce draws one stream has fewer words than stated: the start may end with the processes and
what they wait for, never with other bits. No draw compiles anything; an array does once.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from benchmarks.common.command import TEST_SUPPORT, command
from benchmarks.common.report import finish, table
from benchmarks.verify.random_networks import random_configs
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.processes import process_streams
from bfpga.devices.csim import CSimulation

sys.path.insert(0, str(TEST_SUPPORT))

from stream_depths import DepthTrial, scarce_depth, sufficient_depths

#: Draws with one random network, of each kind.
DRAWS_A_NETWORK = 20
#: What may become of a draw.
SAME, CIRCLE, OTHER = "same bits", "circle named", "other bits"


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--draws", type=int, default=10_000, help="depths that suffice (%(default)s)")
    parser.add_argument("--scarce", type=int, default=4000, help="depths of which one is too small (%(default)s)")
    parser.add_argument("--arrays", type=int, default=10, help="random arrays (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of arrays, networks and depths (%(default)s)")
    arguments = parser.parse_args(given)
    configs, begin = random_configs(arguments.arrays, arguments.seed), perf_counter()
    enough: Counter[str] = Counter()
    scarce: dict[str, Counter[str]] = {stream.name: Counter() for stream in process_streams(configs[0])}
    failures: list[str] = []
    networks = -(-max(arguments.draws, arguments.scarce) // DRAWS_A_NETWORK)
    for number in range(networks):
        rng = np.random.default_rng([arguments.seed, number])
        config, place = configs[number % len(configs)], f"network {number}"
        kernel = CSimulation(config, "native", "random", "0" * 64)
        trial = DepthTrial(rng, kernel)
        for _ in range(share(arguments.draws, networks, number)):
            found, depths = drawn(rng, trial, config, sufficient_depths)
            enough[found] += 1
            failures += [f"{place}, depths {depths}: {found}"] * (found != SAME)
        for _ in range(share(arguments.scarce, networks, number)):
            found, depths = drawn(rng, trial, config, scarce_depth)
            scarce[next(iter(depths))][found] += 1
            failures += [f"{place}, depths {depths}: {found}"] * (found == OTHER)
        kernel.close()
        if number % 50 == 49:
            same = f"{enough[SAME]:,} of {enough.total():,} draws with the same bits"
            print(f"{number + 1} of {networks} networks, {same}, {perf_counter() - begin:.0f} s", flush=True)
    kinds = (SAME, CIRCLE, OTHER)
    rows = [("all, as stated or deeper", *(f"{enough[kind]:,}" for kind in kinds))]
    rows += [(f"`{name}` alone too small", *(f"{counts[kind]:,}" for kind in kinds)) for name, counts in scarce.items()]
    text = table(("depths", *kinds), rows) + f"\n\n{networks} networks on {len(configs)} arrays, "
    return finish(f"{text}{perf_counter() - begin:.0f} s", arguments.markdown, failures[:20])


def share(whole: int, parts: int, number: int) -> int:
    """What part ``number`` has of a whole that is shared out evenly."""
    return whole * (number + 1) // parts - whole * number // parts


def drawn(
    rng: np.random.Generator,
    trial: DepthTrial,
    config: KernelConfig,
    draw: Callable[[np.random.Generator, KernelConfig], dict[str, int]],
) -> tuple[str, dict[str, int]]:
    """What became of a draw, and the depths that it had."""
    depths = draw(rng, config)
    order = int(rng.integers(1, 1 << 62)) if rng.random() < 0.5 else 0
    found = trial.run(depths, order)
    return SAME if found is None else CIRCLE if isinstance(found, str) else OTHER, depths


if __name__ == "__main__":
    sys.exit(main())
