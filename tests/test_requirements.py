"""The tables of requirements are true: every row exists, its tests name it, its feature can be switched off."""

from __future__ import annotations

import pytest
from requirement_tables import TABLES, Row, Switch, Table

EVERY_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.tag)
SWITCHES = [(table, switch) for table in TABLES.values() for switch in table.switches]


@EVERY_TABLE
def test_every_requirement_has_a_row(table: Table) -> None:
    assert [row.number for row in table.rows] == list(range(1, table.count + 1))


@pytest.mark.parametrize("row", [row for table in TABLES.values() for row in table.rows], ids=lambda row: row.name)
def test_the_tests_of_a_row_name_its_requirement(row: Row) -> None:
    row.check()


@EVERY_TABLE
def test_every_must_that_is_not_met_is_listed_above_the_table(table: Table) -> None:
    table.check_open_musts()


@EVERY_TABLE
def test_tests_name_no_requirement_that_does_not_exist(table: Table) -> None:
    table.check_names()


@pytest.mark.parametrize(("table", "switch"), SWITCHES, ids=lambda item: getattr(item, "row", None) or item.tag)
def test_a_switch_still_finds_what_it_switches_off(table: Table, switch: Switch) -> None:
    """`benchmarks/requirements.py` applies the switches and sees the tests fail; here they are only kept true."""
    assert any(row.number == switch.row for row in table.rows)
    switch.check()
