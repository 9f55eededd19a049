"""Debug information: where an instruction comes from, and what the parts of a variable are called."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from bfpga.synthesis.body import Place
from bfpga.synthesis.meaning import source_name

_FIELD = re.compile(r'(\w+): ("(?:[^"\\]|\\.)*"|!\d+|[^,()]+|\([^)]*\))')


@functools.lru_cache(maxsize=1 << 14)
def _fields(text: str) -> Mapping[str, str]:
    """The fields of a node, whose text is read once: walks through a type come by its members again and again."""
    inner = text[text.index("(") + 1 : text.rindex(")")]
    return {name: value.strip('"') for name, value in _FIELD.findall(inner)}


class Places:
    """Locations of a module's metadata."""

    def __init__(self, metadata: dict[int, str]) -> None:
        self._metadata = metadata
        self._places: dict[int, Place | None] = {}
        self._scopes: dict[int, tuple[str, str]] = {}

    def of(self, number: int) -> Place | None:
        """Place of a DILocation; None where there is none."""
        if number < 0 or number not in self._metadata:
            return None
        if number not in self._places:
            fields = _fields(self._metadata[number])
            file, function = self._scope(_reference(fields["scope"]))
            caller = self.of(_reference(fields["inlinedAt"])) if "inlinedAt" in fields else None
            self._places[number] = Place(file, int(fields["line"]), function, caller)
        return self._places[number]

    def _scope(self, number: int) -> tuple[str, str]:
        """File and function of a scope."""
        if number not in self._scopes:
            text = self._metadata[number]
            fields = _fields(text)
            file = self._file(fields.get("file", ""))
            if "DISubprogram(" in text:
                self._scopes[number] = file, _qualified(self._metadata, fields)
            else:
                outer_file, function = self._scope(_reference(fields["scope"]))
                self._scopes[number] = file or outer_file, function
        return self._scopes[number]

    def _file(self, reference: str) -> str:
        if not reference.startswith("!"):
            return ""
        name = _fields(self._metadata[_reference(reference)]).get("filename", "")
        return source_name(name)


def _reference(text: str) -> int:
    return int(text.lstrip("!"))


def _qualified(metadata: dict[int, str], fields: Mapping[str, str]) -> str:
    """`Class::function`, template arguments left out."""
    name = re.sub(r"<.*", "", fields.get("name", "?"))
    scope = fields.get("scope", "")
    if scope.startswith("!"):
        outer = metadata.get(_reference(scope), "")
        if "DICompositeType(" in outer:
            owner = re.sub(r"<.*", "", _fields(outer).get("name", ""))
            return f"{owner}::{name}" if owner else name
    return name


class VariableNames:
    """What is at an offset of a variable: "array_.walk_.pixel_[3].row", from the module as clang wrote it."""

    def __init__(self, metadata: dict[int, str]) -> None:
        self._metadata = metadata
        self._globals: dict[str, int | None] = {}
        self._borders: dict[tuple[int, int, int], list[int]] = {}

    def of_global(self, symbol: str) -> int | None:
        """Type of a global variable by its symbol (without @) as a metadata number."""
        if symbol not in self._globals:
            self._globals[symbol] = self._found_global(symbol)
        return self._globals[symbol]

    def _found_global(self, symbol: str) -> int | None:
        for text in self._metadata.values():
            if "DIGlobalVariable(" in text:
                fields = _fields(text)
                if (
                    fields.get("linkageName") == symbol
                    or fields.get("name") == symbol.rpartition(".")[2]
                    or (fields.get("name") and symbol.endswith(f"{len(fields['name'])}{fields['name']}"))
                ):
                    return _reference(fields["type"])
        return None

    def parameters(self, function: str) -> list[str]:
        """Names of a function's parameters by its linkage name."""
        scope = next(
            (
                n
                for n, text in self._metadata.items()
                if "DISubprogram(" in text and f'"{function}"' in text and "distinct" in text
            ),
            None,
        )
        found = {}
        for text in self._metadata.values():
            if "DILocalVariable(" in text:
                fields = _fields(text)
                if "arg" in fields and fields.get("scope") == f"!{scope}":
                    found[int(fields["arg"])] = fields.get("name", "")
        return [found[k] for k in sorted(found)]

    def path(self, kind: int, offset: int, size: int = 0) -> str:
        """Name of what is ``offset`` bytes into a type; of the whole part if that has ``size`` bytes or fewer."""
        return self._walk(kind, offset, size)[0]

    def exact_bits(self, kind: int, offset: int) -> tuple[int, bool] | None:
        """Bits of the integer ``offset`` bytes into a type, and whether it has a sign; None for no integer."""
        _, part, rest = self._walk(kind, offset, 0)
        text = self._metadata.get(part, "")
        if "DIBasicType(" not in text or rest:
            return None
        fields = _fields(text)
        encoding = fields.get("encoding", "")
        if encoding == "DW_ATE_boolean":
            return 1, False
        if encoding not in ("DW_ATE_signed", "DW_ATE_unsigned", "DW_ATE_signed_char", "DW_ATE_unsigned_char"):
            return None
        return int(fields.get("dataSize", fields["size"])), encoding.startswith("DW_ATE_signed")

    def borders(self, kind: int, offset: int, size: int) -> list[int]:
        """Offsets at which variables begin and end in the ``size`` bytes from ``offset`` on of a type."""
        key = kind, offset, size
        if key not in self._borders:
            self._borders[key] = self._found_borders(*key)
        return self._borders[key]

    def _found_borders(self, kind: int, offset: int, size: int) -> list[int]:
        found: dict[int, None] = {}
        position = offset
        while position < offset + size:
            _, part, rest = self._walk(kind, position, 0)
            if rest > 0 and "DICompositeType(" in self._metadata.get(part, ""):
                # Between the fields of a structure no variable is found, but the structure itself.
                position += 1
                continue
            end = position + max(1, self._size(part) - rest)
            found.update(dict.fromkeys(place for place in (position - rest, end) if offset <= place < offset + size))
            position = end
        return list(found)

    def element_bits(self, kind: int, offset: int, size: int) -> int:
        """Bits that carry something in the ``size`` bytes from ``offset`` on of a type; 0 where that is not known."""
        part = self._walk(kind, offset, size)[1]
        return self._total_bits(part) if self._size(part) == size else 0

    def _total_bits(self, kind: int) -> int:
        text = self._metadata.get(kind, "")
        if "DIDerivedType(" in text:
            base = _fields(text).get("baseType", "")
            return self._total_bits(_reference(base)) if base.startswith("!") else 0
        if "DIBasicType(" in text:
            exact = self.exact_bits(kind, 0)
            return exact[0] if exact else 8 * self._size(kind)
        if "enumeration_type" in text:
            return 8 * self._size(kind)
        if "array_type" in text:
            element = _reference(_fields(text)["baseType"])
            return self._total_bits(element) * (self._size(kind) // max(1, self._size(element)))
        members = (m for m in self._elements(text) if "DW_TAG_member" in m or "DW_TAG_inheritance" in m)
        return sum(
            self._total_bits(_reference(_fields(m)["baseType"])) for m in members if "DIFlagStaticMember" not in m
        )

    def _walk(self, kind: int, offset: int, size: int) -> tuple[str, int, int]:
        name = ""
        while True:
            text = self._metadata.get(kind, "")
            if name and size and self._size(kind) <= size:
                return name, kind, offset
            if "DIDerivedType(" in text:
                base = _fields(text).get("baseType", "")
                if not base.startswith("!") or "pointer_type" in text or "reference_type" in text:
                    return name, kind, offset
                kind = _reference(base)
                continue
            if "DICompositeType(" not in text:
                return name, kind, offset
            step = self._array_step(text, offset) if "array_type" in text else self._member_step(text, offset)
            if step is None:
                return name, kind, offset
            part, kind, offset = step
            name = part if not name else f"{name}{part}" if part.startswith("[") else f"{name}.{part}"

    def _elements(self, text: str) -> list[str]:
        fields = _fields(text)
        if "elements" not in fields:
            return []
        listed = self._metadata[_reference(fields["elements"])]
        return [self._metadata.get(int(n), "") for n in re.findall(r"!(\d+)", listed)]

    def _member_step(self, text: str, offset: int) -> tuple[str, int, int] | None:
        # An empty base class is said to have a byte, which is that of the first member: members come first.
        for member in sorted(self._elements(text), key=lambda element: "DW_TAG_inheritance" in element):
            if ("DW_TAG_member" in member or "DW_TAG_inheritance" in member) and "DIFlagStaticMember" not in member:
                fields = _fields(member)
                begin = int(fields.get("offset", "0")) // 8
                size = int(fields.get("size", "0")) // 8 or self._size(_reference(fields["baseType"]))
                if begin <= offset < begin + size:
                    return fields.get("name", "base"), _reference(fields["baseType"]), offset - begin
        return None

    def _array_step(self, text: str, offset: int) -> tuple[str, int, int] | None:
        fields = _fields(text)
        base = _reference(fields["baseType"])
        counts = [int(_fields(e).get("count", "0")) for e in self._elements(text) if "DISubrange(" in e]
        size = self._size(base)
        if not size:
            return None
        name, index = "", offset // size
        for count in reversed(counts):
            name = f"[{index % count if count else index}]" + name
            index = index // count if count else 0
        return name, base, offset % size

    def _size(self, kind: int) -> int:
        text = self._metadata.get(kind, "")
        fields = _fields(text) if "(" in text else {}
        if "size" in fields:
            return int(fields["size"]) // 8
        base = fields.get("baseType", "")
        return self._size(_reference(base)) if base.startswith("!") else 0
