"""Columns of input images as channels: the same values in fewer clocks, on every device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_walk import MemoryWalk, check_coverage
from small_networks import Network, compiled, largest_error

import bfpga
from bfpga.compiler.schedule import folded_inputs
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import FoldedColumns, Program, TensorSpec
from bfpga.formats.block_format import BlockFormat
from bfpga.program.cycles import program_cycles
from bfpga.program.file import load_program, save_program
from bfpga.program.layout import fold_columns, folded_columns, unfold_columns

#: Four lanes, of which a grey image fills one.
WIDE = KernelConfig(format=BlockFormat(mantissa_bits=8), columns=4, rows=8, lanes=4)


def grey() -> Network:
    """A convolution along time and features, as keyword spotting begins, and one behind it."""
    network = Network(1, 16, 10)
    network.conv(24, 1, 4, strides=[2, 2], pads=[1, 1, 2, 1])
    network.conv(5, 24, 1)
    return network


def folded(program: Program) -> list[FoldedColumns]:
    return [spec.folded for spec in program.tensors.values() if spec.folded is not None]


def without(monkeypatch: pytest.MonkeyPatch, network: Network, folder: Path, config: KernelConfig) -> Program:
    with monkeypatch.context() as patch:
        patch.setattr(folded_inputs, "_can_fold", lambda node: False)
        return compiled(network, folder, config)


def test_a_grey_image_takes_fewer_clocks_and_gives_the_same_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = grey()
    (tmp_path / "plain").mkdir()
    plain = without(monkeypatch, network, tmp_path / "plain", WIDE)
    program = compiled(network, tmp_path, WIDE)
    assert not folded(plain)
    (fold,) = folded(program)
    assert (fold.taps, fold.stride, fold.pad) == (4, 2, 1)
    assert program_cycles(program).sample.total < program_cycles(plain).sample.total
    MemoryWalk(program).run()
    check_coverage(program)
    samples = network.samples()
    for device in ("emulator", "csim"):
        runs = [bfpga.run(replace(p, digest=64 * "0"), samples, device) for p in (plain, program)]
        for a, b in zip(*(run.outputs.values() for run in runs), strict=True):
            assert np.array_equal(a, b)


def test_a_program_with_folded_columns_keeps_them_on_file(tmp_path: Path) -> None:
    program = compiled(grey(), tmp_path, WIDE)
    save_program(program, tmp_path / "p.bfpga")
    assert load_program(tmp_path / "p.bfpga").tensors == program.tensors


@pytest.mark.parametrize("reason", ["host", "two geometries", "full lanes"])
def test_an_image_stays_as_it_is_where_folding_would_not_help(reason: str, tmp_path: Path) -> None:
    network = Network(8 if reason == "full lanes" else 1, 12, 12)
    channels = network.inputs["x"][0]
    first = network.conv(8, channels, 3, source="x")
    if reason == "host":
        cropped = network.add("Slice", "x", *(network.constant(np.array(v)) for v in ([1, 1], [11, 11], [2, 3])))
        network.add("Concat", network.add("Sin", first), network.add("Sin", cropped), axis=1)
    elif reason == "two geometries":
        network.add("Add", first, network.conv(8, 1, 5, source="x", pads=[1, 1, 1, 1]))
    program = compiled(network, tmp_path, WIDE)
    assert not folded(program)
    assert largest_error(network, program) < 1


@settings(deadline=None, max_examples=drawn(60))
@given(*(st.integers(low, high) for low, high in ((1, 12), (1, 3), (1, 5), (1, 3), (0, 3), (1, 2))))
def test_folding_picks_what_the_windows_meet(
    width: int, channels: int, taps: int, stride: int, pad: int, dilation: int
) -> None:
    reach = (taps - 1) * dilation + 1
    pixels = max(1, (width + 2 * pad - reach) // stride + 1)
    fold = FoldedColumns(width, channels, taps, stride, pad, dilation)
    spec = TensorSpec("x", 2, pixels, taps * channels, folded=fold)
    x = np.random.default_rng(width).integers(-9, 10, (3, 2, width, channels))
    found = fold_columns(x, spec).reshape(3, 2, pixels, taps, channels)
    for pixel in range(pixels):
        for tap in range(taps):
            column = pixel * stride - pad + tap * dilation
            expected = x[:, :, column] if 0 <= column < width else np.zeros((3, 2, channels))
            assert np.array_equal(found[:, :, pixel, tap], expected)
    back = unfold_columns(fold_columns(x, spec), spec)
    seen = [column for column in np.unique(folded_columns(spec)) if column < width]
    assert np.array_equal(back[:, :, seen], x[:, :, seen])


def test_images_of_several_readers_are_folded_once(tmp_path: Path) -> None:
    network = Network(1, 12, 12)
    first = network.conv(16, 1, 3, source="x")
    network.add("Add", first, network.conv(16, 1, 3, source="x"))
    program = compiled(network, tmp_path, replace(WIDE, columns=2))
    assert len(folded(program)) == 1
    MemoryWalk(program).run()
