"""Rule on memories: what one iteration of a pipelined loop writes and reads needs a waiver, or the loop waits for it.

The body of a loop is followed into the functions that it calls, with the objects that they are called on and given, so
that two objects of one class are two memories. Objects whose class only instantiation tells are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bfpga.vendor.finding import Finding
from bfpga.vendor.lint.constants import is_constant, operator, unrolled_variables
from bfpga.vendor.lint.pragmas import Argument, split_arguments
from bfpga.vendor.lint.source import SourceText
from bfpga.vendor.lint.unit import LAST_NAME, RECORDS, Function, Key, Loop, Unit, key_of, text_of

_ARRAYS = ("CONSTANTARRAY", "DEPENDENTSIZEDARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")
_REFERENCES = ("LVALUEREFERENCE", "RVALUEREFERENCE", "POINTER")
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="}
#: Arrays of so few elements are registers without a pragma: the default of `config_array_partition` (UG1399).
_REGISTERS = 4
#: Functions inside functions that are followed.
_DEPTH = 24


@dataclass(frozen=True)
class _Object:
    """Something that lives in memory or registers: where it is reached from, its declaration, its class."""

    path: str
    declaration: Any
    kind: str | None


#: A branch of an `if` that is reached over these calls (bytes of the files), and which of both it is.
_Arm = tuple[tuple[int, ...], bool]


@dataclass(frozen=True)
class _Access:
    """A read or write: file and line, and the branches it is in."""

    place: str
    writes: bool
    arms: frozenset[_Arm]

    def excludes(self, other: _Access) -> bool:
        """Whether both never happen in one iteration: they are in the two branches of an `if`."""
        return any((branch, not arm) in other.arms for branch, arm in self.arms)


@dataclass
class _Accesses:
    """What a loop does with a memory, in the order of the text."""

    memory: _Object
    found: list[_Access] = field(default_factory=list)
    computed: bool = False  # an index is no constant

    def pair(self, write_first: bool) -> tuple[_Access, _Access] | None:
        """A write and a read of one iteration, None without any. ``write_first``: the read comes after the write."""
        for at, read in enumerate(self.found):
            for write in self.found[:at] if write_first else self.found:
                if write.writes and not read.writes and not write.excludes(read):
                    return write, read
        return None


@dataclass(frozen=True)
class _Frame:
    """A function that is followed: its object, what its parameters stand for, the calls and branches to its place."""

    this: _Object | None
    bound: Mapping[Key, _Object]
    calls: tuple[int, ...] = ()
    arms: frozenset[_Arm] = frozenset()
    #: Functions on the way to it. Kernels have no recursion: a name that leads back is another function of that name.
    entered: frozenset[Key] = frozenset()


@dataclass
class _Memories:
    """What pragmas say about arrays, by where these are declared."""

    waived: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    partitioned: dict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))  # dimensions; 0: all


def check_accesses(unit: Unit) -> Iterator[Finding]:
    """Memories that a pipelined loop writes and reads in one iteration without a waiver."""
    walker = _Walker(unit)
    for loop in unit.loops:
        if loop.has_pragma("PIPELINE") and loop.function is not None:
            for accesses in walker.of_loop(loop):
                finding = _judge(walker, loop, accesses)
                if finding is not None:
                    yield finding


def _judge(walker: _Walker, loop: Loop, accesses: _Accesses) -> Finding | None:
    if not accesses.computed or walker.is_register(accesses.memory):
        return None
    waived = walker.waivers(accesses.memory)
    name = f"memory `{accesses.memory.declaration.spelling}`"
    before, any_order = accesses.pair(write_first=True), accesses.pair(write_first=False)
    if before is not None and "intra" not in waived:
        problem = f"{loop.title} writes {name} ({before[0].place}) and then reads it ({before[1].place})"
        remedy = "read first, or say with `DEPENDENCE ... type=intra direction=RAW` that the words differ"
    elif any_order is not None and "inter" not in waived:
        problem = f"{loop.title} reads {name} ({any_order[1].place}) and writes it ({any_order[0].place})"
        remedy = "say with `DEPENDENCE ... type=inter` which iterations meet the same word"
    else:
        return None
    problem += " in one iteration"
    return Finding(loop.source.path, loop.line, "memory-order", problem, remedy)


class _Walker:
    """Follows loops of a unit."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.kinds = {
            key_of(cursor): _plain(cursor.spelling) for _, kind, cursor in unit.cursors if kind in RECORDS
        }
        self.methods: dict[tuple[str | None, str], list[Function]] = defaultdict(list)
        for function in unit.functions:
            self.methods[self.kind_of_function(function), function.name].append(function)
        self.members: dict[tuple[str, str], Any] = {}
        for key, record in unit.records.items():
            for name, cursor in record.members.items():
                self.members.setdefault((self.kinds.get(key, ""), name), cursor)
        self.using = self._using_arrays()
        self.sources = {source.path: source for source in unit.sources.values()}
        self.pragmas = self._read_pragmas()
        self.accesses: dict[str, _Accesses] = {}
        self.loop: Loop | None = None

    def _using_arrays(self) -> set[str]:
        """Names of the functions that index an array, or call a function that does; no other needs to be followed."""
        bodies = {function: function.source.code[function.body : function.end] for function in self.unit.functions}
        callers: dict[str, set[str]] = defaultdict(set)
        for function in self.unit.functions:
            for call in function.calls:
                callers[call.name].add(function.name)
        waiting = [function.name for function, body in bodies.items() if b"[" in body]
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += callers[name]
        return found

    def of_loop(self, loop: Loop) -> list[_Accesses]:
        """The memories of a loop."""
        self.accesses, self.loop = {}, loop
        assert loop.function is not None
        kind = self.kind_of_function(loop.function)
        frame = _Frame(_Object("this", None, kind) if kind else None, {})
        self._follow(loop.source, loop.cursor, frame)
        return list(self.accesses.values())

    def kind_of_function(self, function: Function) -> str | None:
        """Name of the class of a member function."""
        return self.kinds.get(function.record) if function.record is not None else None

    def waivers(self, memory: _Object) -> set[str]:
        """`intra`, `inter`: what pragmas say about the dependences of a memory."""
        return self.pragmas.waived.get(key_of(memory.declaration), set())

    def is_register(self, memory: _Object) -> bool:
        """Whether an array is no memory: completely partitioned, or small."""
        declared = _referenced(memory.declaration.type)
        count, dimensions = 1, 0
        while declared.kind.name in _ARRAYS:
            count *= max(int(declared.get_array_size()), 0) if declared.kind.name == "CONSTANTARRAY" else _REGISTERS + 1
            declared, dimensions = declared.get_array_element_type().get_canonical(), dimensions + 1
        parts = self.pragmas.partitioned.get(key_of(memory.declaration), set())
        return count <= _REGISTERS or 0 in parts or len(parts) >= dimensions

    def _read_pragmas(self) -> _Memories:
        found = _Memories()
        for source in self.unit.sources.values():
            for pragma in source.pragmas:
                name, _, text = pragma.text.partition(" ")
                function = self.unit.enclosing_function(source, pragma.offset)
                if name.upper() not in ("DEPENDENCE", "ARRAY_PARTITION") or function is None:
                    continue
                arguments = split_arguments(text)
                paths = [argument.value or "" for argument in arguments if argument.option.lower() == "variable"]
                for path in (path for value in paths for path in value.split(",")):
                    declaration = self._named(source, pragma.offset, function, path)
                    if declaration is None:
                        continue
                    if name.upper() == "DEPENDENCE":
                        found.waived[key_of(declaration)] |= _waived(arguments)
                    elif any("complete" in (argument.option, argument.value) for argument in arguments):
                        found.partitioned[key_of(declaration)].add(_dimension(arguments))
        return found

    def _named(self, source: SourceText, offset: int, function: Function, path: str) -> Any:
        """The declaration that a pragma names: a local variable, a member, or a member of one of these."""
        first, *rest = path.removeprefix("this->").replace("->", ".").split(".")
        places = [
            variable
            for variable in self.unit.variables.get(first, [])
            if variable.path == source.path and variable.begin <= offset < variable.end
        ]
        found = max(places, key=lambda variable: variable.begin).cursor if places else None
        found = found or self.members.get((self.kind_of_function(function) or "", first))
        for name in rest:
            found = self.members.get((self._kind(found.type) or "", name)) if found is not None else None
        return found

    # What code does

    def _follow(self, source: SourceText, cursor: Any, frame: _Frame) -> None:
        """The accesses of a statement or expression, in the order in which they happen."""
        kind = cursor.kind.name
        if kind in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR"):
            sign, operands = operator(source, cursor)
            if sign in _ASSIGNMENTS and len(operands) == 2:
                self._follow(source, operands[1], frame)
                self._assign(source, operands[0], frame, reads=sign != "=")
                return
        if kind == "UNARY_OPERATOR" and text_of(source, cursor).strip("()").startswith(("++", "--")):
            self._assign(source, next(iter(cursor.get_children())), frame, reads=True)
            return
        if kind == "CALL_EXPR":
            self._call(source, cursor, frame)
            return
        if kind in ("IF_STMT", "CONDITIONAL_OPERATOR"):
            condition, *branches = cursor.get_children()
            self._follow(source, condition, frame)
            branch = (*frame.calls, cursor.extent.start.offset)
            for arm, part in zip((True, False), branches, strict=False):
                self._follow(source, part, replace(frame, arms=frame.arms | {(branch, arm)}))
            return
        if kind == "ARRAY_SUBSCRIPT_EXPR":
            self._access(source, cursor, frame, writes=False)
            return
        for child in cursor.get_children():
            self._follow(source, child, frame)

    def _assign(self, source: SourceText, target: Any, frame: _Frame, reads: bool) -> None:
        place = _subscripted(target)
        if place is None:
            self._follow(source, target, frame)
            return
        if reads:
            self._access(source, place, frame, writes=False)
        self._access(source, place, frame, writes=True)

    def _access(self, source: SourceText, subscript: Any, frame: _Frame, writes: bool) -> None:
        """An array whose element is used: the outermost one of a chain of members and indices."""
        array, indices = subscript, []
        while array.kind.name == "ARRAY_SUBSCRIPT_EXPR":
            children = list(array.get_children())
            indices += children[1:]
            array = _inner(children[0])
        for index in indices:
            self._follow(source, index, frame)
        around = _subscripted(array)
        if around is not None:
            self._access(source, around, frame, writes)
            return
        memory = self._object(array, frame)
        if memory is None or not self._is_memory(memory):
            return
        loop = self.unit.enclosing_loop(source, subscript.extent.start.offset)
        known = unrolled_variables(loop)
        place = f"{source.path.rsplit('/', 1)[-1]}:{source.line_of(subscript.extent.start.offset)}"
        noted = self.accesses.setdefault(memory.path, _Accesses(memory))
        noted.computed = noted.computed or any(not is_constant(source, index, known) for index in indices)
        noted.found.append(_Access(place, writes, frame.arms))

    def _is_memory(self, memory: _Object) -> bool:
        """Members, statics, and local arrays that live longer than an iteration."""
        declaration = memory.declaration
        if declaration is None or _referenced(declaration.type).kind.name not in _ARRAYS:
            return False
        if declaration.kind.name == "FIELD_DECL":
            return not memory.path.startswith("local ")
        assert self.loop is not None
        assert self.loop.function is not None
        if declaration.kind.name != "VAR_DECL" or declaration.type.is_const_qualified():
            return False
        file, offset = key_of(declaration)
        function = self.loop.function
        inside = file == function.source.path and function.holds(offset)
        return declaration.storage_class.name == "STATIC" or (inside and not self.loop.holds(offset))

    # Objects

    def _object(self, cursor: Any, frame: _Frame) -> _Object | None:
        """What an expression names."""
        cursor = _inner(cursor)
        kind = cursor.kind.name
        if kind == "CXX_THIS_EXPR":
            return frame.this
        if kind == "ARRAY_SUBSCRIPT_EXPR":
            return self._object(next(iter(cursor.get_children())), frame)
        if kind == "DECL_REF_EXPR" and cursor.referenced is not None:
            key = key_of(cursor.referenced)
            if key in frame.bound:
                return frame.bound[key]
            local = "local " if cursor.referenced.kind.name == "VAR_DECL" else "given "
            return _Object(f"{local}{key}", cursor.referenced, self._kind(cursor.referenced.type))
        if kind != "MEMBER_REF_EXPR":
            return None
        bases = [child for child in cursor.get_children() if child.kind.is_expression()]
        base = self._object(bases[0], frame) if bases else frame.this
        if base is None:
            return None
        declaration = cursor.referenced or self.members.get((base.kind or "", self._name(cursor)))
        if declaration is None or declaration.kind.name != "FIELD_DECL":
            return None
        return _Object(f"{base.path}.{declaration.spelling}", declaration, self._kind(declaration.type))

    def _name(self, member: Any) -> str:
        """The name behind the point, also where libclang gives none because only instantiation tells the member."""
        found = LAST_NAME.search(text_of(self.sources[member.location.file.name], member))
        return str(member.spelling) or (found[1] if found else "")

    def _kind(self, declared: Any) -> str | None:
        """Name of a class of the project, through references, pointers and arrays."""
        declared = _referenced(declared)
        while declared.kind.name in _ARRAYS:
            declared = declared.get_array_element_type().get_canonical()
        owner = declared.get_declaration()
        return self.kinds.get(key_of(owner)) if owner.kind.name in RECORDS else None

    # Calls

    def _call(self, source: SourceText, cursor: Any, frame: _Frame) -> None:
        children = list(cursor.get_children())
        if not children:
            return
        callee, arguments = children[0], children[1:]
        receivers = [child for child in callee.get_children() if child.kind.is_expression()]
        for part in (*receivers[:1], *arguments):
            self._follow(source, part, frame)
        if len(frame.calls) >= _DEPTH:
            return
        given = [self._object(argument, frame) for argument in arguments]
        member = callee.kind.name == "MEMBER_REF_EXPR"
        this = self._object(receivers[0], frame) if member and receivers else frame.this
        for function in self._targets(source, cursor, callee, this, given):
            entered = key_of(function.cursor)
            if function.name not in self.using or entered in frame.entered:
                continue
            parameters = [child for child in function.cursor.get_children() if child.kind.name == "PARM_DECL"]
            bound = {
                key_of(parameter): thing
                for parameter, thing in zip(parameters, given, strict=False)
                if thing is not None and (thing.kind is not None or _referenced(parameter.type).kind.name in _ARRAYS)
            }
            calls = (*frame.calls, cursor.extent.start.offset)
            inside = _Frame(this, bound, calls, frame.arms, frame.entered | {entered})
            for block in function.cursor.get_children():
                if block.kind.name == "COMPOUND_STMT":
                    self._follow(function.source, block, inside)

    def _targets(
        self, source: SourceText, cursor: Any, callee: Any, this: _Object | None, given: Sequence[_Object | None]
    ) -> list[Function]:
        """The functions that a call may enter."""
        if cursor.referenced is not None:
            function = self.unit.function(key_of(cursor.referenced))
            return [function] if function is not None else []
        found_name = LAST_NAME.search(text_of(source, callee))
        name = found_name[1] if found_name else _plain(cursor.spelling)
        scopes = [child for child in callee.get_children() if child.kind.name in ("TYPE_REF", "TEMPLATE_REF")]
        if scopes and _is_parameter(scopes[0]):
            found = [function for function in self.unit.functions if function.name == name]
            return [function for function in found if self._takes(function, given)]
        if this is not None and this.kind is not None and (this.kind, name) in self.methods:
            return self.methods[this.kind, name]
        return self.methods.get((None, name), []) if callee.kind.name != "MEMBER_REF_EXPR" else []

    def _takes(self, function: Function, given: Sequence[_Object | None]) -> bool:
        """Whether the arguments whose classes are known fit the parameters, and at least one does."""
        parameters = [child for child in function.cursor.get_children() if child.kind.name == "PARM_DECL"]
        pairs = [
            (thing.kind, self._kind(parameter.type))
            for parameter, thing in zip(parameters, given, strict=False)
            if thing is not None and thing.kind is not None
        ]
        return len(parameters) == len(given) and bool(pairs) and all(a == b for a, b in pairs)


def _waived(arguments: Sequence[Argument]) -> set[str]:
    """Which dependences a DEPENDENCE pragma speaks of: within an iteration, between iterations."""
    words = {word.lower() for argument in arguments for word in (argument.option, argument.value or "")}
    if "intra" in words:
        return {"intra"} if "war" not in words and "waw" not in words else set()
    return {"inter"}


def _dimension(arguments: Sequence[Argument]) -> int:
    """The dimension that an ARRAY_PARTITION is about; 0: all."""
    values = [argument.value or "" for argument in arguments if argument.option.lower() == "dim"]
    return int(values[0]) if values and values[0].isdigit() else 1


def _is_parameter(scope: Any) -> bool:
    """Whether the class before `::` is a parameter of a template."""
    return scope.referenced is not None and scope.referenced.kind.name == "TEMPLATE_TYPE_PARAMETER"


def _plain(name: str) -> str:
    return str(name).split("<")[0]


def _referenced(declared: Any) -> Any:
    declared = declared.get_canonical()
    while declared.kind.name in _REFERENCES:
        declared = declared.get_pointee().get_canonical()
    return declared


def _inner(cursor: Any) -> Any:
    """An expression without brackets and conversions."""
    while cursor.kind.name in ("UNEXPOSED_EXPR", "PAREN_EXPR"):
        children = list(cursor.get_children())
        if len(children) != 1:
            break
        cursor = children[0]
    return cursor


def _subscripted(cursor: Any) -> Any:
    """The innermost element of an array in a chain of members, None without any."""
    cursor = _inner(cursor)
    while cursor.kind.name == "MEMBER_REF_EXPR":
        bases = [child for child in cursor.get_children() if child.kind.is_expression()]
        if not bases:
            return None
        cursor = _inner(bases[0])
    return cursor if cursor.kind.name == "ARRAY_SUBSCRIPT_EXPR" else None
