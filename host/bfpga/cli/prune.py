"""`bfpga prune`: a network most of whose weights are zero, and what that costs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bfpga.cli import output
from bfpga.cli.options import InputShapes, Json, Model, grouped

if TYPE_CHECKING:
    from bfpga.pruning.layers import Group
    from bfpga.pruning.lesson import Augmentation
    from bfpga.pruning.prune import Pruned
    from bfpga.pruning.split import Parts
    from bfpga.report.accuracy import Share

@grouped
def prune(
    model: Model,
    *,
    sparsity: Annotated[
        float,
        typer.Option("--sparsity", help="Share of the weights that become zero, such as 0.8.", show_default=False),
    ],
    data: Annotated[
        Path, typer.Option("--data", "-d", help="NPZ with x, and y if there are labels.", show_default=False)
    ],
    held_out: Annotated[
        Path | None,
        typer.Option("--held-out", help="NPZ with samples that judge; default: a quarter of the data."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", "-n", min=1, help="Use the first N samples of the data only.")
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="ONNX file; default: MODEL_prunedPERCENT.onnx here.", metavar="FILE"),
    ] = None,
    structure: Annotated[
        str | None,
        typer.Option(
            "--structure",
            help="Zeros that suit this accelerator: as many for every group of a skip array, whole kernels that a "
            "sparse cluster's units pass over at once. Also OUTPUTSxINPUTS channels at all taps, or `even`: as many in "
            "every kernel. Default: each weight by itself.",
            metavar="ACCELERATOR",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            min=0,
            max=10000,
            help="Passes over the samples of fine-tuning; 0: none. Default: 10 to 100, the more the fewer samples.",
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option("--rate", help="Largest step of fine-tuning, as a share of what a layer's weights do."),
    ] = 0.006,
    flip: Annotated[
        bool | None,
        typer.Option(
            "--flip/--no-flip",
            help="Learn images also from right to left. Default: where the network stays right on them.",
            show_default=False,
        ),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            "--shift",
            min=0,
            max=1000,
            help="Learn images moved by up to so many pixels. Default: up to 3, as far as the network stays right.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", min=1, help="Seconds of fine-tuning: fewer epochs where they take longer."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="The same seed finds the same.")] = 0,
    input_shape: InputShapes = None,
    json: Json = None,
) -> None:
    """Make weights zero where a network loses least by it, and fine-tune the others; write it as an ONNX file.

    Each layer is pruned alone at several shares of zeros to see what it loses; the shares are dealt out so that the sum
    of losses is least. Layer by layer the weights go that the others can make up for; then the network learns from its
    own answers of before, and from the labels. What is kept is what says most nearly what it said before, on samples
    that taught nothing. It is judged on samples that took no part: by the labels, or without any by how often it says
    what it said before (docs/sparse.md).

    \b
    Examples:
      bfpga prune lenet_mnist.onnx --sparsity 0.9 -d mnist_test.npz -o lenet_pruned.onnx
      bfpga prune resnet8.onnx --sparsity 0.8 -d cifar_train.npz --held-out cifar_test.npz --epochs 20
      bfpga prune net.onnx --sparsity 0.7 -d samples.npz --structure pynq_z2_zero_skip --json result.json
    """
    from bfpga.api.pruned import group_of, prune_given
    from bfpga.cli import work
    from bfpga.pruning.lesson import Augmentation
    from bfpga.pruning.tuning import Tuning

    written = target or Path(f"{model.stem}_pruned{100 * sparsity:g}.onnx")
    output.check_target(json)
    output.check_target(written)
    group = group_of(structure)
    tuning = Tuning(epochs, rate, seed=seed, augmentation=Augmentation(flip, shift), seconds=time_limit or inf)
    network = work.read(model, input_shape)
    pruning = prune_given(network, sparsity, data, held_out, group, tuning, written, samples, _stage)
    found, parts = pruning.found, pruning.parts
    _show(found, parts, sparsity, group, pruning.by_labels)
    output.say(f"network in {written}")
    figures = content(found, parts, network.name, sparsity, group, written)
    output.write_json(json, {**figures, "judged_by_labels": pruning.by_labels})


@contextmanager
def _stage(text: str) -> Iterator[Callable[[int, int], None] | None]:
    with output.progress(text) as show:
        yield show


def _show(found: Pruned, parts: Parts, sparsity: float, group: Group | None, by_labels: bool) -> None:
    """Print the layers and what the network lost. by_labels: judged by labels, not by the network's own answers."""
    rows = [
        (layer.name, layer.weights, f"{100 * layer.sparsity:.1f} %", layer.nonzeros, round(layer.sensitivity, 4))
        for layer in found.layers
    ]
    output.table("Layers", ["layer", "weights", "zeros", "non-zeros", "sensitivity*"], rows)
    output.say(f"* what the zeros of this layer alone add to the loss, {found.losses[0]:.4g}, before fine-tuning")
    reached = f"{100 * found.sparsity:.2f} % of the weights{_structure(group)}"
    output.say(f"zeros: {reached}; asked for: {100 * sparsity:g} %")
    learned = f"{len(parts.learning):,} samples learned from in {found.epochs:.4g} epochs"
    chose = f"{len(parts.choosing):,} chose, {len(parts.judging):,} others judge:"
    output.say(f"{learned if found.epochs else 'no fine-tuning'}, {chose}")
    if found.augmentation:
        output.say(f"images learned from: {_changes(found.augmentation)}")
    if not by_labels:
        output.say("they have no labels (`y`): right is what the network said before")
    steps = [("before", found.before), ("pruned, not fine-tuned", found.at_once), ("pruned", found.after)]
    for name, share in steps if found.epochs else [steps[0], steps[2]]:
        output.say(f"accuracy {name}: {_share(share)}")
    low, high = found.changes.difference_interval
    output.say(
        f"lost: {100 * found.changes.difference:.2f} points ({100 * low:.2f} to {100 * high:.2f}; intervals hold "
        "with 95 %)"
    )


def _changes(augmentation: Augmentation) -> str:
    mirrored = ["also mirrored"] if augmentation.flip else []
    pixels = "a pixel" if augmentation.shift == 1 else f"{augmentation.shift} pixels"
    moved = [f"moved by up to {pixels}"] if augmentation.shift else []
    return ", ".join([*mirrored, *moved])


def _structure(group: Group | None) -> str:
    if group is None:
        return ""
    if group == "even":
        return ", as many in every kernel of a layer"
    if not isinstance(group, tuple):
        return f", as many for every one of {group.groups} groups"
    return f", in groups of {group[0]} output x {group[1]} input channels"


def _share(share: Share) -> str:
    low, high = share.interval
    return f"{100 * share.value:.2f} % ({100 * low:.2f} to {100 * high:.2f})"


def content(
    found: Pruned, parts: Parts, name: str, sparsity: float, group: Group | None, written: Path
) -> dict[str, Any]:
    """All figures of a pruning as plain data; accuracies are shares with their intervals."""
    shares = {"before": found.before, "at_once": found.at_once, "pruned": found.after}
    return {
        "model": name,
        "output": str(written),
        "asked": sparsity,
        "sparsity": found.sparsity,
        "group": group if group is None or isinstance(group, str | tuple) else asdict(group),
        "samples": {part: len(getattr(parts, part)) for part in ("learning", "choosing", "judging")},
        "epochs": found.epochs,
        "augmentation": asdict(found.augmentation),
        "losses": dict(zip(("before", "at_once", "pruned"), found.losses, strict=True)),
        "accuracy": {key: {"value": item.value, "interval": item.interval} for key, item in shares.items()},
        "lost_points": 100 * found.changes.difference,
        "lost_points_interval": [100 * limit for limit in found.changes.difference_interval],
        "layers": [
            {
                "layer": layer.name,
                "weights": layer.weights,
                "zeros_before": layer.zeros_before,
                "zeros": layer.zeros,
                "nonzeros": layer.nonzeros,
                "sparsity": layer.sparsity,
                "sensitivity": layer.sensitivity,
                "curve": list(zip(curve.sparsity, curve.added, strict=True)),
            }
            for layer, curve in zip(found.layers, found.curves, strict=True)
        ],
    }
