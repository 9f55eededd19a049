"""Pages of the site that are rendered: changelog, command line, keys of an accelerator, Python interface, a report.

A hook of MkDocs (mkdocs.yml). Each page has one source: CHANGELOG.md, the commands' own help, the schema of accelerator
files, the package's docstrings, what `bfpga report` writes of a network that ships.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "examples" / "models"
#: Samples that judge the report's network: enough to show every part, few enough to be quick.
REPORTED = 100
#: What a user calls from Python: all that ``dir(bfpga)`` lists.
INTERFACE = {
    "Compile, run, compare": ["compile", "load_program", "predict", "run", "evaluate", "compare", "open_device"],
    "Estimates and reports": ["estimate", "report", "compare_accelerators"],
    "Other networks, other accelerators": ["prune", "explore"],
    "Hardware and boards": ["build", "deploy", "Overlay", "load"],
    "Operations one by one": ["eager", "EagerRun"],
    "Files": ["load_samples", "load_accelerator", "load_board", "accelerator_names"],
    "What comes back": [
        "Program", "Result", "Evaluation", "Estimate", "Samples", "Accelerator", "Board", "CompileOptions",
        "BfpgaError",
    ],
}  # fmt: skip


def changelog_page() -> str:
    return (ROOT / "CHANGELOG.md").read_text()


def command_line_page() -> str:
    """Every command with its help, its arguments and its options."""
    import typer

    from bfpga.cli.application import app

    tree = typer.main.get_command(app)
    parts = ["# Command line", "", "Rendered from the commands' own help. `bfpga COMMAND --help` prints the same.", ""]
    for name, command in _commands("bfpga", tree):
        parts += [f"## {name}", "", _help_of(command), ""]
        rows = [_row(parameter) for parameter in command.params if getattr(parameter, "help", None)]
        if rows:
            parts += ["| argument or option | meaning | default |", "|---|---|---|", *rows, ""]
    return "\n".join(parts)


def _commands(prefix: str, command: Any) -> Iterator[tuple[str, click.Command]]:
    for name, child in getattr(command, "commands", {}).items():
        if getattr(child, "commands", None):
            yield from _commands(f"{prefix} {name}", child)
        else:
            yield f"{prefix} {name}", child


def _help_of(command: click.Command) -> str:
    """Paragraphs of a help text; what follows the sign for "as it stands" is a listing."""
    paragraphs = (command.help or "").split("\n\n")
    return "\n\n".join(_listing(text) if text.startswith("\b") else text for text in paragraphs)


def _listing(text: str) -> str:
    title, *lines = text.removeprefix("\b").strip("\n").splitlines()
    return "\n".join([title, "", "```", *(line.removeprefix("  ") for line in lines), "```"])


def _row(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    meaning = _cell(parameter.help)
    default = "required" if parameter.required else _default(parameter)
    return f"| {names} | {meaning} | {default} |"


def _default(parameter: Any) -> str:
    value = parameter.default
    return "" if value in (None, False, ()) or callable(value) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.replace("\b", " ").replace("|", "\\|").split())


def keys_page() -> str:
    """Every section of an accelerator file with its keys, from the schema that reads them."""
    from bfpga.accelerator.schema import json_schema

    schema = json_schema()
    parts = ["# All keys of an accelerator", "", "Rendered from the schema that reads the files (`bfpga schema`).", ""]
    parts += _section("An accelerator file", schema)
    for name, section in schema["$defs"].items():
        if "properties" in section:
            parts += _section(f"{_title(name, section)} {{#{name.lower()}}}", section)
    return "\n".join(parts)


def _title(name: str, section: dict[str, Any]) -> str:
    kind = section["properties"].get("kind", {}).get("const")
    return f"Engine `{kind}`" if kind else name.removesuffix("Section")


def _section(title: str, section: dict[str, Any]) -> list[str]:
    required = section.get("required", [])
    rows = [
        f"| `{key}` | {_cell(value.get('description', ''))} | {_kind(value)} |"
        f" {'required' if key in required else _json(value)} |"
        for key, value in section["properties"].items()
    ]
    return [f"## {title}", "", section.get("description", ""), "",
            "| key | meaning | values | default |", "|---|---|---|---|", *rows, ""]  # fmt: skip


def _kind(value: dict[str, Any]) -> str:
    """What a key takes, in a few words."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "enum" in value:
        return ", ".join(f"`{choice}`" for choice in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    choices = value.get("anyOf") or value.get("oneOf")
    if choices:
        return " or ".join(_kind(choice) for choice in choices if choice.get("type") != "null")
    bounds = [f"{word} {value[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in value]
    return " ".join([value.get("type", ""), *bounds]).strip()


def _json(value: dict[str, Any]) -> str:
    default = value.get("default")
    return "" if default in (None, "") else f"`{default}`"


def python_page() -> str:
    """The interface of the package, from its docstrings."""
    parts = ["# Python", ""]
    for title, names in INTERFACE.items():
        parts += [f"## {title}", "", *(f"::: {_defined(name)}\n" for name in names)]
    return "\n".join(parts)


def _defined(name: str) -> str:
    """Where a name of the package is defined: the page shows no name that is only passed on."""
    import bfpga

    item = getattr(bfpga, name)
    return f"{item.__module__}.{item.__qualname__}"


def example_report() -> str:
    """A report as a user gets it, of LeNet on the default accelerator."""
    import bfpga

    samples = bfpga.load_samples(MODELS / "mnist_test.npz", count=REPORTED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        calibration = MODELS / "mnist_calibration.npz"
        bfpga.report(MODELS / "lenet_mnist.onnx", "pynq_z2_dense", samples, path, calibration=calibration)
        return path.read_text()


PAGES = {
    "changelog.md": changelog_page,
    "reference/command-line.md": command_line_page,
    "reference/keys.md": keys_page,
    "reference/python.md": python_page,
    "example-report.html": example_report,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """MkDocs asks for the files of the site: the rendered ones are added to those of docs/."""
    from mkdocs.structure.files import File

    for path, render in PAGES.items():
        files.append(File.generated(config, path, content=render()))
    return files
