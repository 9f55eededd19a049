"""Compiled work on streams gives numpy's bits and numpy's errors; the sets of instructions make no difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import FORMATS

from bfpga.contract.checksum import stream_checksum
from bfpga.devices.native import library
from bfpga.devices.native.library import NUMPY, SET_VARIABLE, available_sets
from bfpga.devices.native.stream_work import FLAGS, SOURCE, CompiledWork, stream_work, work_of
from bfpga.errors import DataError
from bfpga.formats.arrays import Int32Array, IntArray
from bfpga.formats.block_float import mantissa_dtype
from bfpga.formats.block_format import BlockFormat
from bfpga.program.stream_work import NUMPY_WORK, Encoding, StreamWork

#: The fastest set and plain C++.
WORKS = [CompiledWork(library.build(item, SOURCE, FLAGS)) for item in {available_sets()[0], available_sets()[-1]}]
#: Numbers of all sizes: denormal and huge, whole and halves, with both signs of zero.
VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.floats(-200, 200, width=32),
    st.integers(-1024, 1024).map(lambda n: n / 8),
    st.sampled_from([0.0, -0.0, 1e-45, -1e-45, 127.5, -127.5, 0.5, 2.0**-149, 2.0**-126, 2.0**127]),
)


def encoded(work: StreamWork, x: np.ndarray, encoding: Encoding) -> tuple[IntArray, Int32Array]:
    """Mantissas and exponents; samples lie apart, as in ``EncodedSamples``."""
    sets = 2 if encoding.remainder else encoding.parts
    room = np.full((len(x), 1 + sets * x.shape[1]), 99, mantissa_dtype(encoding.format.mantissa_bits))
    exponents = work.encode(x, encoding, room[:, 1:])
    assert (room[:, 0] == 99).all()
    return room[:, 1:], exponents


def assert_equal(x: np.ndarray, encoding: Encoding) -> None:
    expected, exponents = encoded(NUMPY_WORK, x, encoding)
    for work in WORKS:
        found, its = encoded(work, x, encoding)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(its, exponents)


@settings(max_examples=drawn(360), deadline=None)
@given(
    st.lists(st.lists(VALUES, min_size=19, max_size=19), min_size=1, max_size=3), FORMATS,
    st.one_of(st.none(), st.integers(-12, 12)), st.booleans(), st.sampled_from([0, 0, 4, 7]), st.integers(1, 2),
)  # fmt: skip
def test_any_values_become_numpys_mantissas(
    rows: list[list[float]], fmt: BlockFormat, exponent: int | None, factors: bool, remainder: int, parts: int
) -> None:
    x = np.array(rows, np.float32)
    scales = np.exp2(np.arange(19) % 5 - 2).astype(np.float32) if factors else None
    with np.errstate(over="ignore"):
        finite = scales is None or np.isfinite(x * scales).all()
    encoding = Encoding(fmt, exponent, scales, remainder if parts == 1 else 0, parts)
    if finite:
        assert_equal(x, encoding)
        return
    for work in (NUMPY_WORK, *WORKS):
        with pytest.raises(DataError, match="finite"), np.errstate(over="ignore"):
            encoded(work, x, encoding)


@pytest.mark.parametrize("rounding", ["trunc", "tozero", "half_up", "half_away", "rne"])
@pytest.mark.parametrize("bits", [4, 8, 12, 16])
def test_ties_and_bounds_of_every_rounding(bits: int, rounding: str) -> None:
    """Every quarter of a last place around every mantissa, as far as 8 bits reach; none of it goes through numpy."""
    fmt = BlockFormat(bits, rounding=rounding)  # type: ignore[arg-type]
    values = np.arange(-1200, 1201, dtype=np.float32).reshape(1, -1) / 4
    near = np.concatenate([values, np.nextafter(values, np.float32(1e9)), np.nextafter(values, np.float32(-1e9))])
    for saturation in ("sym", "full"):
        encodings = [Encoding(replace(fmt, saturation=saturation), exponent) for exponent in (None, 0, 3)]
        encodings += [replace(encodings[1], remainder=4)] * (rounding == "rne")
        expected = [encoded(NUMPY_WORK, near, encoding) for encoding in encodings]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StreamWork, "encode", None)
            for encoding, (mantissa, exponents) in zip(encodings, expected, strict=True):
                for work in WORKS:
                    found, its = encoded(work, near, encoding)
                    np.testing.assert_array_equal(found, mantissa)
                    np.testing.assert_array_equal(its, exponents)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_in_the_same_words(bad: float) -> None:
    x = np.ones((3, 40), np.float32)
    x[1, 17] = bad
    said = []
    for work in (NUMPY_WORK, *WORKS):
        with pytest.raises(DataError) as error:
            encoded(work, x, Encoding(BlockFormat()))
        said.append(str(error.value))
    assert len(set(said)) == 1
    assert "(1, 17)" in said[0]


@given(st.integers(1, 3), st.sampled_from([np.int8, np.int16, np.int32]), st.integers(0, 37), st.integers(0, 2**32 - 1))
def test_mantissas_go_to_their_places(samples: int, kind: type, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mantissas = rng.integers(-100, 100, (samples, 20)).astype(kind)
    source = rng.integers(0, 20, count).astype(np.int32)
    for work in (NUMPY_WORK, *WORKS):
        room = np.full((samples, count + 8), 99, kind)
        work.place(mantissas, source, room[:, 4 : 4 + count])
        np.testing.assert_array_equal(room[:, 4 : 4 + count], mantissas[:, source])
        assert (room[:, :4] == 99).all()
        assert (room[:, 4 + count :] == 99).all()


@given(st.data(), st.integers(0, 100), st.sampled_from([32, 64, 128, 256, 512, 1024]))
def test_checksums_are_those_of_the_contract(data: st.DataObject, beats: int, bits: int) -> None:
    stream = data.draw(st.binary(min_size=beats * bits // 8, max_size=beats * bits // 8))
    for work in WORKS:
        assert work.checksum(stream, bits) == stream_checksum(stream, bits)


def test_broken_beats_are_refused() -> None:
    for work in WORKS:
        with pytest.raises(ValueError, match="reshape"):
            work.checksum(bytes(12), 64)


def test_numpy_does_the_work_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(stream_work(), CompiledWork)
    monkeypatch.setenv(SET_VARIABLE, NUMPY)
    assert stream_work() is NUMPY_WORK


def test_numpy_does_the_work_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    assert work_of.__wrapped__(available_sets()[0]) is NUMPY_WORK
