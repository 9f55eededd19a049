"""Tables of every command at three widths: no line is longer, names stay whole, what is left out is named."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_networks import Network

from bfpga.accelerator.loader import accelerator_names
from bfpga.cli import doctor, main, output
from bfpga.explore import ready
from bfpga.formats.tables import cell_text, table_lines, text_width
from bfpga.program import listing

ROOT = Path(__file__).parents[2]
WIDTHS = (80, 100, 120)
#: Names as exporters give them.
LONG = "functional_1/inverted_residual_block_13/depthwise_conv2d"
#: What `doctor` finds; its checks themselves compile headers.
TOOL = doctor.Check("ONNX Runtime", True, f"1.20 in /home/{'deep/' * 12}site-packages", "layers of the host, " * 3, "")
COMMANDS = [
    "boards", "accelerators", "operators", "models", "doctor", "estimate pynq_z2_dense net.onnx", "synthesize tiny",
    "advise net.onnx --board pynq_z2 -d samples.npz", "compile net.onnx -a pynq_z2_shift -o net.bfpga",
    "compile net.onnx -a pynq_z2_flows -o net.bfpga --policy dynamic", "run net.onnx -a zcu104_cluster -d samples.npz",
    "evaluate net.onnx -a tiny -d samples.npz", "compare net.onnx -a tiny -a pynq_z2_bfp16 -d samples.npz",
    "research report-partition maps.npz",
]  # fmt: skip
#: Modules with tables whose commands take seconds or need a tool; their tables are like the others.
ELSEWHERE = {
    "build_report": "a build; vendor/", "check_tcl": "tclsh; cli/test_bad_input.py",
    "explore": "a search; explore/test_command.py",
    "precision": "a search", "prune": "fine-tuning; cli/test_prune.py",
    "positions": "random layers; cli/test_position_commands.py",
}  # fmt: skip


@dataclass(frozen=True)
class Printed:
    """A table as a command asked for it."""

    command: str
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    dropped: Sequence[str] | None


def network() -> Network:
    made = Network(2, 12, 12)
    for inputs in (2, 4):
        made.conv(4, inputs, 3, pads=[1, 1, 1, 1])
        made.add("Relu")
    made.add("Flatten")
    made.add("Gemm", made.last, made.weights(10, 4 * 144), transB=1)
    made.add("Softmax")
    for index, node in enumerate(made.nodes):
        node.name = f"{LONG}_{index}/{node.op_type}"
    return made


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[Printed]:
    """All tables of the commands."""
    folder, found, at = tmp_path_factory.mktemp("tables"), [], Path.cwd()
    made = network()
    (folder / "net.onnx").write_bytes(made.model().SerializeToString())
    np.savez(folder / "samples.npz", x=made.samples(8)["x"], y=np.arange(8))
    np.savez(folder / "maps.npz", x=np.random.default_rng(1).random((2, 12, 12, 4), np.float32).round())
    command = ""

    def record(
        title: str, headings: Sequence[str], rows: Any, width: int | None = None, dropped: Any = None, *more: Any,
        **options: Any,
    ) -> list[str]:  # fmt: skip
        found.append(Printed(command, title, headings, rows, dropped))
        return table_lines(title, headings, rows, width, dropped, *more, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for module in (output, listing):
            patch.setattr(module, "table_lines", record)
        patch.setattr(doctor, "examine", lambda: [TOOL])
        patch.setattr(ready, "accelerator_names", lambda: ["pynq_z2_dense", "pynq_z2_zero_skip_wide"])
        for command in COMMANDS:
            assert main(command.split()) in (0, 1), command
    assert Path.cwd() == at
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_longer_and_no_name_is_broken(width: int, printed: list[Printed]) -> None:
    offenders = []
    for one in printed:
        lines = table_lines("", one.headings, one.rows, width, one.dropped)
        body = "\n".join(lines)
        offenders += [f"{one.command}: {line}" for line in lines if text_width(line) > width]
        for row in one.rows:
            name = cell_text(row[0])
            if len(name) <= width // 2 and not all(word in body for word in name.split()):
                offenders.append(f"{one.command}: {name} is broken")
            if len(name) > width // 2 and not any(line.startswith(f" {name[:8]}") for line in lines):
                offenders.append(f"{one.command}: {name} has no line")
    assert offenders == []


@pytest.mark.parametrize("width", WIDTHS)
def test_what_falls_away_is_named_and_what_decides_stays(width: int, printed: list[Printed]) -> None:
    offenders = []
    for one in printed:
        lines = table_lines("", one.headings, one.rows, width, one.dropped)
        shown = " ".join(lines[: next(index for index, line in enumerate(lines) if "─" in line)])
        note = " ".join(lines).partition("left out at")[2]
        for heading in one.headings:
            if any(word not in shown for word in heading.split()) and heading not in note:
                offenders.append(f"{one.command}: {heading} is neither shown nor named")
        for heading in ("cycles", "limit", "images/s", "MAC/cycle", "II"):
            if heading in one.headings and heading not in shown:
                offenders.append(f"{one.command}: {heading} fell away")
    assert offenders == []


def test_a_command_prints_at_the_width_that_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in WIDTHS:
        monkeypatch.setenv("BFPGA_COLUMNS", str(width))
        assert main(["accelerators"]) == 0
        table = capsys.readouterr().out.split("\n* ")[0].split("\n")
        assert max(map(text_width, table)) <= width
        assert all(any(f" {name} " in line for line in table) for name in accelerator_names())
    monkeypatch.delenv("BFPGA_COLUMNS")
    assert main(["accelerators"]) == 0
    assert "left out" not in capsys.readouterr().out


def modules_with_tables() -> set[str]:
    """Modules of the command line that call ``table``."""
    found = set()
    for path in (ROOT / "host" / "bfpga" / "cli").glob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
        found |= {path.stem} if "table" in names and path.stem != "output" else set()
    return found


def test_every_module_with_tables_is_among_the_commands_here() -> None:
    covered = {
        "listings", "reports", "synthesize", "advise", "compare", "models", "report_units", "report_partition",
        "report_host", "blocks",
    }  # fmt: skip
    assert modules_with_tables() == covered | ELSEWHERE.keys()


def test_no_other_code_lays_out_tables() -> None:
    """One layout: nothing else of the package makes tables for terminals."""
    sources = (path for path in (ROOT / "host" / "bfpga").rglob("*.py"))
    assert [str(path) for path in sources if "rich.table" in path.read_text()] == []
