"""The Verilog of an IP reads as its C++: names of its variables, places of its operations, nothing to object to."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tiny_verilog import ACCELERATOR, verilog

from bfpga.rtl.kernel import joining_files
from bfpga.rtl.names import Names, readable, unused
from bfpga.synthesis.body import Place
from bfpga.synthesis.kept import kernel_files

SOURCES = {path.partition("/")[2]: text for path, text in kernel_files(ACCELERATOR).items()}
#: What Verilator says of every design that leaves bits to the synthesizer to drop, or has its modules in one file.
WAIVED = ("UNUSEDSIGNAL", "DECLFILENAME", "TIMESCALEMOD", "SYMRSVDWORD")


def text(part: str) -> str:
    return verilog(part).text


def test_variables_of_the_process_are_registers_of_their_name() -> None:
    registers = set(re.findall(r"^reg (?:\[\d+:0\] )?(\w+);", text("store"), re.MULTILINE))
    code = SOURCES["bfpga/processes/store.hpp"] + SOURCES["bfpga/processes/counters.hpp"]
    for variable in ("clock_.index", "clock_.part", "groups_.any_", "groups_.word_.left_", "groups_.last_row_"):
        assert readable(variable) in registers
        assert all(re.search(rf"\b{name}\b", code) for name in variable.split("."))


@pytest.mark.parametrize("part", ["store", "array"])
def test_every_place_that_is_named_is_a_line_of_that_function(part: str) -> None:
    places = set(re.findall(r"^// (bfpga/\S+):(\d+) (\S+)$", text(part), re.MULTILINE))
    assert len(places) > 20
    for file, line, function in places:
        lines = SOURCES[file].split("\n")
        assert 0 < int(line) <= len(lines)
        assert function.rpartition("::")[2].strip("~") in SOURCES[file]


@pytest.mark.parametrize("part", ["store", "array"])
def test_no_value_is_called_by_a_number_alone(part: str) -> None:
    assert not re.findall(r"\b[nsiowxbvp]\d+(?:_\w+)?\b(?!')", re.sub(r"//.*|\d+'\w+", "", text(part)))


def test_equal_parts_of_an_array_are_one_module() -> None:
    uses = re.findall(r"^(\w+_[0-9a-f]{8}) \w+ \(", text("array"), re.MULTILINE)
    assert len(set(uses)) == len(re.findall(r"^module \w+_[0-9a-f]{8}\(", text("array"), re.MULTILINE))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("const bool last = left == 1;", "last"),
        ("word_.left_ = word_.left_ - 1;", "left"),
        ("total += product;", "total"),
        ("if (left <= 1)", "step"),
        ("bank[3] = word;", "bank"),
        ("const word_t<8> word{beat};", "word"),
        ("return a == b;", "step"),
    ],
)
def test_a_value_has_the_name_of_what_its_line_sets_else_of_the_function(line: str, name: str) -> None:
    names = Names({"src/a.hpp": f"void step() {{\n    {line}\n}}\n"})
    assert names.place(Place("a.hpp", 2, "Array::step")) == name


def test_names_of_cpp_become_identifiers_that_no_keyword_is() -> None:
    assert readable("groups_.word_[3].last_") == "groups_word_3_last"
    assert readable("[0]") == ""
    assert unused("wire", (), ()) == "wire_2"
    assert unused("a_b", {"_d1"}, {"a_b_d1", "a_b_2"}) == "a_b_3"


@pytest.mark.skipif(shutil.which("verilator") is None, reason="Verilator is not installed")
@pytest.mark.parametrize("part", ["store", "array", ""])
def test_verilator_objects_to_nothing_but_what_is_waived(part: str, tmp_path: Path) -> None:
    content = text(part) if part else joining_files(ACCELERATOR)["clock_counter.v"]
    (tmp_path / "ip.v").write_text(content)
    top = f"bfpga_{part or 'clock_counter'}"
    command = ["verilator", "--lint-only", "-Wall", *(f"-Wno-{each}" for each in WAIVED), "--top-module", top, "ip.v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
