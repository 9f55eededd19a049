"""Waivers of dependences: every one in the headers has its check, and a false one stops the simulation at its line."""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path

import pytest
from cpp_units import exact_compiler

from bfpga.accelerator.loader import load_accelerator
from bfpga.devices import toolchain
from bfpga.errors import ToolError
from bfpga.vendor import render
from bfpga.vendor.render import library_directory
from bfpga.verify.check import VerifyReport, verify

HEADERS = sorted((library_directory() / "bfpga").rglob("*.hpp"))
PRAGMA = re.compile(r"^#pragma HLS DEPENDENCE (.*)$", re.MULTILINE)
#: A tool takes this of any two accesses: the pragma says it to a reader and waives nothing.
NOTHING = "direction=raw distance=1 true"
#: What a pragma says -> the claim that its check has.
CLAIMS = {
    r"variable=(\w+) inter false": "InterFalse",
    r"variable=(\w+) intra RAW false": "IntraRawFalse",
    r"variable=(\w+) type=inter direction=raw distance=(\S+) true": r"InterRawDistance<\2>",
}


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def waivers(text: str) -> list[tuple[int, str, str, str]]:
    """Waivers of a header: line of the pragma, memory, claim, the line behind it."""
    found = []
    lines = text.splitlines()
    for pragma in PRAGMA.finditer(text):
        if pragma[1].endswith(NOTHING):
            continue
        line = line_of(text, pragma.start())
        form = next((form for form in CLAIMS if re.fullmatch(form, pragma[1])), None)
        assert form is not None, f"line {line}: no check is known for `{pragma[1]}`"
        memory = re.sub(form, r"\1", pragma[1])
        found.append((line, memory, re.sub(form, CLAIMS[form], pragma[1]), lines[line].strip()))
    return found


def unchecked(text: str) -> list[str]:
    """Waivers of a header without the check of what they claim."""
    problems = []
    for line, memory, claim, behind in waivers(text):
        states = re.fullmatch(rf'(\w+)\.states\("{memory}", __FILE__, __LINE__ - 1\);', behind)
        if states is None:
            problems.append(f"line {line}: no check states the waiver of `{memory}`")
            continue
        check = states[1]
        declared = re.search(rf"Waiver<(\w+(?:<[\w:]+>)?), [^;]*\b{check}\b", text)
        if declared is None or declared[1] != claim:
            problems.append(f"line {line}: `{check}` does not check {claim}")
        if {f".{access}(" for access in ("reads", "writes") if f"{check}.{access}(" not in text}:
            problems.append(f"line {line}: `{check}` does not hear of all accesses")
        if (stated := re.fullmatch(r"InterRawDistance<(.*)>", claim)) and not is_kept(text, line, stated[1]):
            problems.append(f"line {line}: no guard is known to be {stated[1]} or more")
    return problems


def is_kept(text: str, line: int, distance: str) -> bool:
    """Whether the constructor with a pragma refuses a guard below the distance that the pragma states as a number."""
    constructor = "\n".join(text.splitlines()[: line - 1]).rpartition("() {\n")[2]
    guards = rf'static_assert\((?:\w+::)?\w+ >= {distance}, "the distance that the pragma states"\);'
    return re.search(guards, constructor) is not None


def test_every_waiver_has_its_check() -> None:
    found = {header.name: unchecked(header.read_text()) for header in HEADERS}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_the_waivers_of_the_headers_are_those_that_are_known() -> None:
    found = [(header.stem, memory) for header in HEADERS for _, memory, _, _ in waivers(header.read_text())]
    assert len(found) == 25, found


KEEP, GRID = "output/keep_buffer.hpp", "processes/sparse_cluster/grid_sums.hpp"


@pytest.mark.parametrize(
    ("header", "pattern", "replacement", "problems"),
    [
        (KEEP, r".*\.states\(.*\n", "", ["no check states the waiver of `cell_`"]),
        (KEEP, r"Waiver<InterFalse,", "Waiver<IntraRawFalse,", ["does not check InterFalse"]),
        (KEEP, r".*cell_waiver_\.writes.*\n", "", ["does not hear of all accesses"]),
        (GRID, r"distance=6", "distance=8", ["does not check InterRawDistance<8>", "no guard is known to be 8"]),
        (GRID, r"InterRawDistance<6>", "InterRawDistance<4>", ["does not check InterRawDistance<6>"]),
        (GRID, r".*static_assert\(grid_guard >= 6.*\n", "", ["no guard is known to be 6"]),
    ],
)
def test_a_waiver_without_its_check_is_seen(header: str, pattern: str, replacement: str, problems: list[str]) -> None:
    text = (library_directory() / "bfpga" / header).read_text()
    found = unchecked(re.sub(pattern, replacement, text))
    assert len(found) == len(problems)
    assert all(problem in line for problem, line in zip(problems, found, strict=True)), found


@pytest.fixture
def headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the library, from which kernels are rendered."""
    copy = shutil.copytree(library_directory(), tmp_path / "include")
    monkeypatch.setattr(render, "library_directory", lambda: copy)
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path / "cache"))
    exact_compiler()
    return copy / "bfpga"


def change(header: Path, old: str, new: str) -> None:
    text = header.read_text()
    assert text.count(old) == 1
    header.write_text(text.replace(old, new))


def stopped(name: str) -> str:
    """What random networks on an accelerator end with."""
    report: VerifyReport = verify([load_accelerator(name).config], ["csim:exact"], cases=8, seed=1)
    assert report.mismatch is not None
    assert report.mismatch.kind == "stop"
    return str(report.mismatch.got)


def place(header: Path, memory: str) -> str:
    """Where the first waiver of a memory is, as a message names it."""
    line = next(line for line, name, _, _ in waivers(header.read_text()) if name == memory)
    return f"(bfpga/{header.relative_to(header.parents[2]).as_posix()}:{line})"


def test_an_operation_that_does_not_wait_for_its_input_breaks_the_waiver_of_the_banks(headers: Path) -> None:
    """The same values in a simulation, other ones in hardware."""
    change(headers / "processes" / "scratchpad" / "order.hpp",
           "results_ = FinishedOperations::reached(now.results, needed_.results);", "results_ = true;")  # fmt: skip
    message = stopped("tiny")
    assert place(headers / "processes" / "scratchpad" / "banks.hpp", "cell") in message
    assert re.search(r"iteration \d+ of loop `Scratchpad` reads word \d+ of memory `cell`", message)


#: Accesses of one loop: letter and iteration. A claim and the first access that breaks it (-1: none).
UNIT = """
#define BFPGA_WAIVER_CHECKS
#include "bfpga/numeric/waivers.hpp"
template <class Claim>
int broken(const char* accesses) {
    bfpga::Waiver<Claim, 4> waiver;
    waiver.states("cell", __FILE__, __LINE__);
    for (int execution = 0; execution < 2; ++execution) {  // an execution knows nothing of the one before
        bfpga::PipelinedLoop loop("Unit");
        loop.iteration();
        int number = 0;
        for (const char* at = accesses; *at != 0; ++at, ++number) {
            try {
                if (*at == 'n') loop.iteration();
                if (*at == 'r') waiver.reads(1);
                if (*at == 'w') waiver.writes(1);
                if (*at == 'o') waiver.writes(2);
            } catch (const bfpga::ScheduleError&) {
                return number;
            }
        }
    }
    return -1;
}
extern "C" int unit_broken(int claim, const char* accesses) {
    if (claim == 0) return broken<bfpga::InterFalse>(accesses);
    if (claim == 1) return broken<bfpga::IntraRawFalse>(accesses);
    return broken<bfpga::InterRawDistance<2> >(accesses);
}
extern "C" int unit_outside() {
    bfpga::Waiver<bfpga::InterFalse, 4> waiver;
    try { waiver.reads(1); } catch (const bfpga::ScheduleError&) { return 1; }
    const bfpga::NoLoop between;
    waiver.reads(1);
    return 0;
}
"""
INTER, INTRA, DISTANCE = range(3)


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    directory = tmp_path_factory.mktemp("waivers")
    (directory / "unit.cpp").write_text(UNIT)
    flags = [*toolchain.WARNINGS, "-O1", "-fPIC", "-shared", "-I", str(library_directory())]
    toolchain.run_compiler([*flags, str(directory / "unit.cpp"), "-o", str(directory / "unit.so")])
    return ctypes.CDLL(str(directory / "unit.so"))


@pytest.mark.parametrize(
    ("claim", "accesses", "broken"),
    [
        (INTER, b"rwrw", -1),  # one iteration may do what it likes
        (INTER, b"wnr", 2),
        (INTER, b"wnw", 2),
        (INTER, b"rnw", 2),
        (INTER, b"rnrnro", -1),
        (INTER, b"onr", -1),
        (INTRA, b"wr", 1),
        (INTRA, b"rwnr", -1),
        (INTRA, b"or", -1),
        (DISTANCE, b"wnr", 2),
        (DISTANCE, b"wnnr", -1),
        (DISTANCE, b"wrnw", -1),
    ],
)
def test_a_claim_is_broken_by_the_access_it_excludes(
    unit: ctypes.CDLL, claim: int, accesses: bytes, broken: int
) -> None:
    assert unit.unit_broken(claim, accesses) == broken


def test_a_loop_that_is_not_counted_is_an_error(unit: ctypes.CDLL) -> None:
    assert unit.unit_outside() == 1


def test_a_guard_below_the_stated_distance_does_not_compile(headers: Path) -> None:
    change(headers / "memory" / "weight_memory.hpp", "constexpr int fill_guard = 24;", "constexpr int fill_guard = 23;")
    with pytest.raises(ToolError, match="the distance that the pragma states"):
        verify([load_accelerator("tiny").config], ["csim"], cases=1, seed=1)


def test_hardware_has_nothing_of_the_checks(tmp_path: Path) -> None:
    source = tmp_path / "unit.cpp"
    source.write_text(
        '#include "bfpga/numeric/waivers.hpp"\n'
        "#include <type_traits>\n"
        "static_assert(std::is_empty<bfpga::Waiver<bfpga::InterFalse, 4>>::value, \"no memory\");\n"
        "#ifdef __SYNTHESIS__\n"
        "static_assert(std::is_empty<bfpga::PipelinedLoop>::value, \"no register\");\n"
        "static_assert(std::is_trivially_destructible<bfpga::PipelinedLoop>::value, \"no end\");\n"
        "#endif\n"
    )  # fmt: skip
    common = [*toolchain.WARNINGS, "-fsyntax-only", "-I", str(library_directory()), str(source)]
    for flags in (["-D__SYNTHESIS__", "-DBFPGA_WAIVER_CHECKS"], []):
        toolchain.run_compiler([*common, *flags])
