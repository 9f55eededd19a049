"""The C++ header of what a program memory is sent first, from ``contract.program_header``."""

from __future__ import annotations

from bfpga.contract import program_header
from bfpga.contract.descriptor import word_of
from bfpga.vendor.source_text import own, source_environment

#: Where the header is in a project, below its include directory.
PROGRAM_HEADER = "bfpga/contract/program_header.hpp"


def program_header_text() -> str:
    """The text of the header."""
    template = source_environment("kernels").get_template("common/program_header.hpp.j2")
    return template.render(
        words=program_header.HEADER_LENGTH,
        address_bits=program_header.ADDRESS_BITS,
        tensor_bits=program_header.TENSOR_BITS,
        tensor_first=program_header.TENSOR_FIRST,
        fields={name: own(text) for name, text in program_header.HEADER_FIELDS.items()},
        count_words=[word_of(f"after_{name}") for name in program_header.PERIODS],
    )
