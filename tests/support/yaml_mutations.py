"""Damaged configuration files: what a slip of the editor, a bad copy or malice makes of a valid YAML file."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from mutations import mutations

#: Bytes that mean something to a YAML parser, to this reader or to what comes after them.
TOKENS = (
    b"{", b"}", b"[", b"]", b",", b": ", b"- ", b"? ", b"&a ", b"*a ", b"!!int ", b"!x ", b"!!python/name:os.system ",
    b"<<: *a", b"'", b'"', b"|\n", b">-\n", b"#", b"%YAML 1.1\n", b"\n---\n", b"\n...\n", b"\t", b"\r", b"\x00",
    b"\x1b", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b'"\\ud800"', b'"\\UFFFFFFFF"', b"~", b"yes", b".nan", b"-.inf",
    b"1e400", b"0o17", b"0x" + b"F" * 300, b"9" * 5000, b"-1", b"1.5", b"x" * 2000, b"[" * 60, b"{a: " * 20, b"- " * 60,
    b"board: /dev/zero\n", b"board: " + b"y" * 400 + b"\n", b"clock_mhz: 171.3\n", b"layers: {a: {window: 3}}\n",
)  # fmt: skip


def mutants(files: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """``count`` damaged copies of the files in turn, one to four changes each; the same seed gives the same ones."""
    rng = random.Random(seed)
    for number in range(count):
        content = files[number % len(files)]
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            content = rng.choice(CHANGES)(rng, content, rng.choice(files))
        yield content


def change_bytes(rng: random.Random, content: bytes, other: bytes) -> bytes:
    return next(mutations(content, 1, rng.getrandbits(32)))


def repeat(rng: random.Random, content: bytes, other: bytes) -> bytes:
    """A piece of some lines, again and again."""
    start = rng.randrange(len(content) + 1)
    end = min(len(content), start + rng.randint(1, 80))
    return content[:end] + content[start:end] * 20 + content[end:]


def insert_token(rng: random.Random, content: bytes, other: bytes) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(TOKENS) + content[place:]


def replace_value(rng: random.Random, content: bytes, other: bytes) -> bytes:
    """A token in the place of what stands after a colon."""
    lines = content.split(b"\n")
    places = [number for number, line in enumerate(lines) if b": " in line]
    if places:
        number = rng.choice(places)
        lines[number] = lines[number].split(b": ")[0] + b": " + rng.choice(TOKENS)
    return b"\n".join(lines)


def swap_lines(rng: random.Random, content: bytes, other: bytes) -> bytes:
    lines = content.split(b"\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


def indent_line(rng: random.Random, content: bytes, other: bytes) -> bytes:
    lines = content.split(b"\n")
    number = rng.randrange(len(lines))
    lines[number] = b" " * rng.randrange(4) + lines[number].lstrip(b" " if rng.random() < 0.5 else b"")
    return b"\n".join(lines)


def splice(rng: random.Random, content: bytes, other: bytes) -> bytes:
    """The beginning of one file and the end of another."""
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


CHANGES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    change_bytes, change_bytes, change_bytes, repeat, insert_token, insert_token, replace_value, replace_value,
    swap_lines, indent_line, splice,
)  # fmt: skip
