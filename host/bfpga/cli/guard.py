"""No command writes over a file that it reads: every command goes through here, with all its files."""

from __future__ import annotations

import errno
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from bfpga.formats.files import refuse_input

#: Options that name what a command writes.
OUTPUTS = {"--json", "--output", "--report", "--save-recipe"}


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, refusing before it does anything to write over one of its inputs, or two results into one file."""
    parameters = inspect.signature(command, eval_str=True).parameters
    written = {name for name, parameter in parameters.items() if OUTPUTS & _options(parameter.annotation)}

    @functools.wraps(command)
    def call(**values: Any) -> None:
        outputs = [path for name in written if (path := values.get(name)) is not None]
        _refuse_twice(outputs)
        if any(path.exists() for path in outputs):
            inputs = [path for name in values.keys() - written for path in input_files(name, values[name])]
            for path in outputs:
                refuse_input(path, inputs)
        command(**values)

    return call


def _options(hint: Any) -> set[str]:
    """The words of an option, from the type of its parameter; typer takes the first as its `default`."""
    given = [word for item in get_args(hint)[1:] for word in (item.default, *(item.param_decls or ()))]
    return {word for word in given if isinstance(word, str)}


def _refuse_twice(outputs: Sequence[Path]) -> None:
    places = [os.path.realpath(path) for path in outputs]
    for path, place in zip(outputs, places, strict=True):
        if places.count(place) > 1:
            raise OSError(errno.EEXIST, "is named for two results; give each a file of its own", str(path))


def input_files(name: str, value: Any) -> list[Path]:
    """All files that a parameter makes a command read; those that its files name included."""
    if isinstance(value, (list, tuple)):
        return [path for item in value for path in input_files(name, item)]
    return [Path(value), *_referenced_files(name, Path(value))] if isinstance(value, (str, Path)) else []


def _referenced_files(name: str, path: Path) -> list[Path]:
    """Files that the name or the file of a parameter refers to; errors in it are for the command to find."""
    from bfpga.accelerator.boards import resolve
    from bfpga.accelerator.loader import accelerator_files
    from bfpga.compiler.read.model_file import external_files
    from bfpga.compiler.read.named import model_path
    from bfpga.errors import BfpgaError
    from bfpga.vendor.lint import SUFFIXES

    try:
        if name == "overlay" and path.is_dir():
            return list(path.iterdir())
        if name == "sources" and path.is_dir():
            return [file for file in path.rglob("*") if file.suffix in SUFFIXES]
        if name == "model":
            return [model_path(path), *external_files(path)]
        if name == "recipe":
            return [resolve(path, "networks")]
        if name in ("accelerator", "accelerators", "sources"):
            return accelerator_files(path)
    except (BfpgaError, OSError):
        return []
    return []
