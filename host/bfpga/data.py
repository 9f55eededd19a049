"""Sample files: NPZ with `x`, optional `x_offset` and `x_scale` (input = (x - x_offset) * x_scale), optional `y`.

Samples for a network with several inputs have an array for each, by the input's name in the place of `x`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bfpga.errors import DataError
from bfpga.formats.archive import UNREADABLE, Judge, OversizeError, opened, read_array, sample_limit
from bfpga.formats.files import regular_file

#: Name of the samples of a network with one input, and of the labels.
SAMPLES, LABELS = "x", "y"
#: What helps against samples that are too many.
ADVICE = "; -n takes the first samples only"
#: Bytes of the widest number that numpy reads, and what an array in addition to the samples may always have.
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


@dataclass
class InputSamples:
    """Samples of a network: inputs by name, each (samples, *shape) float32; labels (samples,), if the file has them."""

    inputs: dict[str, npt.NDArray[np.float32]]
    y: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return min(len(values) for values in self.inputs.values())

    def first(self, count: int) -> dict[str, npt.NDArray[np.float32]]:
        """The first ``count`` samples of every input."""
        return {name: values[:count] for name, values in self.inputs.items()}


#: Samples as the functions of the package take them: an NPZ file, an array for a network of one input, arrays by input
#: name, or samples that were read.
Given: TypeAlias = "str | Path | npt.ArrayLike | Mapping[str, npt.ArrayLike] | Samples | InputSamples"


def given_samples(given: Given, shapes: Mapping[str, tuple[int, ...]], count: int | None = None) -> InputSamples:
    """Samples for a network's inputs of ``shapes`` (by name, batch axis left out), however they are given.

    count: the first ones only. Arrays of another shape but as many elements are reshaped, as ``load_samples`` does.
    DataError for what is no array of numbers, for names and shapes that are not the network's, and for inputs with
    different numbers of samples.
    """
    if isinstance(given, (str, Path)):
        return load_inputs(given, shapes, count)
    labels = given.y if isinstance(given, (Samples, InputSamples)) else None
    arrays = _by_name(given, shapes)
    inputs = {name: _batch(name, arrays[name], shape)[:count] for name, shape in shapes.items()}
    sizes = {name: len(values) for name, values in inputs.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise DataError(f"the inputs have different numbers of samples: {listed}")
    return InputSamples(inputs, None if labels is None else labels[:count])


def _by_name(given: Any, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any]:
    """Arrays for exactly the inputs that there are; DataError otherwise."""
    wanted = ", ".join(shapes)
    given = given.inputs if isinstance(given, InputSamples) else given.x if isinstance(given, Samples) else given
    if not isinstance(given, Mapping):
        if len(shapes) != 1:
            raise DataError(f"the network has the inputs {wanted}; give a dictionary with an array for each name")
        return {next(iter(shapes)): given}
    wrong = [f"input {name!r} is missing" for name in shapes if name not in given]
    wrong += [f"input {name!r} is unknown" for name in given if name not in shapes]
    if wrong:
        raise DataError(f"{wrong[0]}; the network takes {wanted}")
    return given


def _batch(name: str, given: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """An array as (samples, *shape)."""
    where = f"input {name!r}"
    try:
        value = np.asarray(given)
    except ValueError:  # lists of different lengths
        raise DataError(f"{where}: is no array; numbers of shape (samples, {_sizes(shape)}) are needed") from None
    if value.dtype.kind not in "iufb":
        raise DataError(f"{where} has type {value.dtype}; numbers are needed")
    if value.ndim == 0 or len(value) == 0:
        raise DataError(f"{where} has shape {value.shape}; (samples, {_sizes(shape)}), one sample at least, is needed")
    if value.ndim == 1 and prod(shape) != 1:
        needed = f"(samples, {_sizes(shape)}) is needed; x[None] makes one sample a batch"
        raise DataError(f"{where} has shape {value.shape}; {needed}")
    return fit_shape(value, shape, where)


def _sizes(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def class_labels(labels: npt.NDArray[Any] | None, scores: int) -> npt.NDArray[Any] | None:
    """Labels of samples where they are classes of so many ``scores``, else None."""
    if labels is None or scores < 2 or labels.min() < 0 or labels.max() >= scores:
        return None
    return labels


def load_inputs(path: str | Path, shapes: Mapping[str, tuple[int, ...]], count: int | None = None) -> InputSamples:
    """Read samples for a network's inputs of ``shapes`` (by name, batch axis left out); as ``load_samples``.

    One input takes the array `x`, or one of its name; several take one of its name each, all with as many samples.
    """
    path = Path(path)
    if len(shapes) == 1:
        name, shape = next(iter(shapes.items()))
        names = array_names(path)
        key = name if name in names and SAMPLES not in names else SAMPLES
        found = load_samples(path, shape, count, key)
        return InputSamples({name: found.x}, found.y)
    missing = [name for name in shapes if name not in array_names(path)]
    if missing:
        raise DataError(
            f"{path}: the network has the inputs {', '.join(shapes)}; an array of each name is needed, {missing[0]!r} "
            "is missing"
        )
    parts = {name: load_samples(path, shape, count, name) for name, shape in shapes.items()}
    sizes = {name: len(part) for name, part in parts.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise DataError(f"{path}: the inputs have different numbers of samples: {listed}")
    return InputSamples({name: part.x for name, part in parts.items()}, next(iter(parts.values())).y)


def array_names(path: str | Path) -> set[str]:
    """Names of the arrays in a sample file; ``DataError`` for what is none."""
    path = Path(path)
    with _archive(path) as archive:
        return {item.removesuffix(".npy") for item in archive.namelist()}


def load_samples(
    path: str | Path, shape: tuple[int, ...] | None = None, count: int | None = None, key: str = SAMPLES
) -> Samples:
    """Read samples for an input of ``shape`` (batch axis left out). key: the name of their array.

    Samples of another shape but as many elements are reshaped, (N, 1, 28, 28) to (N, 784) for example. count: use the
    first ones only. ``DataError`` for every kind of bad file; object arrays are never unpickled.
    """
    path = Path(path)
    arrays = _read(path, count, shape, key)
    x = _numbers(path, key, arrays[key])
    if x.ndim < 2 or len(x) == 0:
        raise DataError(f"{path}: {key!r} has shape {x.shape}; (samples, ...) with one sample at least is needed")
    y = _labels(path, arrays, len(x))
    x = _scaled(path, arrays, x, key)
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


def _read(path: Path, count: int | None, shape: tuple[int, ...] | None, key: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file by name; of samples and labels the first ``count``. Nothing more is unpacked.

    shape: of a sample, if it is known; one that says another is not read. key: the name of the samples.
    """
    with _archive(path) as archive:
        names = {item.removesuffix(".npy"): item for item in archive.namelist()}
        if key not in names:
            found = ", ".join(sorted(names)) or "nothing"
            raise DataError(f"{path}: key {key!r} (the samples) is missing; the file holds {found}")
        x = _member(path, archive, names[key], count, _judge_samples(path, shape, key), advice=ADVICE)
        # Scales and labels are as many as the samples' elements at most, so they are bounded by those.
        most = WIDEST * max(x.size, 1) + SMALLEST_LIMIT
        others = [name for name in (LABELS, f"{key}_offset", f"{key}_scale") if name in names and name != key]
        return {key: x} | {
            name: _member(path, archive, names[name], count if name == LABELS else None, limit=most) for name in others
        }


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An NPZ file; what is none, or damaged, is a ``DataError``."""
    reason = regular_file(path)
    if reason:
        raise DataError(f"{path}: {reason}")
    try:
        with opened(path) as archive:
            yield archive
    except UNREADABLE as error:
        if _is_single_array(path):
            raise DataError(f"{path}: this is a single array; an NPZ archive with the key 'x' is needed") from None
        raise DataError(f"{path}: not a readable NPZ file ({_reason(error)})") from None


def _is_single_array(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


def _judge_samples(path: Path, shape: tuple[int, ...] | None, key: str) -> Judge:
    """What refuses samples by the header of their array, before their data is unpacked."""

    def judge(found: tuple[int, ...], kind: np.dtype[Any]) -> None:
        if kind.kind not in "iufb":
            raise DataError(f"{path}: {key!r} has type {kind}; real numbers are needed")
        if len(found) > 1 and found[0] and shape is not None:
            check_sample_shape(found[1:], shape, str(path) if key == SAMPLES else f"{path}: {key!r}")

    return judge


def _member(
    path: Path,
    archive: zipfile.ZipFile,
    name: str,
    count: int | None,
    judge: Judge | None = None,
    limit: int | None = None,
    advice: str = "",
) -> npt.NDArray[Any]:
    key = name.removesuffix(".npy")
    most = sample_limit() if limit is None else min(limit, sample_limit())
    try:
        with archive.open(name) as stream:
            return read_array(stream, count, most, judge)
    except OversizeError as error:
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


def _scaled(
    path: Path, arrays: dict[str, npt.NDArray[Any]], x: npt.NDArray[Any], key: str
) -> npt.NDArray[np.float32]:
    result: npt.NDArray[np.float32] = np.ascontiguousarray(x, np.float32)
    for name, operation in ((f"{key}_offset", np.subtract), (f"{key}_scale", np.multiply)):
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
        raise DataError(f"{path}: {key!r} leaves the range of float32 after {key}_offset and {key}_scale")
    return result


def _labels(path: Path, arrays: dict[str, npt.NDArray[Any]], samples: int) -> npt.NDArray[Any] | None:
    if "y" not in arrays:
        return None
    y = arrays["y"]
    if y.dtype.kind not in "iub" or y.shape != (samples,):
        raise DataError(f"{path}: 'y' has shape {y.shape} and type {y.dtype}; {samples} integer labels are needed")
    return y
