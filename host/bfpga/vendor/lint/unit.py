"""A translation unit as the rules read it: its functions, loops, calls and variables, each with its place."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from bfpga.vendor.lint import parser
from bfpga.vendor.lint.source import Pragma, SourceText

#: A declaration's identity: file and byte.
Key = tuple[str, int]

LOOPS = {"FOR_STMT", "WHILE_STMT", "DO_STMT", "CXX_FOR_RANGE_STMT"}
FUNCTIONS = {"FUNCTION_DECL", "FUNCTION_TEMPLATE", "CXX_METHOD", "CONSTRUCTOR", "DESTRUCTOR", "CONVERSION_FUNCTION"}
RECORDS = {"STRUCT_DECL", "CLASS_DECL", "CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION", "UNION_DECL"}
_Placed = TypeVar("_Placed", bound="Region")
#: The name that a callee ends with, before its template arguments.
LAST_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:<.*>)?\s*$", re.DOTALL)


@dataclass(eq=False)
class Region:
    """A function or a loop: the file and the bytes it covers; ``body`` is where its block begins."""

    source: SourceText
    cursor: Any
    begin: int
    end: int
    body: int
    pragmas: list[Pragma] = field(default_factory=list)

    @property
    def line(self) -> int:
        """The line of the first byte."""
        return self.source.line_of(self.begin)

    def holds(self, offset: int) -> bool:
        """Whether a byte lies inside the block."""
        return self.body <= offset < self.end

    def has_pragma(self, *names: str) -> bool:
        """Whether one of these pragmas (upper case) that is not switched off stands directly here."""
        words = (pragma.text.upper().split() for pragma in self.pragmas)
        return any(word and word[0] in names and "OFF" not in word and "OFF=TRUE" not in word for word in words)


@dataclass(eq=False)
class Function(Region):
    """A function with a body. ``compile_time``: a constexpr function, which no hardware is built from."""

    name: str = ""
    key: Key = ("", 0)
    record: Key | None = None
    compile_time: bool = False
    calls: list[Call] = field(default_factory=list)


@dataclass(eq=False)
class Loop(Region):
    """A loop. ``label``: the LABEL_STMT it is the body of."""

    label: Any = None
    outer: Loop | None = None
    function: Function | None = None

    @property
    def title(self) -> str:
        """The loop in a sentence."""
        return f"loop `{self.label.spelling}`" if self.label is not None else "the loop"


@dataclass(eq=False)
class Call:
    """A call: the functions it may reach (none if only instantiation tells), the name, whether it has `<...>`."""

    cursor: Any
    offset: int
    name: str
    targets: tuple[Key, ...]
    resolved: bool
    explicit: bool
    loop: Loop | None


@dataclass(frozen=True)
class Variable:
    """A variable and the bytes of its file where it is visible."""

    name: str
    cursor: Any
    path: str
    begin: int
    end: int


@dataclass
class Record:
    """The members of a class, and whether it has a base whose members only instantiation tells."""

    members: dict[str, Any] = field(default_factory=dict)
    has_base: bool = False


@dataclass(frozen=True)
class _Context:
    source: SourceText
    scope: tuple[int, int] | None = None
    function: Function | None = None
    loop: Loop | None = None
    record: Key | None = None
    label: Any = None


class Unit:
    """What the rules need of a source file, or of several in one directory, and the project's headers they include."""

    def __init__(self, paths: Sequence[Path], include_directories: Sequence[Path], defines: Sequence[str] = ()) -> None:
        self.path = str(paths[0])
        self.tree = parser.parse(paths, include_directories, defines)
        names = parser.project_files(self.tree, paths, include_directories)
        self.sources = {name: SourceText.read(name, parser.skipped_ranges(self.tree, name)) for name in names}
        self.functions: list[Function] = []
        self.loops: list[Loop] = []
        self.variables: dict[str, list[Variable]] = defaultdict(list)
        self.global_names: dict[str, Any] = {}
        self.records: dict[Key, Record] = defaultdict(Record)
        #: Every node with its source and the name of its kind, which libclang's binding takes long to find.
        self.cursors: list[tuple[SourceText, str, Any]] = []
        for cursor in self.tree.cursor.get_children():
            file = cursor.location.file
            if file is not None and file.name in self.sources:
                self._visit(cursor, _Context(self.sources[file.name]))
        self._by_key = {function.key: function for function in self.functions}
        self._by_name = defaultdict(list)
        for function in self.functions:
            self._by_name[function.name].append(function)
        self._place_pragmas()

    def reached(self, call: Call) -> list[Function]:
        """The functions a call may enter; one that only instantiation tells may enter any of that name."""
        if call.resolved:
            return [self._by_key[key] for key in call.targets if key in self._by_key]
        return self._by_name.get(call.name, [])

    def function(self, key: Key) -> Function | None:
        """The function with a body at ``key``."""
        return self._by_key.get(key)

    def enclosing_function(self, source: SourceText, offset: int) -> Function | None:
        """The innermost function whose body holds a byte."""
        return _innermost(self.functions, source, offset)

    def enclosing_loop(self, source: SourceText, offset: int) -> Loop | None:
        """The innermost loop whose body holds a byte."""
        return _innermost(self.loops, source, offset)

    def _place_pragmas(self) -> None:
        for source in self.sources.values():
            for pragma in source.pragmas:
                region = self.enclosing_loop(source, pragma.offset) or self.enclosing_function(source, pragma.offset)
                if region is not None:
                    region.pragmas.append(pragma)

    def _visit(self, root: Any, context: _Context) -> None:
        """Walks a declaration in the order of the text; with a stack of its own, as expressions may nest deeply."""
        waiting = [(root, context)]
        while waiting:
            cursor, around = waiting.pop()
            kind, children = cursor.kind.name, list(cursor.get_children())
            self.cursors.append((around.source, kind, cursor))
            inside = self._enter(kind, cursor, children, around)
            label = cursor if kind == "LABEL_STMT" else None
            inside = inside if inside.label is label else replace(inside, label=label)
            waiting += [(child, inside) for child in reversed(children)]

    def _enter(self, kind: str, cursor: Any, children: Sequence[Any], context: _Context) -> _Context:
        """Notes what a node declares or calls; the context of its children."""
        if kind in FUNCTIONS:
            return self._enter_function(cursor, children, context)
        if kind in RECORDS:
            return self._enter_record(cursor, context)
        if kind in LOOPS:
            return self._enter_loop(cursor, children, context)
        if kind == "COMPOUND_STMT":
            return replace(context, scope=_extent(cursor))
        if kind == "CALL_EXPR" and context.function is not None:
            context.function.calls.append(_call(cursor, children, context))
        elif kind in ("VAR_DECL", "PARM_DECL", "FIELD_DECL"):
            self._declare(cursor, context)
        elif kind == "CXX_BASE_SPECIFIER" and context.record is not None:
            self.records[context.record].has_base = True
        return context

    def _enter_function(self, cursor: Any, children: Sequence[Any], context: _Context) -> _Context:
        begin, end = _extent(cursor)
        blocks = [child for child in children if child.kind.name in ("COMPOUND_STMT", "CXX_TRY_STMT")]
        body = _extent(blocks[-1])[0] if blocks else end
        record = context.record
        parent = cursor.semantic_parent
        if record is None and parent is not None and parent.kind.name in RECORDS:
            record = key_of(parent)
        head = context.source.code[begin:body]
        function = Function(
            context.source, cursor, begin, end, body,
            name=str(cursor.spelling).split("<")[0], key=key_of(cursor), record=record,
            compile_time=re.search(rb"\bconstexpr\b", head) is not None,
        )  # fmt: skip
        if blocks:
            self.functions.append(function)
        return replace(context, function=function, scope=(begin, end), loop=None, record=record)

    def _enter_record(self, cursor: Any, context: _Context) -> _Context:
        return replace(context, record=key_of(cursor), function=None, loop=None, scope=_extent(cursor))

    def _enter_loop(self, cursor: Any, children: Sequence[Any], context: _Context) -> _Context:
        begin, end = _extent(cursor)
        block = children[0] if cursor.kind.name == "DO_STMT" else children[-1]
        loop = Loop(
            context.source, cursor, begin, end, _extent(block)[0],
            label=context.label, outer=context.loop, function=context.function,
        )  # fmt: skip
        self.loops.append(loop)
        return replace(context, loop=loop, scope=(begin, end))

    def _declare(self, cursor: Any, context: _Context) -> None:
        name = str(cursor.spelling)
        if context.function is not None and context.scope is not None:
            self.variables[name].append(Variable(name, cursor, context.source.path, *context.scope))
        elif context.record is not None:
            self.records[context.record].members[name] = cursor
        else:
            self.global_names[name] = cursor


def key_of(cursor: Any) -> Key:
    """Where a function or class is defined, or declared if its definition is not seen."""
    location = (cursor.get_definition() or cursor).location
    return (location.file.name if location.file else "", location.offset)


def text_of(source: SourceText, cursor: Any) -> str:
    """A node's text without comments."""
    begin, end = _extent(cursor)
    return source.code[begin:end].decode(errors="replace")


def _extent(cursor: Any) -> tuple[int, int]:
    extent = cursor.extent
    return extent.start.offset, extent.end.offset


def _innermost(regions: Sequence[_Placed], source: SourceText, offset: int) -> _Placed | None:
    around = [region for region in regions if region.source is source and region.holds(offset)]
    return max(around, key=lambda region: region.begin, default=None)


def _call(cursor: Any, children: Sequence[Any], context: _Context) -> Call:
    callee = text_of(context.source, children[0]) if children else ""
    found = LAST_NAME.search(callee)
    referenced = cursor.referenced
    name = str(cursor.spelling) or (found[1] if found else "")
    targets = (key_of(referenced),) if referenced is not None else tuple(_overloads(children))
    return Call(
        cursor, _extent(cursor)[0], name.split("<")[0], targets, referenced is not None, callee.rstrip().endswith(">"),
        context.loop,
    )  # fmt: skip


def _overloads(children: Sequence[Any]) -> Iterator[Key]:
    """The only function an unresolved name can mean; nothing if there are several."""
    library = parser.load_clang().conf.lib
    for reference in (child for head in children[:1] for child in head.get_children()):
        if reference.kind.name == "OVERLOADED_DECL_REF" and library.clang_getNumOverloadedDecls(reference) == 1:
            yield key_of(library.clang_getOverloadedDecl(reference, 0))
