"""The tables of the sparse cluster's and the zero-skip engine's requirements are true, row by row."""

from __future__ import annotations

import pytest
from requirement_tables import Row, Table

TABLES = {table.tag: table for table in (Table("SC", "sparse"), Table("ZS", "zero-skip"))}


@pytest.mark.parametrize(("tag", "count"), [("SC", 155), ("ZS", 54)])
def test_every_requirement_has_a_row(tag: str, count: int) -> None:
    assert [row.number for row in TABLES[tag].rows] == list(range(1, count + 1))


@pytest.mark.parametrize("row", [row for table in TABLES.values() for row in table.rows], ids=lambda row: row.name)
def test_the_tests_of_a_row_name_its_requirement(row: Row) -> None:
    row.check()


@pytest.mark.parametrize("tag", TABLES)
def test_every_must_that_is_not_met_is_listed_above_the_table(tag: str) -> None:
    TABLES[tag].check_open_musts()


@pytest.mark.parametrize("tag", TABLES)
def test_tests_name_no_requirement_that_does_not_exist(tag: str) -> None:
    TABLES[tag].check_names()
