"""Tables within a width: names stay whole, what matters least falls away and is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfpga.formats.tables import FEWEST, shorten, table_lines, text_width

HEADINGS = ("layer", "engine", "cycles", "limit")
ROWS = [
    ("functional_1/average_pooling2d/AvgPool/columns", "systolic_array", 123456, "idle tiles"),
    ("c1", "host", 7, "host"),
]


def test_all_columns_are_shown_where_there_is_room() -> None:
    assert table_lines("A title", HEADINGS, ROWS, 120) == [
        "A title",
        "",
        " layer                                            engine            cycles   limit",
        " " + "─" * 86,
        " functional_1/average_pooling2d/AvgPool/columns   systolic_array   123,456   idle tiles",
        " c1                                               host                   7   host",
    ]


@pytest.mark.parametrize(("width", "left_out"), [(86, "engine"), (70, "engine"), (60, "engine, limit")])
def test_columns_fall_away_in_their_order_and_are_named(width: int, left_out: str) -> None:
    lines = table_lines("", HEADINGS, ROWS, width, ["engine", "limit"])
    assert lines[-1] == f"left out at {width} characters a line: {left_out}"
    assert all(text_width(line) <= width for line in lines)
    assert any(ROWS[0][0] in line for line in lines)


def test_a_name_loses_its_middle_only_where_nothing_else_may_go() -> None:
    lines = table_lines("", HEADINGS, ROWS, 40, ["engine", "limit"])
    assert lines[2].startswith(" functional_1/")
    assert "…" in lines[2]
    assert "columns   123,456" in lines[2]
    assert all(text_width(line) <= 40 for line in lines if "left out" not in line)


def test_a_column_that_fits_stays_although_it_comes_first() -> None:
    lines = table_lines("", ("name", "a", "b"), [("x", "1", "y" * 60)], 40, ["a", "b"])
    assert lines[-1] == "left out at 40 characters a line: b"
    assert lines[2].split() == ["x", "1"]


def test_text_goes_on_in_the_next_line_and_numbers_do_not() -> None:
    lines = table_lines("", ("name", "value", "purpose"), [("tiny", "12.5 %", "words " * 12)], 40)
    assert lines[2] == " tiny   12.5 %   words words words words"
    assert lines[3] == "                 words words words words"


def test_a_pipe_gets_all_columns() -> None:
    lines = table_lines("", HEADINGS, ROWS, 60, ["engine"], keep_all=True)
    assert "engine" in lines[0]
    assert not lines[-1].startswith("left out")


def test_wide_characters_take_two_places() -> None:
    lines = table_lines("", ("name", "n"), [("層", "1"), ("abcd", "22")])
    assert lines[2] == " 層      1"
    assert lines[3] == " abcd   22"


@given(st.text(st.characters(categories=["L", "N"]), min_size=1), st.integers(FEWEST, 60))
def test_a_shortened_name_fits_and_keeps_both_ends(name: str, width: int) -> None:
    short = shorten(name, width)
    assert text_width(short) <= width
    if short != name:
        head, tail = short.split("…")
        assert name.startswith(head)
        assert name.endswith(tail)
        assert tail or text_width(name[-1]) > 1


_WORDS = st.text(st.characters(categories=["L", "N"], max_codepoint=0x24F), min_size=1, max_size=30)


@given(st.lists(st.tuples(_WORDS, _WORDS, st.integers(0, 10**9), _WORDS), min_size=1, max_size=4), st.integers(80, 120))
def test_no_word_is_broken_at_usual_widths(rows: list[tuple[str, str, int, str]], width: int) -> None:
    lines = table_lines("t", ("name", "kind", "count", "why"), rows, width, ["kind", "why"])
    assert all(text_width(line) <= width for line in lines)
    body = "\n".join(lines)
    for name, _, count, _ in rows:
        assert f" {name} " in body
        assert f"{count:,}" in body
