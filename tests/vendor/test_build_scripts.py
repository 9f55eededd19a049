"""The scripts of the vendor's tools as text: what they name, where they write, and what they refuse."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from process_designs import ZYNQ7, ZYNQMP
from vendor_scripts import PATHS, design, scripts, small_accelerator

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import fitting_boards, on_board
from bfpga.contract.process_stream import PROCESSES
from bfpga.errors import ConfigurationError
from bfpga.vendor.block_design import block_design
from bfpga.vendor.build_scripts import STAGES, ScriptOptions, ScriptPaths, render_scripts
from bfpga.vendor.render import render_kernel
from bfpga.vendor.tcl_check import check_scripts

FAMILIES = [ZYNQ7, ZYNQMP]


def keys(text: str) -> dict[str, str]:
    """Keys and values of a configuration file."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_every_stage_has_its_script() -> None:
    hls = {f"hls_{process}{end}" for process in PROCESSES for end in (".tcl", "_config.cfg")}
    assert set(scripts()) == {f"{stage}.tcl" for stage in STAGES[1:]} | hls


@pytest.mark.parametrize("accelerator", FAMILIES)
def test_both_flows_of_hls_ask_for_the_same(accelerator: str) -> None:
    tcl = scripts(accelerator)["hls_sequencer.tcl"]
    config = keys(scripts(accelerator)["hls_sequencer_config.cfg"])
    vendor, library, name, version = ["xilinx.com", "hls", "bfpga_systolic", "1.0"]
    assert f"set_part {{{config['part']}}}" in tcl
    assert f"create_clock -period {config['clock'].removesuffix('ns')} " in tcl
    assert config["clock_uncertainty"] == "27%"
    assert "set_clock_uncertainty 27%\n" in tcl
    assert f"add_files {{{config['syn.file']}}} -cflags {{{config['syn.cflags']}}}" in tcl
    assert f"set_top {config['syn.top']}\n" in tcl
    assert f"config_rtl -reset {config['syn.rtl.reset']}\n" in tcl
    assert (config["package.ip.vendor"], config["package.ip.library"]) == (vendor, library)
    assert (config["package.ip.name"], config["package.ip.version"]) == (name, version)


def test_c_synthesis_of_the_output_stage_leaves_more_for_wires_on_ultrascale() -> None:
    wide, usual = scripts("zcu104_dense"), scripts("pynq_z2_dense")
    assert "set_clock_uncertainty 46%\n" in wide["hls_post.tcl"]
    assert keys(wide["hls_post_config.cfg"])["clock_uncertainty"] == "46%"
    for text in (wide["hls_array.tcl"], usual["hls_post.tcl"]):
        assert "set_clock_uncertainty 27%\n" in text


def test_sources_are_those_of_the_rendered_project() -> None:
    accelerator = load_accelerator(ZYNQ7)
    rendered = render_kernel(accelerator.name, accelerator.digest, accelerator.config)
    config = keys(scripts()["hls_sequencer_config.cfg"])
    source = str(Path(config["syn.file"]).relative_to(PATHS.sources))
    folders = [Path(word[2:]) for word in config["syn.cflags"].split() if word.startswith("-I")]
    assert {str(folder.relative_to(PATHS.sources)) for folder in folders} == {"include", "src"}
    assert "void bfpga_systolic(" in rendered[source]


@pytest.mark.parametrize("accelerator", FAMILIES)
def test_a_script_is_done_when_its_result_has_its_final_name(accelerator: str) -> None:
    for stage in (*(f"hls_{process}" for process in PROCESSES), *STAGES[1:]):
        lines = scripts(accelerator)[f"{stage}.tcl"].rstrip().splitlines()
        result = PATHS.result(stage)
        rename = f"file rename -force {{{result}.partial}} {{{result}}}"
        assert rename in lines[-2:]
        assert lines[lines.index(rename) - 2] == 'puts $result "status complete"'


def test_all_that_is_written_lies_in_the_build_folder() -> None:
    for text in scripts().values():
        for path in re.findall(r"(?<![\w.:/])/[\w./-]+", text):
            assert path.startswith("/build"), path


def test_no_variable_and_no_arithmetic_is_left_in_literals() -> None:
    for name, text in scripts().items():
        commands = [
            line for line in text.splitlines() if line.startswith(("create_", "connect_", "assign_", "    CONFIG"))
        ]
        assert not [line for line in commands if "$" in line], name
        assert "{{" not in text
        assert "expr" not in text.replace("[expr {$wns < 0 || $whs < 0", "")


def test_options_show_in_the_scripts() -> None:
    options = ScriptOptions(synthesis_minutes=17, implementation_minutes=23, board_files=Path("/opt/board_files"))
    rendered = render_scripts(design(), PATHS, 6, options)
    assert "wait_on_run -timeout 17 synth_1" in rendered["synthesis.tcl"]
    assert "wait_on_run -timeout 23 impl_1" in rendered["implementation.tcl"]
    assert "launch_runs impl_1 -to_step write_bitstream -jobs 6" in rendered["implementation.tcl"]
    assert "set_param board.repoPaths [list {/opt/board_files}]" in rendered["block_design.tcl"]


def test_a_folder_of_board_files_is_named_only_if_it_is_given() -> None:
    assert "board.repoPaths" not in render_scripts(design(), PATHS, 1)["block_design.tcl"]


def test_missing_board_files_are_explained_with_where_to_get_them() -> None:
    for accelerator in FAMILIES:
        board = design(accelerator).accelerator.board
        explained = re.search(r"error \{(the board files of [^}]*)\}", scripts(accelerator)["block_design.tcl"])
        assert explained is not None
        assert board.title in explained[1]
        assert (board.part if board.board_files_in_vivado else board.board_files_source) in explained[1]


def test_relative_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    paths = ScriptPaths(Path("kernel"), Path("build"))
    rendered = render_scripts(design(), paths, 1)
    assert f"cd {{{tmp_path}/build}}" in rendered["hls_array.tcl"]
    assert check_scripts(design(), rendered, paths, 1) == []


@pytest.mark.parametrize(
    "folder", ["/with space", "/mit/Umläut", "/a;b", "/a{b", "/a$b", '/a"b', "/a[b]", "/a\\b", "/a\nb"]
)
def test_paths_that_the_tools_cannot_take_are_refused(folder: str) -> None:
    for paths in (ScriptPaths(Path(folder), Path("/build")), ScriptPaths(Path("/kernel"), Path(folder))):
        with pytest.raises(ConfigurationError, match="cannot be given to the vendor's tools"):
            render_scripts(design(), paths, 1)
    with pytest.raises(ConfigurationError, match="cannot be given to the vendor's tools"):
        render_scripts(design(), PATHS, 1, ScriptOptions(board_files=Path(folder)))


def test_numbers_below_one_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="jobs is 0; must be 1 or more"):
        render_scripts(design(), PATHS, 0)
    with pytest.raises(ConfigurationError, match="synthesis_minutes is -1"):
        render_scripts(design(), PATHS, 1, ScriptOptions(synthesis_minutes=-1))
    with pytest.raises(ConfigurationError, match="implementation_minutes is 0"):
        render_scripts(design(), PATHS, 1, ScriptOptions(implementation_minutes=0))


@pytest.mark.parametrize("title", ["A {brace", "B }; exec rm x", "C $variable [command]", 'D "quote', "E \\", "F ü"])
def test_titles_of_boards_cannot_break_a_script(title: str) -> None:
    accelerator = small_accelerator("pynq_z2")
    target = block_design(on_board(accelerator, replace(accelerator.board, title=title, board_files_source=title)))
    assert check_scripts(target, render_scripts(target, PATHS, 1), PATHS, 1) == []


@pytest.mark.parametrize("field", ["part", "board_part"])
def test_names_of_parts_that_are_no_names_are_refused(field: str) -> None:
    board = replace(load_board("pynq_z2"), **{field: "xc7z020; exec rm"})
    with pytest.raises(ConfigurationError, match=f"{field} of the board pynq_z2"):
        render_scripts(block_design(on_board(load_accelerator("tiny"), board)), PATHS, 1)


def test_same_input_gives_the_same_text() -> None:
    assert render_scripts(design(), PATHS, 4) == scripts()


def test_fitting_boards_are_of_the_family_and_hold_the_array() -> None:
    boards = fitting_boards(load_accelerator("pynq_z2_dense"))
    assert {"pynq_z2", "pynq_z1"} <= {board.name for board in boards}
    large = {board.name for board in fitting_boards(load_accelerator("zcu104_dense"))}
    assert "zcu104" in large
    assert "ultra96_v2" not in large
    assert "pynq_z1" not in large


def test_another_board_of_the_same_part_has_the_same_digest() -> None:
    accelerator = load_accelerator("pynq_z2_dense")
    assert on_board(accelerator, load_board("pynq_z1")).digest == accelerator.digest
    assert on_board(accelerator, load_board("zcu104")).digest != accelerator.digest
