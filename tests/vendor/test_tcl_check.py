"""The check of the vendor's scripts: what is rendered passes, every mistake in a script or in a design is found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from array_kinds import KINDS
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from process_designs import TINY, ZYNQ7, ZYNQMP
from script_mutations import BLOCK, MUTATIONS
from vendor_scripts import JOBS, PATHS, Mutation, design, scripts, small_accelerator

from bfpga.accelerator.boards import names
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.accelerator.variants import fitting_boards
from bfpga.cli import main
from bfpga.vendor.block_design import BlockDesign, Cell, Link, block_design
from bfpga.vendor.build_scripts import ScriptOptions, render_scripts
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.tcl_check import RULES, Finding, check_scripts
from bfpga.vendor.tcl_check.soundness import faults
from bfpga.verify.random_accelerator import random_config

PAIRS = [(name, board.name) for name in accelerator_names() for board in fitting_boards(load_accelerator(name))]
#: Without --all one of each kind of array is checked on its own board; below a small one is on every board.
OWN = [(name, load_accelerator(name).board.name) for name in KINDS]


def rendered_findings(target: BlockDesign, options: ScriptOptions | None = None) -> list[Finding]:
    return check_scripts(target, render_scripts(target, PATHS, JOBS, options), PATHS, JOBS, options)


# What is rendered passes.


@pytest.mark.parametrize("pairs", [OWN, pytest.param(PAIRS, marks=pytest.mark.slow)], ids=["own board", "every board"])
def test_command_passes_every_accelerator_on_every_board_that_holds_it(
    pairs: list[tuple[str, str]], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "checks.json"
    if pairs is OWN:
        monkeypatch.setattr("bfpga.accelerator.loader.accelerator_names", lambda: KINDS)
        monkeypatch.setattr("bfpga.accelerator.variants.fitting_boards", lambda accelerator: [accelerator.board])
    assert main(["check-tcl", "--all", "--json", str(target)]) == 0
    checks = json.loads(target.read_text())["checks"]
    assert [(check["accelerator"], check["board"]) for check in checks] == pairs
    assert all(check["findings"] == [] and check["seconds"] > 0 for check in checks)
    count = sum(
        len(scripts(accelerator, board)) + 2 * len(kernel_ips(load_accelerator(accelerator).config))
        for accelerator, board in pairs
    )
    assert f"0 findings in {count} scripts" in capsys.readouterr().out


def test_scripts_pass_with_every_option() -> None:
    assert rendered_findings(design(), ScriptOptions(17, 23, board_files=Path("/boards"))) == []


@settings(max_examples=drawn(15), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    board=st.sampled_from(names("boards")),
    streams=st.sampled_from([32, 64, 512]),
)
def test_scripts_of_random_arrays_pass(seed: int, board: str, streams: int) -> None:
    accelerator = small_accelerator(board)
    config = random_config(np.random.default_rng(seed))
    config = replace(config, dsp=accelerator.board.dsp_kind, weight_stream_bits=streams)
    assert rendered_findings(block_design(replace(accelerator, config=config))) == []


# A broken script is found.


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "_"))
def test_broken_script_is_found_where_it_is_broken(mutation: Mutation) -> None:
    findings = mutation.findings()
    assert {finding.line for finding in findings} & set(mutation.lines()), findings
    assert all(finding.file == mutation.script and finding.problem and finding.remedy for finding in findings)


def test_misspelt_names_come_with_the_right_ones() -> None:
    by_name = {mutation.name: mutation for mutation in MUTATIONS}
    for name, hint in (
        (
            "misspelt parameter",
            "it must be `set_property CONFIG.c_s_axis_s2mm_tdata_width 64 [get",
        ),
        ("misspelt command", "did you mean `save_bd_design`?"),
        ("misspelt option", "did you mean `-to_step`?"),
        ("misspelt key", "it must be `syn.top=bfpga_systolic`"),
    ):
        assert any(hint in finding.remedy for finding in by_name[name].findings()), name


# A wrong block design is found although its scripts are those of the design.


def cell(name: str, /, **parameters: str | None) -> Callable[[BlockDesign], BlockDesign]:
    """Other parameters of a cell; None: not set."""

    def change(target: BlockDesign) -> BlockDesign:
        def changed(one: Cell) -> Cell:
            values = {key: value for key, value in {**one.parameters, **parameters}.items() if value is not None}
            return replace(one, parameters=values) if one.name == name else one

        return replace(target, cells=tuple(map(changed, target.cells)))

    return change


def ip(name: str, new: str) -> Callable[[BlockDesign], BlockDesign]:
    return lambda target: replace(
        target, cells=tuple(replace(one, ip=new) if one.name == name else one for one in target.cells)
    )


def link(master: str, /, **changes: str | None) -> Callable[[BlockDesign], BlockDesign]:
    """Another link from ``master``; none: without it."""

    def change(target: BlockDesign) -> BlockDesign:
        def changed(one: Link) -> list[Link]:
            return [one] if one.master != master else [replace(one, **changes)] if changes else []  # type: ignore[arg-type]

        return replace(target, links=tuple(new for one in target.links for new in changed(one)))

    return change


def load(pin: str, driver: str = "") -> Callable[[BlockDesign], BlockDesign]:
    """A load on the net of another driver; no driver: on none."""

    def change(target: BlockDesign) -> BlockDesign:
        nets = [replace(net, loads=tuple(load for load in net.loads if load != pin)) for net in target.nets]
        nets = [replace(net, loads=(*net.loads, pin)) if net.driver == driver else net for net in nets]
        return replace(target, nets=tuple(nets))

    return change


def segment(slave: str, /, **changes: object) -> Callable[[BlockDesign], BlockDesign]:
    """Another address of a slave; none: without it."""

    def change(target: BlockDesign) -> BlockDesign:
        kept = [one for one in target.segments if one.slave != slave]
        found = [replace(one, **changes) for one in target.segments if one.slave == slave]  # type: ignore[arg-type]
        return replace(target, segments=tuple(kept + (found if changes else [])))

    return change


def net(driver: str, new: str) -> Callable[[BlockDesign], BlockDesign]:
    return lambda target: replace(
        target, nets=tuple(replace(one, driver=new) if one.driver == driver else one for one in target.nets)
    )


DESIGNS = [
    (ip("interrupt_concat", "xilinx.com:ip:xlconstant"), "cell", "`xilinx.com:ip:xlconstant` is not an IP"),
    (lambda target: replace(target, cells=(*target.cells, target.cells[1])), "cell", "two cells `reset`"),
    (cell("tensor_dma", c_s2mm_data_width="64"), "parameter", "has no parameter c_s2mm_data_width"),
    (cell("tensor_dma", c_s_axis_s2mm_tdata_width="48"), "parameter", "c_s_axis_s2mm_tdata_width of `tensor_dma` is"),
    (cell("tensor_dma", c_sg_length_width=None), "parameter", "c_sg_length_width of `tensor_dma` is not set"),
    (cell("tensor_dma", c_include_sg=None), "parameter", "c_include_sg of `tensor_dma` is not set, so it is 1"),
    (cell("tensor_dma", c_m_axi_mm2s_data_width="32"), "parameter", "M_AXI_MM2S` has 32 bits, its stream 64"),
    (cell("ps", PCW_USE_M_AXI_GP0=None), "parameter", "PCW_USE_M_AXI_GP0 of `ps` is not set"),
    (cell("ps", PCW_S_AXI_HP0_DATA_WIDTH="32"), "parameter", "`ps/S_AXI_HP0` has 32 bits"),
    (cell("interrupt_controller", C_IRQ_CONNECTION="0"), "parameter", "C_IRQ_CONNECTION"),
    (cell("exponents_fifo", FIFO_DEPTH="360"), "parameter", "FIFO_DEPTH of `exponents_fifo` is 360"),
    (cell("weight_words_fifo", TDATA_NUM_BYTES="3"), "connection", "72 and 24 bits"),
    (cell("weight_dma", c_m_axis_mm2s_tdata_width="32"), "connection", "32 and 64 bits"),
    (cell("control_interconnect", NUM_MI="4"), "connection", "no pin or interface `control_interconnect/M04_AXI`"),
    (cell("control_interconnect", NUM_MI="6"), "connection", "M05_AXI` (aximm) has no connections"),
    (cell("ps", PCW_USE_S_AXI_HP1="0"), "connection", "no pin or interface `ps/S_AXI_HP1`"),
    (cell("ps", PCW_EN_CLK0_PORT="0"), "connection", "no pin or interface `ps/FCLK_CLK0`"),
    (link("tensor_dma/M_AXIS_MM2S"), "connection", "`accelerator/input_stream` (axis) has no connections"),
    (link("tensor_dma/M_AXIS_MM2S", slave="weights/weight_stream"), "connection", "has 2 connections"),
    (link("tensor_dma/M_AXIS_MM2S", slave="store/output_stream"), "connection", "two of the same direction"),
    (link("weight_dma/M_AXIS_MM2S", slave="weight_interconnect/S00_AXI"), "connection", "axis and aximm"),
    (link("tensor_interconnect/M00_AXI", slave="ps/S_AXI_HP0_FPD"), "connection", "there is no pin or interface"),
    (link("tensor_dma/M_AXIS_MM2S", monitor=None), "connection", "`clock_counter/input_stream` (monitored_axis)"),
    (link("tensor_dma/M_AXIS_MM2S", monitor="clock_counter/control"), "connection", "axis and monitored_aximm"),
    (link("scratchpad/stored", slave="store/stored"), "connection", "`stored_fifo/S_AXIS` (axis) has no connections"),
    (load("post/ap_clk"), "connection", "`post/ap_clk` (clock) has no connections"),
    (load("post/ap_clk", "reset/peripheral_aresetn"), "connection", "reset and clock"),
    (load("post/ap_rst_n", "ps/FCLK_RESET0_N"), "connection", "board_reset and reset"),
    (load("reset/ext_reset_in"), "connection", "`reset/ext_reset_in` (board_reset) has no connections"),
    (net("reset/peripheral_aresetn", "reset/peripheral_reset"), "connection", "there is no pin or interface"),
    (load("ps/IRQ_F2P", "interrupt_concat/dout"), "connection", "interrupts and processor_interrupt"),
    (load("clock_counter/interrupt"), "connection", "`clock_counter/interrupt` (interrupt) has no connections"),
    (net("weight_dma/mm2s_introut", "tensor_dma/mm2s_introut"), "connection", "(interrupt) has no connections"),
    (segment("weight_dma/S_AXI_LITE"), "address", "`weight_dma/S_AXI_LITE` needs an address for `ps/M_AXI_GP0`"),
    (segment("ps/S_AXI_HP1", slave="ps/S_AXI_HP0"), "address", "`ps/S_AXI_HP0` has an address but cannot be reached"),
    (segment("weight_dma/S_AXI_LITE", base=0x43C10000), "address", "overlaps"),
    (segment("weight_dma/S_AXI_LITE", base=0x43C28000), "address", "has 0x10000 bytes at 0x43c28000"),
    (segment("weight_dma/S_AXI_LITE", size=0xC000), "address", "has 0xc000 bytes"),
    (segment("weight_dma/S_AXI_LITE", base=0x33C20000), "address", "outside of what `ps/M_AXI_GP0` reaches"),
    (segment("weight_dma/S_AXI_LITE", block="Registers"), "address", "has no block Registers"),
    (segment("ps/S_AXI_HP1", size=1 << 30), "address", "outside of what `weight_dma/M_AXI_MM2S` reaches"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "rule", "said"), DESIGNS, ids=[said.replace(" ", "_") for _, _, said in DESIGNS])
def test_wrong_block_design_is_found(change: Callable[[BlockDesign], BlockDesign], rule: str, said: str) -> None:
    found = list(faults(change(design(TINY))))
    assert any(fault[0] == rule and said in fault[2] and fault[3] for fault in found), found


def test_wrong_block_design_is_reported_where_its_script_names_the_part() -> None:
    target = load("post/ap_clk")(design(TINY))
    [finding] = rendered_findings(target)
    assert finding.rule == "connection"
    assert " post" in render_scripts(target, PATHS, JOBS)[BLOCK].split("\n")[finding.line - 1]


def test_every_rule_finds_something() -> None:
    found = {finding.rule for mutation in MUTATIONS for finding in mutation.findings()}
    assert found | {rule for _, rule, _ in DESIGNS} == set(RULES)


# Nothing in the scripts is there for nothing.


def lines_that_do_something(target: str) -> list[tuple[str, int]]:
    return [
        (script, number)
        for script, text in scripts(target).items()
        for number, line in enumerate(text.splitlines())
        if line.strip() and not line.lstrip().startswith("#")
    ]


def findings_with(target: str, script: str, number: int, new: str) -> list[Finding]:
    """A line becomes another."""
    lines = scripts(target)[script].splitlines(keepends=True)
    text = "".join([*lines[:number], new, *lines[number + 1 :]])
    return check_scripts(design(target), {script: text}, PATHS, JOBS)


@settings(max_examples=drawn(50), deadline=None)
@given(data=st.data(), target=st.sampled_from([ZYNQ7, ZYNQMP, TINY]))
def test_loss_of_any_line_is_found(data: st.DataObject, target: str) -> None:
    script, number = data.draw(st.sampled_from(lines_that_do_something(target)))
    assert findings_with(target, script, number, "")


def test_characters_beyond_16_bits_are_read_as_they_are() -> None:
    """Tcl 8.6 gives two halves of one."""
    findings = findings_with(ZYNQ7, *lines_that_do_something(ZYNQ7)[0], "no_such_command \U00010000\n")
    assert any("no_such_command" in finding.problem for finding in findings)


@settings(max_examples=drawn(25), deadline=None)
@given(data=st.data())
def test_any_text_in_place_of_a_word_or_a_line_never_ends_in_a_crash(data: st.DataObject) -> None:
    script, number = data.draw(st.sampled_from(lines_that_do_something(ZYNQ7)))
    line = scripts()[script].splitlines(keepends=True)[number]
    start, stop = data.draw(st.sampled_from([(0, len(line) - 1), *(m.span() for m in re.finditer(r"\S+", line))]))
    text = data.draw(st.text(st.characters(blacklist_categories=["Cs"]), max_size=40))
    findings = findings_with(ZYNQ7, script, number, line[:start] + text + line[stop:])
    assert all(finding.problem and finding.remedy for finding in findings)


# The command line.


def test_command_fails_on_findings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def render(target: BlockDesign, *arguments: object, **options: object) -> dict[str, str]:
        good = render_scripts(target, *arguments, **options)  # type: ignore[arg-type]
        return good | {BLOCK: good[BLOCK].replace("validate_bd_design\n", "")}

    monkeypatch.setattr("bfpga.vendor.build_scripts.render_scripts", render)
    assert main(["check-tcl", "tiny"]) == 1
    assert "`validate_bd_design` is missing; put it before `save_bd_design` [script]" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize("arguments", [[], ["tiny", "--all"], ["nothing_of_that_name"]])
def test_command_wants_accelerators_or_all(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-tcl", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err
