"""The C++ headers as text: they stand alone, parse without a diagnostic, refuse illegal numbers, keep their layout."""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cpp_units import BUILDS, SOURCES, compiler, integer_flags, library, rendered_headers, unit_files, write_rendered

from bfpga.contract.arrays.sparse_cluster import SparseCluster
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.process_stream import PROCESSES
from bfpga.devices import toolchain
from bfpga.devices.csim import MOST_DRAWN_STAGES, Integers
from bfpga.formats.block_format import BlockFormat
from bfpga.vendor.render import library_directory, shim_directory, write_project

HEADERS = sorted(library_directory().rglob("*.hpp"))
#: What is synthesized, too: the rest runs on the host only.
CORES = [path for path in HEADERS if path.parent.name != "simulation"]
#: Folders of headers that a kernel with a cluster has not.
WITH_ROWS = ("program", "rows")
#: Header -> the path that it is included with.
INCLUDED = {path: path.relative_to(library_directory()).as_posix() for path in HEADERS}
#: Between them they instantiate every tile, rounding with a carry and without, one column and several.
CONFIGURATIONS = {
    "packed": KernelConfig(lanes=4, multiplier="dsp_packed", rows=8),
    "wide": KernelConfig(BlockFormat(18, 10, "half_away", "wrap", "ceil"), columns=1, accumulator_bits=58),
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with the rendered headers, of a kernel that has the commands of every process."""
    directory = tmp_path_factory.mktemp("rendered")
    write_rendered(directory, rendered_headers(SparseCluster()))
    return directory


@pytest.fixture(scope="module")
def with_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a kernel with a process of rows and a program memory, which has no cluster."""
    directory = tmp_path_factory.mktemp("with_rows")
    write_rendered(directory, rendered_headers(row_columns=2, program_descriptors=64))
    return directory


@functools.cache
def system_includes() -> list[str]:
    """The directories g++ searches for <...>, which libclang's package does not bring."""
    command = [compiler(), "-std=c++14", "-E", "-v", "-xc++", "/dev/null"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    start, end = lines.index("#include <...> search starts here:"), lines.index("End of search list.")
    return [argument for line in lines[start + 1 : end] for argument in ("-isystem", line.strip())]


def clang_diagnostics(text: str, integers: Integers, rendered: Path) -> list[str]:
    """What clang says to a translation unit; skips the test if libclang is not installed."""
    cindex: Any = pytest.importorskip("clang.cindex")
    flags = [*toolchain.WARNINGS, *integer_flags(integers), "-I", str(shim_directory()), "-I", str(library_directory())]
    flags += ["-I", str(rendered)]
    flags = [flag for flag in flags if flag != "-Wno-maybe-uninitialized"]  # g++ only
    unit = cindex.Index.create().parse("unit.cpp", flags + system_includes(), unsaved_files=[("unit.cpp", text)])
    return [str(item) for item in unit.diagnostics]


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted({path.parent for path in HEADERS}), ids=lambda path: path.name)
def test_every_header_stands_alone(folder: Path, rendered: Path, with_rows: Path) -> None:
    """clang parses it by itself without a diagnostic"""
    found = {}
    rendered = with_rows if folder.name in WITH_ROWS else rendered
    for path in folder.glob("*.hpp"):
        found[path.name] = clang_diagnostics(f'#include "{INCLUDED[path]}"\n', "native", rendered)
    assert {name: told for name, told in found.items() if told} == {}


def test_clang_parses_the_library_with_ap_int(rendered: Path, with_rows: Path) -> None:
    for directory, rows in ((rendered, False), (with_rows, True)):
        included = (header for path, header in INCLUDED.items() if (path.parent.name in WITH_ROWS) == rows)
        text = "".join(f'#include "{header}"\n' for header in included)
        assert clang_diagnostics(text, "ap_int", directory) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize(
    ("source", "integers"), [*((f"{process}.cpp", "ap_int") for process in PROCESSES), ("bridge.cpp", "native")]
)
def test_clang_accepts_rendered_kernels(name: str, source: str, integers: Integers, tmp_path: Path) -> None:
    """The templates, instantiated by a second front end: no diagnostic."""
    project = write_project(name, "0" * 16, CONFIGURATIONS[name], tmp_path / "project")
    text = f'#include "{project / "src" / source}"\n'
    assert clang_diagnostics(text, integers, project / "include") == []


def test_clang_would_warn(rendered: Path) -> None:
    text = "int answer(int unused, unsigned a, int b) { return a < b; }\n"
    assert len(clang_diagnostics(text, "native", rendered)) == 2


def compile_text(text: str, directory: Path, *flags: str) -> str:
    """What g++ says to a translation unit."""
    source = directory / "unit.cpp"
    source.write_text(text)
    command = [compiler(), *toolchain.WARNINGS, "-fsyntax-only", *flags]
    command += ["-I", str(shim_directory()), "-I", str(library_directory())]
    command += ["-I", str(directory), "-I", str(SOURCES), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def instance(name: str) -> str:
    return f"template struct bfpga::{name};\n"


STAGE = "UnitConfig<16, bfpga::Rounding::Rne, bfpga::Saturation::Sym, bfpga::LogMode::Floor, {}>"
ILLEGAL = {
    "packed_width": (instance("PackedProducts<9, 17, 1>"), "their factors have 8 bits at most"),
    "packed_distance": (instance("PackedProducts<8, 16, 1>"), "17 bits apart on DSP48E1"),
    "packed_terms": (instance("PackedProducts<8, 17, 5>"), "4 products at distance 17"),
    "accumulator": (instance("Products<16, 31, 2>"), "an accumulator holds a product at least"),
    "stage_width": (f"template class bfpga::OutputStage<{STAGE.format('60, 18')}>;\n", "58 bits at most"),
    "bias_width": (f"template class bfpga::OutputStage<{STAGE.format('48, 40')}>;\n", "a beat of 32 bits"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_numbers_do_not_compile_and_say_why(name: str, rendered: Path) -> None:
    text, sentence = ILLEGAL[name]
    headers = ("bfpga/array/multiplier.hpp", "bfpga/output/output_stage.hpp", "unit_config.hpp")
    includes = "".join(f'#include "{header}"\n' for header in headers)
    assert sentence in compile_text(includes + text, rendered, "-DBFPGA_NATIVE_INTEGERS")


def misplaced_pragmas(lines: list[str]) -> Iterator[str]:
    """Pragmas of loops that tools would not find, with their lines."""
    conditions = 0
    for number, line in enumerate(lines):
        guard = re.match(r"#(if|endif)", line)
        conditions += (1 if guard[1] == "if" else -1) if guard else 0
        if line.startswith("#pragma HLS UNROLL"):
            if conditions != 0:
                yield f"{number + 1}: UNROLL inside #if"
            if not re.match(r"\s*for \(.*\) \{$", lines[number - 1]):
                yield f"{number + 1}: no loop before UNROLL"
            if not re.match(r"\s*[A-Z]\w+:$", lines[number - 2]):
                yield f"{number - 1}: the loop has no label"
        if line.startswith("#pragma HLS PIPELINE") and not lines[number - 1].startswith("// "):
            yield f"{number + 1}: nothing says why the loop reaches its interval"


def test_loops_keep_the_layout_that_pragma_tools_read() -> None:
    """A loop begins on a line of its own, carries a label, and its pragma follows; UNROLL is in no #if."""
    texts = {name: path.read_text() for path, name in INCLUDED.items()}
    assert [f"{name}:{found}" for name, text in texts.items() for found in misplaced_pragmas(text.splitlines())] == []


def unnamed_loops(text: str) -> list[int]:
    """Lines of `PIPELINE` pragmas whose loop is no `PipelinedLoop` of its label from its first statement to its end."""
    lines, found = text.splitlines(), []
    for number in [number for number, line in enumerate(lines) if line.startswith("#pragma HLS PIPELINE")]:
        label = next(n for n in range(number, 0, -1) if re.fullmatch(r"\s*[A-Z]\w*:", lines[n]))
        name, loop = lines[label].strip()[:-1], lines[label + 1]
        indent = loop[: len(loop) - len(loop.lstrip())]
        first = next(line for line in lines[number + 1 :] if not line.startswith(("#", "//")))
        end = next(n for n in range(number, len(lines)) if lines[n].startswith(f"{indent}}}"))
        declared = lines[label - 1] == f'{indent}PipelinedLoop loop("{name}");'
        ended = lines[end + 1].strip() in ("loop.ended();", "}")
        if not (declared and first.strip() == "loop.iteration();" and ended):
            found.append(number + 1)
    return found


def test_every_pipelined_loop_of_a_process_can_be_given_stages() -> None:
    found = {name: unnamed_loops(path.read_text()) for path, name in INCLUDED.items() if "processes" in path.parts}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ('        PipelinedLoop loop("Store");', ""),
        ('loop("Store")', 'loop("Stores")'),
        ("            loop.iteration();", ""),
        ("        loop.ended();", ""),
    ],
)
def test_a_loop_whose_stages_would_not_be_seen_is_found(line: str, other: str) -> None:
    text = (library_directory() / "bfpga" / "processes" / "store.hpp").read_text()
    assert (text.count(line), len(unnamed_loops(text.replace(line, other)))) == (1, 1)


def test_cores_hold_nothing_that_cannot_be_synthesized() -> None:
    """`long` is 32 bits wide for some synthesis tools; floating point and the heap have no place in a kernel."""
    code = {INCLUDED[path]: re.sub(r"//.*|= delete;|long long", "", path.read_text()) for path in CORES}
    words = re.compile(r"\b(?:printf|assert|virtual|new|delete|long|auto|double|float)\b")
    assert [(name, word) for name, text in code.items() for word in words.findall(text)] == []


def test_exponents_are_bound_to_registers_or_lut_memory() -> None:
    """R39, as far as pragmas: mantissas and biases are all that block RAM is asked to hold."""
    found, in_block_memory = [], set()
    for header in HEADERS:
        text = header.read_text()
        for name in re.findall(r"\b(\w*(?:exponent|policy)_)\[Config::", text):
            bound = rf"ARRAY_PARTITION variable={name} complete|BIND_STORAGE variable={name} type=\w+ impl=lutram"
            assert re.search(bound, text), (header.name, name)
            found.append((header.stem, name))
        in_block_memory |= set(re.findall(r"variable=(\w+) type=\w+ impl=bram", text))
    registers = [("layer_registers", "exponent_"), ("layer_registers", "policy_")]
    assert sorted(found) == [*registers, ("weight_memory", "exponent_")]
    assert in_block_memory == {"cell", "cell_", "bias_"}


@pytest.mark.parametrize("integers", BUILDS)
def test_streams_say_what_is_missing(integers: Integers) -> None:
    """R61"""
    streams = library("streams", integers)
    text = bytes(200)
    streams.unit_stream_empty(text, len(text))
    assert text.split(b"\0")[0] == b"stream `weights` is empty: the kernel waits for 16 more words of layer 3"
    streams.unit_stream_full(text, len(text))
    assert text.split(b"\0")[0] == b"stream `output` is full: nobody reads its 2 words"


@pytest.mark.parametrize(("burst", "depth", "peak"), [(1, 2, 1), (3, 2, 2), (500, 1000, 500), (70, 64, 64), (7, 7, 7)])
def test_streams_keep_the_order_and_remember_their_peak(burst: int, depth: int, peak: int) -> None:
    """R61"""
    assert library("streams", "native").unit_stream_pass(2000, burst, depth) == peak


def run_processes(
    integers: Integers, count: int, depth: int, seed: int = 0, lost: int = 0, fails: int = -1
) -> tuple[int, str]:
    """Sum of the numbers that came back, and the error of the first run; see ``tests/cpp/streams.cpp``."""
    function = library("streams", integers).unit_stream_processes
    function.argtypes = (
        [ctypes.c_int, ctypes.c_int, ctypes.c_longlong] + 2 * [ctypes.c_int] + [ctypes.c_char_p, ctypes.c_int]
    )
    function.restype = ctypes.c_longlong
    text = ctypes.create_string_buffer(400)
    return function(count, depth, seed, lost, fails, text, len(text)), text.value.decode()


@pytest.mark.parametrize("integers", [*BUILDS, "exact"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_processes_wait_for_each_other_at_streams(integers: Integers, seed: int) -> None:
    """The order of the processes and how full a stream is change no value."""
    for depth in (1, 2, 7, 1000):
        assert run_processes(integers, 300, depth, seed) == (300 * 299, "nothing")


def test_processes_that_wait_for_ever_are_named_with_their_streams() -> None:
    """The word that a process lost is missed by the other; afterwards both run as if nothing had been."""
    total, text = run_processes("native", 20, 4, lost=1)
    assert text == "the processes of the kernel wait for each other: `first` looks for a word of `back`"
    assert total == -20 * 19


def run_stages(distance: int, asks: int, answers: int) -> tuple[int, str]:
    """Sum of the answers to 60 questions, and the error of the run; see ``tests/cpp/streams.cpp``."""
    function = library("streams", "native").unit_stream_stages
    function.restype = ctypes.c_longlong
    text = ctypes.create_string_buffer(400)
    return function(60, distance, asks, answers, text, len(text)), text.value.decode()


@pytest.mark.parametrize(("asks", "answers"), [(5, 1), (3, 3), (1, 5)])
def test_a_word_leaves_a_pipelined_loop_as_many_iterations_later_as_it_has_stages(asks: int, answers: int) -> None:
    """Answers are wanted five questions later: with one stage more neither process can go on."""
    assert run_stages(5, asks, answers) == (60 * 59, "nothing")
    _, text = run_stages(5, asks + 1, answers)
    assert text.startswith(
        f"the processes of the kernel wait for each other: `first` in loop `Ask` of {asks + 1} stages, with "
    )
    assert text.endswith("`there`, which is empty")
    assert run_stages(5, asks, answers + 1)[1] != "nothing"


def test_processes_that_a_pipeline_keeps_waiting_are_named_with_their_loops() -> None:
    _, text = run_stages(5, 6, 0)
    first = "`first` in loop `Ask` of 6 stages, with 5 words under way, reads `back`, which is empty"
    assert text == f"the processes of the kernel wait for each other: {first}, `second` reads `there`, which is empty"


@pytest.mark.parametrize("asks", [False, True], ids=["write_nb", "full"])
@pytest.mark.parametrize("stages", [0, 1, 2, 8, 40])
def test_words_under_way_have_their_room(stages: int, asks: bool) -> None:
    """What is not refused is there once the loop has ended, in its order."""
    assert library("streams", "native").unit_stream_room(20, 3, stages, asks) == 3


@pytest.mark.parametrize("asks", [False, True], ids=["without_asking", "asked_before"])
@pytest.mark.parametrize("writes", [False, True], ids=["read_nb", "write_nb"])
def test_a_stream_that_pauses_shows_it_to_accesses_that_do_not_wait(writes: bool, asks: bool) -> None:
    """Not to those of a stream without pauses; a word or room that was offered stays until it is taken."""
    pauses = library("streams", "native").unit_stream_pauses
    refused = [pauses(200, ctypes.c_longlong(seed), writes, asks) for seed in range(31)]
    assert refused[0] == 0
    assert min(refused) == 0 < refused.count(0) < 20  # some sides of some draws never pause
    assert len(set(refused)) > 10
    assert max(refused) > 300  # several turns for each word


def test_stages_are_drawn_for_each_loop_of_each_process() -> None:
    drawn = library("streams", "native").unit_stages_drawn
    loops = [(process, loop) for process in (b"array", b"post", b"unit_1") for loop in (b"Array", b"Rows", b"Unit")]
    all_drawn = [[drawn(ctypes.c_longlong(seed), *loop) for loop in loops] for seed in range(1, 400)]
    assert {stages for one in all_drawn for stages in one} == set(range(MOST_DRAWN_STAGES + 1))
    assert sum(len(set(one)) > 5 for one in all_drawn) > 390
    assert all_drawn[0] == [drawn(ctypes.c_longlong(1), *loop) for loop in loops]
    assert [drawn(ctypes.c_longlong(0), *loop) for loop in loops] == [0] * len(loops)


def test_an_error_of_a_process_ends_all_of_them() -> None:
    total, text = run_processes("native", 20, 4, fails=9)
    assert (total, text) == (-20 * 19, "the second process fails")


def test_a_unit_is_compiled_again_when_any_file_that_it_reads_changes(rendered: Path) -> None:
    """What the compiler reads is in the digest of a unit; headers of other units are not."""
    files = unit_files("cluster_units", rendered_headers(SparseCluster()))
    folders = [SOURCES, shim_directory(), library_directory(), rendered]
    command = [compiler(), "-std=c++14", "-MM", *integer_flags("native"), str(SOURCES / "cluster_units.cpp")]
    for folder in folders:
        command += ["-I", str(folder)]
    rule = subprocess.run(command, capture_output=True, text=True, check=True).stdout.replace("\\\n", " ")
    read = [Path(word) for word in rule.split()[1:]]
    names = {path.relative_to(folder).as_posix() for path in read for folder in folders if folder in path.parents}
    assert len(names) == len(read) > 10
    assert names <= set(files)
    assert "bfpga/processes/zero_skip_tile/tile_process.hpp" not in files
