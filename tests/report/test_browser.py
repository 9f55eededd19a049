"""Reports in a real browser: no console errors, nothing beside the page, light and dark (issue 18: report)."""

from __future__ import annotations

from pathlib import Path

from browser import look

from bfpga.report.page import Fact, Figure, Page, Section, write_page
from bfpga.report.theme import chart, number


def test_reports_are_drawn_at_two_widths_light_and_dark(
    dense_report: Path, sparse_report: Path, comparison_page: Path, tmp_path: Path
) -> None:
    """Every chart is drawn, the console stays empty, and no page is wider than its window."""
    pages = [(report, width, theme) for report, width, theme in (
        (dense_report, 390, "dark"), (dense_report, 1280, "light"),
        (sparse_report, 390, "light"), (sparse_report, 1280, "dark"),
            (comparison_page, 390, "light"),
    )]  # fmt: skip
    seen, said = look(pages, tmp_path)
    assert said == []
    for (report, width, theme), page in zip(pages, seen, strict=True):
        charts = report.read_text().count("data-chart=")
        assert page.charts == f"{charts} drawn", (report, width)
        assert (page.drawings, page.thin) == (charts, 0)
        assert page.content <= page.width <= width
        assert page.texts > 5 * charts
        assert len(page.hints) == charts, (report, width)  # hovering explains a mark of every chart
        assert all(hint.count("\n") > 1 for hint in page.hints)
        assert page.ink == ("rgb(228, 233, 240)" if theme == "dark" else "rgb(23, 32, 44)")


def test_what_the_browser_test_looks_for_is_found(tmp_path: Path) -> None:
    """A chart that cannot be drawn, and a word wider than a telephone, are seen."""
    broken = Figure("broken", "broken", "", {"mark": "no such mark", "data": {"values": []}})
    whole = Figure("whole", "whole", "", chart(100, [{"mark": "bar", "encoding": {"x": number("a", "a")}}],
                                               data={"values": [{"a": 1}]}))  # fmt: skip
    page = Page("page", "", [Fact("fact", "1")], [Section("one", "one", figures=[broken, whole])])
    path = tmp_path / "page.html"
    write_page(path, page)
    path.write_text(path.read_text().replace("<footer>", '<div style="width: 2000px">wide</div><footer>'))
    seen, said = look([(path, 390, "light")], tmp_path)
    assert seen[0].charts == "1 failed"
    assert seen[0].content > seen[0].width
    assert any("broken" in line for line in said)
