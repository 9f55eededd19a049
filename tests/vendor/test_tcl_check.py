"""The check of the vendor's scripts: what is generated passes, and every mistake is found by its rule at its line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_designs import TINY, ZYNQ7, ZYNQMP
from script_mutations import BLOCK, MUTATIONS
from vendor_scripts import PATHS, Mutation, design, scripts, small_accelerator

from bfpga.accelerator.boards import names
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.accelerator.variants import fitting_boards
from bfpga.cli import main
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.build_scripts import ScriptOptions, render_scripts
from bfpga.vendor.tcl_check import RULES, Finding, built_design, check_scripts
from bfpga.vendor.tcl_check.comparison import built_facts, wanted_facts
from bfpga.verify.random_accelerator import random_config

PAIRS = [(name, board.name) for name in accelerator_names() for board in fitting_boards(load_accelerator(name))]


# What is generated passes.


@pytest.mark.parametrize(("accelerator", "board"), PAIRS)
def test_scripts_of_every_accelerator_pass_on_every_board_that_holds_it(accelerator: str, board: str) -> None:
    """`bfpga check-tcl --all` prints the times."""
    assert check_scripts(design(accelerator, board), scripts(accelerator, board)) == []


@pytest.mark.parametrize("board", names("boards"))
def test_scripts_pass_on_every_board(board: str) -> None:
    target = block_design(small_accelerator(board))
    assert check_scripts(target, render_scripts(target, PATHS, 1)) == []


@pytest.mark.parametrize(
    "options",
    [ScriptOptions(), ScriptOptions(board_files=Path("/boards"))],
    ids=str,
)
def test_scripts_pass_with_every_option(options: ScriptOptions) -> None:
    assert check_scripts(design(), render_scripts(design(), PATHS, 2, options)) == []


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    board=st.sampled_from(names("boards")),
    streams=st.sampled_from([32, 64, 512]),
)
def test_scripts_of_random_arrays_pass(seed: int, board: str, streams: int) -> None:
    accelerator = small_accelerator(board)
    config = random_config(np.random.default_rng(seed))
    config = replace(config, dsp=accelerator.board.dsp_kind, weight_stream_bits=streams)
    target = block_design(replace(accelerator, systolic=config))
    assert check_scripts(target, render_scripts(target, PATHS, 3)) == []


@pytest.mark.parametrize(("accelerator", "board"), PAIRS)
def test_what_the_script_builds_is_the_block_design(accelerator: str, board: str) -> None:
    target = design(accelerator, board)
    built = built_design(target, scripts(accelerator, board))
    assert built.findings == []
    assert set(built_facts(built)) == wanted_facts(target)


def test_facts_cover_every_part_of_a_block_design() -> None:
    target = design()
    count = len(target.cells) + sum(len(cell.parameters) for cell in target.cells) + len(target.links)
    count += sum(link.monitor is not None for link in target.links)
    count += sum(len(net.loads) for net in target.nets) + len(target.segments) + len(["automation"])
    assert len(wanted_facts(target)) == count


# What is broken is found.


def test_good_scripts_of_the_mutations_pass() -> None:
    for accelerator in {mutation.accelerator for mutation in MUTATIONS}:
        assert check_scripts(design(accelerator), scripts(accelerator)) == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "_"))
def test_broken_script_is_found_by_its_rule_at_its_line(mutation: Mutation) -> None:
    findings = check_scripts(design(mutation.accelerator), mutation.apply())
    caught = [finding for finding in findings if finding.rule == mutation.rule]
    assert caught, f"found only {sorted({finding.rule for finding in findings})}"
    assert all(finding.problem and finding.remedy for finding in findings)
    line = mutation.line()
    if line is not None:
        assert (mutation.script, line) in {(finding.file, finding.line) for finding in caught}, caught


def test_every_rule_is_broken_by_some_mutation() -> None:
    by_design_alone = {"design", "unknown-ip"}
    assert {mutation.rule for mutation in MUTATIONS} | by_design_alone == set(RULES)


def test_misspelt_names_come_with_the_nearest() -> None:
    by_name = {mutation.name: mutation for mutation in MUTATIONS}
    for name, hint in (
        ("misspelt parameter", "c_s_axis_s2mm_tdata_width"),
        ("misspelt command", "save_bd_design"),
        ("misspelt interface", "weight_stream"),
        ("misspelt option", "-to_step"),
        ("misspelt key", "syn.top"),
    ):
        findings = check_scripts(design(), by_name[name].apply())
        assert any(f"did you mean `{hint}`?" in finding.remedy for finding in findings), name


def test_design_that_differs_without_breaking_another_rule_is_found() -> None:
    mutated = Mutation("burst", BLOCK, "CONFIG.c_mm2s_burst_size {16}", "CONFIG.c_mm2s_burst_size {32}", "design")
    findings = check_scripts(design(), mutated.apply())
    assert {finding.rule for finding in findings} == {"design"}
    assert len(findings) == 2


def test_unknown_ip_is_found() -> None:
    old = "create_bd_cell -type ip -vlnv [newest xilinx.com:ip:xlconcat] interrupt_concat"
    new = "create_bd_cell -type ip -vlnv xilinx.com:ip:xlconstant:1.1 interrupt_concat"
    findings = check_scripts(design(), Mutation("constant", BLOCK, old, new, "unknown-ip").apply())
    assert "unknown-ip" in {finding.rule for finding in findings}


# A block design that is wrong itself is found as well: the rules do not lean on it.


def broken_design(**changes: object) -> list[Finding]:
    target = replace(design(), **changes)  # type: ignore[arg-type]
    return check_scripts(target, render_scripts(target, PATHS, 1))


def test_block_design_without_a_clock_is_found() -> None:
    nets = tuple(net for net in design().nets if net.name != "clock")
    assert "pin-open" in {finding.rule for finding in broken_design(nets=nets)}


def test_block_design_with_overlapping_addresses_is_found() -> None:
    segments = tuple(replace(s, base=0x43C00000) if s.usage == "register" else s for s in design().segments)
    assert "address-overlap" in {finding.rule for finding in broken_design(segments=segments)}


def test_block_design_with_an_open_interface_is_found() -> None:
    assert "interface-open" in {finding.rule for finding in broken_design(links=design().links[1:])}


def test_block_design_with_a_narrow_stream_is_found() -> None:
    cells = tuple(
        replace(cell, parameters={**cell.parameters, "c_m_axis_mm2s_tdata_width": "32"})
        if cell.name == "weight_dma"
        else cell
        for cell in design().cells
    )
    assert "stream-width" in {finding.rule for finding in broken_design(cells=cells)}


# Nothing in the scripts is there for nothing.

#: Lines whose loss changes nothing, and why.
HARMLESS = {
    "close_project": "the end of a batch closes the project as well",
}


def lines_that_do_something(target: str) -> list[tuple[str, int]]:
    found = [
        (script, number)
        for script, text in scripts(target).items()
        for number, line in enumerate(text.splitlines())
        if line.strip() and not line.lstrip().startswith("#")
    ]
    return [(script, n) for script, n in found if scripts(target)[script].splitlines()[n].split()[0] not in HARMLESS]


def without_line(target: str, script: str, number: int) -> dict[str, str]:
    lines = scripts(target)[script].splitlines(keepends=True)
    return dict(scripts(target)) | {script: "".join(lines[:number] + lines[number + 1 :])}


@settings(max_examples=50, deadline=None)
@given(data=st.data(), target=st.sampled_from([ZYNQ7, ZYNQMP, TINY]))
def test_loss_of_any_line_is_found(data: st.DataObject, target: str) -> None:
    script, number = data.draw(st.sampled_from(lines_that_do_something(target)))
    assert check_scripts(design(target), without_line(target, script, number))


@pytest.mark.parametrize("word", sorted(HARMLESS))
def test_lines_called_harmless_are_harmless(word: str) -> None:
    for script, text in scripts().items():
        for number, line in enumerate(text.splitlines()):
            if line.startswith(word):
                assert check_scripts(design(), without_line(ZYNQ7, script, number)) == []


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_loss_of_any_word_never_ends_in_a_crash(data: st.DataObject) -> None:
    script, number = data.draw(st.sampled_from(lines_that_do_something(ZYNQ7)))
    lines = scripts()[script].splitlines(keepends=True)
    word = data.draw(st.sampled_from(list(re.finditer(r"\S+", lines[number]))))
    lines[number] = lines[number][: word.start()] + lines[number][word.end() :]
    findings = check_scripts(design(), dict(scripts()) | {script: "".join(lines)})
    assert all(finding.problem and finding.remedy for finding in findings)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_text_in_place_of_a_line_ends_in_findings_and_never_in_a_crash(data: st.DataObject) -> None:
    script, number = data.draw(st.sampled_from(lines_that_do_something(ZYNQ7)))
    text = data.draw(st.text(st.characters(blacklist_categories=["Cs"]), max_size=40))
    lines = scripts()[script].splitlines()
    lines[number] = text
    findings = check_scripts(design(), dict(scripts()) | {script: "\n".join(lines) + "\n"})
    assert all(isinstance(finding, Finding) for finding in findings)


# The command line.


def test_command_checks_every_accelerator(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "checks.json"
    assert main(["check-tcl", "--all", "--json", str(target)]) == 0
    checks = json.loads(target.read_text())["checks"]
    assert [(check["accelerator"], check["board"]) for check in checks] == PAIRS
    assert all(check["findings"] == [] and check["seconds"] > 0 for check in checks)
    count = sum(len(scripts(accelerator, board)) for accelerator, board in PAIRS)
    assert f"0 findings in {count} scripts" in capsys.readouterr().out


def test_command_fails_on_findings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def render(target: BlockDesign, *_: object, **__: object) -> dict[str, str]:
        good = render_scripts(target, PATHS, 1)
        return good | {BLOCK: good[BLOCK].replace("validate_bd_design\n", "")}

    monkeypatch.setattr("bfpga.vendor.build_scripts.render_scripts", render)
    assert main(["check-tcl", "tiny"]) == 1
    assert "[missing-command]" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["tiny", "--all"], ["nothing_of_that_name"]])
def test_command_wants_accelerators_or_all(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-tcl", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err
