"""The C simulation device: builds, integers of every kind, packets, rendered projects."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from array_programs import mixed_program
from cpp_units import exact_compiler
from effort import ALL
from kernel_pairs import PACKED, SMALL, KernelPair

from bfpga.contract.checksum import stream_checksum
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, SHARED_WORDS, Flag, word_of
from bfpga.devices import toolchain
from bfpga.devices.csim import CSimulation, Integers, build
from bfpga.engines.kernel import streams
from bfpga.errors import ConfigurationError, DeviceError, ToolError
from bfpga.formats.block_format import Status
from bfpga.vendor import render
from bfpga.vendor.render import render_kernel, write_project
from bfpga.verify.vectors import kernel_vectors


@pytest.mark.parametrize("integers", ["native", "ap_int", "exact"])
def test_integers_of_every_kind_give_the_same_bits_and_sums_of_streams(integers: Integers) -> None:
    """R3, R81: the ap_int build computes packed products where the native one multiplies plainly.

    Checksums of C++ and numpy agree; one changed bit changes them.
    """
    if integers == "exact":
        exact_compiler()
    program, tensors = mixed_program(PACKED)
    packet = streams.input_packet(program.operations, PACKED, tensors)
    weights = streams.weight_stream(program.operations)
    result = KernelPair(PACKED, integers).run(program, tensors)
    sent = stream_checksum(packet, PACKED.stream_bits), stream_checksum(weights, PACKED.weight_stream_bits)
    assert result.checksums == (*sent, stream_checksum(result.output, PACKED.stream_bits))
    changed = bytearray(weights)
    changed[len(weights) // 2] ^= 1
    assert stream_checksum(changed, PACKED.weight_stream_bits) != sent[1]


@pytest.fixture(scope="module")
def kernel() -> CSimulation:
    return CSimulation(SMALL)


def test_bytes_that_no_operation_reads_are_an_error(kernel: CSimulation) -> None:
    with pytest.raises(DeviceError, match="8 bytes of stream `weights` were not read"):
        kernel.run_packet(0, b"", bytes(8))


def test_the_last_beat_of_each_store_ends_a_packet(kernel: CSimulation) -> None:
    """R78: TLAST comes with END_PACKET only."""
    program, tensors = mixed_program(SMALL)
    program.operations[-2].descriptor.flags = Flag.NONE
    assert kernel.run_operations(program.operations, tensors).packets == 1


def test_the_flags_that_users_get_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests compile with less optimization (tests/conftest.py)."""
    monkeypatch.delenv("BFPGA_CXXFLAGS")
    program, tensors = mixed_program(SMALL)
    KernelPair(SMALL, flags=()).run(program, tensors)


def test_a_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolchain, "run_compiler", lambda arguments, compiler: Path(arguments[-1]).touch())
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    first = build(SMALL, "native", "kernel", "00000000", ("-O0",))
    monkeypatch.setattr(toolchain, "run_compiler", lambda arguments, compiler: pytest.fail("compiled again"))
    assert build(SMALL, "native", "kernel", "00000000", ("-O0",)) == first
    assert sorted((tmp_path / "csim").iterdir()) == [first.with_suffix(".sha256"), first]


def test_a_header_changes_the_kernels_that_include_it_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An accelerator without a sparse cluster is not compiled again when one of its headers changes."""
    library = shutil.copytree(render.library_directory(), tmp_path / "include")
    monkeypatch.setattr(render, "library_directory", lambda: library)
    monkeypatch.setattr(toolchain, "run_compiler", lambda arguments, compiler: Path(arguments[-1]).touch())
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    first = build(SMALL, "native", "kernel", "00000000")
    for header, again in (
        ("processes/sparse_cluster/collector.hpp", False),
        ("array/shift_tiles.hpp", False),
        ("processes/sequencer.hpp", True),
    ):
        with (library / "bfpga" / header).open("a") as file:
            file.write("// changed\n")
        assert (build(SMALL, "native", "kernel", "00000000") != first) == again, header


def test_flags_of_the_environment_stand_behind_ours_and_before_those_of_a_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[Sequence[str]] = []

    def compile_nothing(arguments: Sequence[str], compiler: Sequence[str]) -> None:
        commands.append(arguments)
        Path(arguments[-1]).touch()

    monkeypatch.setattr(toolchain, "run_compiler", compile_nothing)
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    monkeypatch.setenv("BFPGA_CXXFLAGS", "-g '-DTEXT=a b'")
    paths = [build(SMALL, "native", "kernel", "00000000", ("-O0",))]
    start = commands[0].index("-g")
    assert commands[0].index("-O3") < start
    assert commands[0][start : start + 3] == ["-g", "-DTEXT=a b", "-O0"]
    monkeypatch.setenv("BFPGA_CXXFLAGS", "-g")
    paths.append(build(SMALL, "native", "kernel", "00000000", ("-O0",)))
    assert paths[0] != paths[1]


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    with pytest.raises(ToolError, match=r"the C\+\+ compiler failed.*no-such-flag"):
        build(SMALL, "native", "kernel", "00000000", ("-fno-such-flag",))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="ap_int headers were not found"):
        build(SMALL, "ap_int", "kernel", "00000000")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolError, match=r"C\+\+ compiler no-such-compiler not found"):
        build(SMALL, "native", "kernel", "00000000")
    assert not list(tmp_path.glob("csim/*.so"))


def test_descriptor_and_status_are_rendered_from_one_truth() -> None:
    text = render_kernel("k", "00000000", SMALL)["include/bfpga/contract/descriptor.hpp"]
    assert re.findall(r"^    int32_t (\w+);", text, re.M) == [*FIELDS, *SHARED_WORDS]
    places = [(name, str(word_of(name))) for name in (*FIELDS, *SHARED_WORDS)]
    assert re.findall(r"descriptor\.(\w+) = words\[(\d+)\]", text) == places
    assert f"words = {DESCRIPTOR_WORDS};" in text
    assert f"AccumulatorSaturated = {int(Status.ACCUMULATOR_SATURATED)};" in text


def make(directory: Path) -> tuple[int, str]:
    """Without optimization, which takes longer than the tests, unless there is --all."""
    plainly = [] if os.environ.get(ALL) else ["INTEGERS=-DBFPGA_NATIVE_INTEGERS -O0"]
    command = ["make", "-s", "-C", str(directory), *plainly, "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_rendered_project_tests_itself_without_this_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R84, sources: the top functions against starts that the emulator has confirmed; a changed byte is found."""
    monkeypatch.setenv("CXX", "g++")  # without --all too
    directory = write_project("tiny", "0123456789ab", SMALL, tmp_path / "project", kernel_vectors)
    starts = (directory / "tb" / "vectors" / "starts.txt").read_text().splitlines()
    assert len(starts) > 3
    assert make(directory) == (0, f"PASS: {len(starts)} starts, 0 differences\n")
    expected = next(path for path in sorted((directory / "tb" / "vectors").glob("*.output.bin")) if path.stat().st_size)
    expected.write_bytes(expected.read_bytes()[:-1] + b"\x7f")
    status, output = make(directory)
    assert status != 0
    assert f"FAIL: {len(starts)} starts, 1 differences" in output


def test_a_project_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    def broken(config: KernelConfig) -> dict[str, bytes]:
        raise DeviceError("no vectors")

    with pytest.raises(DeviceError):
        write_project("tiny", "0123456789ab", SMALL, tmp_path / "project", broken)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ConfigurationError, match="is not empty"):
        write_project("tiny", "0123456789ab", SMALL, tmp_path)


def test_an_output_without_an_end_is_an_error(kernel: CSimulation) -> None:
    """R78: a DMA waits for TLAST."""
    program, tensors = mixed_program(SMALL)
    program.operations[-1].descriptor.flags = Flag.NONE
    with pytest.raises(DeviceError, match="beats without TLAST"):
        kernel.run_operations(program.operations, tensors)
