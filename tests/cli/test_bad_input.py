"""Malformed files: each gives one clear message and exit code 2, and leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from refusals import refused

from bfpga.accelerator.schema import AcceleratorFile, FormatSection, ShiftSection, SystolicSection
from bfpga.accelerator.sections import Section
from bfpga.cli import main

ROOT = Path(__file__).parents[2]
VALID = """\
name: sample
description: a sample
board: pynq_z2
clock_mhz: 142
first_light_mhz: 100
cores: 1
demonstrator: false
engines:
  - kind: systolic_array
    format:
      profile: bfp8
      mantissa_bits: 8
      exponent_bits: 8
      rounding: rne
      saturation: sym
      log: floor
    columns: 12
    rows: 16
    lanes: 2
    multiplier: dsp_packed
    shift_columns: 1
    shift:
      exp_width: 3
      d: 0
      zero_code: neg_min
      base_log2: 1
      sign_mode: relative
    accumulator_bits: 32
    bias_bits: 18
    activation_words: 4096
    weight_words: 4096
    parameter_rows: 2048
    stream_bits: 64
    weight_stream_bits: 64
    functions: [none, relu, leaky_relu, sigmoid, tanh, clip]
    position_bins: 8
    wide_words: 64
    wide_memory: false
    function_tables: 0
    program_descriptors: 0
    post_columns: 0
    static_exponents: false
    hop_columns: 0
    row_columns: 0
    operand_weights: false
    positions: own
    residual_adds: false
    count_registers: 0
    compressed_maps: false
    ultra_ram: []
"""
#: The models of the sections that hold scalar keys, with the words their keys start with in a message.
SECTIONS: dict[str, type[Section]] = {
    "": AcceleratorFile,
    "engines[0].": SystolicSection,
    "engines[0].format.": FormatSection,
    "engines[0].shift.": ShiftSection,
}
#: A value no key accepts, by the type of the key's present value; every one is legal YAML.
WRONG_TYPES = ["{a: 1}", "[[1]]", "''", "~", "1.5e300", "-7", "2021-01-01", "!!binary aGVsbG8=", "on"]


@dataclass(frozen=True)
class Case:
    """A malformed file and what its message must contain."""

    name: str
    content: bytes
    expected: tuple[str, ...]


def key_line(key: str) -> int:
    """Line (from 1) of a key of ``VALID``; keys are unique apart from their indentation."""
    return next(i for i, line in enumerate(VALID.splitlines(), 1) if line.lstrip("- ").startswith(key + ":"))


def with_line(number: int, text: str) -> str:
    """``VALID`` with one line replaced."""
    lines = VALID.splitlines()
    lines[number - 1] = text
    return "\n".join(lines) + "\n"


def scalar_keys() -> Iterator[tuple[str, str, int, str, str]]:
    """(key path, key, line, the line up to the value, value) of every key with a value on its line."""
    for prefix, model in SECTIONS.items():
        for key in model.model_fields:
            number = key_line(key)
            head, value = VALID.splitlines()[number - 1].split(":", 1)
            if value:
                yield prefix + key, key, number, head + ":", value.strip()


def key_cases() -> Iterator[Case]:
    """Each key misspelt, given twice, emptied, indented by a tab, without its space, with a wrong type."""
    for path, key, number, head, value in scalar_keys():
        line = f"{head} {value}"
        spelt = key[:1] + key[2:] if len(key) > 4 else key + "x"
        misspelt = line.replace(key, spelt, 1)
        yield case(f"misspelt {path}", with_line(number, misspelt), f"line {number}", f"did you mean `{key}`?", spelt)
        twice = " " * (len(line) - len(line.lstrip(" -"))) + line.lstrip(" -")
        yield case(f"twice {path}", with_line(number, f"{line}\n{twice}"), f"line {number + 1}, {path}: given twice")
        yield case(f"tab {path}", with_line(number, "\t" + line), f"line {number}")
        yield case(f"anchor {path}", with_line(number, f"{head} &a {value}"), f"line {number}, {path}: anchors")
        yield case(f"unclosed {path}", with_line(number, f'{head} "{value}'), "line ")
    for path, _, number, head, value in scalar_keys():
        for wrong in WRONG_TYPES:
            if not accepted(path, wrong):
                yield case(f"{wrong} in {path}", with_line(number, f"{head} {wrong}"), f"line {number}, {path}")
        if value.isdigit():
            yield case(f"text in {path}", with_line(number, f"{head} '{value}'"), f'{path}: is "{value}"; must be')
            yield case(f"huge {path}", with_line(number, f"{head} {'9' * 30}"), f"line {number}, {path}")
            yield case(f"nan in {path}", with_line(number, f"{head} .nan"), f"line {number}, {path}: .nan is not")
            yield case(f"infinite {path}", with_line(number, f"{head} -.inf"), f"line {number}, {path}: -.inf is not")


def accepted(path: str, value: str) -> bool:
    """Text that some keys do take."""
    return (path, value) == ("name", "on") or (path == "description" and value in ("''", "2021-01-01", "on"))


def missing_cases() -> Iterator[Case]:
    """Each required key left out."""
    for prefix, model in SECTIONS.items():
        for key, item in model.model_fields.items():
            if item.is_required() and key not in ("engines", "format", "kind"):
                text = "".join(line for i, line in enumerate(VALID.splitlines(True), 1) if i != key_line(key))
                yield case(f"without {prefix}{key}", text, f"{prefix}{key}: missing; must be")


def range_cases() -> Iterator[Case]:
    """One beyond each end of every range, and values between the allowed ones."""
    bounds = {
        "columns": ("0", "129"), "rows": ("1", "65"), "lanes": ("0", "3", "8"), "accumulator_bits": ("9", "59", "none"),
        "bias_bits": ("3", "33"), "activation_words": ("63", "65537"), "weight_words": ("15", "65537"),
        "parameter_rows": ("1", "65537"), "stream_bits": ("16", "48", "1024"), "weight_stream_bits": ("32", "96"),
        "mantissa_bits": ("3", "19"), "exponent_bits": ("3", "17"), "clock_mhz": ("0", "-1", "1001", "24.9", "200.1"),
        "ultra_ram": ("[weight]", "weights", "[[weights]]"),
        "functions": ("[]", "[relux]", "[none, none]", "[relu]", "none", "[none, [relu]]"),
        "multiplier": ("lut", "DSP"), "rounding": ("nearest",), "saturation": ("clip",), "log": ("round",),
        "profile": ("bfp4", "BFP8"), "kind": ("systolic", "array"), "name": ("Name", "a b", "../x", "9a", "é"),
        "board": ("pynq", "PYNQ-Z2", "./none.yaml", "/nowhere/board.yaml"),
        "first_light_mhz": ("-1", "1001", "24.9", "142.1", "96"), "cores": ("0", "4"),
    }  # fmt: skip
    for key, values in bounds.items():
        head = VALID.splitlines()[key_line(key) - 1].split(":", 1)[0]
        for value in values:
            number = key_line(key)
            yield case(f"{key} {value}", with_line(number, f"{head}: {value}"), f"line {number}", key)


def structure_cases() -> Iterator[Case]:
    """Files that are no mapping, no text, no YAML, or nested wrongly."""
    twice = VALID + VALID[VALID.index("  - kind") :]
    yield case("empty", "", "the file is empty")
    yield case("comment only", "# nothing\n", "the file is empty")
    yield case("number", "42\n", "line 1", "holds a number")
    yield case("word", "accelerator\n", "line 1", "holds text")
    yield case("list", "- name: x\n", "line 1", "holds a list")
    yield case("two documents", VALID + "---\n" + VALID, "a second document starts here; a file holds one")
    yield case("two arrays", twice, "engines: is a list", "a list with one element")
    yield case("no engine", VALID[: VALID.index("engines")] + "engines: []\n", "engines", "a list with one element")
    yield case("engine is a mapping", VALID.replace("  - kind", "    kind"), "engines: is a section of keys")
    yield case("flat engine", VALID.replace("  - kind", "kind").replace("    ", ""), "line ")
    yield case("format is text", VALID[: VALID.index("    format")] + "    format: bfp8\n", "engines[0].format")
    yield case("format is empty", re.sub(r"format:\n(      .*\n)+", "format: {}\n", VALID), "must give a profile")
    yield case("unclosed list", VALID.replace("clip]", "clip"), "line ")
    yield case("unclosed mapping", VALID + "extra: {a: 1\n", "line ")
    yield case("no space after a colon", VALID.replace("board: ", "board:"), "line ")
    yield case("alias of nothing", VALID.replace("142", "*clock"), "line 4, clock_mhz: anchors and aliases")
    yield case("merge key", VALID + "<<: {name: y}\n", "<<")
    yield case("python object", VALID.replace("142", "!!python/object/apply:os.getcwd []"), "line 4")
    yield case("own tag", VALID.replace("142", "!clock 142"), "line 4", "tag")
    yield case("list as key", "? [a, b]\n: 1\n" + VALID, "plain word")
    yield case("number as key", VALID + "7: 1\n", "7: unknown key")
    yield case("directive", "%YAML 9.9\n" + VALID, "line ")
    yield case("bad escape", VALID.replace("a sample", '"\\q"'), "line 2")
    yield case("deep list", "[" * 3000, "nested too deeply")
    yield case("deep mapping", VALID + "extra: " + "{a: " * 30 + "1" + "}" * 30 + "\n", "extra")
    yield case("control character", VALID.replace("a sample", "a\x07b"), "cannot be read as YAML")
    yield Case("binary", bytes(range(256)) * 4, ("not a text file",))
    yield Case("zeros", bytes(1000), ("cannot be read as YAML",))
    yield Case("latin-1", VALID.replace("a sample", "é").encode("latin-1"), ("not UTF-8",))
    yield Case("utf-16", VALID.encode("utf-16"), ("not a text file",))
    yield Case("archive", b"PK\x03\x04" + bytes(40), ("cannot be read as YAML",))
    yield Case("too large", b"# \n" * 400000, ("larger than",))
    lines = VALID.splitlines(keepends=True)
    alike = "".join(lines[: key_line("shift_columns") - 1] + lines[key_line("accumulator_bits") - 1 :])
    yield case("array of 300 DSP blocks", alike.replace("12", "25").replace("16", "6").replace("dsp_packed", "dsp"),
               "300 DSP blocks", "at most 18 columns fit")  # fmt: skip
    yield case("too few parameters for two channels a row", alike.replace("dsp_packed", "shift").replace("2048", "31"),
               "engines[0].parameter_rows", "32 channels of a pass")  # fmt: skip
    yield case("two kinds of shift units", VALID.replace("dsp_packed", "shift"), "engines[0].shift_columns")
    yield case("words without shift units", VALID.replace("shift_columns: 1", "shift_columns: 0"), "engines[0].shift")
    wide, wider = (VALID.replace("mantissa_bits: 8", f"mantissa_bits: {bits}") for bits in (9, 17))
    yield case("mantissas of 17 bits for shift units", wider, "shift units take 16")
    yield case("odd rows", VALID.replace("rows: 16", "rows: 15"), "engines[0].rows", "multiple of lanes")
    yield case("wide mantissas packed", wide, "engines[0].multiplier")
    skips = (ROOT / "configs" / "accelerators" / "pynq_z2_zero_skip.yaml").read_text()
    for name in ("groups", "chunk", "queue", "rows", "columns", "weight_words"):
        for wrong in ("0", "100000", "'16'"):
            text = re.sub(f" {name}: .*", f" {name}: {wrong}", skips)
            yield case(f"skip array, {name} {wrong}", text, f"engines[0].{name}: is ")
    activations = re.sub(" groups: .*", " source: activations", re.sub(" rows: .*", " passes: 16", skips))
    for name in ("source", "passes"):
        for wrong in ("0", "100000", "'16'"):
            text = re.sub(f" {name}: .*", f" {name}: {wrong}", activations)
            yield case(f"skip array of activations, {name} {wrong}", text, f"engines[0].{name}: is ")
    beside = activations.replace("passes: 16", "dense_beside: 3")
    yield case("systolic array beside a skip array, 3", beside, "engines[0].dense_beside: is ")
    yield case("groups of activations", re.sub(" passes: .*", " groups: 16", activations), "engines[0].groups")
    yield case("passes of weights", re.sub(" source: .*", " source: weights", activations), "engines[0].passes")
    cluster = (ROOT / "configs" / "accelerators" / "zcu104_cluster.yaml").read_text()
    for name in ("grid", "kernel", "columns", "rows", "lanes", "unit_words", "queue", "map_lines", "map_blocks",
                 "threshold", "moves"):  # fmt: skip
        for wrong in ("-1", "100000", "'16'"):
            text = re.sub(f" {name}: .*", f" {name}: {wrong}", cluster)
            yield case(f"cluster, {name} {wrong}", text, f"engines[0].{name}: is ")
    unknown = cluster.replace("variant: E", "variant: F")
    yield case("cluster of variant F", unknown, 'engines[0].variant: is "F"; must be one of A, B, C, D, E')
    for variant in "CD":
        two = cluster.replace("variant: E", f"variant: {variant}\n    products: 5")
        yield case(f"odd lanes of variant {variant}", two, "engines[0].products: is 5; must be even")
        one = two.replace("products: 5", "products: 2").replace("kernel: 3", "kernel: 1")
        yield case(f"kernels of one weight, variant {variant}", one, "engines[0].kernel: is 1; must be 2 at least")
    lanes = cluster.replace("variant: E", "variant: B\n    products: 4")
    for wrong in ("0", "10", "100000", "'4'"):
        text = lanes.replace("products: 4", f"products: {wrong}")
        yield case(f"cluster of variant B, products {wrong}", text, "engines[0].products: is ")
    for variant in "AE":
        text = lanes.replace("variant: B", f"variant: {variant}")
        yield case(f"lanes of variant {variant}", text, "engines[0].products: is 4; belongs to variants B to D")
    yield case("another form of a cluster", cluster.replace("overlap_add", "windows"), "engines[0].form")
    yield case("more than 32 units", cluster.replace("[4, 4]", "[8, 8]"), "engines[0].grid: has 64 units")
    yield case("narrow sums of a cluster", cluster.replace("accumulator_bits: 24", "accumulator_bits: 18"),
               "engines[0].accumulator_bits")  # fmt: skip
    yield case("narrow accumulator", VALID.replace("_bits: 32", "_bits: 17"), "engines[0].accumulator_bits")


def case(name: str, text: str, *expected: str) -> Case:
    return Case(name, text.encode(), expected)


YAML_CASES = [*key_cases(), *missing_cases(), *range_cases(), *structure_cases()]


def test_the_valid_file_is_valid(tmp_path: Path) -> None:
    (tmp_path / "accelerator.yaml").write_text(VALID)
    assert main(["estimate", str(tmp_path / "accelerator.yaml")]) == 0


def test_there_are_at_least_200_malformed_files() -> None:
    assert len(YAML_CASES) >= 200
    assert len({item.name for item in YAML_CASES}) == len(YAML_CASES)


@pytest.mark.parametrize("cases", [key_cases, missing_cases, range_cases, structure_cases])
def test_malformed_yaml_is_refused(
    cases: Callable[[], Iterator[Case]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, wrong = tmp_path / "accelerator.yaml", []
    for item in cases():
        path.write_bytes(item.content)
        try:
            refused(["estimate", str(path)], tmp_path, capsys, str(path), *item.expected)
        except AssertionError as error:
            wrong.append(f"{item.name}: {error}")
    assert wrong == []
