"""What C++ sources mean to a synthesis tool: their tokens, whatever their comments, blank space and names of files.

The hardware of an IP follows from the tokens of the files that it includes. A declaration that none of them names
takes no part in it: of a rendered header every IP reads a few numbers, and the others are of other IPs.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

#: A comment, blank space, a directive with the lines that it goes on in, or a token. Text in quotes is one token.
_TOKENS = re.compile(
    r"""
    (?P<gap> // (?: \\\n | [^\n] )* | /\* .*? \*/ | \s+ | \\\n )
    | (?P<directive> ^ [ \t]* \# (?: \\\n | /\* .*? \*/ | (?! // ) [^\n] )* )
    | (?P<token>
        (?: u8 | [uUL] )? R"(?P<mark> [^()\\\s]* )\( .*? \)(?P=mark)"
        | (?: u8 | [uUL] )? " (?: \\. | [^"\\\n] )* "
        | (?: [uUL] )? ' (?: \\. | [^'\\\n] )* '
        | [A-Za-z_]\w*
        | \.? \d (?: [eEpP][+-] | ' \w | [\w.] )*
        | \.\.\. | <<= | >>= | -> | \+\+ | -- | << | >> | :: | && | \|\| | \#\# | [-+*/%&|^=!<>]=
        | . )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
#: Directives that say where the text of a file is: the files of an IP are taken together, each once.
_PLACING = re.compile(r'# ?(?:pragma once|include "[^"]*")')
_NAME = re.compile(r"[A-Za-z_]\w*")
#: In the namespace of commands: first digits of the digest of a layout, whose numbers stand elsewhere.
_LAYOUT = re.compile(r"^layout_[0-9a-f]{8}")
_CLOSING = {"(": ")", "{": "}"}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a rendered header declares: a structure, an enumeration, a constant or enumerator of one, a function's head.

    ``owner``: the structure or enumeration, empty for what is in none. ``names``: those in it besides its own.
    """

    name: str
    owner: str
    names: frozenset[str]
    digest: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """A file: the digest of its tokens and the names among them, both without its declarations; the lines of tokens."""

    digest: str
    names: frozenset[str]
    declarations: tuple[Declaration, ...]
    lines: tuple[int, ...]


@functools.lru_cache(maxsize=1024)
def meaning(text: str, rendered: bool = False) -> Meaning:
    """What the text of a file means. rendered: its declarations count each by itself."""
    found = list(_tokens(text))
    tokens, lines = [token for token, _ in found], tuple(line for _, line in found)
    declarations: list[Declaration] = []
    rest = _without_declarations(tokens, declarations) if rendered else tokens
    return Meaning(_digest(rest) if rest else "", _names(rest), tuple(declarations), lines)


def sources_meaning(files: Mapping[str, str], rendered: Container[str], *others: object) -> str:
    """The digest of what is compiled together, in whichever order and under whichever paths.

    ``files``: path -> text; ``rendered``: paths of files that are rendered for the kernel, of which only what is named
    counts; ``others``: what a result depends on besides.
    """
    read = [meaning(text, path in rendered) for path, text in files.items()]
    declarations = {declaration for file in read for declaration in file.declarations}
    named = {""}.union(*(file.names for file in read), *(declaration.names for declaration in declarations))
    digests = [file.digest for file in read if file.digest]
    digests += [one.digest for one in declarations if one.name in named and one.owner in named]
    return _digest([*map(str, others), *sorted(digests)])


def token_place(place: str, files: Mapping[str, str]) -> str:
    """`file:line` as `file@token`, the first token of the line: it stays where it is when comments change.

    ``files``: text by the name that places have; a place in none of them stays as it is.
    """
    name, _, line = place.rpartition(":")
    if name not in files or not line.isdigit():
        return place
    lines = meaning(files[name]).lines
    return f"{name}@{sum(1 for number in lines if number < int(line))}"


def line_place(place: str, files: Mapping[str, str]) -> str:
    """The inverse of ``token_place`` for the present text of a file; the file alone where its name has changed."""
    name, _, token = place.rpartition("@")
    if not token.isdigit():
        return place
    lines = meaning(files[name]).lines if name in files else ()
    return f"{name}:{lines[int(token)]}" if int(token) < len(lines) else name


def source_name(path: str) -> str:
    """What places and messages call a source: its path on the include path."""
    return re.sub(r"^(?:\./)?(?:include|src)/", "", path)


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Tokens, each with its line; a directive is one token."""
    line = 1
    for match in _TOKENS.finditer(text):
        content = match.group()
        if match.lastgroup == "directive":
            directive = " ".join(_COMMENT.sub(" ", content.replace("\\\n", " ")).split()).replace("# ", "#", 1)
            if not _PLACING.fullmatch(directive):
                yield directive, line
        elif match.lastgroup != "gap":
            yield _LAYOUT.sub("layout", content), line
        line += content.count("\n")


def _without_declarations(tokens: Sequence[str], found: list[Declaration], owner: str = "") -> list[str]:
    """The tokens of a file, or of the block of ``owner``, without declarations, which are put to those found."""
    rest: list[str] = []
    at = 0
    while at < len(tokens):
        last, name = _declared(tokens, at, owner)
        part = list(tokens[at:last])
        if name is None:
            rest.append(tokens[at])
            last = at + 1
        elif name:
            if not owner and "{" in part:
                block = part.index("{") + 1
                part = part[:block] + _without_declarations(part[block:], found, name)
            found.append(Declaration(name, owner, _names(part) - {name}, _digest([owner, *part])))
        at = last
    return rest


def _declared(tokens: Sequence[str], at: int, owner: str) -> tuple[int, str | None]:
    """Where a declaration that begins at a token ends, and its name.

    The name is None if none begins there, and empty for what never takes part in hardware: an assertion.
    """
    match tokens[at : at + 3]:
        case ["static", "constexpr", _] if owner:
            part = tokens[at : _end(tokens, at)]
            plain = "=" in part and not {"(", "{", "["} & set(part[: part.index("=")])
            return at + len(part), part[part.index("=") - 1] if plain else None
        case [name, "=", _] if owner and tokens[at + 3 : at + 4] == [","] and _NAME.fullmatch(name):
            return at + 4, name
        case ["static_assert", _, _] if not owner:
            return _end(tokens, at), ""
        case ["struct", name, "{"] | ["enum", "class", name] if not owner:
            return _end(tokens, at), name
        case ["void", name, "("] if not owner:
            last = _end(tokens, at)
            return last, None if "{" in tokens[at:last] else name
    return at, None


def _end(tokens: Sequence[str], at: int) -> int:
    """The place after the semicolon that ends what begins at a token."""
    waiting: list[str] = []
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token in _CLOSING:
            waiting.append(_CLOSING[token])
        elif waiting and token == waiting[-1]:
            waiting.pop()
        elif token == ";" and not waiting:
            return at
    return at


def _names(tokens: Iterable[str]) -> frozenset[str]:
    """Names among tokens, and those in directives."""
    return frozenset(name for token in tokens if token[:1] not in "\"'" for name in _NAME.findall(token))


def _digest(tokens: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(tokens).encode()).hexdigest()
