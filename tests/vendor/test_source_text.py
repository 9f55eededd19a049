"""The gate of the templates: no text that a file brought becomes C++, Verilog, Tcl or a rule of a Makefile."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import jinja2
import pytest
from markupsafe import Markup

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.errors import ConfigurationError
from bfpga.vendor.block_design import block_design
from bfpga.vendor.build_scripts import ScriptOptions, ScriptPaths, render_scripts
from bfpga.vendor.render import render_kernel
from bfpga.vendor.source_text import braced, gate, own, prose, source_environment

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "hls" / "vitis_hls_templates"
#: Ends a comment and a statement of C++, Verilog and Tcl, a literal in braces and one in quotes, and a rule.
ATTACKS = (
    "x\n__attribute__((constructor)) void taken() {} //",
    "x\rexec touch taken\r#",
    "x} ; exec touch taken ; set y {",
    'x" ; exec touch taken ; set y "',
    "[exec touch taken]",
    "$(touch taken)",
    "`touch taken`",
    "*/ int taken; /*",
    "1; int taken",
    "x \\",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_gate_refuses_what_ends_a_comment_or_a_statement(attack: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be in source text"):
        gate(attack)
    for folder, template in (("kernels", "common/README.md.j2"), ("tcl", "synthesis.tcl.j2")):
        with pytest.raises(ConfigurationError, match="cannot be in source text"):
            source_environment(folder).get_template(template).render(name=attack)


@pytest.mark.parametrize("value", [None, b"x", ["x"], object()])
def test_the_gate_takes_numbers_and_words_only(value: object) -> None:
    with pytest.raises(ConfigurationError):
        gate(value)


def test_words_numbers_types_and_own_text_pass() -> None:
    for word in ("tiny", "bfpga::wire_t<bfpga::OperandBeat<Config>>", "bfpga/array/multiplier.hpp", "12'h04", ""):
        assert gate(word) == word
    assert (gate(7), gate(True), gate(2.5)) == (7, True, 2.5)
    assert gate(own("(x);\n")) == "(x);\n"
    with pytest.raises(jinja2.UndefinedError):
        source_environment("tcl").get_template("synthesis.tcl.j2").render()


def test_literals_and_prose_of_tcl() -> None:
    assert braced("/a b/$x[y]") == "{/a b/$x[y]}"
    for text in ("a}b", "a{b", "a\\", "a\nb", "a\rb", "a\x85b"):
        with pytest.raises(ConfigurationError, match="cannot be a literal of Tcl"):
            braced(text)
    assert prose("Zynq\r\n[exec x] $y {z} \"q\" \\") == "Zynq   exec x   y  z   q   "
    assert gate(prose("Kria KV260 (Xilinx), rev. B")) == "Kria KV260 (Xilinx), rev. B"


# Every value of every template


def text_fields(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields of a dataclass, and of those in it, that a file fills."""
    for item in fields(value):
        held = getattr(value, item.name)
        if is_dataclass(held):
            yield from text_fields(held, (*path, item.name))
        else:
            yield (*path, item.name)


def with_text(accelerator: Accelerator, path: tuple[str, ...], text: str) -> Accelerator:
    """An accelerator with ``text`` in a field, past all checks of a reader."""
    result = copy.deepcopy(accelerator)
    place: Any = result
    for name in path[:-1]:
        place = getattr(place, name)
    held = getattr(place, path[-1])
    object.__setattr__(place, path[-1], (text,) if isinstance(held, tuple) else text)
    return result


def rendered(accelerator: Accelerator) -> dict[str, str]:
    """All source text that is made of an accelerator."""
    paths = ScriptPaths(Path("/sources"), Path("/build"))
    files = render_kernel(accelerator.name, accelerator.digest, accelerator.config)
    own = render_scripts(block_design(accelerator), paths, 1, ScriptOptions(hls="own"))
    return files | own | render_scripts(block_design(accelerator), paths, 1, ScriptOptions())


#: Text of an attack that would be read as source: a line of its own, or behind what ends a statement or quotes.
READ = re.compile(r"(^|[\r\n;{}\"\[`]|\$\()\s*(__attribute__|exec touch|touch taken|int taken)|\*/ int taken")


def test_no_field_of_an_accelerator_becomes_source() -> None:
    accelerator = load_accelerator("tiny")
    assert not any(READ.search(text) for text in rendered(accelerator).values())
    shown = set()
    for path in text_fields(accelerator):
        try:
            files = rendered(with_text(accelerator, path, "".join(ATTACKS)))
        except Exception:  # a number that is text ends in many ways, all before a file is written
            continue
        for file, text in files.items():
            assert not READ.search(text), f"{'.'.join(path)} is read as source in {file}"
            if "touch taken" in text:
                shown.add(path[-1])
    assert shown == {"title", "board_files_source"}, "free text stays, in comments and messages"


def test_every_template_of_source_text_passes_the_gate() -> None:
    """Environments are made in three places: the gate's, and two that escape what they print for XML and HTML."""
    found = {}
    for path in sorted((ROOT / "host").rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "jinja2" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("jinja2.Environment", "jinja2.Template"):
                found[path.name] = {item.arg: ast.unparse(item.value) for item in node.keywords}
    assert {name: options.get("autoescape") for name, options in found.items()} == dict.fromkeys(
        ("source_text.py", "handoff.py", "page.py"), "True"
    )
    assert found["source_text.py"]["finalize"] == "gate"
    for template in TEMPLATES.rglob("*.j2"):
        text = template.read_text()
        assert not re.search(r"\|\s*safe\b|autoescape|\|\s*(force)?escape", text), f"{template} goes round the gate"


def test_macros_give_source_and_their_values_pass_the_gate_too() -> None:
    environment = source_environment("kernels")
    module = environment.get_template("processes/ports.j2").module
    port = {"type": "int32_t", "name": "count", "offset": "0x10"}
    process = {"function": "top", "ports": [port], "started": True}
    assert isinstance(module.declared(process), Markup)  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError):
        module.declared(process | {"function": ATTACKS[0]})  # type: ignore[attr-defined]
