"""The strict reader of configuration files: YAML 1.2's scalars, and one message for everything else."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
import yaml_mutations
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.yaml_reader import LARGEST_FILE, read_document
from bfpga.compiler.recipes import load_recipe
from bfpga.errors import BfpgaError, ConfigurationError

ROOT = Path(__file__).parents[2]
#: Seconds that no file may take on a busy machine; an idle one reads the slowest of these in a tenth.
PATIENCE = 10.0
Folders = pytest.TempPathFactory


def read(folder: Path, text: str | bytes) -> Any:
    """Value of a file that must have no problem."""
    document = read_document(written(folder, text), "a test")
    document.raise_problems("a test")
    return document.value


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "file.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(folder: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(folder, text)
    return str(caught.value)


# Values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("y", "y"), ("True", True), ("FALSE", False),
        ("tRUE", "tRUE"), ("~", None), ("", None), ("Null", None), ("'~'", "~"), ("017", 17), ("0o17", 15),
        ("0x1f", 31), ("+7", 7), ("0b11", "0b11"), ("1_000", "1_000"), ("12:30:00", "12:30:00"), ("1e3", 1000.0),
        ("1.", 1.0), (".5", 0.5), ("-.5e-1", -0.05), (".", "."), ("1e", "1e"), ("'12'", "12"), ("=", "="),
        ("2021-01-01", "2021-01-01"), ("inf", "inf"), ("nan", "nan"), ("<<", "<<"), ("0o8", "0o8"),
    ],
)  # fmt: skip
def test_plain_scalars_are_those_of_yaml_1_2(tmp_path: Path, text: str, value: Any) -> None:
    found = read(tmp_path, f"key: {text}\n")["key"]
    assert (found, type(found)) == (value, type(value))


PRINTABLE = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20)
NUMBERS = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | PRINTABLE
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PRINTABLE, inner, max_size=4), max_leaves=12
)


@settings(deadline=None, max_examples=drawn(200))
@given(DOCUMENTS, st.booleans(), st.sampled_from("\"'|>"))
def test_documents_of_another_writer_come_back(tmp_path_factory: Folders, value: Any, flow: bool, style: str) -> None:
    """In flow and block style, with text quoted or as blocks: what PyYAML leaves plain is by the rules of YAML 1.1."""

    class Writer(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_str(self, data: str) -> yaml.ScalarNode:
            return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Writer.add_representer(str, Writer.represent_str)
    text = yaml.dump(value, Dumper=Writer, default_flow_style=flow, allow_unicode=True)
    assert read(tmp_path_factory.mktemp("yaml"), text) == value


@settings(deadline=None, max_examples=drawn(200))
@given(st.text("ab:-?&*!|>'\"%@`{}[],# \n\t\\0~1.", max_size=60))
def test_random_text_gives_a_value_or_a_message_with_a_line(tmp_path_factory: Folders, text: str) -> None:
    message = "\n  line 1"
    try:
        read(tmp_path_factory.mktemp("yaml"), text)
    except ConfigurationError as error:
        message = str(error)
    assert re.search(r"\n  line \d+", message)


# Refusals


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", ["line 4, b.c: given twice (first on line 3)"]),
        ("a: 1\n'a': 2\na: 3\n", ["line 2, a: given twice (first on line 1)", "line 3, a: given twice"]),
        ("a: 1\nb: &x 2\nc: [*x]\n", ["line 2, b: anchors", "line 3, c[0]: anchors"]),
        ("a: *x\n", ["line 1, a: anchors"]),
        ("&x a: 1\n", ["line 1, a: anchors"]),
        ("a: &x {b: *x}\n", ["line 1, a: anchors"]),
        ("a: !!int 1\nb: !mine 2\nc: ! d\n", ["a: the tag !!int is", "b: the tag !mine is", "c: the tag ! is"]),
        ("a: !%1b[31m 1\n", ["a: the tag !?"]),
        ("a: !!python/object/apply:os.getcwd []\n", ["line 1, a: the tag !!python/object/apply:os.getcwd"]),
        ("a: 1\n---\nb: 2\n", ["line 2: a second document starts here"]),
        ("%YAML 1.1\n---\na: 1\n", ["line 1: directives are not allowed"]),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", ["line 1: directives are not allowed"]),
        ("a: 1\nb: [1, .inf]\nc: -1e999\n", ["line 2, b[1]: .inf is not a finite", "line 3, c: -1e999 is not"]),
        ("a: 0x" + "f" * 9000, ["line 1, a: 0xfff", "9002 characters; at most 100"]),
        ("a: " + "9" * 9000, ["line 1, a: 9", "9000 characters; at most 100"]),
        ('a: "\\ud800"\n', ["line 1, a: holds a control character"]),
        ('"a\\e": 1\n', ["line 1: a key must be a plain word"]),
        ("{a: 1}: 1\n", ["line 1: a key must be a plain word"]),
        ('a: 1\nb: "\\UFFFFFFFF"\n', ["line 2: an escape names no character"]),
        ("a: 1\nb: \x07\n", ["line 2: cannot be read as YAML: U+0007"]),
        ("a:\n\t- 1\n", ["line 2: ", "indent with spaces"]),
        ("a: &x 1\nb: [1\n", ["line 1, a: anchors", "line 3: "]),
        ("a: " + "[" * 13 + "]" * 13, ["a" + "[0]" * 11 + ": nested too deeply"]),
        ("[" * 200_000, ["line 1, [0]", "nested too deeply"]),
        ("- " * 100_000, ["line 1, [0]", "nested too deeply"]),
        ("a: {" * 50_000, ["line 1, a", "nested too deeply"]),
        ("", ["line 1: the file is empty"]),
        ("# " * (LARGEST_FILE // 2 + 1), ["larger than"]),
        (b"a: \xff\n", ["not a text file: byte 3 is not UTF-8"]),
        ("a: é\n".encode("utf-16"), ["not a text file: byte 0 is not UTF-8"]),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_refused_with_line_and_key(tmp_path: Path, text: str | bytes, parts: list[str]) -> None:
    message = refusal(tmp_path, text)
    assert [part for part in parts if part not in message] == [], message
    assert str(tmp_path / "file.yaml") in message


def test_nested_as_deeply_as_allowed_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, "a: " + "[" * 12 + "]" * 12 + "\n") == {"a": [[[[[[[[[[[[]]]]]]]]]]]]}


@pytest.mark.parametrize("what", ["directory", "pipe", "device", "missing", "null", "long"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, what: str) -> None:
    path = {"device": Path("/dev/zero"), "null": Path("a\0/b.yaml"), "long": Path("x" * 400)}.get(what, tmp_path / what)
    if what == "directory":
        path.mkdir()
    if what == "pipe":
        os.mkfifo(path)
    for load in (load_accelerator, load_board, load_recipe):
        with pytest.raises(ConfigurationError, match=r"cannot be read: |neither a file nor a known name"):
            load(path)


# Damaged files


def shipped(kind: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "configs" / kind).glob("*.yaml"))]


@pytest.mark.parametrize(
    ("kind", "load", "count"),
    [("accelerators", load_accelerator, 1000), ("boards", load_board, 500), ("networks", load_recipe, 500)],
)
def test_a_damaged_file_is_read_or_refused_with_its_line(
    tmp_path: Path, kind: str, load: Callable[[Path], object], count: int
) -> None:
    """2,000 files in all: never another exception, never more than a moment, a line in every message."""
    refused = 0
    for number, content in enumerate(yaml_mutations.mutants(shipped(kind), count, seed=11)):
        path = tmp_path / f"{number}.yaml"  # Boards are kept by path.
        path.write_bytes(content)
        start = time.perf_counter()
        try:
            load(path)
        except BfpgaError as error:
            message, refused = str(error), refused + 1
            assert re.search(r"\n  line \d+|is not a text file: byte \d+", message), (content, message)
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", message), (content, message)
        assert time.perf_counter() - start < PATIENCE, content
        path.unlink()
    assert count // 2 < refused < count, "the files are hardly damaged, or nothing but damaged"
