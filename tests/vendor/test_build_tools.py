"""Discovery of the vendor's tools: where they are, what they call themselves, which of them makes IP."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from vendor_tools.workshop import BANNERS, Workshop

from bfpga.errors import ConfigurationError, ToolError
from bfpga.vendor.bitstream.tools import (
    HlsTools,
    Search,
    Tool,
    find_hls,
    find_tool,
    tool_environment,
    version_warnings,
    y2k22_problem,
)
from bfpga.vendor.bitstream.toolset import discover
from bfpga.vendor.bitstream.versions import Version, banner_version, parse_version, path_version

pytestmark = pytest.mark.skipif(shutil.which("tclsh") is None, reason="the stand-ins run scripts in tclsh")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Vivado v2022.1 (64-bit)\nSW Build 3526262", "2022.1"),
        ("Vivado v2022.1_AR76780 (64-bit)", "2022.1"),
        ("vivado v2024.1 (64-bit)\nTool Version Limit: 2024.05", "2024.1"),
        ("****** Vitis HLS - High-Level Synthesis from C, C++ and OpenCL v2021.2.1 (64-bit)", "2021.2.1"),
        ("warning: cannot set locale 1999.9\n****** v++ v2023.2 (64-bit)\n  **** SW Build 4026344", "2023.2"),
    ],
)
def test_version_is_read_from_what_a_tool_prints(text: str, version: str) -> None:
    assert str(banner_version(text)) == version


@pytest.mark.parametrize("text", ["", "no display", "Tool Version Limit: 2024.05", "Vivado 2022.1", "v2022.1.2.3"])
def test_text_without_a_banner_has_no_version(text: str) -> None:
    assert banner_version(text) is None


def test_version_of_an_installation_is_the_directory_named_so() -> None:
    assert path_version("/opt/Xilinx/Vivado/2022.1/bin/vivado") == Version(2022, 1)
    assert path_version("/opt/Xilinx/2025.1/Vivado/bin/vivado") == Version(2025, 1)
    assert path_version("/usr/bin/vivado") is None


@pytest.mark.parametrize("text", ["latest", "2022", "22.1", "2022.1a", ""])
def test_typed_version_that_is_none_is_refused(text: str) -> None:
    assert parse_version("v2022.1") == Version(2022, 1)
    with pytest.raises(ConfigurationError, match=r"2022\.1"):
        parse_version(text)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    made = Workshop(tmp_path, programs=())
    made.configure()
    return made


def install(workshop: Workshop, place: str, program: str, version: str) -> None:
    """A stand-in below an installation root, which calls itself ``version``."""
    target = workshop.directory / place
    workshop.install(target, (program,))
    (target / program).write_text(f"#!/bin/sh\necho '{BANNERS[program].format(version)}'\n")


def test_newest_installation_is_taken_in_old_and_new_layout(workshop: Workshop) -> None:
    install(workshop, "Xilinx/Vivado/2020.2/bin", "vivado", "2020.2")
    install(workshop, "Xilinx/Vivado/2022.1/bin", "vivado", "2022.1")
    search = Search(workshop.environment, ("~/Xilinx",))
    assert find_tool("vivado", search).version == Version(2022, 1)
    install(workshop, "Xilinx/2025.1/Vivado/bin", "vivado", "2025.1")
    found = find_tool("vivado", search)
    assert (found.version, found.on_path) == (Version(2025, 1), False)


def test_wanted_version_is_found_beside_newer_ones_and_on_the_path(workshop: Workshop) -> None:
    install(workshop, "tools", "vivado", "2024.1")
    install(workshop, "Xilinx/Vivado/2022.1/bin", "vivado", "2022.1")
    search = Search(workshop.environment, ("~/Xilinx",))
    assert find_tool("vivado", search).version == Version(2024, 1)
    assert find_tool("vivado", search, Version(2022, 1)).path.parts[-3] == "2022.1"
    with pytest.raises(ToolError, match=r"vivado 2023\.1 was not found.*\n.*is 2024\.1"):
        find_tool("vivado", search, Version(2023, 1))


def test_settings_variables_name_installations(workshop: Workshop) -> None:
    install(workshop, "elsewhere/bin", "vivado", "2022.1")
    environment = workshop.environment | {"XILINX_VIVADO": str(workshop.directory / "elsewhere")}
    assert find_tool("vivado", Search(environment, ())).version == Version(2022, 1)


def test_missing_tool_is_said_with_every_place(workshop: Workshop) -> None:
    with pytest.raises(ToolError) as error:
        find_tool("vivado", Search(workshop.environment, ("/opt/Xilinx", "~/Xilinx")))
    for place in ("the PATH", "$XILINX_VIVADO (not set)", "/opt/Xilinx", "~/Xilinx"):
        assert place in str(error.value)


@pytest.mark.parametrize("script", ["#!/bin/sh\necho hello\n", "#!/bin/sh\nexit 127\n", "#!/nonexistent/interpreter\n"])
def test_tool_that_does_not_say_its_version_is_not_taken(workshop: Workshop, script: str) -> None:
    path = workshop.bin / "vivado"
    path.write_text(script)
    path.chmod(0o755)
    with pytest.raises(ToolError, match=f"{path}.*(printed no version|does not answer)"):
        find_tool("vivado", Search(workshop.environment, ()))


@pytest.mark.parametrize(
    ("programs", "version", "flow"),
    [
        (("vitis_hls",), "2020.2", "vitis_hls"),
        (("vitis_hls", "vitis-run", "v++"), "2023.2", "vitis_hls"),
        (("vitis-run", "v++"), "2023.1", "vitis-run"),
        (("vitis-run", "v++"), "2025.2", "vitis-run"),
        (("v++",), "2023.2", "v++"),
    ],
)
def test_flow_is_the_first_program_that_is_there_and_new_enough(
    workshop: Workshop, programs: tuple[str, ...], version: str, flow: str
) -> None:
    workshop.install(workshop.bin, programs)
    workshop.configure(version=version)
    assert find_hls("auto", Search(workshop.environment, ())).flow == flow


def test_program_too_old_for_kernels_is_refused_with_its_first_version(workshop: Workshop) -> None:
    workshop.install(workshop.bin, ("vitis-run", "v++"))
    workshop.configure(version="2022.2")
    with pytest.raises(ToolError) as error:
        find_hls("auto", Search(workshop.environment, ()))
    assert "since 2023.1" in str(error.value)
    assert "since 2023.2" in str(error.value)


def test_asked_flow_is_taken_or_missed_but_never_replaced(workshop: Workshop) -> None:
    workshop.install(workshop.bin, ("vitis_hls", "vitis-run"))
    workshop.configure(version="2024.1")
    search = Search(workshop.environment, ())
    assert find_hls("vitis-run", search).flow == "vitis-run"
    with pytest.raises(ToolError, match=r"v\+\+ was not found"):
        find_hls("v++", search)
    with pytest.raises(ConfigurationError, match="vivado_hls"):
        find_hls("vivado_hls", search)


def test_vivado_of_the_release_of_the_hls_program_is_preferred(workshop: Workshop) -> None:
    install(workshop, "Xilinx/Vitis_HLS/2022.1/bin", "vitis_hls", "2022.1")
    install(workshop, "Xilinx/Vivado/2022.1/bin", "vivado", "2022.1")
    install(workshop, "Xilinx/Vivado/2024.1/bin", "vivado", "2024.1")
    tools = discover("auto", None, Search(workshop.environment, ("~/Xilinx",)))
    assert tools.require_vivado().version == Version(2022, 1)


def test_settings_of_a_tool_that_is_not_on_the_path_are_sourced(workshop: Workshop) -> None:
    install(workshop, "Xilinx/Vivado/2022.1/bin", "vivado", "2022.1")
    settings = workshop.directory / "Xilinx/Vivado/2022.1/settings64.sh"
    settings.write_text('export XILINX_VIVADO="a place with spaces"\nexport PATH="/from/settings:$PATH"\n')
    tool = find_tool("vivado", Search(workshop.environment, ("~/Xilinx",)))
    environment = tool_environment([tool], workshop.environment)
    assert environment["XILINX_VIVADO"] == "a place with spaces"
    assert environment["PATH"].startswith("/from/settings:")
    settings.write_text("echo broken >&2\nfalse\n")
    with pytest.raises(ToolError, match=r"settings64\.sh failed with exit code 1: broken"):
        tool_environment([tool], workshop.environment)
    settings.unlink()
    assert tool_environment([tool], workshop.environment)["PATH"].split(os.pathsep)[0] == str(tool.path.parent)


def hls(version: str, path: str = "/x/Vitis_HLS/2021.2/bin/vitis_hls") -> Tool:
    return Tool("vitis_hls", Path(path), parse_version(version))


def test_y2k22_is_known_before_hours_are_spent_and_the_patch_is_seen(tmp_path: Path) -> None:
    program = tmp_path / "Vitis_HLS/2021.2/bin/vitis_hls"
    problem = y2k22_problem(hls("2021.2", str(program)))
    assert problem is not None
    assert "76960" in problem
    scripts = tmp_path / "Vitis_HLS/2021.2/common/scripts"
    scripts.mkdir(parents=True)
    (scripts / "automg_patch_20220104.tcl").touch()
    assert y2k22_problem(hls("2021.2", str(program))) is None
    assert y2k22_problem(hls("2022.1")) is None
    assert y2k22_problem(hls("2021.2.1")) is not None


def test_versions_that_do_not_belong_together_are_warned_of() -> None:
    vivado = Tool("vivado", Path("/x/vivado"), Version(2024, 1))
    warnings = version_warnings(HlsTools("vitis_hls", hls("2022.1")), vivado, ["3.0", "3.1"])
    assert len(warnings) == 1
    assert "differ" in warnings[0]
    same = version_warnings(HlsTools("vitis_hls", hls("2024.1")), vivado, ["2.7", "3.0"])
    assert "2020.2" in same[0]
    assert "2022.1" in same[0]
    assert version_warnings(HlsTools("vitis_hls", hls("2024.1")), vivado, ["3.1", "one of tomorrow"]) == []
