"""The table of the requirements of fixed-point positions is true, row by row."""

from __future__ import annotations

import pytest
from requirement_tables import Row, Table

TABLE = Table("FP", "positions")


def test_every_requirement_has_a_row() -> None:
    assert [row.number for row in TABLE.rows] == list(range(1, 50))


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.name)
def test_the_tests_of_a_row_name_its_requirement(row: Row) -> None:
    row.check()


def test_every_must_that_is_not_met_is_listed_above_the_table() -> None:
    TABLE.check_open_musts()


def test_tests_name_no_requirement_that_does_not_exist() -> None:
    TABLE.check_names()
