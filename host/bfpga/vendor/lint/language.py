"""Rules on the language: what has no hardware, or another meaning in another compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bfpga.vendor.finding import Finding
from bfpga.vendor.lint.source import SourceText
from bfpga.vendor.lint.unit import Call, Function, Unit

_ALLOCATORS = {"malloc", "calloc", "realloc", "free", "alloca", "aligned_alloc", "posix_memalign"}
_DYNAMIC_TYPES = {
    "vector", "string", "basic_string", "deque", "list", "forward_list", "map", "multimap", "set", "multiset",
    "unordered_map", "unordered_set", "function", "unique_ptr", "shared_ptr", "make_unique", "make_shared", "queue",
    "stack", "priority_queue", "stringstream", "ostringstream", "istringstream", "to_string",
}  # fmt: skip
_INPUT_OUTPUT = {
    "printf", "fprintf", "sprintf", "snprintf", "vprintf", "puts", "putchar", "fputs", "fopen", "fclose", "fread",
    "fwrite", "scanf", "fscanf", "sscanf", "getchar", "fgets", "cout", "cerr", "clog", "cin", "ifstream", "ofstream",
    "fstream", "exit", "abort", "system", "getenv", "time", "clock",
}  # fmt: skip
_HOST_NAMES = _ALLOCATORS | _DYNAMIC_TYPES | _INPUT_OUTPUT
#: Of the standard library and of POSIX; `pthread_` and `thrd_` begin more of them.
_THREADS = {
    "thread", "jthread", "this_thread", "async", "future", "shared_future", "promise", "packaged_task", "mutex",
    "recursive_mutex", "timed_mutex", "shared_mutex", "lock_guard", "unique_lock", "shared_lock", "scoped_lock",
    "condition_variable", "condition_variable_any", "atomic", "call_once", "once_flag", "fork", "sem_t",
}  # fmt: skip
_RULES_OF_WORDS = (
    ("thread", r"\bthread_local\b", "a variable of a thread has no hardware", "give every process its own registers"),
    ("goto", r"\bgoto\b", "a jump has no schedule", "use a loop or a branch"),
    ("exception", r"\b(?:try|catch|throw)\b", "an exception has no hardware", "return a status"),
    ("virtual", r"\b(?:virtual|dynamic_cast|typeid)\b", "the type is known at run time only", "use a tag type"),
    (
        "long",
        r"(?<!\blong )\blong\b(?!\s+(?:(?:unsigned|signed)\s+)?(?:long|double)\b)",
        "`long` has 4 or 8 bytes, as the compiler likes",
        "use int32_t, int64_t or long long",
    ),
    (
        "long",
        r"(?<![\w.'])(?:0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)(?:[uU][lL]|[lL][uU]?)(?![\w.])",
        "a literal of type `long` has 4 or 8 bytes, as the compiler likes",
        "use the suffix LL or ULL",
    ),
    (
        "floating-point",
        r"\b(?:float|double)\b",
        "a floating point type in a kernel",
        "use integers; the host computes in floating point",
    ),
    (
        "floating-point",
        r"(?<![\w.'])(?:\d[\d']*\.\d*|\.\d+|\d[\d']*(?=[eE][-+]?\d))(?:[eE][-+]?\d+)?[fFlL]?(?![\w.])",
        "a floating point number in a kernel",
        "use an integer, scaled if need be",
    ),
)
_WORDS = [(rule, re.compile(pattern.encode()), problem, remedy) for rule, pattern, problem, remedy in _RULES_OF_WORDS]
_LITERAL = re.compile(rb"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'|^[ \t]*#[^\n]*", re.MULTILINE)
#: Template parameters and references of arrays are no pointers, so only these kinds lead to a pointed-to function.
_ARRAYS = {"CONSTANTARRAY", "INCOMPLETEARRAY", "DEPENDENTSIZEDARRAY"}
_DECLARATIONS = {"VAR_DECL", "PARM_DECL", "FIELD_DECL", "TYPEDEF_DECL", "TYPE_ALIAS_DECL"}
#: Nodes that name something, and all that are checked.
_NAMES = {"DECL_REF_EXPR", "TYPE_REF", "TEMPLATE_REF", "OVERLOADED_DECL_REF"}
_CHECKED = {"CXX_NEW_EXPR", "CXX_DELETE_EXPR", "CALL_EXPR"} | _NAMES | _DECLARATIONS


def check_language(unit: Unit) -> Iterator[Finding]:
    """Every rule on the language."""
    for source in unit.sources.values():
        yield from _check_words(source)
    for source, kind, cursor in unit.cursors:
        if kind in _CHECKED:
            yield from _check_node(source, kind, cursor)
    yield from _check_recursion(unit)


def _check_words(source: SourceText) -> Iterator[Finding]:
    code = _LITERAL.sub(lambda match: b" " * len(match[0]), source.code)
    for rule, pattern, problem, remedy in _WORDS:
        for match in pattern.finditer(code):
            if not source.is_skipped(match.start()):
                yield Finding(source.path, source.line_of(match.start()), rule, problem, remedy)


def _check_node(source: SourceText, kind: str, cursor: Any) -> Iterator[Finding]:
    if kind in ("CXX_NEW_EXPR", "CXX_DELETE_EXPR"):
        what = "new" if kind == "CXX_NEW_EXPR" else "delete"
        yield _memory(source, cursor, f"`{what}` needs memory that grows")
    elif kind in _NAMES:
        yield from _check_reference(source, cursor)
    elif kind in _DECLARATIONS and _points_to_function(cursor):
        problem = f"`{cursor.spelling}` is a pointer to a function or member"
        yield _at(source, cursor, "function-pointer", problem, "choose the function by a tag type")
    elif kind == "CALL_EXPR" and cursor.type.get_canonical().kind.name in ("FLOAT", "DOUBLE", "LONGDOUBLE"):
        problem = f"`{cursor.spelling}` gives a floating point number"
        yield _at(source, cursor, "floating-point", problem, "use integers")


def _check_reference(source: SourceText, cursor: Any) -> Iterator[Finding]:
    name = str(cursor.spelling).removeprefix("class ").removeprefix("struct ").split("::")[-1].split("<")[0]
    threads = name in _THREADS or name.startswith(("pthread_", "thrd_"))
    if not (threads or name in _HOST_NAMES) or not _is_standard(cursor):
        return
    if threads:
        remedy = "processes that run at once are functions of a dataflow region"
        yield _at(source, cursor, "thread", f"`{name}` has no hardware", remedy)
    elif name in _INPUT_OUTPUT:
        remedy = "put it under `#ifndef __SYNTHESIS__`"
        yield _at(source, cursor, "input-output", f"`{name}` has no hardware", remedy)
    else:
        yield _memory(source, cursor, f"`{name}` needs memory that grows")


def _is_standard(cursor: Any) -> bool:
    """Whether a name comes from the standard headers; a member or function of ours may be called `list`."""
    target = cursor.referenced
    if target is None:
        return False
    location = target.location
    return location.file is None or bool(location.is_in_system_header)


def _points_to_function(cursor: Any) -> bool:
    declared = cursor.type if cursor.kind.name.endswith(("VAR_DECL", "PARM_DECL", "FIELD_DECL")) else None
    declared = (declared or cursor.underlying_typedef_type).get_canonical()
    while declared.kind.name in _ARRAYS:
        declared = declared.get_array_element_type().get_canonical()
    if declared.kind.name == "MEMBERPOINTER":
        return True
    pointee = declared.get_pointee().get_canonical() if declared.kind.name == "POINTER" else None
    return pointee is not None and pointee.kind.name in ("FUNCTIONPROTO", "FUNCTIONNOPROTO")


def _at(source: SourceText, cursor: Any, rule: str, problem: str, remedy: str) -> Finding:
    return Finding(source.path, source.line_of(cursor.extent.start.offset), rule, problem, remedy)


def _memory(source: SourceText, cursor: Any, problem: str) -> Finding:
    return _at(source, cursor, "dynamic-memory", problem, "use an array whose size is a constant")


def _check_recursion(unit: Unit) -> Iterator[Finding]:
    """Calls that lead back to the caller, each circle once.

    A call with `<...>` may be another instance of a template and is left out.
    """
    circles: set[frozenset[Function]] = set()
    for function in unit.functions:
        for call in function.calls:
            path = _way_back(unit, call, function) if not function.compile_time else None
            if path is not None and frozenset(path) not in circles:
                circles.add(frozenset(path))
                way = " -> ".join(f"`{step.name}`" for step in (function, *path))
                problem = f"`{function.name}` calls itself: {way}"
                yield _at(function.source, call.cursor, "recursion", problem, "write a loop")


def _callees(unit: Unit, call: Call) -> list[Function]:
    """Functions a call surely enters, by resolved names only."""
    if call.explicit:
        return []
    return [function for key in call.targets if (function := unit.function(key)) is not None]


def _way_back(unit: Unit, call: Call, start: Function) -> list[Function] | None:
    """The functions from ``call`` to ``start``, or None if it is not reached."""
    ways = [[callee] for callee in _callees(unit, call)]
    seen: set[Function] = set()
    while ways:
        way = ways.pop(0)
        if way[-1] is start:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [[*way, callee] for inner in way[-1].calls for callee in _callees(unit, inner)]
    return None
