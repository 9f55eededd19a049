"""`bfpga research report-partition`: how the sparse cluster would cut maps of a file, and a picture of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bfpga.cli import output
from bfpga.cli.options import Json, Picture
from bfpga.cli.pictures import check_picture, write_picture

if TYPE_CHECKING:
    from bfpga.engines.kernel.products import NumberArray
    from bfpga.engines.sparse_cluster.partition.exchange import BalancedPartition


def report_partition(
    data: Annotated[
        Path, typer.Argument(help="NPZ with x, (samples, channels, rows, columns).", metavar="NPZ", show_default=False)
    ],
    sample: Annotated[int, typer.Option("--sample", min=0, help="Number of the sample.")] = 0,
    channel: Annotated[
        int | None, typer.Option("--channel", min=0, help="One channel; without, all are summed.")
    ] = None,
    channels_last: Annotated[
        bool, typer.Option("--channels-last", help="x is (samples, rows, columns, channels).")
    ] = False,
    grid: Annotated[str, typer.Option("--grid", help="Bands x pieces of a band.")] = "2x4",
    mode: Annotated[str, typer.Option("--mode", help="halo or overlap_add.")] = "halo",
    kernel: Annotated[str, typer.Option("--kernel", help="Rows x columns of the kernel, which make the halo.")] = "3x3",
    padding: Annotated[int, typer.Option("--padding", min=0, help="Virtual zeros on every side.")] = 1,
    start: Annotated[str, typer.Option("--start", help="quantile or equal.")] = "quantile",
    tau: Annotated[float, typer.Option("--tau", min=0.0, help="Largest difference, in points of density.")] = 3.0,
    picture: Picture = None,
    json: Json = None,
) -> None:
    """Cut a feature map into pieces of equal work, as the sparse cluster's units would get it.

    \b
    Examples:
      bfpga research report-partition activations.npz --grid 4x4 -o partition.png
      bfpga research report-partition activations.npz --mode overlap_add --tau 1 --start equal
    """
    from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, balance, work_map
    from bfpga.engines.sparse_cluster.partition.geometry import Padding, halo_geometry, overlap_add_geometry
    from bfpga.engines.sparse_cluster.partition.picture import draw_partition

    output.check_target(json)
    check_picture(picture)
    choice("--mode", mode, ("halo", "overlap_add"))
    choice("--start", start, ("quantile", "equal"))
    maps = _maps(data, sample, channel, channels_last)
    settings = PartitionSettings(grid=pair("--grid", grid), mode=mode, start=start, tau=tau)  # type: ignore[arg-type]
    sides = Padding(padding, padding, padding, padding)
    size = maps.shape[1], maps.shape[2]
    kernel_size = pair("--kernel", kernel)
    geometry = overlap_add_geometry(*size) if mode == "overlap_add" else halo_geometry(*size, kernel_size, sides)
    work = work_map(maps, "nnz_share")
    result = balance(work, geometry, settings, channels=len(maps))
    equal = balance(work, geometry, settings.without_moves(), channels=len(maps))
    _say(equal, result, maps)
    if picture is not None:
        write_picture(picture, draw_partition(work, equal, result))
    output.write_json(json, content(equal, result))


def pair(option: str, text: str) -> tuple[int, int]:
    """`2x4` as two numbers."""
    match = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", text)
    if match is None:
        raise typer.BadParameter(f"{option} is {text!r}; two numbers like 2x4 are needed")
    return int(match[1]), int(match[2])


def choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise typer.BadParameter(f"{option} is {value!r}; {' or '.join(choices)} is needed")


def content(equal: BalancedPartition, result: BalancedPartition) -> dict[str, Any]:
    """The equal grid and the balanced partition in JSON's types."""
    return {
        "reached": result.reached,
        "moves": result.moves,
        "spread": result.spread,
        "history": result.history,
        "imbalance": {"equal": equal.imbalance, "balanced": result.imbalance},
        "loads": {"equal": equal.loads, "start": result.start_loads, "balanced": result.loads},
        "row_limits": result.partition.row_limits,
        "column_limits": result.partition.column_limits,
    }


def _maps(path: Path, sample: int, channel: int | None, channels_last: bool) -> NumberArray:
    """Maps (channels, rows, columns) of one sample."""
    from bfpga.data import load_samples
    from bfpga.errors import DataError

    x = load_samples(path).x
    if x.ndim not in (3, 4):
        raise DataError(f"{path}: 'x' has shape {x.shape}; (samples, channels, rows, columns) is needed")
    if sample >= len(x):
        raise DataError(f"{path}: there is no sample {sample}; the file holds {len(x)}")
    maps: NumberArray = x[sample]
    maps = maps[None] if maps.ndim == 2 else maps.transpose(2, 0, 1) if channels_last else maps
    if channel is None:
        return maps
    if channel >= len(maps):
        raise DataError(f"{path}: there is no channel {channel}; a sample has {len(maps)}")
    return maps[channel : channel + 1]


def _say(equal: BalancedPartition, result: BalancedPartition, maps: NumberArray) -> None:
    headers = ["unit", "rows", "columns", "work, equal grid", "work, balanced"]
    rows = [
        (unit, f"{piece.row0} to {piece.row1 - 1}", f"{piece.column0} to {piece.column1 - 1}", before, load)
        for unit, (piece, before, load) in enumerate(
            zip(result.partition.rectangles(), equal.loads, result.loads, strict=True)
        )
    ]
    title = f"{maps.shape[1]} x {maps.shape[2]} cells, {100 * float((maps != 0).mean()):.1f} % not zero"
    output.table(title, headers, rows)
    state = "threshold met" if result.reached else "threshold not reached, this is the nearest that was found"
    output.say(f"{result.moves} moves, spread {result.spread:.2f}: {state}")
    output.say(f"largest / mean work: {equal.imbalance:.3f} on the equal grid, {result.imbalance:.3f} balanced")
