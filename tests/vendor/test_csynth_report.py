"""The report of C synthesis: how it is read, and the gates that stop a build. All reports here are made up by tests.

No vendor tool was run. The form is that of reports in public repositories: Vivado HLS 2018.3, Vitis HLS to 2023.2.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from array_kinds import each_kind
from process_designs import TINY
from vendor_tools.artefacts import csynth_xml, utilization_report
from vendor_tools.workshop import HERE, Workshop

from bfpga.accelerator.loader import load_accelerator
from bfpga.errors import ConfigurationError, DataError
from bfpga.estimate.hardware import ROUTED_LIMITS
from bfpga.vendor.bitstream import source_stages
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.gates import TITLES
from bfpga.vendor.bitstream.hls_gates import IpReport, computing_loops, hls_gate, known_gates
from bfpga.vendor.bitstream.hls_stages import checked_gates, ip_loops
from bfpga.vendor.bitstream.pipeline import run_build
from bfpga.vendor.block_design import BlockDesign, block_design
from bfpga.vendor.csynth_report import ReportedLoop, read_csynth_report
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.render import kernel_sources, render_kernel, sources_of
from bfpga.vendor.stated_loops import StatedLoop, stated_loops

#: Nested loops, one flattened, one copied; a range, an unknown trip count; the functions as Vitis HLS lists them.
VITIS = """<profile>
<ReportVersion><Version>2022.2</Version></ReportVersion>
<UserAssignments><unit>ns</unit><Part>xc7z020-clg400-1</Part><TopModelName>top</TopModelName>
<TargetClockPeriod>10.00</TargetClockPeriod><ClockUncertainty>2.70</ClockUncertainty></UserAssignments>
<PerformanceEstimates><SummaryOfTimingAnalysis><EstimatedClockPeriod>7.311</EstimatedClockPeriod>
</SummaryOfTimingAnalysis><SummaryOfLoopLatency><Rows><TripCount>4</TripCount><Latency>80</Latency></Rows>
</SummaryOfLoopLatency></PerformanceEstimates>
<AreaEstimates><Resources><BRAM_18K>60</BRAM_18K><DSP>132</DSP><FF>20732</FF><LUT>16557</LUT><URAM>0</URAM></Resources>
<AvailableResources><BRAM_18K>280</BRAM_18K><DSP>220</DSP><FF>106400</FF><LUT>53200</LUT></AvailableResources>
</AreaEstimates>
<ModuleInformation>
<Module><Name>load_Pipeline_Beats</Name><PerformanceEstimates><SummaryOfLoopLatency>
<Groups_Beats><Name>Groups_Beats</Name><TripCount><range><min>9</min><max>2304</max></range></TripCount>
<Latency>19</Latency><PipelineII>2</PipelineII><PipelineDepth>14</PipelineDepth><PipelineType>yes</PipelineType>
</Groups_Beats></SummaryOfLoopLatency></PerformanceEstimates></Module>
<Module><Name>top</Name><PerformanceEstimates><SummaryOfLoopLatency>
<Rows><Name>Rows</Name><Slack>7.30</Slack><TripCount>4</TripCount><Latency>80</Latency>
<IterationLatency>20</IterationLatency><InstanceList/>
<Columns.2><Name>Columns.2</Name><TripCount>undef</TripCount><Latency>undef</Latency><PipelineII>1</PipelineII>
<PipelineDepth>3</PipelineDepth></Columns.2></Rows></SummaryOfLoopLatency></PerformanceEstimates></Module>
</ModuleInformation></profile>
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def reports(folder: Path, design: BlockDesign, part: str = "", **wrong: object) -> list[IpReport]:
    """The reports of all IPs; that of one process is ``wrong``."""
    found = []
    for ip in kernel_ips(design.accelerator.config):
        text = csynth_xml(design, part=ip.part, **(wrong if ip.part == part else {}))  # type: ignore[arg-type]
        path = written(folder / f"{ip.stem}.xml", text)
        found.append(IpReport(ip, ip_loops(design, ip), read_csynth_report(path), path))
    return found


@pytest.fixture
def design() -> BlockDesign:
    return block_design(load_accelerator(TINY))


# Reading


def test_loops_clock_and_resources_of_a_report_are_read(tmp_path: Path) -> None:
    report = read_csynth_report(written(tmp_path / "csynth.xml", VITIS))
    assert (report.version, report.part, report.top) == ("2022.2", "xc7z020-clg400-1", "top")
    assert report.loops == (
        ReportedLoop("Groups_Beats", "load_Pipeline_Beats", (), 2, 14, (9, 2304)),
        ReportedLoop("Rows", "top", (), None, 20, (4, 4)),
        ReportedLoop("Columns.2", "top", ("Rows",), 1, 3, None),
    )
    assert [loop.name for loop in report.loops_of("Beats")] == ["Groups_Beats"], "a nest that was flattened"
    assert [loop.name for loop in report.loops_of("Columns")] == ["Columns.2"], "a copy of a loop"
    assert report.loops_of("Row") == []
    assert report.clock.slack_ns == pytest.approx(10 - 2.7 - 7.311)
    assert report.used == {"lut": 16557, "ff": 20732, "dsp": 132, "bram18": 60, "uram": 0}
    assert report.available == {"lut": 53200, "ff": 106400, "dsp": 220, "bram18": 280}


def test_a_report_without_a_list_of_functions_has_the_loops_of_its_top(tmp_path: Path) -> None:
    """Vivado HLS: no names in elements, DSP48E for DSP."""
    head = VITIS.partition("<ModuleInformation>")[0].replace("DSP>", "DSP48E>")
    report = read_csynth_report(written(tmp_path / "csynth.xml", f"{head}</profile>"))
    assert report.loops == (ReportedLoop("Rows", "top", (), None, None, (4, 4)),)
    assert report.used["dsp"] == 132


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (VITIS[: len(VITIS) // 2], "was the file cut short"),
        ("", "was the file cut short"),
        ("<Report></Report>", "its root is `Report`, not `profile`"),
        (VITIS.replace("TopModelName", "Top"), "has no UserAssignments/TopModelName"),
        (VITIS.replace("EstimatedClockPeriod", "Estimated"), "has no PerformanceEstimates"),
        (VITIS.replace("7.311", "fast"), "is 'fast', not a number"),
    ],
)
def test_a_file_that_is_no_whole_report_is_refused_with_one_reason(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path / "csynth.xml", text)
    with pytest.raises(DataError) as error:
        read_csynth_report(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)
    with pytest.raises(DataError, match="No such file"):
        read_csynth_report(tmp_path / "other.xml")


# What a kernel states


@pytest.mark.parametrize("name", each_kind())
def test_every_pipeline_of_a_kernel_belongs_to_a_loop_with_a_label(name: str) -> None:
    accelerator = load_accelerator(name)
    sources = kernel_sources(render_kernel(accelerator.name, accelerator.digest, accelerator.config))
    loops = stated_loops(sources)
    assert len(loops) == sum(text.count("#pragma HLS PIPELINE") for text in sources.values())
    for loop in loops:
        assert sources[loop.file].splitlines()[loop.line - 1].strip() == f"{loop.label}:"
    for ip in kernel_ips(accelerator.config):
        assert computing_loops(ip) & {loop.label for loop in stated_loops(sources_of(ip.source, sources))}, ip.part


def test_intervals_are_those_of_the_pragmas_directly_below_the_head() -> None:
    text = (
        "First:\n    for (int i = 0;\n         i < 4; ++i) {\n// why\n#pragma HLS PIPELINE style=frp II = 3\n"
        "        x();\n    }\nSecond:\n    while (a) {\n#pragma HLS UNROLL\n#pragma HLS pipeline\n        y();\n    }\n"
        "Third:\n    for (;;) {\n        z();\n#pragma HLS PIPELINE II=1\n    }\n"
        "Fourth:\n    for (;;) {\n#pragma HLS PIPELINE off\n    }\npublic:\n    int a;\n"
    )
    assert stated_loops({"a.hpp": text, "b.v": text}) == [StatedLoop("First", 3, "a.hpp", 1),
                                                          StatedLoop("Second", 1, "a.hpp", 8)]  # fmt: skip


# Gates


@pytest.mark.parametrize("name", each_kind())
def test_a_report_that_keeps_what_the_kernel_states_passes(tmp_path: Path, name: str) -> None:
    design = block_design(load_accelerator(name))
    assert hls_gate(design, reports(tmp_path, design), ()) == []


@pytest.mark.parametrize(
    ("wrong", "gate", "kind", "said"),
    [
        ({"intervals": {"Array": 16}}, "Array", "interval", "reaches an interval of 16 clocks instead of 1"),
        ({"intervals": {"Array": None}}, "Array", "interval", "is not pipelined; it states an interval"),
        ({"without": ["Array"]}, "Array", "interval", "the report of bfpga_array names no such loop"),
        ({"estimated_ns": 12.5}, "clock", "timing", "a path of 12.500 ns"),
        ({"period_ns": 20.0}, "clock", "timing", "for a period of 20 ns"),
        ({"used": {"LUT": 86000}}, "lut", "utilization", "120,365 LUT for the kernel alone"),
        ({"used": {"BRAM_18K": 281}}, "bram18", "utilization", "361 BRAM18"),
    ],
)
def test_a_report_that_breaks_what_the_kernel_states_stops_with_the_name(
    tmp_path: Path, design: BlockDesign, wrong: dict[str, object], gate: str, kind: str, said: str
) -> None:
    found = reports(tmp_path, design, "array", **wrong)
    with pytest.raises(BuildError) as error:
        hls_gate(design, found, ())
    assert (error.value.kind, error.value.log) == (kind, tmp_path / "hls_array.xml")
    assert said in str(error.value)
    assert f"`--accept {gate}`" in str(error.value)
    if gate == "Array":
        assert "include/bfpga/processes/systolic/array.hpp:" in str(error.value)
    notes = hls_gate(design, found, [gate])
    assert notes[0].startswith("accepted: ")
    assert said in notes[0]


def test_all_shortfalls_are_told_and_each_is_accepted_for_itself(tmp_path: Path, design: BlockDesign) -> None:
    found = reports(tmp_path, design, "post", intervals={"Rows": 2, "Words_Fetch": 3}, used={"DSP": 221})
    for accepted, left in ((["Rows"], ("Words_Fetch", " DSP for the kernel")), (["Rows", "dsp"], ("Words_Fetch",))):
        with pytest.raises(BuildError) as error:
            hls_gate(design, found, accepted)
        assert all(word in str(error.value) for word in left)
        assert "loop Rows" not in str(error.value)


def test_what_is_only_worth_knowing_is_a_remark(tmp_path: Path, design: BlockDesign) -> None:
    period = design.clock.period_ns
    notes = hls_gate(design, reports(tmp_path, design, "post", without=["Bins_Scan"], estimated_ns=0.9 * period), ())
    assert len(notes) == 2
    assert "Bins_Scan (include/bfpga/" in notes[0]
    assert "leaves less than its margin" in notes[1]


def test_a_gate_that_does_not_exist_cannot_be_accepted(design: BlockDesign) -> None:
    assert checked_gates(design, ["lut", "Array", "lut"]) == ("Array", "lut")
    with pytest.raises(ConfigurationError, match=r"--accept Arrays: there is no such gate; there are .*Array, .*clock"):
        checked_gates(design, ["Arrays"])
    assert set(TITLES) <= set(known_gates(()))


# In a build


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("CXX", str(HERE / "c++"))
    monkeypatch.setattr(source_stages, "check_scripts", lambda *arguments: [])
    return Workshop(tmp_path)


@pytest.mark.parametrize("flow", ["vitis_hls", "v++"])
def test_a_build_stops_at_a_loop_that_misses_its_interval_and_goes_on_if_that_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flow: str
) -> None:
    monkeypatch.setenv("CXX", str(HERE / "c++"))
    monkeypatch.setattr(source_stages, "check_scripts", lambda *arguments: [])
    workshop = Workshop(tmp_path, programs=("vivado", "vitis_hls", "vitis-run", "v++"), version="2024.1")
    workshop.artefact("csynth_bfpga_array", csynth_xml(workshop.design, part="array", intervals={"Array": 16}))
    report = workshop.run(flow=flow, until="ip_check")
    assert report.failed_stage == "hls_check"
    assert report.error is not None
    assert report.error.kind == "interval"
    calls = workshop.calls()
    build = workshop.new_build(flow=flow, accepted=("Array",))
    accepted = run_build(build, workshop.reporter, "ip_check")
    assert accepted.error is None
    assert workshop.calls() == calls, "C synthesis is kept"
    assert build.results["hls_check"]["intervals"]["Array"] == 16
    assert any("interval of 16" in note for note in workshop.reporter.notes)


def test_a_report_that_is_cut_short_stops_the_build(workshop: Workshop) -> None:
    workshop.artefact("csynth_bfpga_array", csynth_xml(workshop.design, part="array")[:900])
    report = workshop.run(until="ip_check")
    assert report.failed_stage == "hls_check"
    assert report.error is not None
    assert report.error.kind == "artefact"
    assert "cut short" in str(report.error)


def test_a_routed_design_beyond_its_limits_is_not_packaged_unless_accepted(workshop: Workshop) -> None:
    workshop.artefact("utilization", utilization_report(workshop.design, 0.85))
    report = workshop.run()
    assert report.failed_stage == "timing"
    assert report.error is not None
    assert report.error.kind == "utilization"
    assert "LUT: 85.0 % of 53,200, at most 80 % of a routed design" in str(report.error)
    assert "BRAM36" not in str(report.error)
    assert not workshop.overlay.exists()
    accepted = workshop.run(accepted=("ff", "lut"))
    assert accepted.error is None
    assert sum("of a routed design" in note for note in workshop.reporter.notes) == 2
    assert set(ROUTED_LIMITS) == set(TITLES)
