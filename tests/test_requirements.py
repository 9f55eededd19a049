"""The tables of requirements are true: every row exists, its tests name it, its feature can be switched off."""

from __future__ import annotations

import pytest
from requirement_tables import TABLES, Table

EVERY_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.tag)


@EVERY_TABLE
def test_every_requirement_has_a_row(table: Table) -> None:
    assert [row.number for row in table.rows] == list(range(1, table.count + 1))


@EVERY_TABLE
def test_the_tests_of_a_row_name_its_requirement(table: Table) -> None:
    assert [problem for row in table.rows for problem in row.problems()] == []


@EVERY_TABLE
def test_every_must_that_is_not_met_is_listed_above_the_table(table: Table) -> None:
    table.check_open_musts()


@EVERY_TABLE
def test_single_tests_of_a_row_are_those_that_fail_with_its_feature_off(table: Table) -> None:
    table.check_switched_tests()


@EVERY_TABLE
def test_tests_name_no_requirement_that_does_not_exist(table: Table) -> None:
    table.check_names()


@EVERY_TABLE
def test_a_switch_still_finds_what_it_switches_off(table: Table) -> None:
    """`benchmarks/requirements.py` applies the switches and sees the tests fail; here they are only kept true."""
    assert {switch.row for switch in table.switches} <= {row.number for row in table.rows}
    assert [problem for switch in table.switches for problem in switch.problems()] == []
