"""The site is built without a network, and what the documents tell a user to type does what they say."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer
from shown_commands import GUIDES, commands, write_listings

from bfpga.cli import main
from bfpga.cli.application import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
_LINK_ELSEWHERE = re.compile(r'<(?:script|img|link)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')


whole_command = functools.cache(typer.main.get_command)


def parse(arguments: list[str]) -> None:
    """Read a command line as `bfpga` does, without running it."""
    command, name = whole_command(app), "bfpga"
    while isinstance(command, click.Group) or hasattr(command, "commands"):
        name, *arguments = arguments
        command = command.commands[name]
    command.make_context(name, list(arguments))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_the_documents_exist_with_their_options(path: Path) -> None:
    for arguments in commands(path.read_text()):
        if "--help" not in arguments:
            parse(arguments)


def test_commands_of_the_documents_are_found() -> None:
    """The test above compares something, and a wrong option is seen."""
    assert sum(len(commands(path.read_text())) for path in PAGES) > 30
    with pytest.raises(Exception, match="calibrations"):
        parse(["compile", "net.onnx", "-a", "tiny", "-o", "x.bfpga", "--calibrations", "s.npz"])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory like a fresh clone's: the examples, and what files the guides write."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "path", [path for path in GUIDES if commands(path.read_text(), {"sh"})], ids=lambda path: path.stem
)
def test_commands_of_a_guide_run_in_their_order(path: Path, desk: Path) -> None:
    """Requirement: every command that a tutorial or how-to shows is executed; `console` fences say they need more."""
    text = path.read_text()
    write_listings(text, desk)
    for arguments in commands(text, {"sh"}):
        assert main(arguments) == 0, f"{path.name}: bfpga {shlex.join(arguments)}"


def test_every_guide_shows_what_to_type() -> None:
    """Commands, which this file or test_shown_commands.py runs, or Python, which tests of their own run."""
    texts = {path.name: path.read_text() for path in GUIDES}
    assert [name for name, text in texts.items() if not commands(text) and "```python" not in text] == []


def test_the_list_of_pages_has_every_page() -> None:
    docs = ROOT / "docs"
    listed = set(re.findall(r"\]\(([^)#]+\.md)\)", (docs / "contents.md").read_text()))
    assert listed == {str(page.relative_to(docs)) for page in docs.glob("**/*.md")} - {"contents.md"}


def test_the_site_is_built_without_a_network(tmp_path: Path) -> None:
    """Every page is in the navigation, every link leads somewhere, and nothing is fetched from other hosts."""
    pytest.importorskip("mkdocs")
    site = tmp_path / "site"
    proxies = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, **proxies, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    pages = [page.read_text() for page in site.rglob("*.html")]
    assert len(pages) > len(list((ROOT / "docs").glob("**/*.md")))
    assert [match[0] for page in pages for match in _LINK_ELSEWHERE.finditer(page)] == []
    assert "--calibration" in (site / "reference" / "command-line.html").read_text()
    assert "weight_words" in (site / "reference" / "keys.html").read_text()
    shutil.rmtree(site)
