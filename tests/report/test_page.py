"""The file of a report: complete, alone, small, and safe with names of users' files (issue 18: report)."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import vl_convert

from bfpga.accelerator.loader import load_accelerator
from bfpga.cli import main
from bfpga.errors import CacheError
from bfpga.report.hardware_sections import loops_section
from bfpga.report.page import Fact, Figure, Page, Section, Table, chart_library, embedded, render
from bfpga.report.theme import chart, config, number
from bfpga.synthesis.ip_figures import kernel_figures, read_records
from bfpga.synthesis.kept import package_path

ROOT = Path(__file__).parents[2]
MODEL, DATA = str(ROOT / "examples/models/mlp_digits.onnx"), str(ROOT / "examples/models/digits_test.npz")
#: Parts that the issue asks of a report, by the names of their sections.
PARTS = ["accuracy", "layers", "time", "timeline", "memory", "resources", "dispatch", "environment"]
LARGEST = 3_000_000


def charts(report: Path) -> dict[str, Any]:
    found = re.search(r'id="charts">(.*?)</script>', report.read_text(), re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found[1])
    return content


def sections(report: Path) -> list[str]:
    """Without the loops: whether figures of a synthesis are kept depends on the machine."""
    found = re.findall(r'<section id="(\w+)">', report.read_text())
    return [name for name in found if name != "loops"]


def test_a_report_has_all_parts_and_is_small(dense_report: Path, sparse_report: Path) -> None:
    assert sections(dense_report) == PARTS
    assert sorted(sections(sparse_report)) == sorted([*PARTS, "partition"])
    assert {"accuracy", "confusion", "sqnr", "saturation", "roofline", "limits", "timeline", "memory", "resources",
            "dispatch"} <= charts(dense_report)["specs"].keys()  # fmt: skip
    assert {"partition0", "loads0"} <= charts(sparse_report)["specs"].keys()
    assert max(dense_report.stat().st_size, sparse_report.stat().st_size) <= LARGEST


def test_a_report_needs_no_other_file_and_no_network(dense_report: Path) -> None:
    """Nothing is loaded: no script, style, picture or frame from elsewhere, no data of a chart by address."""
    text = dense_report.read_text()
    outside = text.split("<script>")[0]
    assert re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', outside) == []
    assert "@import" not in outside
    assert "url(" not in outside
    assert '"url"' not in json.dumps(charts(dense_report)["specs"])


def test_every_number_says_what_it_is(dense_report: Path) -> None:
    """Figures, tables and facts each have their basis: counted, scheduled, estimated or measured."""
    text = dense_report.read_text()
    bases = re.findall(r'class="basis">([^<]*)<', text)
    figures = text.count("<figure") + text.count('<details class="table"') + text.count('<div class="fact ')
    assert len(bases) == figures
    known = ("counted", "modelled", "estimated", "measured", "netlist")
    assert all(any(word in basis for word in known) for basis in bases), bases


def test_every_chart_is_vega_lite(sparse_report: Path) -> None:
    """Without a browser too: each specification is compiled for both widths."""
    content = charts(sparse_report)
    for name, spec in content["specs"].items():
        sized = {**spec, "width": 400, "config": content["compact"]}
        compiled = vl_convert.vegalite_to_vega(sized)
        assert compiled["marks"], name


def test_loops_are_shown_where_a_synthesis_has_found_them() -> None:
    """Figures that the package has, of whatever state of the kernel; nothing is synthesized for a report."""
    tiny = load_accelerator("tiny")
    figures = kernel_figures(tiny, read_records(package_path(tiny), {}))
    section = loops_section(figures)
    assert section is not None
    [table] = section.tables
    pipelined = list(figures.loops)
    assert [row[0] for row in table.rows] == [loop.name for loop in pipelined]
    assert all(len(row) == len(table.headings) for row in table.rows)
    slow = replace(pipelined[0], interval=pipelined[0].stated_interval + 6, slack=-0.5)
    section = loops_section(replace(figures, loops=(slow,)))
    assert section is not None
    assert f"{slow.name} {slow.interval} instead of {slow.stated_interval}" in section.remarks[0]
    assert f"{slow.name} by 0.50 ns" in section.remarks[1]
    assert loops_section(None) is None


def test_names_of_files_do_not_reach_the_page_as_markup() -> None:
    name = "</script><img src=x onerror=alert(1)>\u2028<!--"
    spec = chart(10, [{"mark": "bar", "encoding": {"x": number(name, name)}}], data={"values": [{name: 1}]})
    figure, table = Figure("f", name, name, spec, name), Table(name, name, (name,), [(name,)])
    page = Page(name, name, [Fact(name, name)], [Section("s", name, name, [figure], [table], [name])], [name])
    text = render(page)
    assert "<img src=x" not in text
    assert json.loads(embedded({"a": name})) == {"a": name}
    before = render(Page("", "", [], [Section("s", "", "")]))
    assert text.count("</script>") == before.count("</script>")


def test_javascript_that_lies_in_the_cache_is_used_only_with_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BFPGA_CACHE", str(tmp_path))
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: f"bundle('</script>');{snippet}")
    library = chart_library()
    assert "</script>" not in library
    [kept] = (tmp_path / "report").iterdir()
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: "again")
    assert chart_library() == library
    for planted in (b"alert(1)", kept.read_bytes().replace(b"bundle(", b"planted(", 1)):
        kept.write_bytes(planted)
        assert chart_library() == "again"
    kept.parent.chmod(0o777)
    with pytest.raises(CacheError):
        chart_library()


def test_narrow_windows_get_shorter_labels() -> None:
    assert config(compact=True)["axis"]["labelLimit"] < config(compact=False)["axis"]["labelLimit"]


def test_a_run_writes_a_report_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without float results: no noise, but accuracy and all that is known of the accelerator."""
    target = tmp_path / "run.html"
    words = ["run", MODEL, "-a", "tiny", "-d", DATA, "-n", "20", "--report", str(target)]
    assert main(words) == 0
    assert f"report in {target}" in capsys.readouterr().out
    assert sections(target) == PARTS
    assert "sqnr" not in charts(target)["specs"]
    assert list(tmp_path.iterdir()) == [target]


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for extra, words in (
        ("report", ["report", MODEL, "-a", "tiny", "-d", DATA, "-o"]),
        ("report", ["run", MODEL, "-a", "tiny", "-d", DATA, "--report"]),
        ("explore", ["explore", MODEL, "--board", "pynq_z2", "-o"]),
    ):
        assert main([*words, str(tmp_path / "report.html")]) == 2
        shown = capsys.readouterr()
        assert shown.err.count("\n") == 1
        assert f"pip install 'bfpga[{extra}]'" in shown.err
        brought = [line for line in requires("bfpga") or [] if f'extra == "{extra}"' in line]
        assert any(line.startswith("vl-convert-python") for line in brought)
        assert shown.out == ""
    assert list(tmp_path.iterdir()) == []
