"""The gate between values and source text: what templates may put into C++, Verilog, Tcl and Makefiles.

Every expression of a template passes `gate`, so that no value can be forgotten: a number or plain words pass as they
are, any other text must have been declared source by the toolkit itself, with `own` or `braced`; the rest is refused.
"""

from __future__ import annotations

import re
from enum import IntEnum, IntFlag
from typing import Any

import jinja2
from markupsafe import Markup

from bfpga.contract.kernel_numbers import pascal
from bfpga.errors import ConfigurationError
from bfpga.formats.checked_fields import shown

#: Words, types and paths: one line that ends no comment and no statement, calls nothing and quotes nothing.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_:<>,&.'+%@~= -]|/(?![/*]))*")
#: What would end a literal of Tcl in braces, or would be read in it; Tcl takes a carriage return for the end of a line.
_UNBRACED = re.compile(r"[{}\\\x00-\x1f\x7f\x85\u2028\u2029]")
#: What free text keeps where a vendor's tool reads it.
_PROSE = re.compile(r"[^\w .,:!?()+/@%=&'-]")


def source_environment(folder: str, **options: Any) -> jinja2.Environment:
    """The templates of a folder of `vitis_hls_templates`; whatever they print passes the gate."""
    # Escaping is on only so that what macros give counts as source; `gate` leaves nothing that it would change.
    return jinja2.Environment(
        loader=jinja2.PackageLoader("vitis_hls_templates", folder),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=True,
        finalize=gate,
        **options,
    )


def gate(value: object) -> object:
    """``value`` as a template may print it; ConfigurationError for text that neither is plain nor is the toolkit's."""
    if isinstance(value, Markup) or type(value) in (int, float, bool):
        return value
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return Markup(value)
    if isinstance(value, jinja2.Undefined):
        return str(value)  # it says which name
    raise ConfigurationError(f"{shown(value)} cannot be in source text: it must be a number or plain words")


def own(text: str) -> Markup:
    """Text of this toolkit's sources, or made of nothing else: anything, as no file has a part in it."""
    return Markup(text)


def braced(text: str) -> Markup:
    """``text`` as a literal of Tcl; ConfigurationError for what braces do not hold."""
    if _UNBRACED.search(text):
        raise ConfigurationError(
            f"{shown(text)} cannot be a literal of Tcl: it has a brace, a backslash or a control character"
        )
    return Markup(f"{{{text}}}")


def prose(text: str) -> Markup:
    """Free text without the characters that Tcl would read, on one line."""
    return Markup(_PROSE.sub(" ", text))


def enumeration(item: type[IntEnum] | type[IntFlag]) -> dict[str, Any]:
    """An enumeration as templates print it: its name, its comment, its members."""
    members = [{"name": pascal(name), "value": int(value)} for name, value in item.__members__.items()]
    return {"name": item.__name__, "comment": own((item.__doc__ or "").strip()), "members": members}
