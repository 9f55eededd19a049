"""Test vectors of a program: inputs and the outputs that every device must give, bit by bit, as one NPZ file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import Program
from bfpga.errors import DataError
from bfpga.formats.archive import UNREADABLE, read_arrays

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Vectors:
    """``inputs`` and ``outputs``: (samples, *shape) float32 by ONNX name. A run starts with policies that are clear."""

    inputs: Arrays
    outputs: Arrays

    def to_bytes(self) -> bytes:
        """The NPZ file; members are numbered in the order of the program, names of ONNX values may hold anything."""
        members = {f"input{n}": value for n, value in enumerate(self.inputs.values())}
        members |= {f"output{n}": value for n, value in enumerate(self.outputs.values())}
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, value in members.items():
                content = io.BytesIO()
                np.save(content, np.ascontiguousarray(value, np.float32), allow_pickle=False)
                # A fixed date: the same vectors give the same file.
                archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), content.getvalue())
        return buffer.getvalue()


def random_inputs(program: Program, samples: int, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Standard normal inputs of a program: (samples, *shape) by ONNX name."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.standard_normal((samples, *shape)).astype(np.float32) for name, shape in program.inputs.items()
    }


def read_vectors(path: Path, program: Program) -> Vectors:
    """Vectors of a program; DataError for a file that cannot be read or belongs to another program."""
    try:
        arrays = read_arrays(path)
    except UNREADABLE as error:
        raise DataError(f"{path}: not readable as test vectors ({str(error) or type(error).__name__})") from None
    inputs = _named(path, arrays, "input", program.inputs)
    outputs = _named(path, arrays, "output", program.outputs)
    counts = {len(value) for value in [*inputs.values(), *outputs.values()]}
    if len(counts) != 1 or 0 in counts:
        raise DataError(f"{path}: inputs and outputs have {sorted(counts)} samples; all need the same number")
    return Vectors(inputs, outputs)


def _named(path: Path, arrays: Arrays, kind: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, npt.NDArray[Any]]:
    result = {}
    for number, (name, shape) in enumerate(shapes.items()):
        value = arrays.get(f"{kind}{number}")
        if value is None or value.shape[1:] != tuple(shape):
            found = "missing" if value is None else f"of shape {value.shape}"
            raise DataError(f"{path}: {kind} {name!r} is {found}, not {tuple(shape)}: the vectors of another program")
        result[name] = value
    return result
