"""Strict YAML 1.2: one plain document, every problem with its line and key.

Anchors, aliases, tags, directives, duplicate keys, several documents and non-finite numbers are refused: a
configuration file says each number once, where it is read. PyYAML parses the text into events with lines; values are
made here, so no type of YAML 1.1 and no object of Python can come out of a file.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from bfpga.accelerator.yaml_scalars import plain_value
from bfpga.errors import ConfigurationError

KeyPath = tuple[str | int, ...]

#: A configuration file is a page of text; anything larger is some other file, which would be parsed for seconds.
LARGEST_FILE = 1 << 18
DEEPEST_NESTING = 12
#: What a quoted text can bring in by escapes and no message can show: control characters and halves of surrogates.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


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
        parser = yaml.SafeLoader(text)
    except ReaderError as error:
        document.problems.append(wrong_character(error, text))
        document.raise_problems(what)
    try:
        Composer(document, events(parser)).compose()
    except UnreadableError:
        document.raise_problems(what)
    except YAMLError as error:
        document.problems.append(syntax_problem(error))
        document.raise_problems(what)
    except (ValueError, OverflowError):  # PyYAML gives the number of an escape such as "\\UFFFFFFFF" to chr().
        document.problems.append(Problem((), "an escape names no character", parser.line + 1))
        document.raise_problems(what)
    return document


def events(parser: yaml.SafeLoader) -> Iterator[Event]:
    """What the parser finds, one after the other: nothing is constructed."""
    while parser.check_event():
        yield parser.get_event()  # type: ignore[no-untyped-call]


def read_text(source: Path) -> str:
    """Text of a small UTF-8 file; ConfigurationError says why it cannot be read."""
    try:
        mode = source.stat().st_mode
        # A pipe or a device may never end.
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise ConfigurationError(f"{source} cannot be read: it is {kind}")
        with source.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character.
        raise ConfigurationError(f"{source} cannot be read: {getattr(error, 'strerror', error)}") from error
    if len(content) > LARGEST_FILE:
        raise ConfigurationError(f"{source} is larger than {LARGEST_FILE} bytes; this is not a configuration file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source} is not a text file: byte {error.start} is not UTF-8") from error


def wrong_character(error: ReaderError, text: str) -> Problem:
    """The first character that may not stand in a YAML text, such as a control character."""
    line = text.count("\n", 0, error.position) + 1
    return Problem((), f"cannot be read as YAML: U+{ord(text[error.position]):04X} is not allowed in a text", line)


def syntax_problem(error: YAMLError) -> Problem:
    """The parser's complaint in one line."""
    if not isinstance(error, MarkedYAMLError):
        return Problem((), f"cannot be read as YAML: {error}")
    mark = error.problem_mark or error.context_mark
    text = " ".join(str(part) for part in (error.context, error.problem) if part)
    if "\\t" in text or "tab" in text.lower():
        text += " (indent with spaces, not with tabs)"
    return Problem((), text, mark.line + 1 if mark else 0)


class UnreadableError(Exception):
    """A problem after which the rest of the file is not read; it is in the document."""


@dataclass
class Composer:
    """Turns the parser's events into plain values; values, problems and lines go to the document."""

    document: Document
    events: Iterator[Event]

    def compose(self) -> None:
        """Read the one document of the file. Raises UnreadableError, and what the parser raises."""
        next(self.events)  # the start of the stream
        start = next(self.events)
        if not isinstance(start, DocumentStartEvent):
            self.stop((), "the file is empty; it must hold keys and values", start, line=1)
        if start.version not in (None, (1, 2)) or start.tags:
            self.stop((), "directives are not allowed, other than `%YAML 1.2`", start)
        self.document.value = self.value(next(self.events), ())
        next(self.events)  # the end of the document
        after = next(self.events)
        if isinstance(after, DocumentStartEvent):
            self.stop((), "a second document starts here; a file holds one", after)

    def stop(self, path: KeyPath, text: str, event: Event, line: int = 0) -> NoReturn:
        """Add a problem after which nothing more is read."""
        self.document.problems.append(Problem(path, text, line or line_of(event)))
        raise UnreadableError

    def value(self, event: Event, path: KeyPath) -> Any:
        """Plain value that starts with ``event`` and lies at ``path``; None for what is refused."""
        self.document.lines.setdefault(path, line_of(event))
        if len(path) > DEEPEST_NESTING:
            self.stop(path[:DEEPEST_NESTING], "nested too deeply", event)
        allowed = self.is_plain(event, path)
        value: Any = None
        if isinstance(event, MappingStartEvent):
            value = self.mapping(path)
        elif isinstance(event, SequenceStartEvent):
            value = self.sequence(path)
        elif isinstance(event, ScalarEvent):
            value = self.scalar(event, path)
        return value if allowed else None

    def is_plain(self, event: Event, path: KeyPath) -> bool:
        """Whether a value is written out where it stands: no anchor, no alias, no tag."""
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            self.document.refuse(path, "anchors and aliases are not allowed; write the value itself")
            return False
        tag = getattr(event, "tag", None)
        if tag is not None:
            shown = UNPRINTABLE.sub("?", str(tag).replace("tag:yaml.org,2002:", "!!"))
            self.document.refuse(path, f"the tag {shown} is not allowed; write a plain value")
            return False
        return True

    def sequence(self, path: KeyPath) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            values.append(self.value(event, (*path, len(values))))
        return values

    def mapping(self, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            key = self.key(event, path)
            first = self.document.lines.setdefault((*path, key), line_of(event))
            if key in values:
                problem = Problem((*path, key), f"given twice (first on line {first})", line_of(event))
                self.document.problems.append(problem)
                self.value(next(self.events), (*path, key))
            else:
                values[key] = self.value(next(self.events), (*path, key))
        return values

    def key(self, event: Event, path: KeyPath) -> str:
        if not isinstance(event, ScalarEvent) or UNPRINTABLE.search(event.value) or "\n" in event.value:
            self.stop(path, "a key must be a plain word", event)
        self.is_plain(event, (*path, event.value))
        return str(event.value)

    def scalar(self, event: ScalarEvent, path: KeyPath) -> Any:
        if event.style is not None:
            if UNPRINTABLE.search(event.value):
                self.document.refuse(path, "holds a control character or half of a surrogate pair")
                return None
            return event.value
        try:
            return plain_value(event.value)
        except ValueError as error:
            self.document.refuse(path, str(error))
            return None


def line_of(event: Event) -> int:
    """Line of the first character of an event, from 1."""
    assert event.start_mark is not None
    return event.start_mark.line + 1
