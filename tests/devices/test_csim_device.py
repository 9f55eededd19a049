"""The C simulation device: builds, both integer builds, streams that end too early, packets, rendered projects."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from array_programs import mixed_program
from cpp_units import exact_compiler
from kernel_pairs import QUICK, SMALL, KernelPair, small

from bfpga.contract.checksum import stream_checksum
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, SHARED_WORDS, Flag, word_of
from bfpga.devices import toolchain
from bfpga.devices.csim import CSimulation, build
from bfpga.devices.kernel_start import KernelResult
from bfpga.engines.array import streams
from bfpga.errors import ConfigurationError, DeviceError, ToolError
from bfpga.formats.block_format import Status
from bfpga.vendor import render
from bfpga.vendor.lint.parser import VENDOR_HEADERS
from bfpga.vendor.render import render_kernel, write_project
from bfpga.verify.vectors import kernel_vectors

PLAIN = small(columns=2)


@pytest.mark.parametrize(
    "config", [PLAIN, small(columns=2, multiplier="dsp_packed", dsp="DSP48E2")], ids=["plain", "packed"]
)
def test_integers_of_every_kind_give_the_same_bits(config: SystolicConfig) -> None:
    """R3, R81: the ap_int build computes packed products where the native one multiplies plainly."""
    for integers in ("native", "ap_int", "exact"):
        if integers == "exact":
            exact_compiler()
        program, tensors = mixed_program(config)
        KernelPair(config, integers).run(program, tensors)


@pytest.fixture(scope="module")
def kernel() -> CSimulation:
    return CSimulation(SMALL, flags=QUICK, digest="89abcdef01234567")


def run_raw(kernel: CSimulation, cut_input: int = 0, cut_weights: int = 0, capacity: int | None = None) -> KernelResult:
    program, tensors = mixed_program(SMALL)
    packet = streams.input_packet(program.operations, SMALL, tensors)
    weights = streams.weight_stream(program.operations)
    size = streams.output_bytes(program.operations, SMALL) if capacity is None else capacity
    return kernel.run_packet(
        len(program.operations), packet[: len(packet) - cut_input], weights[: len(weights) - cut_weights], size
    )


def test_a_stream_that_ends_early_is_named_with_what_is_missing(kernel: CSimulation) -> None:
    with pytest.raises(DeviceError, match="stream `input` is empty: the kernel waits for 1 more beats of descrip"):
        run_raw(kernel, cut_input=8)
    with pytest.raises(DeviceError, match=r"stream `weights` is empty: the kernel waits for 2 more beats of weight"):
        run_raw(kernel, cut_weights=16)
    with pytest.raises(DeviceError, match="stream `output` is full"):
        run_raw(kernel, capacity=100)


def test_a_kernel_that_stopped_can_start_again(kernel: CSimulation) -> None:
    with pytest.raises(DeviceError):
        run_raw(kernel, cut_input=2000)
    assert run_raw(kernel).packets == 2


def test_bytes_that_no_operation_reads_are_an_error(kernel: CSimulation) -> None:
    with pytest.raises(DeviceError, match="8 bytes of stream `weights` were not read"):
        kernel.run_packet(0, b"", bytes(8))


def test_the_last_beat_of_each_store_ends_a_packet(kernel: CSimulation) -> None:
    """R78: TLAST comes with END_PACKET only."""
    program, tensors = mixed_program(SMALL)
    program.operations[-2].descriptor.flags = Flag.NONE
    assert kernel.run_operations(program.operations, tensors).packets == 1


def test_a_kernel_tells_which_accelerator_it_is(kernel: CSimulation) -> None:
    assert kernel.identification == 0x89ABCDEF


def test_the_kernel_sums_every_stream_as_the_host_does() -> None:
    """Checksums of C++ and numpy agree, with integers of every kind; one changed bit changes them."""
    for integers in ("native", "ap_int", "exact"):
        if integers == "exact":
            exact_compiler()
        program, tensors = mixed_program(PLAIN)
        packet = streams.input_packet(program.operations, PLAIN, tensors)
        weights = streams.weight_stream(program.operations)
        result = KernelPair(PLAIN, integers).kernel.run_operations(program.operations, tensors)
        sent = stream_checksum(packet, PLAIN.stream_bits), stream_checksum(weights, PLAIN.weight_stream_bits)
        assert result.checksums == (*sent, stream_checksum(result.output, PLAIN.stream_bits))
        changed = bytearray(weights)
        changed[len(weights) // 2] ^= 1
        assert stream_checksum(changed, PLAIN.weight_stream_bits) != sent[1]


def test_the_flags_that_users_get_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests compile with less optimization (tests/conftest.py)."""
    monkeypatch.delenv("BFPGA_CXXFLAGS")
    program, tensors = mixed_program(SMALL)
    KernelPair(SMALL, flags=()).run(program, tensors)


def test_a_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    first = build(SMALL, "native", "kernel", "00000000", ("-O0",))
    monkeypatch.setattr(toolchain, "run_compiler", lambda arguments, compiler: pytest.fail("compiled again"))
    assert build(SMALL, "native", "kernel", "00000000", ("-O0",)) == first
    assert sorted((tmp_path / "csim").iterdir()) == [first.with_suffix(".sha256"), first]


def test_a_header_changes_the_kernels_that_include_it_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An accelerator without sparse engines is not compiled again when one of their headers changes."""
    library = shutil.copytree(render.library_directory(), tmp_path / "include")
    monkeypatch.setattr(render, "library_directory", lambda: library)
    monkeypatch.setattr(toolchain, "run_compiler", lambda arguments, compiler: Path(arguments[-1]).touch())
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    first = build(SMALL, "native", "kernel", "00000000")
    for header, again in (
        ("zero_skip/engine.hpp", False),
        ("array/shift_tiles.hpp", False),
        ("kernel/sequencer.hpp", True),
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


def vectors(config: SystolicConfig) -> dict[str, bytes]:
    program, tensors = mixed_program(config)
    pair = KernelPair(config)
    result = pair.run(program, tensors)
    counted = [result.cycles, result.overflow, result.underflow, result.status, *result.checksums]
    return {
        "starts.txt": " ".join(map(str, ["mixed", len(program.operations), 1, *counted, "\n"])).encode(),
        "mixed.input.bin": streams.input_packet(program.operations, config, tensors),
        "mixed.weights.bin": streams.weight_stream(program.operations),
        "mixed.output.bin": result.output,
    }


def make(directory: Path) -> tuple[int, str]:
    done = subprocess.run(["make", "-s", "-C", str(directory), "test"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_rendered_project_tests_itself_without_this_package(tmp_path: Path) -> None:
    """R84, sources: the top function against vectors, through AXI-Stream with TLAST; a changed byte is found."""
    directory = write_project("tiny", "0123456789ab", SMALL, tmp_path / "project", vectors)
    status, output = make(directory)
    assert (status, output.strip()) == (0, "PASS: 1 starts, 0 differences")
    expected = directory / "tb" / "vectors" / "mixed.output.bin"
    expected.write_bytes(expected.read_bytes()[:-1] + b"\x7f")
    status, output = make(directory)
    assert status != 0
    assert "FAIL: 1 starts, 1 differences" in output


def test_top_and_test_bench_are_the_same_with_the_streams_of_the_vendor(tmp_path: Path) -> None:
    """C/RTL co-simulation: AMD's `hls_stream.h` for the one of `shim/`, beats of ap_uint; the project is as it was.

    AMD's header comes from hls4ml; its `ap_axi_sdata.h` does not, so the declarations of the linter stand in for it.
    """
    try:
        vendor = toolchain.find_ap_types()
    except ToolError as error:
        pytest.skip(str(error))
    if not (vendor / "hls_stream.h").is_file():
        pytest.skip("the ap_int headers come without hls_stream.h")
    project = write_project("tiny", "0123456789ab", SMALL, tmp_path / "project", vectors)
    shutil.rmtree(project / "shim")
    beats = tmp_path / "beats"
    beats.mkdir()
    shutil.copy(VENDOR_HEADERS / "ap_axi_sdata.h", beats)
    sources = [str(project / "tb" / "testbench.cpp"), str(project / "src" / "top.cpp")]
    places = ["-isystem", str(vendor), "-isystem", str(beats)]
    places += [f"-I{project / folder}" for folder in ("include", "src")]
    flags = [*toolchain.WARNINGS, "-O0", "-Wno-maybe-uninitialized", "-Wno-uninitialized"]
    toolchain.run_compiler([*flags, *places, *sources, "-o", str(tmp_path / "bench")])
    run = [str(tmp_path / "bench"), str(project / "tb" / "vectors")]
    assert subprocess.run(run, capture_output=True, text=True, check=False).stdout == "PASS: 1 starts, 0 differences\n"


def test_a_project_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    def broken(config: SystolicConfig) -> dict[str, bytes]:
        raise DeviceError("no vectors")

    with pytest.raises(DeviceError):
        write_project("tiny", "0123456789ab", SMALL, tmp_path / "project", broken)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ConfigurationError, match="is not empty"):
        write_project("tiny", "0123456789ab", SMALL, tmp_path)


def test_vectors_of_a_project_are_starts_that_the_emulator_confirms(tmp_path: Path) -> None:
    config = SystolicConfig(columns=4, rows=4, activation_words=1024)
    directory = write_project("tiny", "0123456789ab", config, tmp_path / "project", kernel_vectors)
    starts = (directory / "tb" / "vectors" / "starts.txt").read_text().splitlines()
    assert len(starts) > 3
    assert make(directory) == (0, f"PASS: {len(starts)} starts, 0 differences\n")


def test_an_output_without_an_end_is_an_error(kernel: CSimulation) -> None:
    """R78: a DMA waits for TLAST."""
    program, tensors = mixed_program(SMALL)
    program.operations[-1].descriptor.flags = Flag.NONE
    with pytest.raises(DeviceError, match="beats without TLAST"):
        kernel.run_operations(program.operations, tensors)
