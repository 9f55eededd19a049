"""Sample files: NPZ with `x`, optional `x_offset` and `x_scale` (input = (x - x_offset) * x_scale), optional `y`."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.archive import UNREADABLE, Judge, OversizeError, opened, read_array, sample_limit
from bfpga.formats.files import regular_file

#: Arrays of a sample file; `x` and `y` have one item a sample.
_ARRAYS = ("x", "y", "x_offset", "x_scale")
#: Bytes of the widest number that numpy reads, and what an array beside the samples may always have.
WIDEST, SMALLEST_LIMIT = 32, 1 << 20

@dataclass
class Samples:
    """x: (samples, *shape) float32, offset and scale applied; y: (samples,) labels, if the file has them."""

    x: npt.NDArray[np.float32]
    y: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.x)

    def first(self, count: int | None) -> Samples:
        """The first ``count`` samples, all of them for None."""
        return Samples(self.x[:count], None if self.y is None else self.y[:count])


def load_samples(path: str | Path, shape: tuple[int, ...] | None = None, count: int | None = None) -> Samples:
    """Read samples for an input of ``shape`` (batch axis left out).

    Samples of another shape but as many elements are reshaped, (N, 1, 28, 28) to (N, 784) for example. count: use the
    first ones only. ``DataError`` for every kind of bad file; object arrays are never unpickled.
    """
    path = Path(path)
    arrays = _read(path, count, shape)
    x = _numbers(path, "x", arrays["x"])
    if x.ndim < 2 or len(x) == 0:
        raise DataError(f"{path}: 'x' has shape {x.shape}; (samples, ...) with one sample at least is needed")
    y = _labels(path, arrays, len(x))
    x = _scaled(path, arrays, x)
    if shape is not None:
        x = fit_shape(x, shape, str(path))
    return Samples(x, y)


def fit_shape(x: npt.NDArray[np.float32], shape: tuple[int, ...], where: str = "x") -> npt.NDArray[np.float32]:
    """Samples as (samples, *shape) if each has as many elements; ``DataError`` otherwise."""
    check_sample_shape(x.shape[1:], shape, where)
    return x.reshape(len(x), *shape)


def check_sample_shape(sample: tuple[int, ...], shape: tuple[int, ...], where: str) -> None:
    """``DataError`` unless a sample has the elements of an input of ``shape`` in the same order."""
    without_ones = [size for size in sample if size != 1]
    same_order = len(shape) == 1 or without_ones == [size for size in shape if size != 1]
    if sample != tuple(shape) and not (prod(sample) == prod(shape) and same_order):
        raise DataError(f"{where}: a sample has shape {sample}; the network takes {tuple(shape)}")


def _read(path: Path, count: int | None, shape: tuple[int, ...] | None) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file by name; of samples and labels the first ``count``. Nothing more is unpacked.

    shape: of a sample, if it is known; one that says another is not read.
    """
    reason = regular_file(path)
    if reason:
        raise DataError(f"{path}: {reason}")
    try:
        with opened(path) as archive:
            names = {item.removesuffix(".npy"): item for item in archive.namelist()}
            if "x" not in names:
                found = ", ".join(sorted(names)) or "nothing"
                raise DataError(f"{path}: key 'x' (the samples) is missing; the file holds {found}")
            x = _member(path, archive, names["x"], count, _judge_samples(path, shape))
            # Scales and labels are as many as the samples' elements at most, so they are bounded by those.
            most = WIDEST * max(x.size, 1) + SMALLEST_LIMIT
            others = [name for name in _ARRAYS if name in names and name != "x"]
            return {"x": x} | {
                name: _member(path, archive, names[name], count if name == "y" else None, limit=most)
                for name in others
            }
    except UNREADABLE as error:
        if _is_single_array(path):
            raise DataError(f"{path}: this is a single array; an NPZ archive with the key 'x' is needed") from None
        raise DataError(f"{path}: not a readable NPZ file ({_reason(error)})") from None


def _is_single_array(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


def _judge_samples(path: Path, shape: tuple[int, ...] | None) -> Judge:
    """What refuses samples by the header of their array, before their data is unpacked."""

    def judge(found: tuple[int, ...], kind: np.dtype[Any]) -> None:
        if kind.kind not in "iufb":
            raise DataError(f"{path}: 'x' has type {kind}; real numbers are needed")
        if len(found) > 1 and found[0] and shape is not None:
            check_sample_shape(found[1:], shape, str(path))

    return judge


def _member(
    path: Path,
    archive: zipfile.ZipFile,
    name: str,
    count: int | None,
    judge: Judge | None = None,
    limit: int | None = None,
) -> npt.NDArray[Any]:
    key = name.removesuffix(".npy")
    most = sample_limit() if limit is None else min(limit, sample_limit())
    try:
        with archive.open(name) as stream:
            return read_array(stream, count, most, judge)
    except OversizeError as error:
        advice = "; -n takes the first samples only" if key == "x" else ""
        raise DataError(f"{path}: array {key!r} is too large: {error}{advice}") from None
    except UNREADABLE as error:
        raise DataError(f"{path}: array {key!r} cannot be read ({_reason(error)})") from None


def _reason(error: BaseException) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return "it holds Python objects, which are not loaded" if "allow_pickle" in text else text


def _numbers(path: Path, name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if value.dtype.kind not in "iufb":
        raise DataError(f"{path}: {name!r} has type {value.dtype}; real numbers are needed")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        position = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
        raise DataError(f"{path}: {name!r} holds {value[position]} at index {position}; finite numbers are needed")
    return value


def _scaled(path: Path, arrays: dict[str, npt.NDArray[Any]], x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    result: npt.NDArray[np.float32] = np.ascontiguousarray(x, np.float32)
    for name, operation in (("x_offset", np.subtract), ("x_scale", np.multiply)):
        if name not in arrays:
            continue
        factor = _numbers(path, name, arrays[name]).astype(np.float32)
        try:
            scaled = operation(result, factor)
        except ValueError:
            scaled = None
        if scaled is None or scaled.shape != result.shape:
            raise DataError(
                f"{path}: {name!r} has shape {factor.shape}; one number, or a shape that fits {x.shape[1:]}"
            )
        result = scaled
    if not np.isfinite(result).all():
        raise DataError(f"{path}: 'x' leaves the range of float32 after x_offset and x_scale")
    return result


def _labels(path: Path, arrays: dict[str, npt.NDArray[Any]], samples: int) -> npt.NDArray[Any] | None:
    if "y" not in arrays:
        return None
    y = arrays["y"]
    if y.dtype.kind not in "iub" or y.shape != (samples,):
        raise DataError(f"{path}: 'y' has shape {y.shape} and type {y.dtype}; {samples} integer labels are needed")
    return y
