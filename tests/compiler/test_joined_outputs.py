"""Outputs that the host puts together of several tensors as it unpacks them (issue 37)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_networks import Network, check_whole, compiled, largest_error, on_host

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower.joins import Joins
from bfpga.contract.program import Joined
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.errors import ProgramError
from bfpga.program.file import load_program, save_program
from bfpga.verify.virtual_boards import VirtualBoards

#: 16-bit mantissas: what is left is rounding.
CLOSE = 1e-3

Make = Callable[[], Network]


def flat(network: Network, x: str, *shape: int) -> str:
    return network.add("Reshape", x, network.constant(np.array([0, *shape])))


def scales() -> Network:
    """Two maps of a detector, of different widths, pixels behind each other."""
    network = Network(3, 6, 8)
    first = network.conv(5, 3, 3, "x", pads=[1, 1, 1, 1])
    second = network.conv(5, 3, 3, "x", strides=[2, 2], pads=[1, 1, 1, 1])
    network.add("Concat", flat(network, first, 5, 48), flat(network, second, 5, 12), axis=2)
    return network


def nested() -> Network:
    """For each of two maps five channels below three others, then both maps."""
    network = Network(3, 6, 8)
    maps = [network.conv(4, 3, 3, "x", pads=[1, 1, 1, 1])]
    maps.append(network.conv(4, 4, 3, strides=[2, 2], pads=[1, 1, 1, 1]))
    ends = []
    for value, size in zip(maps, (48, 12), strict=True):
        parts = [flat(network, network.conv(channels, 4, 1, value), channels, size) for channels in (5, 3)]
        ends.append(network.add("Concat", *parts, axis=1))
    network.add("Concat", *ends, axis=2)
    return network


@pytest.mark.parametrize("make", [scales, nested])
def test_nothing_is_left_to_the_host(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = make()
    again = check_whole(network, tmp_path)
    samples = network.samples(3)
    whole, numpy_alone = (Emulator(again, chosen).run(samples).outputs for chosen in (None, "numpy"))
    for name in again.outputs:
        np.testing.assert_array_equal(whole[name], numpy_alone[name])
    monkeypatch.setattr(Joins, "_unpacks_joined", lambda *_: False)
    assert set(on_host(compiled(network, tmp_path))) & {"Concat", "Reshape"}


def test_the_driver_of_a_board_gives_the_same_bits(boards: VirtualBoards, tmp_path: Path) -> None:
    network = nested()
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    program = compile_network(path, load_accelerator("tiny"), network.samples(16))
    assert program.joined
    device = boards.open(program)
    samples = network.samples(3)
    assert first_mismatch(program, Emulator(program).run(samples), device.run(samples)) is None
    device.close()


def test_what_is_joined_by_the_host_s_operators_is_theirs_from_the_begin(tmp_path: Path) -> None:
    """The second concatenation has an operand of the host and is the host's, so the first is too."""
    network = scales()
    inner = network.last
    other = network.add("MatMul", flat(network, network.conv(5, 3, 1, "x"), 5, 48), network.weights(1, 48, 9))
    network.add("Concat", inner, other, axis=2)
    program = compiled(network, tmp_path)
    assert program.joined == {}
    assert largest_error(network, program) < CLOSE


@pytest.mark.parametrize("joined", [Joined(1, ()), Joined(1, ("y",)), Joined(1, ("nowhere",))])
def test_damaged_programs_are_refused(joined: Joined, tmp_path: Path) -> None:
    program = compiled(scales(), tmp_path)
    (name,) = program.joined
    parts = tuple(name if part == "y" else part for part in joined.parts)
    save_program(replace(program, joined={name: replace(joined, parts=parts)}), tmp_path / "net.program")
    with pytest.raises(ProgramError, match=r"joined of|nothing computes"):
        load_program(tmp_path / "net.program")
