"""What a search leaves in its folder: accelerators and recipes that are ready to build, tables, pictures, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bfpga.explore.candidate import RESTRICTED
from bfpga.explore.figures import Point
from bfpga.explore.front import Goal, ties
from bfpga.explore.search import Exploration
from bfpga.formats.files import read_file, replace_file
from bfpga.precision.judge import MEASURES

STUDY, FRONT, PICTURE, PAGE = "study.sqlite3", "front.json", "front.svg", "front.html"
#: Bytes of a list of results at most.
_LARGEST = 1 << 26
#: Characters of a network's name in those of accelerators, which have 48 at most.
_NAME = 32


@dataclass(frozen=True)
class Row:
    """A point of the front with the files that were written for it; None for a ready accelerator, which has its own."""

    point: Point
    name: str
    accelerator: str | None = None
    recipe: str | None = None


def rows(found: Exploration) -> list[Row]:
    """The front, the best point first, with names for its accelerators."""
    return [_row(found, point) for point in found.front]


def recommended(written: Sequence[Row], goal: Goal) -> list[Row]:
    """Of the rows of a front those that tie, the one to be recommended first (``ties``)."""
    tied = ties([row.point for row in written], goal)
    return [next(row for row in written if row.point is point) for point in tied]


def _row(found: Exploration, point: Point) -> Row:
    if point.candidate.origin:
        return Row(point, point.candidate.origin)
    name = accelerator_name(found.task.network.name, point.number)
    return Row(point, name, f"{name}.yaml", f"{name}_recipe.yaml")


def accelerator_name(network: str, number: int) -> str:
    """A name that an accelerator may have: of the network and the trial."""
    plain = re.sub(r"[^a-z0-9]+", "_", network.lower()).strip("_")[:_NAME]
    return f"{plain if plain[:1].isalpha() else f'net_{plain}'}_t{number}"


def write_results(found: Exploration, folder: Path) -> list[Row]:
    """Accelerators, recipes and the list of all points; files of an earlier front that is none any more are removed."""
    written = rows(found)
    files: dict[str, str] = {}
    for row in written:
        if row.accelerator is not None and row.recipe is not None:
            files[row.accelerator] = accelerator_text(found, row)
            files[row.recipe] = recipe_text(found, row)
    for name, text in files.items():
        replace_file(folder / name, text.encode())
    for name in _earlier_files(folder) - files.keys():
        (folder / name).unlink(missing_ok=True)
    replace_file(folder / FRONT, (json.dumps(content(found), indent=1, allow_nan=False) + "\n").encode())
    return written


def _earlier_files(folder: Path) -> set[str]:
    """Accelerators and recipes that the list in a folder says were written."""
    try:
        listed = json.loads(read_file(folder / FRONT, _LARGEST))
        names = [name for point in listed["front"] for name in point["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {name for name in names if re.fullmatch(r"[a-z][a-z0-9_]*_t\d+(_recipe)?\.yaml", str(name))}


def content(found: Exploration) -> dict[str, Any]:
    """The front and all that was tried, as plain data; the same for the same seed."""
    task = found.task
    return {
        "network": task.network.name,
        "board": task.board.name,
        "objective": task.goal.objective,
        "accuracy_drop": task.goal.drop,
        "seed": task.seed,
        "measure": None if task.judge is None else MEASURES[task.judge.metric],
        "float_accuracy": None if task.judge is None else task.judge.reached,
        "trials": found.trials,
        "refused": found.refused,
        "front": [
            {
                **row.point.content(),
                "file_name": row.name,
                "files": [name for name in (row.accelerator, row.recipe) if name],
            }
            for row in rows(found)
        ],
        "ready": [point.content() for point in found.ready],
        "points": [point.content() for point in found.points],
    }


def summary(found: Exploration, point: Point) -> str:
    """Time, energy and accuracy of a point in a line."""
    figures = point.figures
    text = (
        f"{1e6 * figures.seconds:.1f} us a sample, {1e6 * figures.latency:.1f} us alone, {1e3 * figures.joules:.3f} mJ"
    )
    if figures.accuracy is not None and (judge := found.task.judge) is not None:
        text += f", {MEASURES[judge.metric]} {figures.accuracy:.2f} % (float {judge.reached:.2f} %)"
    return text


def accelerator_text(found: Exploration, row: Row) -> str:
    """An accelerator file with what it is for."""
    point, task = row.point, found.task
    described = {
        **point.candidate.described,
        "name": row.name,
        "description": f"found for {task.network.name} on {task.board.title}",
    }
    first, *others = described["engines"]
    keys = ("name", "description", "board", "clock_mhz", "cores")
    ordered = {key: described[key] for key in keys if key in described}
    head = [
        f"Found by `bfpga explore` for {task.network.name} on {task.board.title}.",
        f"Trial {point.number} of seed {task.seed}.",
        f"Estimated: {summary(found, point)}.",
        f"The clock is {clock_words(point)}.",
        "Functions and memories are those that this network needs; others may not fit.",
        *[f"Restricted: {RESTRICTED}."] * ("static_exponents" in point.candidate.extras),
        f"Compile: bfpga compile {task.network.path.name} -a {row.accelerator} -r {row.recipe} -c SAMPLES.npz",
    ]
    return _commented(head, {**ordered, "engines": [first, *others]}, flat=True)


def recipe_text(found: Exploration, row: Row) -> str:
    """A recipe file that belongs to an accelerator."""
    head = [f"Belongs to {row.accelerator}."]
    described = {"description": f"of {row.name}, for {found.task.network.name}"}
    return _commented(head, described | row.point.candidate.recipe, flat=False)


def clock_words(point: Point) -> str:
    """What is known of a point's clock, in words."""
    words = {
        "modelled": "modelled: all loops are in time in a synthesis of the code; no vendor's tool has confirmed it",
        "missed": f"missed in a synthesis of the code: {point.missed}",
    }
    return words.get(point.clock, "not modelled: no synthesis of the code was made (--synthesize)")


def _commented(head: list[str], values: dict[str, Any], flat: bool) -> str:
    """A YAML file with a comment above. flat: lists and sections without others in them take a line each."""
    comment = "".join(f"# {' '.join(line.split())}\n" for line in head)
    style = None if flat else False
    return comment + yaml.safe_dump(values, sort_keys=False, default_flow_style=style, width=120, allow_unicode=True)
