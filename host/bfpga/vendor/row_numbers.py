"""The header of the process `rows`: its numbers and tables in C++."""

from __future__ import annotations

from bfpga.contract import rows
from bfpga.contract.rows import RowOperation, log2_e, power_table, reciprocal_table, root_table
from bfpga.vendor.source_text import enumeration, source_environment

#: The header's path, as it is included.
ROW_NUMBERS = "bfpga/contract/rows.hpp"


def row_numbers() -> str:
    """The text of the header."""
    numbers = {name.lower(): value for name, value in vars(rows).items() if type(value) is int}
    # The table of roots ends with that of reciprocals: one memory, of which an operation reads one half.
    tables = {"row_power_table": power_table(), "row_root_table": root_table() + reciprocal_table()}
    template = source_environment("kernels").get_template("common/rows.hpp.j2")
    return template.render(operation=enumeration(RowOperation), numbers=numbers, log2_e=log2_e(), tables=tables)
