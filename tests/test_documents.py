"""What documents quote of the shipped accelerators is what they are now."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import bfpga
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.cli import main
from bfpga.contract import functions
from bfpga.vendor.render import render_kernel

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), *sorted((ROOT / "examples").glob("*.ipynb"))]
#: As the self-test, the listing and `bfpga overlay` print a digest; and the register, in lines that follow.
_DIGEST = re.compile(r"\b(\w+) \(([0-9a-f]{12})\)")
_IDENTIFICATION = re.compile(r"identification: 0x([0-9a-f]{8})\b")


def quoted(text: str) -> list[tuple[str, str]]:
    """Accelerators of a document with the digests that it quotes, or their first digits."""
    digests = [match for match in _DIGEST.finditer(text) if match[1] in accelerator_names()]
    result = [(match[1], match[2]) for match in digests]
    for register in _IDENTIFICATION.finditer(text):
        before = [match for match in digests if match.end() < register.start()]
        assert before, f"{register[0]}: of which accelerator?"
        result.append((before[-1][1], register[1]))
    return result


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_digests_are_those_of_the_accelerators(path: Path) -> None:
    for name, digits in quoted(path.read_text()):
        digest = load_accelerator(name).digest
        assert digest.startswith(digits), f"{path.name} quotes {digits} of {name}, which is {digest[: len(digits)]} now"


def test_a_page_quotes_the_self_test() -> None:
    """Digest and identification are found, so the test above compares something."""
    digest = load_accelerator("pynq_z2_dense").digest
    found = quoted((ROOT / "docs" / "how-to" / "first-board.md").read_text())
    assert ("pynq_z2_dense", digest[:12]) in found
    assert ("pynq_z2_dense", digest[:8]) in found


def test_files_that_the_architecture_page_names_exist() -> None:
    """A map of places that moved is worse than none. Rendered headers count too."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    roots = (ROOT, ROOT / "host" / "bfpga", ROOT / "hls" / "vitis_hls_templates" / "include" / "bfpga")
    rendered = render_kernel("tiny", "0" * 16, load_accelerator("tiny").config)
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_*]+)+\.(?:py|hpp|yaml|md))`", text))
    assert len(named) > 20
    found = {name for name in named if any([*root.glob(name)] for root in roots)}
    assert {name for name in named - found if not any(path.endswith(name) for path in rendered)} == set()


LENET = "examples/models/lenet_mnist.onnx"
PRUNED = "examples/models/lenet_mnist_pruned90.onnx"
ON_MNIST = f"{LENET} -a pynq_z2_dense -d examples/models/mnist_test.npz -c examples/models/mnist_calibration.npz"


@pytest.mark.parametrize(
    ("pages", "command"),
    [
        (["README.md", "docs/index.md"], f"run {ON_MNIST}"),
        (["docs/tutorials/own-network.md"], f"evaluate {ON_MNIST}"),
        (["docs/how-to/choose-accelerator.md"], f"estimate pynq_z2_dense {LENET}"),
        pytest.param(
            ["docs/sparse.md"], f"advise {PRUNED} --board pynq_z2 -d examples/models/mnist_test.npz",
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_page_shows_what_a_command_prints(
    pages: list[str], command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(command.split()) == 0
    printed = capsys.readouterr().out
    if command.startswith("run"):  # on the device of the quickstart, which gives the same and takes longer
        printed = printed.replace(", emulator,", ", csim,")
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    assert len(lines) > 8
    for page in pages:
        shown = (ROOT / page).read_text().splitlines()
        assert [line for line in lines if line not in shown] == [], page


#: The default accelerator with other keys: what of a command's output the page shows, by how it begins.
TALL = {"columns": 6, "rows": 16, "hop_columns": 3, "weight_words": 4608}
CHANGED = [
    ({"columns": 24}, "", "does-not-fit", ["line 13, engines[0].columns: is 24:"]),
    ({"weight_words": 512}, LENET, "does-not-fit", ["schedule of one sample: 18,052", "55 % of the time: 3,136 words"]),
    (TALL, "examples/models/mlp_mnist.onnx", "does-not-fit", ["67,132 images/s"]),
    ({"clock_mhz": 150}, "", "timing-fails", ["line 8, clock_mhz: is 150,"]),
]


@pytest.mark.parametrize(("keys", "network", "name", "begins"), CHANGED)
def test_a_page_shows_what_a_changed_accelerator_gives(
    keys: dict[str, int], network: str, name: str, begins: list[str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(ROOT)
    text = (ROOT / "configs" / "accelerators" / "pynq_z2_dense.yaml").read_text()
    for key, value in keys.items():
        text = re.sub(rf"^( *){key}: .*$", rf"\g<1>{key}: {value}", text, flags=re.M)
    (tmp_path / "changed.yaml").write_text(text)
    assert main(["estimate", str(tmp_path / "changed.yaml"), *network.split()]) in (0, 2)
    printed = [line for text in capsys.readouterr() for line in text.splitlines()]
    shown = " ".join(page(f"how-to/{name}.md").split())
    for begin in begins:
        [line] = [line for line in printed if begin in line]
        assert line[line.index(begin) :].strip() in shown


def test_the_row_of_the_tutorial_is_a_function_that_a_table_can_hold() -> None:
    """Its listing is executed; the points fit their words, and between them the error is a fraction of its bound."""
    listings = re.findall(r"```python\n(.*?)```", page("tutorials/own-function.md"), re.S)
    names = dict(vars(functions))
    for listing in listings[:2]:
        exec(listing, names)
    row = names["row"]
    points = np.array(row.table.points) * 2.0**functions.ACTIVATION_EXPONENT
    x = np.linspace(-5, 5, 10_001)
    places = np.linspace(0, row.table.limit, len(points))
    interpolated = np.interp(np.minimum(np.abs(x), row.table.limit), places, points)
    assert np.abs(interpolated - row.plain(x, 0.0)).max() < 2.0**-12
    assert np.abs(points).max() <= row.largest


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


#: Name, board, bits, multiply-accumulates and MHz of a ready accelerator.
_ACCELERATOR = re.compile(r"^\| `(\w+)` \| `(\w+)` \| (\d+) bit.*\| (\d+)[^|]*\| ([\d.]+) \|$", re.M)


def test_the_list_of_accelerators_has_all_with_their_numbers() -> None:
    rows = _ACCELERATOR.findall(page("accelerators.md"))
    ready = [load_accelerator(name) for name in accelerator_names()]
    assert sorted(rows) == sorted(
        (one.name, one.board.name, str(one.config.format.mantissa_bits), str(one.cores * one.config.macs_per_clock),
         f"{one.clock_mhz:g}")
        for one in ready
    )  # fmt: skip


def test_the_version_is_the_same_wherever_it_is_stated() -> None:
    stated = {
        "pyproject.toml": r'^version = "(.+)"$',
        "CITATION.cff": r"^version: (.+)$",
        "CHANGELOG.md": r"^## (\S+) - ",
        "README.md": r"the version is (\d+\.\d+\.\d+) ",
    }
    found = {file: re.search(pattern, (ROOT / file).read_text(), re.M) for file, pattern in stated.items()}
    assert {file: match and match[1] for file, match in found.items()} == dict.fromkeys(stated, bfpga.__version__)


#: Of tables that begin with what a user sees.
_SEEN = re.compile(r"^\| `([^`|]+)`[^|]*\|[^|]+\|[^|]+\|$", re.M)
#: Not printed by the package itself: a message of Python, lines of the self-test with the names of its stages.
NOT_IN_THE_SOURCE = {"float / NoneType", "FAIL  load", "FAIL  equals emulator"}


def messages_of_the_source() -> list[str]:
    """Texts of the package; three dots where an f-string puts something in."""
    texts = []
    for path in (ROOT / "host" / "bfpga").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(part.value if isinstance(part, ast.Constant) else "..." for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def test_messages_that_how_tos_explain_are_those_of_the_source() -> None:
    texts = messages_of_the_source()
    tables = [page(f"how-to/{name}.md").split("\n## When ")[1] for name in ("first-board", "export-network")]
    others = page("how-to/does-not-fit.md") + page("how-to/timing-fails.md")
    tables += re.findall(r"^\| message \|.*?(?=^\n)", others, re.M | re.S)
    explained = [message for table in tables for message in _SEEN.findall(table)]
    assert len(explained) > 25
    assert {message for message in explained if not any(message in text for text in texts)} <= NOT_IN_THE_SOURCE


def test_templates_of_issues_have_what_the_tracker_reads() -> None:
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
    assert len(templates) == 3
    for template in templates:
        form = yaml.safe_load(template.read_text())
        assert all(isinstance(form[key], str) for key in ("name", "description")), template
        for field in form["body"]:
            assert field["type"] in ("input", "textarea", "dropdown"), template
            assert set(field) <= {"type", "id", "attributes", "validations"}, template
            assert isinstance(field["attributes"]["label"], str), template
        identifiers = [field["id"] for field in form["body"]]
        assert len(set(identifiers)) == len(identifiers), template
