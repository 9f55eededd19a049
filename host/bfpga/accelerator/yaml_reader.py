"""Strict YAML: one plain document, every problem with its line.

Anchors, tags, duplicate keys, several documents and non-finite numbers are refused: a configuration file says each
number once, where it is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bfpga.errors import ConfigurationError

KeyPath = tuple[str | int, ...]

#: A configuration file is a page of text; anything larger is some other file.
LARGEST_FILE = 1 << 20
DEEPEST_NESTING = 12
TAG = "tag:yaml.org,2002:"
BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file: where (key path, line from 1; 0 if unknown) and what would be right."""

    path: KeyPath
    text: str
    line: int = 0


@dataclass
class Document:
    """A read file: plain Python values and the line of every key path."""

    source: Path
    value: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: KeyPath) -> int:
        """Line of ``path`` or of its nearest parent that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def refuse(self, path: KeyPath, text: str) -> None:
        """Add a problem at ``path``; the first one there is enough."""
        if all(problem.path != path for problem in self.problems):
            self.problems.append(Problem(path, text, self.line(path)))

    def raise_problems(self, what: str) -> None:
        """Raise one ConfigurationError that lists every problem; nothing happens without problems."""
        if self.problems:
            ordered = sorted(dict.fromkeys(self.problems), key=lambda problem: problem.line)
            raise ConfigurationError("\n".join([f"{self.source} is not {what}:", *map(describe, ordered)]))


def describe(problem: Problem) -> str:
    """`  line 7, engines[0].columns: text`."""
    where = f"line {problem.line}" if problem.line else "file"
    return f"  {where}{', ' + path_text(problem.path) if problem.path else ''}: {problem.text}"


def path_text(path: KeyPath) -> str:
    """`engines[0].columns`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_document(source: Path, what: str) -> Document:
    """Read one YAML file strictly; ``what`` ("an accelerator") completes the message.

    Raises ConfigurationError when it cannot be parsed. Wrong values and keys given twice are in ``problems``, so that
    the validation can add what else is wrong.
    """
    document = Document(source)
    text = read_text(source)
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        document.problems.append(syntax_problem(error))
    except (YAMLError, RecursionError, ValueError, OverflowError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        document.problems.append(Problem((), f"cannot be read as YAML: {reason}"))
    else:
        if node is None:
            document.problems.append(Problem((), "the file is empty; it must hold keys and values", 1))
    document.raise_problems(what)
    document.value = Composer(document).value(node, ())
    return document


def read_text(source: Path) -> str:
    """Text of a small UTF-8 file; ConfigurationError says why it cannot be read."""
    try:
        with source.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from error
    if len(content) > LARGEST_FILE:
        raise ConfigurationError(f"{source} is larger than {LARGEST_FILE} bytes; this is not a configuration file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source} is not a text file: byte {error.start} is not UTF-8") from error


def syntax_problem(error: MarkedYAMLError) -> Problem:
    """The parser's complaint in one line."""
    mark = error.problem_mark or error.context_mark
    text = " ".join(str(part) for part in (error.context, error.problem) if part)
    if "\\t" in text or "tab" in text.lower():
        text += " (indent with spaces, not with tabs)"
    return Problem((), text, mark.line + 1 if mark else 0)


@dataclass
class Composer:
    """Turns the parser's nodes into plain values; problems and lines go to the document."""

    document: Document

    def value(self, node: Node, path: KeyPath) -> Any:
        """Plain value of ``node``, which lies at ``path``."""
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if len(path) > DEEPEST_NESTING:
            self.document.refuse(path[:DEEPEST_NESTING], "nested too deeply")
            return None
        if node.anchor is not None:
            self.document.refuse(path, "anchors and aliases are not allowed; write the value itself")
            return None
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self.scalar(node, path)

    def mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self.document.refuse(path, "a key must be a plain word")
                continue
            key = str(key_node.value)
            if key in values:
                first = self.document.lines[(*path, key)]
                problem = Problem((*path, key), f"given twice (first on line {first})", key_node.start_mark.line + 1)
                self.document.problems.append(problem)
                continue
            self.document.lines[(*path, key)] = key_node.start_mark.line + 1
            values[key] = self.value(value_node, (*path, key))
        return values

    def scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        kind = str(node.tag).removeprefix(TAG)
        text = str(node.value)
        try:
            if kind == "int":
                return int(text.replace("_", ""), 0 if text.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else 10)
            if kind == "float":
                return self.number(text, path)
            if kind == "bool":
                return BOOLEANS[text.lower()]
        except (ValueError, KeyError):
            self.document.refuse(path, f"{text[:40]!r} is not a value of type {kind}")
            return None
        if kind == "null":
            return None
        if kind in ("str", "timestamp", "value", "merge"):
            return text
        self.document.refuse(path, f"the tag {node.tag} is not allowed; write a plain value")
        return None

    def number(self, text: str, path: KeyPath) -> float | None:
        plain = text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan")
        number = float(plain)
        if not math.isfinite(number):
            self.document.refuse(path, f"{text[:40]} is not a finite number")
            return None
        return number
