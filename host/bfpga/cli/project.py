"""What `bfpga init` writes: which accelerator and recipe serve a goal, and the files of a folder, all or none."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bfpga.accelerator.boards import Board, config_folder, load_board, resolve
from bfpga.accelerator.loader import Accelerator, accelerator_files, accelerator_names, is_ready, load_accelerator
from bfpga.accelerator.schema import json_schema
from bfpga.accelerator.variants import fitting_boards, on_board
from bfpga.api.jobs import CALIBRATION_SAMPLES
from bfpga.cli import output, work
from bfpga.compiler.compiler import Calibration
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.named import model_path, named_network
from bfpga.compiler.read.network import Network, read_network
from bfpga.compiler.recipes import save_recipe
from bfpga.data import load_inputs
from bfpga.errors import BfpgaError, ConfigurationError
from bfpga.explore.figures import Figures, program_figures
from bfpga.formats.files import printable, write_error
from bfpga.synthesis.resources import resources_of

SCRIPT, RECIPE = "run.py", "recipe.yaml"
TEMPLATE = Path(__file__).parent / "templates" / "run.py.txt"
#: Numbers of samples side by side that are tried for networks which are fully connected from end to end.
SIDE_BY_SIDE = (4, 8, 12, 16)
#: From so many bits of mantissa on, results need no second mantissa.
FINE_BITS = 12
#: Width of a line, and the column of its comment, in the accelerator's file.
WIDTH, COLUMN = 120, 36


@dataclass(frozen=True)
class Wish:
    """What the folder shall be for; None: not asked for."""

    board: str | None
    model: str | None
    goal: str | None
    accelerator: str | None
    data: Path | None = None
    calibration: Path | None = None


@dataclass(frozen=True)
class Choice:
    """An accelerator on a board, with the options of a recipe, and what the network costs there."""

    accelerator: Accelerator
    options: CompileOptions
    figures: Figures

    @property
    def share(self) -> float:
        """The largest share of a resource of the board."""
        limits = self.accelerator.board.resources
        return max(self.figures.used[name] / limit for name, limit in limits.items() if limit)

    @property
    def bits(self) -> int:
        return self.accelerator.config.format.mantissa_bits


@dataclass(frozen=True)
class Plan:
    """What is written. model, data, calibration: as the script names them; reasons: lines for who asked."""

    choice: Choice
    network: Network
    data: Path
    calibration: Path | None
    reasons: list[str] = field(default_factory=list)


#: What is least for the best accelerator of a goal.
ORDER: dict[str, Callable[[Choice], Any]] = {
    "throughput": lambda choice: choice.figures.seconds,
    "latency": lambda choice: choice.figures.latency,
    "smallest": lambda choice: (choice.share, choice.figures.seconds),
    "accuracy": lambda choice: (-choice.bits, choice.figures.seconds),
}


def check_folder(folder: Path) -> None:
    """Refuse a place where something is."""
    if folder.is_dir():
        found = sorted(os.listdir(folder))
        if found:
            some = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
            raise OSError(errno.ENOTEMPTY, f"is not empty ({some}); give a new or an empty folder", str(folder))
    elif folder.exists() or folder.is_symlink():
        raise OSError(errno.EEXIST, "is there and is no folder; give a new or an empty folder", str(folder))


def planned(wish: Wish) -> Plan:
    """The best choice for a wish; ConfigurationError where nothing fits or samples are missing."""
    assert wish.model is not None
    network = read_network(wish.model)
    named = named_network(wish.model)
    data, calibration = wish.data, wish.calibration
    if named is not None and data is None:
        data, calibration = named.samples_path, calibration or named.calibration_path
    if data is None:
        raise ConfigurationError("--data is missing: a network file needs an NPZ with samples (x, and y if known)")
    samples = load_inputs(calibration or data, network.inputs, CALIBRATION_SAMPLES).inputs
    load_inputs(data, network.inputs, 1)
    with output.waiting("choosing an accelerator"):
        choices, refused = _choices(_candidates(wish), network, samples)
        if not choices:
            raise ConfigurationError(f"no accelerator can run {network.path}: {'; '.join(refused)}")
        best = choices[0] if wish.goal is None else min(choices, key=ORDER[wish.goal])
        best = _with_recipe(best, wish.goal, network, samples)
    return Plan(best, network, data, calibration, _reasons(best, wish, len(choices), refused))


def _candidates(wish: Wish) -> list[Accelerator]:
    """The accelerators that may be copied, on the board; ConfigurationError if none fits it."""
    board = None if wish.board is None else load_board(wish.board)
    if wish.accelerator is not None:
        given = load_accelerator(wish.accelerator)
        return [given if board is None else _moved(given, board)]
    assert board is not None
    ready = [load_accelerator(name) for name in accelerator_names()]
    found = [on_board(one, board) for one in ready if board in fitting_boards(one)]
    if not found:
        raise ConfigurationError(
            f"no ready accelerator fits {board.title}; bfpga explore MODEL --board {board.name} searches for some"
        )
    return found


def _moved(accelerator: Accelerator, board: Board) -> Accelerator:
    if board not in fitting_boards(accelerator):
        fitting = ", ".join(one.name for one in fitting_boards(accelerator))
        raise ConfigurationError(f"{accelerator.name} does not fit {board.title}; it fits {fitting}")
    return on_board(accelerator, board)


def _choices(
    candidates: list[Accelerator], network: Network, samples: Calibration
) -> tuple[list[Choice], list[str]]:
    """What the network costs on each candidate, and why some cannot run it."""
    found, refused = [], []
    for accelerator in candidates:
        try:
            found.append(_choice(accelerator, network, samples, CompileOptions()))
        except BfpgaError as error:
            refused.append(f"{accelerator.name}: {error}")
    return found, refused


def _choice(accelerator: Accelerator, network: Network, samples: Calibration, options: CompileOptions) -> Choice:
    program = work.compile_for_estimate(accelerator, network, samples, options)
    return Choice(accelerator, options, program_figures(accelerator, program, resources_of(accelerator).total))


def _with_recipe(choice: Choice, goal: str | None, network: Network, samples: Calibration) -> Choice:
    """With options that serve the goal, where there are any that this network and accelerator take."""
    tried = []
    if goal == "throughput":
        tried = [CompileOptions(side_by_side=count) for count in SIDE_BY_SIDE]
    elif goal == "accuracy" and choice.bits < FINE_BITS:
        tried = [CompileOptions(result_parts=2, weight_parts=2)]
    found = []
    for options in tried:
        try:
            found.append(_choice(choice.accelerator, network, samples, options))
        except BfpgaError:
            break
    if goal == "throughput":
        return min([choice, *found], key=ORDER[goal])
    return found[0] if found else choice


def _reasons(choice: Choice, wish: Wish, able: int, refused: list[str]) -> list[str]:
    accelerator, figures = choice.accelerator, choice.figures
    title = f"{accelerator.name} on {accelerator.board.title}"
    chosen = title if wish.accelerator else f"{title}: the best of {able} for the goal {wish.goal}"
    cost = f"{1 / figures.seconds:,.0f} images/s, {1e3 * figures.latency:.3g} ms alone, {choice.bits} bits"
    lines = [chosen, f"estimated: {cost}, {100 * choice.share:.0f} % of the fullest resource"]
    return [*lines, *(f"cannot run it: {line}" for line in refused)]


def write(folder: Path, plan: Plan, wish: Wish) -> list[str]:
    """Write the files of the plan and return their names; OSError with nothing left of them."""
    name = project_name(folder)
    with _appearing(folder) as place:
        described = place / f"{name}.yaml"
        described.write_text(accelerator_text(plan.choice.accelerator, name, wish.board))
        load_accelerator(described)
        recipe = plan.choice.options != CompileOptions()
        if recipe:
            save_recipe(plan.choice.options, place / RECIPE, f"made for the goal {wish.goal}")
        (place / SCRIPT).write_text(script_text(folder, plan, wish, name, recipe))
        return sorted(os.listdir(place))


@contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """A place whose files are in ``folder`` when the block ends, and nowhere if it fails."""
    made = [path for path in (folder, *folder.absolute().parents) if not path.exists()]
    place: Path | None = None
    moved: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=".init-", dir=folder))
        yield place
        for path in sorted(place.iterdir()):
            os.rename(path, folder / path.name)
            moved.append(folder / path.name)
        place.rmdir()
    except BaseException as error:
        for path in moved:
            path.unlink(missing_ok=True)
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        for path in made:
            if path.is_dir():
                path.rmdir()
        raise (write_error(error, folder, 0) if isinstance(error, OSError) else error) from None


def project_name(folder: Path) -> str:
    """A name for the accelerator of a folder: its own, as far as an accelerator may be called that."""
    plain = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")[:40]
    return plain if plain[:1].isalpha() and not is_ready(plain) else f"my_{plain or 'accelerator'}"


def accelerator_text(accelerator: Accelerator, name: str, board: str | None) -> str:
    """The file of an accelerator under another name, on its board, with what each key means."""
    described = resolve(board, "boards") if board else accelerator_files(accelerator.path)[1]
    shipped = described.parent == config_folder("boards")
    board_text = described.stem if shipped else str(described.resolve())
    new = {"name": name, "board": board_text, "clock_mhz": f"{accelerator.clock_mhz:g}"}
    lines = [f"# A copy of {accelerator.name} to change; keys, bounds and defaults: docs/accelerator-yaml.md."]
    text = accelerator.path.read_text(encoding="utf-8")
    kind = next(iter(re.findall(r"kind: (\w+)", text)), "")
    for line in text.splitlines():
        key = re.match(r"(\w+):", line)
        if key and key[1] in new:
            line = f"{key[1]}: {new[key[1]]}"
        lines += _commented(line, kind)
    return "\n".join(lines) + "\n"


def _commented(line: str, kind: str) -> list[str]:
    """A line with the meaning of its key behind it, or above it where that is too long. kind: of the engine."""
    key = re.match(r"(\s*(?:- )?)(\w+): [^#]*$", line)
    meaning = _meaning(key[2], kind if key[1] else "") if key else ""
    if not key or not meaning or key[2] in ("name", "description", "kind"):
        return [line]
    behind = f"{line:<{COLUMN}}  # {meaning}"
    return [behind] if len(behind) <= WIDTH else [f"{' ' * len(key[1])}# {meaning}", line]


def _meaning(key: str, kind: str) -> str:
    """What the schema says of a key of the file, or of its engine of a kind and the sections in that."""
    schema = json_schema()
    inner = list(schema["$defs"].values())
    own = [section for section in inner if section["properties"].get("kind", {}).get("const") == kind]
    nested = [section for section in inner if "kind" not in section["properties"]]
    sections = [*own, *nested] if kind else [schema]
    found = (section.get("properties", {}).get(key, {}).get("description", "") for section in sections)
    return next((" ".join(text.split()) for text in found if text), "")


def script_text(folder: Path, plan: Plan, wish: Wish, name: str, recipe: bool) -> str:
    """The script with its numbers and names."""

    def place(path: Path) -> str:
        return f"HERE / {os.path.relpath(path.absolute(), folder.absolute())!r}"

    assert wish.model is not None
    named = named_network(wish.model)
    own = wish.data is not None or named is None
    values = {
        "title": printable(plan.network.name).replace('"', ""),
        "name": name,
        "model": repr(named.name) if named else place(model_path(wish.model)),
        "samples": place(plan.data) if own or named is None else f"named_network({named.name!r}).samples_path",
        "calibration": _calibration(plan, wish, place),
        "recipe": f"HERE / {RECIPE!r}" if recipe else "None",
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda word: values[word[1]], text)


def _calibration(plan: Plan, wish: Wish, place: Callable[[Path], str]) -> str:
    if plan.calibration is None:
        return "None"
    named = None if wish.calibration is not None else named_network(wish.model or "")
    return place(plan.calibration) if named is None else f"named_network({named.name!r}).calibration_path"
