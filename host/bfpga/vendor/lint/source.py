"""The text of a source file: comments, pragmas and allowances, which clang's syntax tree does not hold."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bfpga.vendor.finding import Finding
from bfpga.vendor.lint.rules import RULES

#: Comments, and literals that may look like one. A raw string ends with its own delimiter.
_LEXEMES = re.compile(
    rb'(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'
    rb"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|(?<![\w'])\d(?:[\w.]|'\w)*",
    re.DOTALL,
)
_PRAGMA = re.compile(rb"^[ \t]*#[ \t]*pragma[ \t]+HLS\b((?:[^\n\\]|\\\r?\n|\\.)*)", re.MULTILINE | re.IGNORECASE)
_PRAGMA_OPERATOR = re.compile(rb'\b_Pragma\s*\(\s*"HLS\b([^"]*)"\s*\)', re.IGNORECASE)
_ALLOW = re.compile(r"lint:\s*allow\(([^)]*)\)\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Pragma:
    """A `#pragma HLS`: its words after HLS, where it begins (byte) and its first and last line."""

    text: str
    offset: int
    line: int
    last_line: int


@dataclass
class SourceText:
    """A file as bytes, with its comments, pragmas and allowances. Offsets are bytes, lines count from 1."""

    path: str
    data: bytes
    skipped: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts = [0, *(match.end() for match in re.finditer(rb"\n", self.data))]
        self.comments = [m.span() for m in _LEXEMES.finditer(self.data) if m.lastgroup == "comment" or m["comment"]]
        self._comment_starts = [begin for begin, _ in self.comments]
        self.code = self._without_comments()
        self.pragmas = sorted(self._find_pragmas(), key=lambda pragma: pragma.offset)
        self._allowances = dict(self._find_allowances())

    @classmethod
    def read(cls, path: str, skipped: list[tuple[int, int]]) -> SourceText:
        """The file at ``path``; ``skipped``: the parts the preprocessor left out, as bytes from and to."""
        return cls(path, Path(path).read_bytes(), skipped)

    def line_of(self, offset: int) -> int:
        """The line of a byte."""
        return bisect.bisect_right(self._starts, offset)

    def line_code(self, line: int) -> str:
        """A line without its comments."""
        if not 1 <= line <= len(self._starts):
            return ""
        end = self._starts[line] if line < len(self._starts) else len(self.code)
        return self.code[self._starts[line - 1] : end].decode(errors="replace").strip()

    def has_comment(self, first_line: int, last_line: int) -> bool:
        """Whether a comment begins or ends in these lines."""
        lines = range(first_line, last_line + 1)
        return any(self.line_of(begin) in lines or self.line_of(end - 1) in lines for begin, end in self.comments)

    def is_skipped(self, offset: int) -> bool:
        """Whether the preprocessor leaves this byte out of the synthesis."""
        return any(begin <= offset < end for begin, end in self.skipped)

    def allows(self, finding: Finding) -> bool:
        """Whether a comment with a reason on the finding's line, or alone on the line above, allows its rule."""
        above = self._allowances.get(finding.line - 1, ({}, ""))
        names_above = above[0] if not self.line_code(finding.line - 1) else {}
        names_here = self._allowances.get(finding.line, ({}, ""))[0]
        return finding.rule in names_here or finding.rule in names_above

    def check_allowances(self) -> Iterator[Finding]:
        """Allowances that name no rule or give no reason."""
        for line, (rules, reason) in self._allowances.items():
            if not reason:
                yield self._bad_allowance(line, "an allowance gives no reason", "say why the rule does not apply here")
            for rule in rules:
                if rule not in RULES:
                    known = ", ".join(RULES)
                    yield self._bad_allowance(line, f"there is no rule `{rule}`", f"the rules are {known}")

    def _bad_allowance(self, line: int, problem: str, remedy: str) -> Finding:
        return Finding(self.path, line, "suppression", problem, remedy)

    def _without_comments(self) -> bytes:
        """The data with comments as blanks: offsets and lines stay."""
        code = bytearray(self.data)
        for begin, end in self.comments:
            code[begin:end] = re.sub(rb"[^\n]", b" ", self.data[begin:end])
        return bytes(code)

    def _find_pragmas(self) -> Iterator[Pragma]:
        for pattern in (_PRAGMA, _PRAGMA_OPERATOR):
            for match in pattern.finditer(self.code):
                if not self.is_skipped(match.start()):
                    text = re.sub(r"\\\r?\n|\\", " ", match[1].decode(errors="replace"))
                    lines = self.line_of(match.start()), self.line_of(match.end() - 1)
                    yield Pragma(text.strip(), match.start(), *lines)

    def _find_allowances(self) -> Iterator[tuple[int, tuple[dict[str, None], str]]]:
        for begin, end in self.comments:
            match = _ALLOW.search(self.data[begin:end].decode(errors="replace"))
            if match:
                reason = match[2].replace("*/", "").strip()
                rules = dict.fromkeys(name.strip() for name in match[1].split(","))
                yield self.line_of(begin), (rules, reason)
