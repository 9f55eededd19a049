"""A process loses no word of the next start that is there before it has ended its own, nor takes one for its own.

In the C simulation a start begins when all processes have ended the one before. Hardware does not wait for them: units
that set their sums to zero first still have the end of a start before them when words of the next one come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_configs import TILE, VARIANTS
from kernel_pairs import SMALL
from process_designs import TINY
from process_replay import ProcessReplay
from recorded_words import words

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.verify.traffic import kernel_traffic
from bfpga.verify.vectors import kernel_vectors

#: It goes on with whichever of its streams has a word: what it writes depends on when they come.
BY_TIME = "scratchpad"
OTHERS = [
    *(accelerator_around(VARIANTS[variant], f"cluster_{variant.lower()}", "0" * 64) for variant in "ABCD"),
    accelerator_around(replace(TILE, compressed_maps=True), "tile_with_compressed_maps", "0" * 64),
    accelerator_around(replace(SMALL, program_descriptors=24), "small_with_programs", "0" * 64),
    load_accelerator(TINY),
]
ACCELERATORS = [
    accelerator_around(VARIANTS["E"], "cluster_e", "0" * 64),
    *(pytest.param(accelerator, marks=pytest.mark.slow) for accelerator in OTHERS),
]


@pytest.mark.parametrize("accelerator", ACCELERATORS, ids=lambda accelerator: accelerator.name)
def test_processes_write_the_same_with_the_words_of_all_starts_before_them(
    accelerator: Accelerator, tmp_path: Path
) -> None:
    """Each is given what the ones before it have written: bits of a beat that nobody reads may differ."""
    vectors = kernel_vectors(accelerator.config)
    starts = len(vectors["starts.txt"].splitlines())
    recorded = recorded_words(accelerator, vectors)
    replay = ProcessReplay(accelerator, tmp_path)
    waiting = {part: replay.inputs(part) for part in replay.ips if part != BY_TIME}
    made = {name for part in waiting for name in replay.outputs(part)}
    streams: dict[str, list[int]] = {}
    while waiting:
        part = next(part for part, needs in waiting.items() if not made.intersection(needs) - streams.keys())
        incoming = {name: streams.get(name, recorded[name]) for name in waiting.pop(part)}
        written, left = replay.run(part, incoming, starts)
        assert not any(left.values()), (part, left)
        assert {name: len(words) for name, words in written.items()} == {n: len(recorded[n]) for n in written}
        streams |= written
    read = {name for part in replay.ips for name in replay.inputs(part) if part != BY_TIME}
    compared = sorted(made - read)
    assert "results" in compared
    assert {name: streams[name] for name in compared} == {name: recorded[name] for name in compared}


def recorded_words(accelerator: Accelerator, vectors: Mapping[str, bytes]) -> dict[str, list[int]]:
    """What passed each stream in the C simulation."""
    passed: dict[str, list[int]] = {}
    for traffic in kernel_traffic(accelerator, vectors):
        passed |= words({**traffic.incoming, **traffic.outgoing})
    return passed
