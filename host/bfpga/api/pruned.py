"""`bfpga.prune` and the command: a network most of whose weights are zero, and what that costs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from pathlib import Path

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.read.model_file import external_files
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.arrays.sparse_cluster import MapArray
from bfpga.data import Given, given_samples
from bfpga.errors import ConfigurationError
from bfpga.formats.files import check_target, refuse_input, replace_file
from bfpga.pruning.layers import EVEN, WHOLE_KERNELS, Balanced, Group
from bfpga.pruning.lesson import Augmentation
from bfpga.pruning.prune import Pruned, Stage, checked, no_stage
from bfpga.pruning.prune import prune as prune_network
from bfpga.pruning.scores import Scorer
from bfpga.pruning.split import Parts, labelled, split
from bfpga.pruning.tuning import Tuning

#: `16x1`: output and input channels of a group.
SIZES = re.compile(r"([1-9]\d{0,5})x([1-9]\d{0,5})")


@dataclass(frozen=True)
class Pruning:
    """What came out, with the samples that it came from. by_labels: judged by labels, not by the network's answers."""

    found: Pruned
    parts: Parts
    by_labels: bool


def prune(
    model: str | Path | Network,
    sparsity: float,
    data: Given,
    path: str | Path | None = None,
    *,
    held_out: Given | None = None,
    structure: str | None = None,
    epochs: int | None = None,
    rate: float = 0.006,
    flip: bool | None = None,
    shift: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
) -> Pruned:
    """Make a share of a network's weights zero where it loses least by it, and fine-tune the others.

    sparsity: the share, such as 0.8. data: samples to learn from, with labels if there are any. path: ONNX file of what
    comes out; None: only ``Pruned.model`` has it. held_out: samples that judge; None: a quarter of the data.
    structure: zeros that suit an accelerator, sizes such as 16x1, or even. epochs, rate, flip, shift, time_limit
    (seconds): of fine-tuning, as for `bfpga prune`. ConfigurationError, DataError or ModelError for what does not fit.
    """
    tuning = Tuning(epochs, rate, seed=seed, augmentation=Augmentation(flip, shift), seconds=time_limit or inf)
    target = None if path is None else Path(path)
    return prune_given(read_network(model), sparsity, data, held_out, group_of(structure), tuning, target).found


def prune_given(
    network: Network,
    sparsity: float,
    data: Given,
    held_out: Given | None,
    group: Group | None,
    tuning: Tuning,
    target: Path | None = None,
    samples: int | None = None,
    stage: Stage = no_stage,
) -> Pruning:
    """Prune and write ``target``, which may be none of the files read. samples: the first of the data only."""
    if not 0 < tuning.rate <= 1:
        raise ConfigurationError(f"rate is {tuning.rate:g}; a share above 0 and up to 1 is needed")
    check_target(target)
    read = [Path(given) for given in (network.path, data, held_out) if isinstance(given, (str, Path))]
    refuse_input(target, [*read, *external_files(network.path)])
    graph, _ = checked(network, sparsity)
    answers = Scorer(graph, []).scores
    given = given_samples(data, network.inputs, samples)
    judges = given if held_out is None else given_samples(held_out, network.inputs)
    where = Path(data) if isinstance(data, (str, Path)) else Path("the data")
    judging = None if held_out is None else labelled(judges, answers)
    parts = split(labelled(given, answers), judging, tuning.seed, where)
    found = prune_network(network, parts, sparsity, tuning, group, stage)
    if target is not None:
        replace_file(target, found.model.SerializeToString())
    return Pruning(found, parts, judges.y is not None)


def group_of(structure: str | None) -> Group | None:
    """What ``--structure`` asks for: output and input channels of groups, even kernels, or balanced groups.

    None for accelerators that pass over each weight by itself; ConfigurationError for those that pass over none.
    """
    if structure is None:
        return None
    if structure == EVEN:
        return EVEN
    sizes = SIZES.fullmatch(structure)
    if sizes:
        return int(sizes[1]), int(sizes[2])
    accelerator = load_accelerator(structure)
    config = accelerator.config
    if config.array.stores_entries:
        return Balanced.of(config)
    if isinstance(config.array, MapArray) and config.array.lists_taps:
        return None
    if config.array.reads_maps:
        return WHOLE_KERNELS
    raise ConfigurationError(
        f"--structure: {accelerator.name} has no engine that passes over zero weights; give another accelerator "
        "(`bfpga accelerators` lists their engines), sizes such as 16x1, or even"
    )
