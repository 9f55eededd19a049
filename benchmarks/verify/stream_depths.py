"""10,000 random depths of the streams between processes, at or above the stated ones: no start waits for ever.

    python -m benchmarks.verify.stream_depths [--draws 10000] [--scarce 4000] [--needed 2000] [--least 400]
        [--arrays 10] [--seed 0] [--markdown FILE]

A draw gives each stream a depth, and half of the draws have an order of the processes drawn by chance and streams that
pause too; a random network of several overlapped samples must give the emulator's values, exponents, counters and work.
In the scarce draws one stream has fewer words than stated: the start may end with the processes and what they wait for,
never with other bits. In the needed draws all streams have what the rule says they need (`ProcessStream.needed`) and
no more, loops any number of stages, and streams pause. The least draws look for the words that one stream needs while
all others have what they need: how generous the rule is. No draw compiles anything; an array does once.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from benchmarks.common.command import TEST_SUPPORT, command
from benchmarks.common.report import finish, table
from benchmarks.verify.random_networks import random_configs
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.processes import process_kind, process_streams
from bfpga.devices.csim import CSimulation

sys.path.insert(0, str(TEST_SUPPORT))

from stream_depths import DepthTrial, any_stages, needed_depths, scarce_depth, sufficient_depths

#: Draws with one random network, of each kind.
DRAWS_A_NETWORK = 20
#: What may become of a draw.
SAME, CIRCLE, OTHER = "same bits", "circle named", "other bits"


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--draws", type=int, default=10_000, help="depths that suffice (%(default)s)")
    parser.add_argument("--scarce", type=int, default=4000, help="depths of which one is too small (%(default)s)")
    parser.add_argument("--needed", type=int, default=2000, help="depths that are needed, any stages (%(default)s)")
    parser.add_argument("--least", type=int, default=400, help="streams whose least depth is found (%(default)s)")
    parser.add_argument("--arrays", type=int, default=10, help="random arrays (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of arrays, networks and depths (%(default)s)")
    arguments = parser.parse_args(given)
    configs, begin = random_configs(arguments.arrays, arguments.seed), perf_counter()
    enough: Counter[str] = Counter()
    needed: Counter[str] = Counter()
    scarce: dict[str, Counter[str]] = defaultdict(Counter)
    least: dict[str, list[tuple[int, int]]] = defaultdict(list)
    failures: list[str] = []
    networks = -(-max(arguments.draws, arguments.scarce, arguments.needed, arguments.least) // DRAWS_A_NETWORK)
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
        for _ in range(share(arguments.needed, networks, number)):
            found, depths = drawn(rng, trial, config, needed_depths, any_stages(rng))
            needed[found] += 1
            failures += [f"{place}, needed depths {depths}: {found}"] * (found != SAME)
        for _ in range(share(arguments.least, networks, number)):
            name, words, of = least_words(rng, trial, config)
            least[name].append((words, of))
        kernel.close()
        if number % 50 == 49:
            same = f"{enough[SAME]:,} of {enough.total():,} draws with the same bits"
            print(f"{number + 1} of {networks} networks, {same}, {perf_counter() - begin:.0f} s", flush=True)
    kinds = (SAME, CIRCLE, OTHER)
    rows = [("all, as stated or deeper", *(f"{enough[kind]:,}" for kind in kinds))]
    rows.append(("all as needed, loops of any stages", *(f"{needed[kind]:,}" for kind in kinds)))
    rows += [(f"`{name}` alone too small", *(f"{counts[kind]:,}" for kind in kinds)) for name, counts in scarce.items()]
    text = table(("depths", *kinds), rows) + f"\n\n{networks} networks on {len(configs)} arrays, "
    text = f"{table(('stream', 'searches', 'nearest to needed', 'needed'), generosity(least))}\n\n{text}"
    return finish(f"{text}{perf_counter() - begin:.0f} s", arguments.markdown, failures[:20])


def share(whole: int, parts: int, number: int) -> int:
    """What part ``number`` has of a whole that is shared out evenly."""
    return whole * (number + 1) // parts - whole * number // parts


def generosity(least: dict[str, list[tuple[int, int]]]) -> list[tuple[str, str, str, str]]:
    """Of each stream the search that came nearest to what the rule says it needs."""
    rows = []
    for name, found in sorted(least.items()):
        words, of = max(found, key=lambda item: (item[0] / item[1], item[1]))
        rows.append((f"`{name}`", f"{len(found):,}", f"{words:,}", f"{of:,}"))
    return rows


def least_words(rng: np.random.Generator, trial: DepthTrial, config: KernelConfig) -> tuple[str, int, int]:
    """A stream that needs several words: its kind, the fewest with which a network ran, and what it needs by the rule.

    Searched by halves: that fewer words stop a network if some do is taken for granted.
    """
    needed = {stream.name: stream.needed for stream in process_streams(config)}
    several = [name for name, words in needed.items() if words > 1]
    name = several[int(rng.integers(len(several)))]
    stages, pauses = any_stages(rng), int(rng.integers(1, 1 << 62))
    low, high = 1, needed[name]
    while low < high:
        middle = (low + high) // 2
        if trial.run(needed | {name: middle}, 0, stages, pauses) is None:
            high = middle
        else:
            low = middle + 1
    return process_kind(name), low, needed[name]


def drawn(
    rng: np.random.Generator,
    trial: DepthTrial,
    config: KernelConfig,
    draw: Callable[[np.random.Generator, KernelConfig], dict[str, int]],
    stages: dict[str, int] | None = None,
) -> tuple[str, dict[str, int]]:
    """What became of a draw, and the depths that it had."""
    depths = draw(rng, config)
    order = int(rng.integers(1, 1 << 62)) if rng.random() < 0.5 else 0
    found = trial.run(depths, order, stages, int(rng.integers(1, 1 << 62)) if stages else 0)
    return SAME if found is None else CIRCLE if isinstance(found, str) else OTHER, depths


if __name__ == "__main__":
    sys.exit(main())
